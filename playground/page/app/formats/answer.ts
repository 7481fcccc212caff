/** Collects an answer from the events of any format, as the page shows it. */

import type { Json, JsonObject } from "../json.ts";

interface Piece {
  readonly text: string;
  /** A value that the next turn must send back unchanged, such as a signature. */
  readonly seal?: Json | undefined;
}

export type Block = Piece &
  (
    | { readonly type: "thinking" | "text" | "code" }
    /** The arguments as JSON text, which arrives in pieces. */
    | { readonly type: "tool-call"; readonly id: string; readonly name: string }
    | { readonly type: "code-result"; readonly outcome: string }
  );

export type ToolCall = Extract<Block, { type: "tool-call" }>;

export interface Answer {
  /** The id of the answer, in formats whose next request refers to the answer. */
  readonly id?: string;
  readonly blocks: readonly Block[];
  /** The token counts by their names, in the order in which the names first arrive. */
  readonly usage: Readonly<Record<string, number>>;
  /** The reason why the model stopped, as the format names the reason. */
  readonly stopReason?: string;
  /** The unchanged error from the middle of the stream. */
  readonly error?: JsonObject;
}

/** Returns the calls of an answer, which need results. */
export const callsIn = ({ blocks }: Answer): readonly ToolCall[] =>
  blocks.filter((block) => block.type === "tool-call");

/** Collects an answer. The key of a piece names its block. A new key begins a new block. */
export class AnswerBuilder {
  #blocks = new Map<string, Block>();
  #usage: Record<string, number> = {};
  #id = "";
  #stopReason: string | undefined;
  #error: JsonObject | undefined;
  #runs = 0;
  #lastType = "";

  add(key: string, block: Block): void {
    const before = this.#blocks.get(key);
    this.#blocks.set(key, before ? joined(before, block) : block);
    this.#lastType = "";
  }

  identify(id: string): void {
    this.#id = id;
  }

  /** Appends to the last block if the type is the same, for formats that do not number their blocks. */
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
      ...(this.#id !== "" && { id: this.#id }),
      blocks: [...this.#blocks.values()],
      usage: { ...this.#usage },
      ...(this.#stopReason !== undefined && { stopReason: this.#stopReason }),
      ...(this.#error && { error: this.#error }),
    };
  }
}

/** Appends a piece to a block. A seal that is a list arrives in pieces, too. */
function joined(before: Block, { text, seal }: Piece): Block {
  const all =
    Array.isArray(before.seal) && Array.isArray(seal) ? [...(before.seal as Json[]), ...(seal as Json[])] : seal;
  return { ...before, text: before.text + text, ...(all !== undefined && { seal: all }) };
}
