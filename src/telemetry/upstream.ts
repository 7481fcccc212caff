/** The span and the metrics of one exchange with an upstream. */

import {
  type Attributes,
  type Context,
  context as contexts,
  createContextKey,
  defaultTextMapSetter,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { AskedUpstream, UpstreamObserver, UpstreamOutcome } from "../index.ts";
import { conventionOf, OTHER, seconds, shortened, usageAttributes } from "./conventions.ts";
import type { Scope } from "./scope.ts";

/**
 * Under this key every instrumentation looks whether it should keep still: the request has its span and its headers already, and a
 * second `traceparent` would make both void.
 */
const SUPPRESSED = createContextKey("OpenTelemetry SDK Context Key SUPPRESS_TRACING");

export class ObservedUpstream implements UpstreamObserver {
  readonly headers: Record<string, string> = {};
  readonly #scope: Scope;
  readonly #labels: Attributes;
  readonly #isStreamed: boolean;
  readonly #span: Span;
  readonly #context: Context;

  constructor(scope: Scope, asked: AskedUpstream, parent: Context) {
    const { operation, provider } = conventionOf(asked.format);
    const isKnown = asked.modelListed || scope.models.has(asked.model);
    const common = {
      "gen_ai.operation.name": operation,
      "gen_ai.provider.name": provider,
      "server.address": asked.address,
      "server.port": asked.port,
    };
    this.#scope = scope;
    this.#isStreamed = asked.stream;
    this.#labels = { ...common, "gen_ai.request.model": isKnown ? asked.model : OTHER };
    const attributes = {
      ...common,
      "gen_ai.request.model": shortened(asked.model),
      "gen_ai.request.stream": asked.stream || undefined,
    };
    const name = isKnown ? `${operation} ${asked.model}` : operation;
    this.#span = scope.tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent);
    this.#context = trace.setSpan(parent, this.#span);
    scope.propagator.inject(this.#context, this.headers, defaultTextMapSetter);
  }

  run<Result>(work: () => Result): Result {
    return contexts.with(this.#context.setValue(SUPPRESSED, true), work);
  }

  end(outcome: UpstreamOutcome): void {
    try {
      this.#measure(outcome);
    } finally {
      this.#close(outcome);
    }
  }

  #measure({ endMs, errorCode, firstEventMs }: UpstreamOutcome): void {
    const { operationDuration, timeToFirstChunk } = this.#scope.instruments;
    operationDuration.record(seconds(endMs), { ...this.#labels, ...(errorCode && { "error.type": errorCode }) });
    if (this.#isStreamed && firstEventMs !== undefined) timeToFirstChunk.record(seconds(firstEventMs), this.#labels);
  }

  #close({ status, errorCode, model, usage, finishReason, firstEventMs }: UpstreamOutcome): void {
    const span = this.#span;
    try {
      span.setAttributes({
        "gen_ai.response.model": shortened(model),
        "gen_ai.response.finish_reasons": finishReason && [finishReason],
        "gen_ai.response.time_to_first_chunk":
          this.#isStreamed && firstEventMs !== undefined ? seconds(firstEventMs) : undefined,
        ...usageAttributes(usage),
        "http.response.status_code": status,
        "error.type": errorCode,
      });
      if (errorCode && errorCode !== "client_closed") span.setStatus({ code: SpanStatusCode.ERROR });
    } finally {
      span.end();
    }
  }
}
