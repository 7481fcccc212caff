/** Writes the page of the reference with the metrics. `test/telemetry/dashboard.test.ts` compares it with those that a gateway exposes. */

import { wrapped } from "./wrapped.ts";

/** The names of metrics, and what they measure. */
const METRICS: readonly (readonly [names: string, about: string])[] = [
  ["gen_ai.server.request.duration", "Seconds of a call, by model, `polygate.outcome`, `error.type`."],
  ["gen_ai.server.time_to_first_token", "Seconds to the first event of a completed call."],
  ["gen_ai.server.time_per_output_token", "Seconds for each output token after the first event."],
  [
    "gen_ai.client.inference.usage.input_tokens gen_ai.client.inference.usage.output_tokens",
    "Tokens as charged, by model and `gen_ai.token.modality`.",
  ],
  ["gen_ai.client.inference.usage.cache_read.input_tokens", "The input tokens that were read from a cache."],
  ["gen_ai.client.inference.usage.cache_write.input_tokens", "The input tokens that were written to a cache."],
  ["gen_ai.client.inference.usage.reasoning.output_tokens", "The output tokens for reasoning."],
  [
    "gen_ai.client.inference.operation.input_tokens gen_ai.client.inference.operation.output_tokens",
    "Histograms of the tokens of a call.",
  ],
  ["gen_ai.client.embeddings.operation.input_tokens", "A histogram of the input tokens of a call for embeddings."],
  ["gen_ai.client.inference.duration", "Seconds of a request to an upstream."],
  ["gen_ai.client.inference.time_to_first_chunk", "Seconds to the first event of an upstream's stream."],
  ["gen_ai.client.embeddings.duration", "Seconds of a request for embeddings."],
  ["polygate.upstream.attempts", "[Requests to upstreams](../keys-and-limits.md#upstreams-of-a-call)."],
  ["polygate.call.units", "Units that calls have cost, by model and `polygate.certainty`."],
  ["polygate.spend", "The same units, by `polygate.group`, `polygate.budget`, `polygate.key`."],
  ["polygate.ready", "The `ready` of [`gateway.health()`](../production.md#health): 1, or 0 while it takes no calls."],
  ["polygate.call.active polygate.stream.active", "Calls that are not settled yet, and streams."],
  ["polygate.body.active polygate.body.active.size", "Request bodies in memory, and their bytes."],
  ["polygate.settlement.waiting", "Settlements that [wait for the store](../quota.md#a-settlement-that-fails)."],
  [
    "polygate.settlement.abandoned",
    "Settlements that were given up: the store charges an estimate when their lease ends.",
  ],
  ["polygate.hold.active polygate.hold.active.units", "Holds that are not settled yet, and their units."],
  ["polygate.hold.settled", "Settled holds, by `polygate.certainty`."],
  ["polygate.hold.expired", "Holds that expired before they were settled."],
  ["polygate.hold.overdraft", "Units that calls used beyond their holds."],
  ["polygate.units.charged", "Charged units, by `polygate.certainty`."],
  ["polygate.budget.refusals", "Calls that a budget has refused, by `polygate.budget`."],
  [
    "polygate.budget.granted polygate.budget.used polygate.budget.available polygate.budget.overdraft",
    "The [numbers](../budgets.md#words) of each budget, in units, by `budgetMetrics`.",
  ],
  [
    "polygate.rate_limiter.decisions",
    "Decisions of the rate limiter about calls: admitted, refused, or the limiter was down.",
  ],
  ["polygate.breaker.state", "1 for the state of a circuit breaker, 0 for the others."],
];

const list = METRICS.map(([names, about]) => {
  const quoted = names.split(" ").map((name) => `\`${name}\``);
  return wrapped(`- ${quoted.join(", ")}: ${about}`, "  ");
});

export const metricsPage = (): string => `# Metrics

The metrics of [\`polygate/telemetry\`](../telemetry.md). [Their labels](../telemetry.md#metrics) stand behind "by".

${list.join("\n")}
`;
