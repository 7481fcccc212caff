/** The gateway: which models answer, what they cost, and what each key may use. */

import { createGateway, flexibleRateLimiter, type Gateway } from "polygate";
import { relay, type RelayBackend, type RelayFormat } from "polygate/backends/relay";
import { route } from "polygate/backends/route";
import { priceTable } from "polygate/prices";
import { orStop, required, warnOfPrices } from "./env.ts";
import { stores } from "./stores.ts";
import { closeTelemetry, observer } from "./telemetry.ts";

const { MODELS, UPSTREAM_FORMAT, UPSTREAM_URL, UPSTREAM_KEY } = process.env;
const { FALLBACK_FORMAT, FALLBACK_URL, FALLBACK_KEY, FALLBACK_MODEL } = process.env;
const baseUrl = required("UPSTREAM_URL", UPSTREAM_URL, "the upstream's address, such as https://api.openai.com/v1");
// The names in the list of models and in the metrics. Without MODELS, every name is passed on.
const models: readonly string[] | undefined = MODELS?.match(/[^\s,]+/g) ?? undefined;
const upstream = (name: string, format = "", baseUrl = "", apiKey = "", models?: readonly string[]): RelayBackend =>
  relay({
    name,
    format: (format || "chat-completions") as RelayFormat,
    baseUrl,
    apiKey: apiKey || undefined,
    ...(models && { models }),
  });

const primary = await orStop("UPSTREAM_URL, UPSTREAM_FORMAT or UPSTREAM_KEY", () =>
  upstream("primary", UPSTREAM_FORMAT, baseUrl, UPSTREAM_KEY, models),
);
const fallback = FALLBACK_URL && {
  backend: await orStop("FALLBACK_URL, FALLBACK_FORMAT or FALLBACK_KEY", () =>
    upstream("fallback", FALLBACK_FORMAT, FALLBACK_URL, FALLBACK_KEY),
  ),
  weight: 0, // Gets a call only after the first upstream has failed.
  ...(FALLBACK_MODEL && { model: FALLBACK_MODEL }),
};
const upstreams = fallback ? [primary, fallback] : [primary];
const backend = route({ routes: Object.fromEntries((models ?? ["*"]).map((model) => [model, { upstreams }])) });
const warn = (upstream: string, problem = ""): unknown => problem && console.warn(`Upstream ${upstream}: ${problem}`);
void backend.check().then((checks) => checks.forEach(({ upstream, problem }) => warn(upstream, problem)));

// Examples, in US dollars for a million tokens: take yours from your provider. Calls of a model without a row are refused.
const prices = priceTable({
  "claude-sonnet-*": { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75, cacheWrite1h: 6 },
  "gpt-5": { input: 1.25, output: 10, cacheRead: 0.125 },
  "gpt-5-mini": { input: 0.25, output: 2, cacheRead: 0.025 },
});
warnOfPrices(models, prices);

export const gateway: Gateway = createGateway({
  backend,
  ...stores.ports,
  rateLimiter: flexibleRateLimiter({
    perKey: { requests: [stores.counter(60, 60)], tokens: [stores.counter(100_000, 60)], callsAtOnce: 8 },
  }),
  ...prices,
  ...(observer && { observer }),
  onCall: stores.recorder(), // A row for each call, for reports and "polygate why".
});

/**
 * Ends the process when it is told to, and at once when it is told again. Calls in flight get a minute to finish; the database ends last, after
 * the rows of calls are written.
 */
export function endWith(closeServer: () => unknown): void {
  const end = async (): Promise<void> => {
    console.log(`Ending. Calls in flight: ${gateway.liveCallCount()}; waiting up to 60 s.`);
    await gateway.close({ deadlineMs: 60_000 });
    // Clients get 5 seconds to read the ends of their answers.
    await Promise.race([closeServer(), new Promise((resolve) => setTimeout(resolve, 5_000))]);
    await Promise.all([backend.close(), closeTelemetry(), stores.close()]);
    console.log("Ended: all calls are settled.");
    process.exit();
  };
  let told = 0;
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => void (told++ === 0 ? end() : process.exit(1)));
}
