/** The redaction trial: very many conversations whose answers come in random pieces. */

import { EVERYTHING, type Outcome, type Subject, type Trial } from "../trial/frame.ts";
import { runSplits } from "./splits.ts";

async function redact(count: number, seed: number): Promise<Outcome> {
  const begunAt = performance.now();
  const { problems, pieces, secrets } = await runSplits(count, seed);
  const seconds = ((performance.now() - begunAt) / 1_000).toFixed(1);
  return { rows: [{ conversations: count, secrets, pieces, seconds }], problems };
}

export const redactionTrial: Trial<Subject, { readonly count: number; readonly seed: number }> = {
  name: "redaction",
  does: "Sends 100,000 conversations through a redactor: no secret reaches the model, and all come back.",
  flags: { count: 100_000, seed: Date.now() % 2 ** 31 },
  subjects: [EVERYTHING],
  run: (_everything, { count, seed }) => redact(count, seed),
};
