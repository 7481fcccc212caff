/** Runs conversations of each caller's format through every upstream's format. */

import fc from "fast-check";
import type { ChatRequest } from "../../../src/index.ts";
import { type Answered, answer, answered, assertAnswered } from "./answers.ts";
import { type Format, FORMATS } from "./formats.ts";
import { type Asked, asked, crossed } from "./law.ts";
import { mostlySayable } from "./sayable.ts";
import { askedIn, session } from "./sessions.ts";

/** The counts of a pair of formats. */
export class Pair {
  /** Conversations that the upstream's format can express: every fact arrived, or was reported as lost. */
  compared = 0;
  /** Conversations that the upstream's format cannot express, which the codec refuses. */
  refused = 0;
  /** The facts in the compared conversations. */
  facts = 0;
  /** The facts that were lost, each reported. */
  lost = 0;
  /** The signatures and the encrypted reasoning in sessions. */
  seals = 0;
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

  /** Compares a conversation. Throws an error with the name of the pair when the law does not hold. */
  run(request: Asked, heard: Answered): void {
    this.#measure(() => {
      assertAnswered(this.from, heard);
      const { lost, refused } = crossed(this.to, request);
      if (refused) return void this.refused++;
      this.compared++;
      this.facts += request.facts.length;
      this.lost += lost;
    });
  }

  /** Compares a session, which every format can express. Throws an error with the name of the pair when the law does not hold. */
  continue(session: Asked): void {
    this.#measure(() => {
      const { lost, refused } = crossed(this.to, session);
      if (refused) throw new Error("A session was refused.");
      this.facts += session.facts.length;
      this.lost += lost;
      this.seals += session.facts.filter(({ seal }) => seal).length;
    });
  }

  #measure(compare: () => void): void {
    const begin = performance.now();
    try {
      compare();
      this.ms += performance.now() - begin;
    } catch (error) {
      throw new Error(`${this.name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
}

export const allPairs = (): readonly Pair[] => FORMATS.flatMap((from) => FORMATS.map((to) => new Pair(from, to)));

const conversations = fc.tuple(...FORMATS.map(({ conversation }) => conversation));

/** Runs conversations through each pair. Throws when the law does not hold, with the seed and the smallest conversation. */
export function run(pairs: readonly Pair[], options: { readonly seed?: number; readonly numRuns: number }): void {
  const property = fc.property(conversations, answer, fc.boolean(), session, (said, events, stream, kept) => {
    const heard = new Map(FORMATS.map((upstream) => [upstream, answered(upstream, events, stream)]));
    for (const [index, from] of FORMATS.entries()) {
      const conversation = said[index];
      if (!conversation || !pairs.some((pair) => pair.from === from)) continue;
      const requests = new Requests(from, conversation);
      const continued = askedIn(from, kept);
      for (const pair of pairs) {
        const answerOf = heard.get(pair.to);
        if (pair.from !== from || !answerOf) continue;
        pair.run(requests.of(pair.to), answerOf);
        pair.continue(continued);
      }
    }
  });
  fc.assert(property, options);
}

/** Makes a conversation for each upstream: the same request for formats that can express the same. */
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
