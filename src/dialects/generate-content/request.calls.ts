/** Pairs function calls with their responses where the caller gave no ids: official clients long sent none. */

import type { Content } from "./schema.ts";

/** The calls of one function in one turn, and how many of them are answered. */
interface Calls {
  readonly turn: number;
  readonly ids: string[];
  answered: number;
}

/** The ids of one conversation, read in order. Those that are made up are never ones that the caller gave. */
export class CallIds {
  readonly #given: ReadonlySet<string>;
  readonly #answered: Set<string> = new Set();
  /** By the function's name, the newest turn last. */
  readonly #calls: Map<string, Calls[]> = new Map();
  #count = 0;

  constructor(contents: readonly (Content | string)[]) {
    const parts = contents.flatMap((content) => (typeof content === "string" ? [] : content.parts));
    this.#given = new Set(parts.flatMap((part) => part.functionCall?.id || part.functionResponse?.id || []));
  }

  ofCall(name: string, given: string | null | undefined, turn: number): string {
    const id = given || this.#invent();
    const turns = this.#calls.get(name) ?? [];
    if (turns.at(-1)?.turn !== turn) turns.push({ turn, ids: [], answered: 0 });
    turns.at(-1)?.ids.push(id);
    this.#calls.set(name, turns);
    return id;
  }

  ofResponse(name: string, given: string | null | undefined): string {
    const id = given || (this.#unanswered(name) ?? this.#invent());
    this.#answered.add(id);
    return id;
  }

  /** Of the newest turn that calls the function, the first call that has no answer yet. */
  #unanswered(name: string): string | undefined {
    const turns = this.#calls.get(name) ?? [];
    for (let newest = turns.at(-1); newest; newest = turns.at(-1)) {
      while (newest.answered < newest.ids.length) {
        const id = newest.ids[newest.answered++];
        if (id !== undefined && !this.#answered.has(id)) return id;
      }
      turns.pop();
    }
    return undefined;
  }

  #invent(): string {
    for (;;) {
      const id = `call_${++this.#count}`;
      if (!this.#given.has(id)) return id;
    }
  }
}
