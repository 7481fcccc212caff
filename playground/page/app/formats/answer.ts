/** An answer as the page shows it, put together from what any of the formats sends. */

import type { Json, JsonObject } from "../json.ts";

interface Piece {
  readonly text: string;
  /** A value that the next turn must send back unchanged, such as a signature. */
  readonly seal?: Json | undefined;
}

export type Block = Piece &
  (
    | { readonly type: "thinking" | "text" | "code" }
    /** The arguments are JSON as text, which comes in pieces. */
    | { readonly type: "tool-call"; readonly id: string; readonly name: string }
    | { readonly type: "code-result"; readonly outcome: string }
  );

export type ToolCall = Extract<Block, { type: "tool-call" }>;

export interface Answer {
  /** The answer's own id, in formats that go on from it. */
  readonly id?: string;
  readonly blocks: readonly Block[];
  /** Token counts by what they count, in the order of their first mention. */
  readonly usage: Readonly<Record<string, number>>;
  /** Why the model stopped, in the format's own word. */
  readonly stopReason?: string;
  /** An error that came in the middle of the stream, as it came. */
  readonly error?: JsonObject;
}

/** The calls of an answer, which wait for their results. */
export const callsIn = ({ blocks }: Answer): readonly ToolCall[] =>
  blocks.filter((block) => block.type === "tool-call");

/** Collects an answer. A key names the block that a piece belongs to; a key of its own begins a new block. */
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
      ...(this.#id !== "" && { id: this.#id }),
      blocks: [...this.#blocks.values()],
      usage: { ...this.#usage },
      ...(this.#stopReason !== undefined && { stopReason: this.#stopReason }),
      ...(this.#error && { error: this.#error }),
    };
  }
}

/** A block that goes on with another piece. Seals that are lists come in pieces, too. */
function joined(before: Block, { text, seal }: Piece): Block {
  const all =
    Array.isArray(before.seal) && Array.isArray(seal) ? [...(before.seal as Json[]), ...(seal as Json[])] : seal;
  return { ...before, text: before.text + text, ...(all !== undefined && { seal: all }) };
}
