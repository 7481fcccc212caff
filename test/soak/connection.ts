/** A connection of the soak's client: it reads answers to their last byte, and hangs up in the turn in which that came. */

import { connect, type Socket } from "node:net";
import type { Manner } from "../drivers/raw-client.ts";

const HEAD_END = "\r\n\r\n";
/** Stands in no answer of the soak but at the end of its chunks. */
const CHUNKS_END = "\r\n0\r\n\r\n";

export class Connection {
  readonly #socket: Socket;
  #text = "";
  #look: () => void = () => {};
  #fail: (error: Error) => void = () => {};
  #failure: Error | undefined;

  /** @param reads Whether anything is taken off the connection. */
  constructor(port: number, reads = true) {
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.setNoDelay(true).setEncoding("latin1");
    const add = (chunk: string): void => {
      this.#text += chunk;
      this.#look();
    };
    if (reads) this.#socket.on("data", add);
    else this.#socket.pause();
    this.#socket.on("error", this.#over).on("close", () => this.#over(new Error("The host closed the connection.")));
  }

  readonly #over = (error: Error): void => {
    this.#failure ??= new Error(`${error.message} What had come: ${this.#text.slice(-1_000)}`, { cause: error });
    this.#fail(this.#failure);
  };

  /** Sends requests in one piece, and resolves with each one's answer. */
  async ask(...requests: readonly string[]): Promise<readonly string[]> {
    const answers: string[] = [];
    void this.send(requests.join(""));
    await this.#until(() => {
      for (let end = endOf(this.#text); end > 0; end = endOf(this.#text)) {
        answers.push(this.#text.slice(0, end));
        this.#text = this.#text.slice(end);
      }
      return answers.length >= requests.length;
    });
    return answers;
  }

  /** Resolves when the system has taken the text. */
  send(text: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => void this.#socket.write(text, () => resolve()));
  }

  /** Resolves when a text has come. */
  until(text: string): Promise<void> {
    return this.#until(() => this.#text.includes(text));
  }

  hangUp(manner: Manner): void {
    switch (manner) {
      case "closes":
        return void this.#socket.destroy();
      case "resets":
        return void this.#socket.resetAndDestroy();
      case "half-closes":
        return void this.#socket.end();
      default:
        manner satisfies never;
    }
  }

  #until(there: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      this.#look = () => there() && resolve();
      this.#look();
      if (this.#failure) reject(this.#failure);
    });
  }
}

/** Where the first answer of a text ends; 0 as long as it has not. */
function endOf(text: string): number {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd < 0) return 0;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1];
  if (length !== undefined) {
    const end = headEnd + HEAD_END.length + Number(length);
    return end <= text.length ? end : 0;
  }
  const chunksEnd = text.indexOf(CHUNKS_END, headEnd);
  return chunksEnd < 0 ? 0 : chunksEnd + CHUNKS_END.length;
}
