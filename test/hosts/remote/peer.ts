/** Two processes that call one another, a line of JSON for each call and each answer. */

import { pack, unpack } from "./pack.ts";

/** What the other side may call; an argument is whatever its caller sends. */
export type Handlers = Readonly<Record<string, (...args: never[]) => unknown>>;

/** Calls the other side. */
export type Call = <T>(method: string, ...args: readonly unknown[]) => Promise<T>;

type Line =
  | { readonly call: number; readonly method: string; readonly args: unknown }
  | { readonly answer: number; readonly result: unknown }
  | { readonly answer: number; readonly thrown: unknown };

export class Peer {
  readonly #write: (line: string) => void;
  readonly #handlers: Handlers;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #calls = 0;

  constructor(write: (line: string) => void, handlers: Handlers) {
    this.#write = write;
    this.#handlers = handlers;
  }

  /** Calls the other side. Calls arrive in the order in which they were made. */
  readonly call: Call = <T>(method: string, ...args: readonly unknown[]) => {
    const call = ++this.#calls;
    const answer = Promise.withResolvers<unknown>();
    this.#waiting.set(call, answer);
    this.#send({ call, method, args: pack(args) });
    return answer.promise as Promise<T>;
  };

  /** The other side is gone: nothing that was asked will be answered. */
  end(reason: Error): void {
    for (const { reject } of this.#waiting.values()) reject(reason);
  }

  /** Takes a line of the other side. */
  readonly receive = (text: string): void => {
    const line = JSON.parse(text) as Line;
    if ("call" in line) return void this.#answer(line.call, line.method, unpack(line.args) as never[]);
    const waiting = this.#waiting.get(line.answer);
    this.#waiting.delete(line.answer);
    if ("thrown" in line) waiting?.reject(unpack(line.thrown));
    else waiting?.resolve(unpack(line.result));
  };

  async #answer(call: number, method: string, args: never[]): Promise<void> {
    try {
      this.#send({ answer: call, result: pack(await this.#handlers[method]?.(...args)) });
    } catch (error) {
      this.#send({ answer: call, thrown: pack(error) });
    }
  }

  #send(line: Line): void {
    // These two end a line for some readers of lines, and JSON leaves them as they are.
    const text = JSON.stringify(line)
      .replaceAll("\u2028", String.raw`\u2028`)
      .replaceAll("\u2029", String.raw`\u2029`);
    this.#write(`${text}\n`);
  }
}
