/** The metrics of a served gateway for Prometheus, at a port of their own. */

import { createServer } from "node:http";
import type { CallRecord, Observer, QuotaStore } from "../index.ts";
import { hasMethod } from "../options.ts";
import type { BudgetSource } from "../telemetry/index.ts";
import type { ServerMetricsOptions } from "./config.ts";
import { listen } from "./process.ts";

export interface ServedMetrics {
  readonly observer: Observer;
  /** True when the prices or the routes of the gateway name a model. */
  readonly nameModels: () => boolean;
  /** Answers Prometheus from now on, also of the budgets of a store that has some, in a currency. Resolves with the address. */
  readonly start: (quotas: QuotaStore, currency?: string) => Promise<string>;
  /** Reads the store no more, and stops. */
  readonly close: () => void;
}

/**
 * Makes the metrics. Rejects with a TypeError that says what to install if OpenTelemetry is not installed.
 *
 * @param groupOf Returns the group of a call, as for the record of calls. Default: the entry `group` of the key's metadata.
 */
export async function servedMetrics(
  { port, host = "127.0.0.1", path = "/metrics", spendBy }: ServerMetricsOptions,
  groupOf?: (record: CallRecord) => string | undefined,
): Promise<ServedMetrics> {
  const [
    { PrometheusExporter },
    { AggregationTemporality, InstrumentType, MeterProvider },
    { defaultResource, detectResources, envDetector, resourceFromAttributes },
    { budgetMetrics, openTelemetry },
  ] = await Promise.all([
    import("@opentelemetry/exporter-prometheus"),
    import("@opentelemetry/sdk-metrics"),
    import("@opentelemetry/resources"),
    import("../telemetry/index.ts"),
  ]).catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const packages = ["api", "sdk-metrics", "resources", "exporter-prometheus"]
      .map((name) => `@opentelemetry/${name}`)
      .join(" ");
    throw new TypeError(`metrics need more packages: npm install ${packages}`, { cause: error });
  });
  const exporter = new PrometheusExporter({ preventServerStart: true });
  // A cumulative gauge would tell the last numbers of a removed budget until the process ends.
  exporter.selectAggregationTemporality = (type) =>
    type === InstrumentType.OBSERVABLE_GAUGE ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE;
  // The environment names the service with OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES.
  const resource = defaultResource()
    .merge(resourceFromAttributes({ "service.name": "polygate" }))
    .merge(detectResources({ detectors: [envDetector] }));
  const meterProvider = new MeterProvider({ resource, readers: [exporter] });
  const server = createServer((req, res) => {
    if (/^[^?]*/.exec(req.url ?? "")?.[0] !== path) res.writeHead(404).end();
    else if (req.method === "GET" || req.method === "HEAD") exporter.getMetricsRequestHandler(req, res);
    else res.writeHead(405, { allow: "GET, HEAD" }).end();
  });
  const observer = openTelemetry({ meterProvider, ...(spendBy && { spendBy }), ...(groupOf && { groupOf }) });
  let models: readonly string[] = [];
  let removeBudgets: (() => void) | undefined;
  return {
    observer: {
      ...observer,
      watchGateway(gauges) {
        ({ models } = gauges);
        return observer.watchGateway?.(gauges);
      },
    },
    nameModels: () => models.length > 0,
    async start(quotas, currency) {
      // The cast is safe: the method has this name in every store with budgets.
      if (hasMethod(quotas, "listBudgets"))
        removeBudgets = budgetMetrics(
          meterProvider.getMeter("polygate"),
          quotas as QuotaStore & BudgetSource,
          currency === undefined ? {} : { currency },
        );
      const remedy = `metrics.port, or write Number(process.env.METRICS_PORT || ${port}) there and set METRICS_PORT`;
      const url = await listen(server, { host, port }, { host: "metrics.host", port: remedy });
      // A gateway that cannot listen ends the process.
      server.unref();
      return `${url}${path}`;
    },
    close() {
      removeBudgets?.();
      server.close();
      server.closeAllConnections();
    },
  };
}
