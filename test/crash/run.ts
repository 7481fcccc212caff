/** The crash test in full, on PostgreSQL and Redis or on the stores named; it fails where the books are wrong. */

import { sharedStores } from "../stores/ledgers.ts";
import type { Sum } from "./audit.ts";
import { crash, type Crashed, type Plan } from "./crash.ts";

/**
 * Answers of 24 to 72 seconds, noted ten times a second: what comes between two notes is little beside what a call has used. A host that
 * has fewer notes made loses more of a killed call, up to what came since the last.
 */
const PLAN: Plan = {
  seed: 12,
  kills: 200,
  piecesPerKill: 800,
  leaseMs: 20_000,
  usageNoteMs: 100,
  maxPieces: 720,
};

/** How far charges by estimate may be from the upstream's count, as a share of it. */
const ALLOWED = 0.02;
/** What it may take beside the lease until nothing is held: what a killed process had sent is still being done. */
const GRACE_MS = 2_000;

const together = (...sums: readonly Sum[]): Sum => ({
  calls: sums.reduce((total, { calls }) => total + calls, 0),
  charged: sums.reduce((total, { charged }) => total + charged, 0),
  counted: sums.reduce((total, { counted }) => total + counted, 0),
});

const deviation = ({ charged, counted }: Sum): number => charged / counted - 1;

const line = (name: string, sum: Sum): string =>
  `  ${name.padEnd(36)}${[sum.calls, sum.charged, sum.counted].map((count) => String(count).padStart(12)).join("")}` +
  `${(100 * deviation(sum)).toFixed(2).padStart(10)} %`;

const named = process.argv.slice(2).map((name) => name.toLowerCase());
const wanted = named.length > 0 ? named : ["postgres", "redis"];
for (const store of sharedStores) {
  if (!wanted.some((name) => store.name.toLowerCase().includes(name))) continue;
  if (!store.available) {
    console.log(`${store.name}: does not answer`);
    process.exitCode = 1;
    continue;
  }
  const begin = performance.now();
  const ledger = await store.open();
  const crashed = await crash(ledger, PLAN);
  await ledger.remove();
  const minutes = (performance.now() - begin) / 60_000;
  console.log(`${store.name}: ${PLAN.kills} kills in ${minutes.toFixed(1)} minutes, leases of ${PLAN.leaseMs} ms`);
  if (!report(crashed)) process.exitCode = 1;
}

/** Prints what is left in the books; whether that is right. */
function report({ exact, estimated, left, expired, unmatched, liveHolds, differences, freeAfterMs }: Crashed): boolean {
  const guessed = together(estimated, left);
  console.log(["".padEnd(38), ...["calls", "charged", "counted"].map((word) => word.padStart(12))].join(""));
  console.log(line("settled by the upstream's count", exact));
  console.log(line("settled by estimate", estimated));
  console.log(line("settled as their clients left", left));
  console.log(line("both, settled by estimate", guessed));
  // What came after its last note, nobody knows of.
  console.log(line("killed, by their last note", expired));
  console.log(`  nothing held ${freeAfterMs.toFixed(0)} ms after the last kill, ${liveHolds} live holds`);
  const wrong = {
    "charges that are not the upstream's count": exact.amiss,
    "calls without a hold, or charges without a call": unmatched,
    "balances that are not what the journal comes to": differences,
  };
  for (const [what, found] of Object.entries(wrong)) {
    console.log(`  ${what}: ${found.length}`);
    if (found.length > 0) console.log(JSON.stringify(found.slice(0, 5)));
  }
  const addsUp = Object.values(wrong).every(({ length }) => length === 0);
  const isNear = [guessed, expired].every((sum) => Math.abs(deviation(sum)) <= ALLOWED);
  return addsUp && isNear && liveHolds === 0 && freeAfterMs <= PLAN.leaseMs + GRACE_MS;
}
