/** A gateway whose spans and metrics the official SDK collects in memory. */

import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Observer } from "../../src/index.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../../src/telemetry/index.ts";
import { type Opened, opened, type Setup } from "../pipeline/bench.ts";

/** One series of a metric; a histogram is told by its sum and count. */
export interface Point {
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly value: unknown;
}

export interface Collected {
  readonly observer: Observer;
  /** The spans that have ended. */
  readonly spans: () => ReadableSpan[];
  /** The series of every metric by now, by its name. */
  readonly metrics: () => Promise<Readonly<Record<string, readonly Point[]>>>;
}

export function collected(options: OpenTelemetryOptions = {}): Collected {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const metricExporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  // It exports when it is told to.
  const reader = new PeriodicExportingMetricReader({ exporter: metricExporter, exportIntervalMillis: 2 ** 30 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  return {
    observer: openTelemetry({ tracerProvider, meterProvider, ...options }),
    spans: () => exporter.getFinishedSpans(),
    async metrics() {
      metricExporter.reset();
      await reader.forceFlush();
      const all = metricExporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((one) => one.metrics));
      return Object.fromEntries(
        all.map(({ descriptor, dataPoints }) => [
          descriptor.name,
          dataPoints.map(({ attributes, value }) => ({ attributes, value: summed(value) })),
        ]),
      );
    },
  };
}

const summed = (value: unknown): unknown =>
  typeof value === "object" && value !== null && "sum" in value && "count" in value
    ? { sum: value.sum, count: value.count }
    : value;

/** A gateway on a manual clock that is watched. */
export function watched(setup: Setup = {}, options: OpenTelemetryOptions = {}): Opened & Collected {
  const collecting = collected(options);
  return { ...opened({ observer: collecting.observer, ...setup }), ...collecting };
}

export function only<Item>(items: readonly Item[]): Item {
  const [first, ...others] = items;
  if (first === undefined || others.length > 0) throw new Error(`There are ${items.length}, not one.`);
  return first;
}
