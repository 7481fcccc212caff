/** The metrics: those of the GenAI conventions by their names, the gateway's own under `polygate`. */

import type { Counter, Histogram, Meter, UpDownCounter } from "@opentelemetry/api";

// The boundaries are those that the conventions name.
const DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKEN = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);

export class Instruments {
  /** How long the gateway took for a call. */
  readonly requestDuration: Histogram;
  readonly timeToFirstToken: Histogram;
  readonly timePerOutputToken: Histogram;
  readonly tokenUsage: Histogram;
  /** How long an upstream took. */
  readonly operationDuration: Histogram;
  readonly timeToFirstChunk: Histogram;
  readonly activeHolds: UpDownCounter;
  readonly activeHoldUnits: UpDownCounter;
  readonly settledHolds: Counter;
  readonly expiredHolds: Counter;
  readonly overdraft: Counter;
  readonly chargedUnits: Counter;
  readonly rateDecisions: Counter;

  constructor(meter: Meter) {
    const seconds = (name: string, description: string, explicitBucketBoundaries: number[]): Histogram =>
      meter.createHistogram(name, { unit: "s", description, advice: { explicitBucketBoundaries } });
    this.requestDuration = seconds("gen_ai.server.request.duration", "Duration of a call of the gateway.", DURATIONS);
    this.timeToFirstToken = seconds("gen_ai.server.time_to_first_token", "Time to the first event.", FIRST_TOKEN);
    this.timePerOutputToken = seconds(
      "gen_ai.server.time_per_output_token",
      "Time per output token after the first event.",
      PER_TOKEN,
    );
    this.operationDuration = seconds("gen_ai.client.operation.duration", "Duration of an upstream's call.", DURATIONS);
    this.timeToFirstChunk = seconds(
      "gen_ai.client.operation.time_to_first_chunk",
      "Time to the first event of an upstream's stream.",
      DURATIONS,
    );
    this.tokenUsage = meter.createHistogram("gen_ai.client.token.usage", {
      unit: "{token}",
      description: "Number of input and output tokens used.",
      advice: { explicitBucketBoundaries: TOKENS },
    });
    const counter = (name: string, unit: string, description: string): Counter =>
      meter.createCounter(name, { unit, description });
    this.activeHolds = meter.createUpDownCounter("polygate.hold.active", {
      unit: "{hold}",
      description: "Holds on quota that are not settled yet.",
    });
    this.activeHoldUnits = meter.createUpDownCounter("polygate.hold.active.units", {
      unit: "{unit}",
      description: "Quota units of holds that are not settled yet.",
    });
    this.settledHolds = counter("polygate.hold.settled", "{hold}", "Holds that were settled.");
    this.expiredHolds = counter("polygate.hold.expired", "{hold}", "Holds whose lease ran out before a settlement.");
    this.overdraft = counter("polygate.hold.overdraft", "{unit}", "Quota units used beyond what was held.");
    this.chargedUnits = counter("polygate.units.charged", "{unit}", "Quota units that were charged.");
    this.rateDecisions = counter("polygate.rate_limiter.decisions", "{decision}", "What the rate limiter decided.");
  }
}
