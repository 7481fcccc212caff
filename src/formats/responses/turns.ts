/** The last response of a WebSocket, which the next message may continue although no store keeps the response. */

import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { Incoming, SocketMemory } from "../format.ts";

/**
 * The responses that a response continues. A document names only those that go back to the nearest whose depth is a multiple of `BLOCK`,
 * and that one names the block before: so a document stays small, however long its chain is.
 */
export interface Chain {
  /** The number of all responses before. */
  readonly depth: number;
  /** The ids of the last of them, the oldest first. */
  readonly ids: readonly string[];
  /**
   * The characters of the documents of all these ids, as far as they are read to find the chain. Missing where they are not known, as in
   * documents that were written before.
   */
  readonly chars?: number;
}

/** A response that its WebSocket can continue. */
export interface LastTurn {
  readonly id: string;
  /** True for a response that the host's store keeps, too. */
  readonly isKept: boolean;
  /** The chain of a response that continues this one; undefined for a response that is not kept. */
  readonly chain: Chain | undefined;
  /** The items of the request, with those before it, and of the output: the JSON of `{ "input": [...] }`. */
  readonly content: string;
}

/** Keeps the last response of one connection, in the memory of its key. */
export class Turns {
  readonly #memory: SocketMemory;
  #last: LastTurn | undefined;
  /** True for a turn that continues the last response. */
  #continues = false;
  #input: readonly JsonObject[] = [];
  #chain: Chain | undefined;

  constructor(memory: SocketMemory) {
    this.#memory = memory;
  }

  /** Returns the last response if it has this id: the running turn then continues it. */
  last(id: string): LastTurn | undefined {
    if (this.#last?.id !== id) return undefined;
    this.#continues = true;
    return this.#last;
  }

  /** Notes the items that a turn gives to the model, and its chain. */
  begin(input: readonly JsonObject[], chain: Chain): void {
    this.#input = input;
    this.#chain = chain;
  }

  /** Takes the newest item of the running turn back. */
  dropNewest(): void {
    this.#input = this.#input.slice(0, -1);
  }

  /**
   * Ends a turn with its response. The response replaces the last one, unless the memory of the key has no room.
   *
   * @param behind Makes the chain of a response that continues this one.
   */
  complete(response: JsonObject, behind: (id: string, chain: Chain) => Chain): void {
    const { id, output, store } = response;
    const items = Array.isArray(output) ? output.filter((item) => isJsonObject(item)) : [];
    const isKept = store === true;
    const chain = isKept && typeof id === "string" && this.#chain ? behind(id, this.#chain) : undefined;
    const content = JSON.stringify({ input: [...this.#input, ...items] });
    this.#end();
    this.#last = undefined;
    // V8 may take two bytes for a character.
    const isHeld = this.#memory.hold(typeof id === "string" ? 2 * content.length : 0);
    if (typeof id === "string" && isHeld) this.#last = { id, isKept, chain, content };
  }

  /** Ends a turn that has failed. The response that it continued is forgotten. */
  fail(): void {
    if (this.#continues) {
      this.#last = undefined;
      this.#memory.hold(0);
    }
    this.#end();
  }

  #end(): void {
    this.#continues = false;
    this.#input = [];
    this.#chain = undefined;
  }
}

/** Returns the turns of the WebSocket that a call belongs to; undefined for any other call. */
export const turnsOf = ({ socket }: Incoming): Turns | undefined =>
  socket && "turns" in socket && socket.turns instanceof Turns ? socket.turns : undefined;
