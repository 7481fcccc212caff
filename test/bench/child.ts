/** A process beside this one that answers questions, one at a time, and ends when it is let go of or its parent is gone. */

import { type ChildProcess, fork, type ForkOptions, type Serializable } from "node:child_process";
import { once } from "node:events";

type ChildOptions = Pick<ForkOptions, "execPath" | "execArgv" | "cwd" | "env">;

export class Child<Question extends Serializable, Answer> implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #exit: Promise<void>;

  /** Runs a script of this folder: in Node, or in the runtime at `execPath`. */
  constructor(script: string, { args, ...options }: { args?: readonly string[] } & ChildOptions = {}) {
    this.#process = fork(new URL(script, import.meta.url), args, { execArgv: [], ...options });
    this.#exit = once(this.#process, "exit").then(() => {});
  }

  /** Rejects when the process ends before it has answered. */
  async ask(question: Question): Promise<Answer> {
    const answered = once(this.#process, "message") as Promise<[Answer]>;
    this.#process.send(question);
    const [answer] = await Promise.race([answered, this.#exit.then(ended)]);
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.connected) this.#process.disconnect();
    await this.#exit;
  }
}

function ended(): never {
  throw new Error("A process of the benchmark ended before its time.");
}

/** The other side: answers what the parent asks, and ends with it. */
export function answerParent(answer: (question: never) => Promise<unknown>): void {
  // A rejection is left unhandled on purpose: it ends the process, and with it the parent's question.
  process.on("message", (question) => void answer(question as never).then((result) => process.send?.(result)));
  process.on("disconnect", () => process.exit());
}
