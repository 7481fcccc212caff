/** The conversations trial: very many conversations through every pair of formats. */

import { EVERYTHING, type Outcome, type Subject, type Trial } from "../../trial/frame.ts";
import { allPairs, run } from "./pairs.ts";

/** The conversations of one seed. A small batch makes a violation quick to repeat. */
const BATCH = 5_000;
/** The least share of a pair's conversations to compare: a refused one proves little. */
const LEAST_COMPARED = 0.9;

async function converse(count: number, seed: number, only: string): Promise<Outcome> {
  const pairs = allPairs().filter(({ name }) => name.includes(only));
  for (let done = 0; done < count; done += BATCH) {
    // Throws at the first fact that is lost without a word, with the seed of the batch.
    run(pairs, { seed: seed + done / BATCH, numRuns: Math.min(BATCH, count - done) });
    console.error(`${Math.min(count, done + BATCH)} conversations of each pair`);
  }
  const tooFew = pairs.filter(({ compared }) => !(compared > 0 && compared >= count * LEAST_COMPARED));
  return {
    rows: pairs.map(({ name, compared, refused, facts, seals, lost, ms }) => ({
      pair: name,
      compared,
      "refused as declared": refused,
      facts,
      seals,
      arrived: facts - lost,
      "lost as told": lost,
      seconds: (ms / 1_000).toFixed(1),
    })),
    problems: tooFew.map(({ name }) => `Too few of the conversations of ${name} were compared.`),
  };
}

export const conversationsTrial: Trial<
  Subject,
  { readonly count: number; readonly seed: number; readonly only: string }
> = {
  name: "conversations",
  does: "Takes 100,000 conversations through each pair of formats: nothing is lost that is not told.",
  flags: { count: 100_000, seed: Date.now() % 2 ** 31, only: "" },
  subjects: [EVERYTHING],
  run: (_everything, { count, seed, only }) => converse(count, seed, only),
};
