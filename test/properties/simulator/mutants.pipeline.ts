/** Faults of the pipeline and of ports other than the quota store, as changes to the options of each gateway. */

import { type QuotaStore, systemClock } from "../../../src/index.ts";
import type { Mutant } from "./mutant.ts";

const withQuotas =
  (fault: (quotas: QuotaStore) => Partial<QuotaStore>): NonNullable<Mutant["gateway"]> =>
  (options) => ({ ...options, quotas: { ...options.quotas, ...fault(options.quotas) } });

export const pipelineMutants: readonly Mutant[] = [
  {
    fault: "gives answers for nothing",
    store: "memory",
    breaks: ["what is charged is what was used"],
    gateway: (options) => ({ ...options, price: () => 0 }),
  },
  {
    fault: "asks the backend before the store has answered",
    store: "memory",
    breaks: ["no backend is asked without a hold"],
    gateway: withQuotas(() => ({ reserve: async ({ atMost }) => ({ granted: atMost }) })),
  },
  {
    fault: "never settles",
    store: "memory",
    breaks: ["an answer that was delivered is charged"],
    gateway: withQuotas(() => ({ settle: async () => {} })),
  },
  {
    fault: "drops a settlement that fails, and says nothing",
    store: "memory",
    breaks: ["a charge reaches the store, or its host is told"],
    gateway: (options) => ({
      ...options,
      limits: { ...options.limits, maxWaitingSettlements: 1 },
      onFailure: () => {},
    }),
  },
  {
    fault: "charges what it holds, whether a backend is asked or not",
    store: "memory",
    breaks: ["a refused call costs nothing"],
    gateway: withQuotas((quotas) => ({
      async reserve(hold, call) {
        const answer = await quotas.reserve(hold, call);
        if (!answer.refused) await quotas.renew(hold.id, { leaseMs: hold.leaseMs, used: answer.granted }, call);
        return answer;
      },
    })),
  },
  {
    fault: "notes more than was used",
    store: "memory",
    breaks: ["what is noted is what was used"],
    gateway: withQuotas((quotas) => ({
      renew: (id, renewal, call) => quotas.renew(id, { ...renewal, used: 2 * renewal.used }, call),
    })),
  },
  {
    fault: "never notes what was used",
    store: "memory",
    breaks: ["what is noted is what was used"],
    gateway: withQuotas((quotas) => ({
      renew: (id, renewal, call) => quotas.renew(id, { ...renewal, used: 0 }, call),
    })),
  },
  {
    fault: "records each call twice",
    store: "memory",
    breaks: ["each call ends, and is recorded once"],
    gateway: (options) => ({
      ...options,
      onCall(record) {
        options.onCall?.(record);
        options.onCall?.(record);
      },
    }),
  },
  {
    fault: "cancels no timer",
    store: "memory",
    breaks: ["a call leaves no timer behind"],
    gateway: ({ clock = systemClock, ...options }) => ({
      ...options,
      clock: {
        ...clock,
        after(ms, callback) {
          clock.after(ms, callback);
          return () => {};
        },
      },
    }),
  },
];
