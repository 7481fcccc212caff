/** The annotations of an answer: log probabilities, safety ratings and a token count. */

import { createHash } from "node:crypto";
import type { Annotation, ChatRequest, Logprob, SafetyRating } from "../index.ts";
import { Loop } from "./loop.ts";
import type { Speaker } from "./speaker.ts";

/** Yields the annotations that the request asks for. */
export async function* notesOn(
  { safety, logprobs }: ChatRequest,
  { said, total, thoughts }: Speaker,
): AsyncGenerator<Annotation> {
  if (logprobs && said.length > 0) yield { type: "logprobs", ...(await logprobsOf(said, logprobs.top)) };
  if (safety && safety.length > 0) {
    const ratings = safety.map(({ category }): SafetyRating => ({ category, probability: "negligible" }));
    yield { type: "safety", ratings };
  }
  yield { type: "token-count", tokens: total - thoughts };
}

/** Alternatives to each token, in order of falling probability. */
const ALTERNATIVES = "the a of to and in is it you that he was for on are with as at be this".split(" ");

interface TokenLogprobs {
  readonly chosen: readonly Logprob[];
  readonly top: readonly (readonly Logprob[])[];
  readonly average: number;
}

async function logprobsOf(said: readonly string[], most: number): Promise<TokenLogprobs> {
  const loop = new Loop();
  const chosen: Logprob[] = [];
  const top: Logprob[][] = [];
  let sum = 0;
  for (const token of said) {
    const first = logprob(token, -(1 + (digest(token) % 500)) / 1000);
    sum += first.logProbability;
    chosen.push(first);
    top.push(alternatives(first, most));
    await loop.yield();
  }
  return { chosen, top, average: sum / chosen.length };
}

const alternatives = (first: Logprob, top: number): Logprob[] =>
  [first, ...ALTERNATIVES.map((token, index) => logprob(token, first.logProbability - index - 1))].slice(0, top);

const logprob = (token: string, logProbability: number): Logprob => ({
  token,
  tokenId: digest(token) % 100_000,
  logProbability,
});

const digest = (token: string): number => createHash("sha256").update(token).digest().readUInt32BE();
