/**
 * The metrics. Those of OpenTelemetry's conventions for generative AI (version 0.1.0) have the names of the conventions; the gateway's own
 * begin with `polygate`.
 */

import type { Counter, Histogram, Meter, UpDownCounter } from "@opentelemetry/api";
import type { BreakerGauge, BreakerState, GatewayGauges } from "../index.ts";
import type { Spend } from "./spend.ts";

// The bucket boundaries that the conventions recommend, in seconds and in tokens.
const DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** The metrics of requests to upstreams of one kind of operation. */
interface ClientHistograms {
  readonly duration: Histogram;
  readonly inputTokens: Histogram;
}

/** The metrics that calls record. */
export class Instruments {
  readonly requestDuration: Histogram;
  readonly timeToFirstToken: Histogram;
  readonly timePerOutputToken: Histogram;
  readonly inference: ClientHistograms & { readonly timeToFirstChunk: Histogram; readonly outputTokens: Histogram };
  readonly embeddings: ClientHistograms;
  /** The tokens of all calls but embeddings. The last three count parts of the first two. */
  readonly usage: Readonly<Record<"input" | "output" | "cacheRead" | "cacheWrite" | "reasoning", Counter>>;
  readonly callUnits: Counter;
  readonly budgetRefusals: Counter;
  readonly activeHolds: UpDownCounter;
  readonly activeHoldUnits: UpDownCounter;
  readonly settledHolds: Counter;
  readonly expiredHolds: Counter;
  readonly abandonedSettlements: Counter;
  readonly overdraft: Counter;
  readonly chargedUnits: Counter;
  readonly rateDecisions: Counter;
  readonly attempts: Counter;

  constructor(meter: Meter) {
    const histogram = (
      name: string,
      unit: string,
      explicitBucketBoundaries: number[],
      description: string,
    ): Histogram => meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries } });
    const seconds = (name: string, boundaries: number[], description: string): Histogram =>
      histogram(name, "s", boundaries, description);
    const tokens = (name: string, description: string): Histogram => histogram(name, "{token}", TOKENS, description);
    this.requestDuration = seconds("gen_ai.server.request.duration", DURATIONS, "Duration of a call of the gateway.");
    this.timeToFirstToken = seconds("gen_ai.server.time_to_first_token", FIRST_TOKEN, "Time to the first event.");
    this.timePerOutputToken = seconds(
      "gen_ai.server.time_per_output_token",
      PER_TOKEN,
      "Time per output token after the first event.",
    );
    this.inference = {
      duration: seconds("gen_ai.client.inference.duration", DURATIONS, "Duration of a request to an upstream."),
      timeToFirstChunk: seconds(
        "gen_ai.client.inference.time_to_first_chunk",
        DURATIONS,
        "Time to the first event of an upstream's stream.",
      ),
      inputTokens: tokens("gen_ai.client.inference.operation.input_tokens", "Input tokens of each call."),
      outputTokens: tokens("gen_ai.client.inference.operation.output_tokens", "Output tokens of each call."),
    };
    this.embeddings = {
      duration: seconds("gen_ai.client.embeddings.duration", DURATIONS, "Duration of a request to an upstream."),
      inputTokens: tokens("gen_ai.client.embeddings.operation.input_tokens", "Input tokens of each call."),
    };

    const counter = (name: string, unit: string, description: string): Counter =>
      meter.createCounter(name, { unit, description });
    const usage = (name: string, description: string): Counter =>
      counter(`gen_ai.client.inference.usage.${name}`, "{token}", description);
    this.usage = {
      input: usage("input_tokens", "Input tokens, with those of caches."),
      output: usage("output_tokens", "Output tokens, with those for reasoning."),
      cacheRead: usage("cache_read.input_tokens", "Input tokens that were read from a cache."),
      cacheWrite: usage("cache_write.input_tokens", "Input tokens that were written to a cache."),
      reasoning: usage("reasoning.output_tokens", "Output tokens for reasoning."),
    };
    const upDown = (name: string, unit: string, description: string): UpDownCounter =>
      meter.createUpDownCounter(name, { unit, description });
    this.activeHolds = upDown("polygate.hold.active", "{hold}", "Holds on quota that are not settled yet.");
    this.activeHoldUnits = upDown(
      "polygate.hold.active.units",
      "{unit}",
      "Quota units of holds that are not settled yet.",
    );
    this.settledHolds = counter("polygate.hold.settled", "{hold}", "Holds that were settled.");
    this.expiredHolds = counter("polygate.hold.expired", "{hold}", "Holds whose lease ran out before a settlement.");
    this.abandonedSettlements = counter(
      "polygate.settlement.abandoned",
      "{settlement}",
      "Settlements that were given up: their charges are not in the ledger.",
    );
    this.overdraft = counter("polygate.hold.overdraft", "{unit}", "Quota units used beyond what was held.");
    this.chargedUnits = counter("polygate.units.charged", "{unit}", "Quota units that were charged.");
    this.callUnits = counter("polygate.call.units", "{unit}", "Quota units that calls have cost.");
    this.budgetRefusals = counter("polygate.budget.refusals", "{call}", "Calls that each budget has refused.");
    this.attempts = counter("polygate.upstream.attempts", "{attempt}", "Requests of calls to upstreams.");
    this.rateDecisions = counter("polygate.rate_limiter.decisions", "{decision}", "What the rate limiter decided.");
    try {
      // A rate needs a first value: without it, Prometheus would not see the first loss.
      for (const rare of [this.expiredHolds, this.abandonedSettlements]) rare.add(0);
    } catch {
      // A failing meter must not stop the gateway.
    }
  }
}

const BREAKER_STATES = ["closed", "open", "half-open"] as const satisfies readonly BreakerState[];

/**
 * The metrics that are read only when they are collected: the sum over all gateways of their current state, whether all are ready, the state
 * of circuit breakers, and spend.
 */
export class Gauges {
  readonly #gateways = new Set<GatewayGauges>();
  readonly #breakers: BreakerGauge[] = [];

  constructor(meter: Meter, spend: Spend) {
    this.#sum(meter, "polygate.call.active", "{call}", "Calls that are not settled yet.", "calls");
    this.#sum(meter, "polygate.stream.active", "{stream}", "Calls among them whose answer is streamed.", "streams");
    this.#sum(
      meter,
      "polygate.settlement.waiting",
      "{settlement}",
      "Settlements of ended calls that the quota store has not taken yet.",
      "waitingSettlements",
    );
    this.#sum(meter, "polygate.body.active", "{body}", "Request bodies in memory.", "bodies");
    this.#sum(meter, "polygate.body.active.size", "By", "Bytes of request bodies in memory.", "bodyBytes");
    meter
      .createObservableGauge("polygate.ready", {
        unit: "1",
        description: "1 while the gateway takes calls, and 0 while its quota store is away or it closes.",
      })
      .addCallback(async (result) => {
        const all = await Promise.all(Array.from(this.#gateways, (gateway) => gateway.isReady()));
        if (all.length > 0) result.observe(all.every(Boolean) ? 1 : 0);
      });
    const description = "1 for the state of a breaker, else 0.";
    const breakers = meter.createObservableGauge("polygate.breaker.state", { unit: "1", description });
    breakers.addCallback((result) => {
      for (const { route, upstream, state } of this.#allBreakers())
        for (const each of BREAKER_STATES)
          result.observe(each === state ? 1 : 0, {
            "polygate.breaker.route": route,
            "polygate.breaker.upstream": upstream,
            "polygate.breaker.state": each,
          });
    });
    const ofSpend = "Quota units that calls have cost, by group, budget or key.";
    meter
      .createObservableCounter("polygate.spend", { unit: "{unit}", description: ofSpend })
      .addCallback((result) => spend.report((units, labels) => result.observe(units, labels)));
  }

  /** Returns a function that removes the gateway. */
  addGateway(gateway: GatewayGauges): () => void {
    this.#gateways.add(gateway);
    return () => void this.#gateways.delete(gateway);
  }

  addBreakers(breakers: readonly BreakerGauge[]): void {
    this.#breakers.push(...breakers);
  }

  /** The breakers of the gateways' backends, and of routes that have the observer of their own. The same breaker may come twice. */
  *#allBreakers(): Generator<BreakerGauge> {
    for (const gateway of this.#gateways) yield* gateway.upstreams;
    yield* this.#breakers;
  }

  #sum(
    meter: Meter,
    name: string,
    unit: string,
    description: string,
    gauge: Exclude<keyof GatewayGauges, "isReady" | "upstreams" | "models">,
  ): void {
    meter.createObservableUpDownCounter(name, { unit, description }).addCallback((result) => {
      let total = 0;
      for (const gateway of this.#gateways) total += gateway[gauge];
      result.observe(total);
    });
  }
}
