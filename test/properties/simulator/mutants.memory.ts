/** Faults of the memory store. */

import type { MemoryQuotaStore } from "../../../src/index.ts";
import {
  chargingTwice,
  ENDLESS_MS,
  type Fault,
  holdingAnew,
  refusing,
  verbsOf,
  withoutCorrection,
} from "../../testing/laws/faults.ts";
import { CHARGED_ONCE, FITS, HIDDEN, LEASED, type Mutant, REMAINS, SHARED } from "./mutant.ts";

const withFault =
  (fault: Fault): NonNullable<Mutant["verbs"]> =>
  (opened) => ({ ...verbsOf(opened.store), ...fault(opened.store, opened) });

const withLeases =
  (leaseOf: (leaseMs: number, skewMs: number) => number): NonNullable<Mutant["verbs"]> =>
  ({ store }, skewMs) => ({
    ...verbsOf(store),
    reserve: (hold) => store.reserve({ ...hold, leaseMs: leaseOf(hold.leaseMs, skewMs()) }),
    renew: (id, renewal) => store.renew(id, { ...renewal, leaseMs: leaseOf(renewal.leaseMs, skewMs()) }),
  });

/** The keys with a quota of their own. */
const LIMITED: ReadonlySet<string> = new Set(["tight", "metered", "rich"]);

export const memoryMutants: readonly Mutant[] = [
  {
    fault: "holds without a condition",
    store: "memory",
    breaks: [REMAINS, FITS],
    keys: (keys) => keys.map((key) => (key.granted === undefined ? key : { ...key, granted: key.granted + HIDDEN })),
    verbs: withFault((store) => ({
      async balance(keyId) {
        const balance = await store.balance(keyId);
        const hidden = LIMITED.has(keyId) ? HIDDEN : 0;
        return balance && { ...balance, available: balance.available - hidden };
      },
    })),
    audit: (audit) => (LIMITED.has(audit.keyId) ? { ...audit, granted: audit.granted - HIDDEN } : audit),
  },
  {
    fault: "charges twice what is settled twice",
    store: "memory",
    breaks: [CHARGED_ONCE],
    verbs: withFault(chargingTwice),
  },
  { fault: "holds anew what is reserved again", store: "memory", breaks: [LEASED], verbs: withFault(holdingAnew) },
  {
    fault: "drops what is settled after expiry",
    store: "memory",
    breaks: [CHARGED_ONCE],
    verbs: withFault(withoutCorrection),
  },
  { fault: "never sweeps", store: "memory", breaks: [LEASED, FITS, SHARED], verbs: withLeases(() => ENDLESS_MS) },
  {
    fault: "ends leases by the clock of who asks",
    store: "memory",
    breaks: [LEASED, FITS, SHARED],
    verbs: withLeases((leaseMs, skewMs) => Math.max(1, leaseMs + skewMs)),
  },
  {
    fault: "drops overdraft",
    store: "memory",
    breaks: [CHARGED_ONCE],
    seed: 4,
    audit: (audit) => ({ ...audit, overdraft: 0 }),
  },
  {
    fault: "forgets the budget of one key",
    store: "memory",
    breaks: [SHARED],
    keys: (keys) => keys.map(({ budget, ...key }) => (budget && key.id !== "member" ? { ...key, budget } : key)),
  },
  {
    fault: "charges late calls to the present period",
    store: "memory",
    breaks: [SHARED],
    seed: 14,
    verbs: withFault((store) => {
      const reserved = new Map<string, { readonly keyId: string; readonly startsAt: number | undefined }>();
      const settled = new Set<string>();
      // `withFault` is given a store in memory.
      const beginOf = () => (store as MemoryQuotaStore).budgetReport("team")?.startsAt;
      return {
        async reserve(hold) {
          if (!reserved.has(hold.id)) reserved.set(hold.id, { keyId: hold.keyId, startsAt: beginOf() });
          return store.reserve(hold);
        },
        async settle(id, outcome) {
          const { keyId = "", startsAt } = reserved.get(id) ?? {};
          const isAgain = settled.has(id);
          settled.add(id);
          if (isAgain || startsAt === beginOf()) return store.settle(id, outcome);
          await store.settle(id, { ...outcome, used: 0 });
          await store.reserve({ id: `${id} late`, keyId, atLeast: 0, atMost: 0, leaseMs: ENDLESS_MS });
          await store.settle(`${id} late`, outcome);
        },
      };
    }),
  },
  {
    fault: "begins no period",
    store: "memory",
    breaks: [SHARED],
    budgets: (budgets) => budgets.map(({ period: _period, ...budget }) => budget),
  },
  {
    fault: "tells in a refusal that nothing was held",
    store: "memory",
    breaks: [FITS],
    verbs: withFault(refusing((refusal) => ({ ...refusal, held: 0 }))),
  },
  {
    fault: "takes estimates for exact",
    store: "memory",
    breaks: ["what rests on estimates is counted apart"],
    verbs: withFault((store) => ({ settle: (id, { used }) => store.settle(id, { used, certainty: "exact" }) })),
  },
  {
    fault: "takes what it could cover for overdraft",
    store: "memory",
    breaks: ["there is no overdraft while something remains"],
    audit: ({ charged, overdraft, ...audit }) =>
      charged > audit.estimated
        ? { ...audit, charged: charged - 1, overdraft: overdraft + 1 }
        : { ...audit, charged, overdraft },
  },
  {
    fault: "rejects what is settled twice",
    store: "memory",
    breaks: ["a store does what the pipeline asks of it"],
    verbs: withFault((store) => {
      const settled = new Set<string>();
      return {
        async settle(id, outcome) {
          if (settled.has(id)) throw new Error("The hold is settled.");
          settled.add(id);
          await store.settle(id, outcome);
        },
      };
    }),
  },
];
