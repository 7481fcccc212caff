/** The race in full, on each store that answers or on those named; it fails where another number is let in than fits. */

import { sharedStores } from "../stores/ledgers.ts";
import { race, ROOM } from "./race.ts";

const [PROCESSES, CALLS] = [4, 10_000];

const named = process.argv.slice(2).map((name) => name.toLowerCase());
for (const store of sharedStores) {
  if (named.length > 0 && !named.some((name) => store.name.toLowerCase().includes(name))) continue;
  if (!store.available) {
    console.log(`${store.name}: does not answer`);
    continue;
  }
  const ledger = await store.open();
  const { statuses, available, differences, seconds } = await race(ledger, { processes: PROCESSES, calls: CALLS });
  await ledger.remove();
  const answers = Object.entries(statuses).map(([status, count]) => `${count} × ${status}`);
  console.log(`${store.name}: ${CALLS} calls at once in ${seconds.toFixed(1)} s: ${answers.join(", ")}`);
  if (statuses[200] === ROOM && statuses[429] === CALLS - ROOM && available === 0 && differences.length === 0) continue;
  console.log(`  ${available} units are left; the books differ in ${JSON.stringify(differences)}`);
  process.exitCode = 1;
}
