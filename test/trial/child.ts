/** A child process that answers questions, one at a time. It ends with its parent, or when the parent disposes of it. */

import { type ChildProcess, fork, type ForkOptions, type Serializable } from "node:child_process";
import { once } from "node:events";
import process from "node:process";

type ChildOptions = Pick<ForkOptions, "execPath" | "execArgv" | "cwd" | "env">;

/** A message from the child: a note on the way, or the answer. */
interface Message<Answer> {
  readonly isAnswer: boolean;
  readonly value: Answer;
}

export class Child<Question extends Serializable, Answer> implements AsyncDisposable {
  readonly #process: ChildProcess;
  /** Resolves with the exit code or the signal. */
  readonly #exit: Promise<number | string>;

  /** Runs a script, by its path below `test`, in Node or in the runtime at `execPath`. */
  constructor(script: string, { args, ...options }: { args?: readonly string[] } & ChildOptions = {}) {
    this.#process = fork(new URL(`../${script}`, import.meta.url), args, { execArgv: [], ...options });
    this.#exit = once(this.#process, "exit").then(([code, signal]: (number | string)[]) => code ?? signal ?? "nothing");
  }

  /** Asks a question. `onNote` receives what the child notes before it answers. Rejects when the process ends before. */
  ask(question: Question, onNote?: (note: Answer) => void): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const receive = ({ isAnswer, value }: Message<Answer>): void => (isAnswer ? resolve(value) : onNote?.(value));
    this.#process.on("message", receive).send(question);
    void this.#exit.then((ended) => reject(new Error(`A child process ended too early, with ${ended}.`)));
    return promise.finally(() => this.#process.off("message", receive));
  }

  /** Kills the process as a crash does. Rejects when the process has ended by itself. */
  async kill(): Promise<void> {
    const { exitCode, signalCode } = this.#process;
    if (exitCode !== null || signalCode !== null) throw new Error("A child process ended by itself.");
    this.#process.kill("SIGKILL");
    await this.#exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.connected) this.#process.disconnect();
    await this.#exit;
  }
}

const send = (isAnswer: boolean, value: unknown): void => void process.send?.({ isAnswer, value });

/** The child's side: answers the questions of the parent, and ends with the parent. */
export function answerParent(answer: (question: never, note: (value: Serializable) => void) => Promise<unknown>): void {
  // An unhandled rejection is intended: it ends the process, and so the question of the parent rejects.
  process.on(
    "message",
    (question) => void answer(question as never, (value) => send(false, value)).then((value) => send(true, value)),
  );
  process.on("disconnect", () => process.exit());
}
