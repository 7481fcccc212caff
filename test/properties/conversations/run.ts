/** `npm run conversations`: very many conversations through every pair of formats. */

import { parseArgs } from "node:util";
import { allPairs, type Pair, run } from "./pairs.ts";

const { values } = parseArgs({ options: { count: { type: "string" }, seed: { type: "string" } } });
const count = Number(values.count ?? 100_000);
const seed = Number(values.seed ?? Date.now() % 2 ** 31);
/** How many are made from one seed, so that a breach is found again soon. */
const BATCH = 5_000;
/** The least share of a pair's conversations that is compared: those that are refused prove little. */
const LEAST_COMPARED = 0.9;

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

function report({ name, compared, refused, facts, lost, ms }: Pair): void {
  const told = `${facts} facts: ${facts - lost} arrived, ${lost} lost as told, 0 lost in silence`;
  console.log(`${name}: ${compared} compared, ${refused} refused as declared; ${told}; ${seconds(ms)}`);
}

const pairs = allPairs();
for (let done = 0; done < count; done += BATCH) {
  // It throws at the first fact that is lost without a word, with the seed of its batch.
  run(pairs, { seed: seed + done / BATCH, numRuns: Math.min(BATCH, count - done) });
  const soFar = pairs.map(({ compared, refused }) => `${compared}/${compared + refused}`).join(" ");
  console.error(`compared ${soFar}; ${seconds(performance.now())}`);
}
for (const pair of pairs) report(pair);
console.log(`${count} conversations for each pair, --seed ${seed}, ${seconds(performance.now())}`);
if (pairs.some(({ compared }) => compared < count * LEAST_COMPARED))
  throw new Error("Too few of the conversations of a pair were compared.");
