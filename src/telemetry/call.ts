/** The span and the metrics of one call. */

import {
  type Attributes,
  type Context,
  context as contexts,
  type Link,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type {
  AskedUpstream,
  BegunCall,
  CallObserver,
  CallOutcome,
  CallRecord,
  HoldChange,
  RateDecision,
  UpstreamObserver,
  Usage,
} from "../index.ts";
import { conventionOf, OTHER, seconds, shortened, usageAttributes } from "./conventions.ts";
import type { Scope } from "./scope.ts";
import { headersGetter } from "./trace-context.ts";
import { ObservedUpstream } from "./upstream.ts";

/** Ends that are the gateway's or its host's own: what a caller has done itself is no error of the server. */
const IS_ERROR = {
  completed: false,
  refused: false,
  "client-closed": false,
  failed: true,
  deadline: true,
  shutdown: true,
} as const satisfies Record<CallOutcome, boolean>;

export class ObservedCall implements CallObserver {
  readonly #scope: Scope;
  /** Few words of the call, and not its headers: a hold may be settled long after the call has ended. */
  readonly #call: Pick<BegunCall, "dialect" | "kind" | "method" | "route">;
  readonly #span: Span;
  /** That in which the call's span is the active one. */
  readonly #context: Context;

  constructor(scope: Scope, call: BegunCall) {
    this.#scope = scope;
    const { dialect, method, route } = call;
    this.#call = { dialect, kind: call.kind, method, route };
    const { kind, links, parent } = parentOf(scope, call);
    const attributes = {
      ...this.#convention,
      ...(call.kind === "image" && { "gen_ai.output.type": "image" }),
      "http.request.method": call.method,
      "http.route": call.route,
      "polygate.dialect": call.dialect,
      "polygate.request_id": call.requestId,
    };
    this.#span = scope.tracer.startSpan(this.#name(undefined), { kind, links, attributes }, parent);
    this.#context = trace.setSpan(parent, this.#span);
  }

  run<Result>(work: () => Result): Result {
    return contexts.with(this.#context, work);
  }

  upstream(asked: AskedUpstream): UpstreamObserver {
    return new ObservedUpstream(this.#scope, asked, this.#context);
  }

  rateLimit({ decision, by }: RateDecision): void {
    this.#scope.instruments.rateDecisions.add(1, {
      "polygate.rate_limiter.decision": decision,
      ...(by && { "polygate.rate_limiter.by": by }),
    });
  }

  hold(change: HoldChange): void {
    const { activeHolds, activeHoldUnits, expiredHolds, settledHolds, overdraft, chargedUnits } =
      this.#scope.instruments;
    const { type, granted } = change;
    const direction = type === "reserved" ? 1 : -1;
    activeHolds.add(direction);
    activeHoldUnits.add(direction * granted);
    if (type === "reserved") return;
    if (type === "abandoned" || change.expired) expiredHolds.add(1);
    if (type === "abandoned") return;
    const certainty = { "polygate.certainty": change.certainty };
    settledHolds.add(1, certainty);
    chargedUnits.add(change.used, certainty);
    if (change.used > granted) overdraft.add(change.used - granted);
  }

  end(record: CallRecord): void {
    try {
      this.#measure(record);
    } finally {
      this.#close(record);
    }
  }

  #measure(record: CallRecord): void {
    if (!this.#isGenerated) return;
    const { requestDuration, timeToFirstToken, timePerOutputToken, tokenUsage } = this.#scope.instruments;
    const { errorCode, outcome, firstEventMs, endMs } = record;
    const usage = tokensOf(record);
    const labels = this.#labels(record);
    requestDuration.record(seconds(endMs), {
      ...labels,
      "polygate.outcome": outcome,
      ...(errorCode && { "error.type": errorCode }),
    });
    if (usage) {
      tokenUsage.record(usage.inputTokens, { ...labels, "gen_ai.token.type": "input" });
      tokenUsage.record(usage.outputTokens, { ...labels, "gen_ai.token.type": "output" });
    }
    if (outcome !== "completed" || firstEventMs === undefined) return;
    timeToFirstToken.record(seconds(firstEventMs), labels);
    const later = (record.usage?.outputTokens ?? 0) - 1;
    if (later > 0) timePerOutputToken.record(seconds(endMs - firstEventMs) / later, labels);
  }

  #close(record: CallRecord): void {
    const span = this.#span;
    const { outcome, stream, firstEventMs, errorCode } = record;
    try {
      span.updateName(this.#name(this.#label(record)));
      span.setAttributes({
        "gen_ai.request.model": shortened(record.modelAsked),
        "gen_ai.response.model": shortened(record.modelAnswered),
        "gen_ai.request.stream": stream || undefined,
        "gen_ai.response.time_to_first_chunk": stream && firstEventMs !== undefined ? seconds(firstEventMs) : undefined,
        ...usageAttributes(tokensOf(record)),
        "error.type": errorCode,
        "http.response.status_code": record.status,
        "polygate.outcome": outcome,
        "polygate.units": record.units,
        "polygate.certainty": record.certainty,
      });
      if (IS_ERROR[outcome]) span.setStatus({ code: SpanStatusCode.ERROR });
      span.setAttributes(this.#scope.spanAttributes(record));
    } finally {
      span.end();
    }
  }

  /** What all metrics of a call are told apart by. */
  #labels(record: CallRecord): Attributes {
    const { modelAnswered } = record;
    const model = this.#label(record);
    const isKnown = modelAnswered !== undefined && (modelAnswered === model || this.#scope.models.has(modelAnswered));
    return {
      ...this.#convention,
      ...(record.modelAsked !== undefined && { "gen_ai.request.model": model ?? OTHER }),
      ...(isKnown && { "gen_ai.response.model": modelAnswered }),
    };
  }

  /** The model that was asked for, where the host knows it; undefined where its name may be made up. */
  #label({ modelAsked, modelListed }: CallRecord): string | undefined {
    return modelAsked !== undefined && (modelListed || this.#scope.models.has(modelAsked)) ? modelAsked : undefined;
  }

  get #isGenerated(): boolean {
    return this.#call.kind === "chat" || this.#call.kind === "image";
  }

  get #convention(): Attributes {
    if (!this.#isGenerated) return {};
    const { operation, provider } = conventionOf(this.#call.dialect);
    return { "gen_ai.operation.name": operation, "gen_ai.provider.name": provider };
  }

  #name(model: string | undefined): string {
    const { dialect, method, route } = this.#call;
    if (!this.#isGenerated) return `${method} ${route}`;
    const { operation } = conventionOf(dialect);
    return model === undefined ? operation : `${operation} ${model}`;
  }
}

/** Below which span a call's stands. */
function parentOf(
  { propagator, incoming }: Scope,
  { headers }: BegunCall,
): { kind: SpanKind; parent: Context; links: Link[] } {
  const active = contexts.active();
  // A server of the host's that is traced has read the caller's context already.
  if (trace.getSpan(active)) return { kind: SpanKind.INTERNAL, parent: active, links: [] };
  if (incoming === "ignore") return { kind: SpanKind.SERVER, parent: active, links: [] };
  const caller = propagator.extract(active, headers, headersGetter);
  if (incoming === "parent") return { kind: SpanKind.SERVER, parent: caller, links: [] };
  const context = trace.getSpanContext(caller);
  return { kind: SpanKind.SERVER, parent: active, links: context ? [{ context }] : [] };
}

/** What a call took, in tokens, whatever it generated; undefined where no backend has done anything. */
function tokensOf({ usage, images }: CallRecord): Pick<Usage, "inputTokens" | "outputTokens"> | undefined {
  if (usage || !images) return usage;
  const { inputTextTokens, inputImageTokens, outputTokens } = images.usage;
  return { inputTokens: inputTextTokens + inputImageTokens, outputTokens };
}
