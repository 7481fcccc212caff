/** Metrics that are read only when somebody asks for them: how gateways and breakers stand. */

import type { Meter, ObservableResult } from "@opentelemetry/api";
import type { BreakerGauge, BreakerState, GatewayGauges } from "../index.ts";

const BREAKER_STATES = ["closed", "open", "half-open"] as const satisfies readonly BreakerState[];

/** What is watched by one telemetry. Several gateways are added up. */
export class Gauges {
  readonly #gateways = new Set<GatewayGauges>();
  readonly #breakers: BreakerGauge[] = [];

  constructor(meter: Meter) {
    const sum = (name: string, unit: string, description: string, of: (gateway: GatewayGauges) => number): void =>
      meter.createObservableUpDownCounter(name, { unit, description }).addCallback((result) => {
        let total = 0;
        for (const gateway of this.#gateways) total += of(gateway);
        result.observe(total);
      });
    sum("polygate.call.active", "{call}", "Calls that are not settled yet.", ({ calls }) => calls);
    sum(
      "polygate.settlement.waiting",
      "{settlement}",
      "Settlements of ended calls that the quota store has not taken yet.",
      ({ waitingSettlements }) => waitingSettlements,
    );
    sum("polygate.body.active", "{body}", "Request bodies in memory.", ({ bodies }) => bodies);
    sum("polygate.body.active.size", "By", "Bytes of request bodies in memory.", ({ bodyBytes }) => bodyBytes);
    meter
      .createObservableGauge("polygate.breaker.state", {
        unit: "1",
        description: "1 for the state of a breaker, else 0.",
      })
      .addCallback((result) => this.#observeBreakers(result));
  }

  /** Returns what forgets the gateway. */
  addGateway(gateway: GatewayGauges): () => void {
    this.#gateways.add(gateway);
    return () => void this.#gateways.delete(gateway);
  }

  addBreakers(breakers: readonly BreakerGauge[]): void {
    this.#breakers.push(...breakers);
  }

  #observeBreakers(result: ObservableResult): void {
    for (const { route, upstream, state } of this.#breakers)
      for (const one of BREAKER_STATES)
        result.observe(one === state ? 1 : 0, {
          "polygate.breaker.route": route,
          "polygate.breaker.upstream": upstream,
          "polygate.breaker.state": one,
        });
  }
}
