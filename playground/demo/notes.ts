/** What the demo notes beside an answer: ratings, probabilities, a count. */

import { createHash } from "node:crypto";
import type { Annotation, ChatRequest, Logprob, SafetyRating } from "../../src/index.ts";
import type { Speaker } from "./speaker.ts";

/** The notes on an answer that a request has asked for. */
export function* notesOn({ safety, logprobs }: ChatRequest, { said, total, thoughts }: Speaker): Generator<Annotation> {
  if (logprobs && said.length > 0) yield { type: "logprobs", ...weigh(said, logprobs.top) };
  if (safety && safety.length > 0) {
    const ratings = safety.map(({ category }): SafetyRating => ({ category, probability: "negligible" }));
    yield { type: "safety", ratings };
  }
  yield { type: "token-count", tokens: total - thoughts };
}

/** What the demo might have said instead, of falling probability. */
const OTHERS = "the a of to and in is it you that he was for on are with as at be this".split(" ");

function weigh(
  said: readonly string[],
  top: number,
): { chosen: Logprob[]; top: (readonly Logprob[])[]; average: number } {
  const chosen = said.map((token) => logprob(token, -(1 + (digest(token) % 500)) / 1000));
  const average = chosen.reduce((sum, { logProbability }) => sum + logProbability, 0) / chosen.length;
  return { chosen, top: chosen.map((first) => alternatives(first, top)), average };
}

const alternatives = (first: Logprob, top: number): Logprob[] =>
  [first, ...OTHERS.map((token, index) => logprob(token, first.logProbability - index - 1))].slice(0, top);

const logprob = (token: string, logProbability: number): Logprob => ({
  token,
  tokenId: digest(token) % 100_000,
  logProbability,
});

const digest = (token: string): number => createHash("sha256").update(token).digest().readUInt32BE();
