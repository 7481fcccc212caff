/** An answer as the page shows it, put together from what any of the formats sends. */

import type { Json, JsonObject } from "../json.ts";

export type Block =
  | { readonly type: "thinking" | "text"; readonly text: string }
  /** The arguments are JSON as text, which comes in pieces. */
  | { readonly type: "tool-call"; readonly name: string; readonly text: string }
  | { readonly type: "code"; readonly text: string }
  | { readonly type: "code-result"; readonly outcome: string; readonly text: string };

export interface Answer {
  readonly blocks: readonly Block[];
  /** Token counts by what they count, in the order of their first mention. */
  readonly usage: Readonly<Record<string, number>>;
  /** Why the model stopped, in the format's own word. */
  readonly stopReason?: string;
  /** An error that came in the middle of the stream, as it came. */
  readonly error?: JsonObject;
}

/** Collects an answer. A key names the block that a piece belongs to; a key of its own begins a new block. */
export class AnswerBuilder {
  #blocks = new Map<string, Block>();
  #usage: Record<string, number> = {};
  #stopReason: string | undefined;
  #error: JsonObject | undefined;
  #runs = 0;
  #lastType = "";

  add(key: string, block: Block): void {
    const before = this.#blocks.get(key);
    this.#blocks.set(key, before ? { ...before, text: before.text + block.text } : block);
    this.#lastType = "";
  }

  /** Adds to the last block where it is of the same type, for formats that do not number their blocks. */
  append(block: Block): void {
    if (this.#lastType !== block.type || block.type === "tool-call") this.#runs++;
    this.add(`run ${this.#runs}`, block);
    this.#lastType = block.type;
  }

  count(name: string, tokens: Json | undefined): void {
    if (typeof tokens === "number") this.#usage[name] = tokens;
  }

  stop(reason: Json | undefined): void {
    if (typeof reason === "string") this.#stopReason = reason;
  }

  fail(error: JsonObject): void {
    this.#error = error;
  }

  get answer(): Answer {
    return {
      blocks: [...this.#blocks.values()],
      usage: { ...this.#usage },
      ...(this.#stopReason !== undefined && { stopReason: this.#stopReason }),
      ...(this.#error && { error: this.#error }),
    };
  }
}
