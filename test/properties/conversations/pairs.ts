/** Runs of conversations: one of each caller's format, through every upstream's. */

import fc from "fast-check";
import { type Answered, answer, answered, assertAnswered } from "./answers.ts";
import type { ChatRequest } from "../../../src/index.ts";
import { type Format, FORMATS } from "./formats.ts";
import { type Asked, asked, crossed } from "./law.ts";
import { mostlySayable } from "./sayable.ts";

/** What became of the conversations of one pair. */
export class Pair {
  /** Those that the upstream's format can say: what arrived, and what was told to be lost, is everything. */
  compared = 0;
  /** Those that it cannot say, which their callers are told. */
  refused = 0;
  /** What was asked in those that were compared, fact by fact. */
  facts = 0;
  /** How many of these did not arrive, each of which was told. */
  lost = 0;
  ms = 0;
  readonly from: Format;
  readonly to: Format;

  constructor(from: Format, to: Format) {
    this.from = from;
    this.to = to;
  }

  get name(): string {
    return `${this.from.name} → ${this.to.name}`;
  }

  /** Throws an error that names the pair where the law does not hold. */
  run(request: Asked, heard: Answered): void {
    const begin = performance.now();
    try {
      assertAnswered(this.from, heard);
      const { lost, refused } = crossed(this.to, request);
      this.ms += performance.now() - begin;
      if (refused) return void this.refused++;
      this.compared++;
      this.facts += request.facts.length;
      this.lost += lost;
    } catch (error) {
      throw new Error(`${this.name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
}

export const allPairs = (): readonly Pair[] => FORMATS.flatMap((from) => FORMATS.map((to) => new Pair(from, to)));

const conversations = fc.tuple(...FORMATS.map(({ conversation }) => conversation));

/** So many conversations through each pair. Throws, with the seed and the smallest of them, where the law does not hold. */
export function run(pairs: readonly Pair[], options: { readonly seed?: number; readonly numRuns: number }): void {
  const property = fc.property(conversations, answer, fc.boolean(), (said, events, stream) => {
    const heard = new Map(FORMATS.map((upstream) => [upstream, answered(upstream, events, stream)]));
    for (const [index, from] of FORMATS.entries()) {
      const conversation = said[index];
      if (!conversation) continue;
      const requests = new Requests(from, conversation);
      for (const pair of pairs) {
        const answerOf = heard.get(pair.to);
        if (pair.from === from && answerOf) pair.run(requests.of(pair.to), answerOf);
      }
    }
  });
  fc.assert(property, options);
}

/** One conversation as it is asked of each upstream: the same request where their formats can say the same. */
class Requests {
  readonly #from: Format;
  readonly #conversation: ChatRequest;
  readonly #asked: Map<ChatRequest, Asked> = new Map();

  constructor(from: Format, conversation: ChatRequest) {
    this.#from = from;
    this.#conversation = conversation;
  }

  of(upstream: Format): Asked {
    const said = mostlySayable(upstream.name, this.#conversation);
    let request = this.#asked.get(said);
    if (!request) this.#asked.set(said, (request = asked(this.#from, said)));
    return request;
  }
}
