/** The span and the metrics of one call, and of each request to an upstream below it. */

import {
  type Attributes,
  type Context,
  context as contexts,
  type Counter,
  createContextKey,
  defaultTextMapSetter,
  type Link,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type TextMapPropagator,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import type {
  AskedUpstream,
  BegunCall,
  CallObserver,
  CallOutcome,
  CallRecord,
  HoldChange,
  ModalityCount,
  ModelKind,
  RateDecision,
  UpstreamObserver,
  UpstreamOutcome,
  Usage,
} from "../index.ts";
import type { BudgetLabels } from "./budgets.ts";
import type { Instruments } from "./instruments.ts";
import { type ModelLabels, OTHER } from "./models.ts";
import type { Spend } from "./spend.ts";

/** The options, with their defaults, and the instruments that all calls share. */
export interface Telemetry {
  readonly tracer: Tracer;
  readonly instruments: Instruments;
  readonly propagator: TextMapPropagator;
  readonly incoming: "parent" | "link" | "ignore";
  readonly models: ModelLabels;
  readonly budgets: BudgetLabels;
  readonly spend: Spend;
  spanAttributes(record: CallRecord): Attributes;
}

/** True for outcomes that are errors of the gateway or its host; false for success and for errors of the caller. */
const IS_ERROR = {
  completed: false,
  refused: false,
  "client-closed": false,
  stopped: false,
  failed: true,
  deadline: true,
  shutdown: true,
} as const satisfies Record<CallOutcome, boolean>;

/**
 * Observes one call. Keeps no reference to the call itself, because this object lives until the hold is settled, perhaps long after the
 * end.
 */
export class ObservedCall implements CallObserver {
  readonly #telemetry: Telemetry;
  /** The attributes of the operation and the provider; empty for a call that no model answers. */
  readonly #convention: Attributes;
  readonly #operation: string | undefined;
  readonly #isEmbedding: boolean;
  readonly #span: Span;
  /** The context in which the call's span is active. */
  readonly #context: Context;

  constructor(telemetry: Telemetry, call: BegunCall) {
    const { format, kind, telemetry: names, method, route } = call;
    this.#telemetry = telemetry;
    this.#isEmbedding = kind === "embedding";
    const convention =
      kind === "query" || kind === "public" ? undefined : conventionOf({ format, kind, telemetry: names });
    this.#operation = convention?.operation;
    this.#convention = convention
      ? { "gen_ai.operation.name": convention.operation, "gen_ai.provider.name": convention.provider }
      : {};
    const attributes = {
      ...this.#convention,
      ...(kind === "image" && { "gen_ai.output.type": "image" }),
      "http.request.method": method,
      "http.route": route,
      "polygate.format": format,
      "polygate.request_id": call.requestId,
    };
    const { parent, ...spanOptions } = parentOf(telemetry, call);
    // The convention for HTTP servers. A request to an upstream has the name of the convention for generative AI, such as `chat small-1`.
    this.#span = telemetry.tracer.startSpan(`${method} ${route}`, { ...spanOptions, attributes }, parent);
    this.#context = trace.setSpan(parent, this.#span);
  }

  run<Result>(work: () => Result): Result {
    return contexts.with(this.#context, work);
  }

  upstream(asked: AskedUpstream): UpstreamObserver {
    return new ObservedUpstream(this.#telemetry, asked, this.#context);
  }

  rateLimit({ decision, by }: RateDecision): void {
    this.#telemetry.instruments.rateDecisions.add(1, {
      "polygate.rate_limiter.decision": decision,
      ...(by && { "polygate.rate_limiter.by": by }),
    });
  }

  hold(change: HoldChange): void {
    const { instruments } = this.#telemetry;
    const { type, granted } = change;
    const direction = type === "reserved" ? 1 : -1;
    instruments.activeHolds.add(direction);
    instruments.activeHoldUnits.add(direction * granted);
    if (type === "reserved") return;
    if (type === "abandoned" || change.expired) instruments.expiredHolds.add(1);
    if (type === "abandoned") return instruments.abandonedSettlements.add(1);
    const certainty = { "polygate.certainty": change.certainty };
    instruments.settledHolds.add(1, certainty);
    instruments.chargedUnits.add(change.used, certainty);
    if (change.used > granted) instruments.overdraft.add(change.used - granted);
  }

  /** Records the metrics and ends the span, even if a meter throws. */
  end(record: CallRecord): void {
    const model = this.#telemetry.models.labelOf(record.modelAsked, record.modelListed);
    try {
      if (this.#operation !== undefined) this.#measure(record, model);
    } finally {
      this.#endSpan(record);
    }
  }

  /** @param model The model that was requested; undefined for a name that the caller may have invented. */
  #measure(record: CallRecord, model: string | undefined): void {
    const { instruments, models, budgets, spend } = this.#telemetry;
    const { key, modelAsked, modelAnswered, outcome, firstEventMs, endMs, errorCode, refusedBy, units, certainty } =
      record;
    const answered = models.labelOf(modelAnswered, modelAnswered === model);
    const labels: Attributes = {
      ...this.#convention,
      ...(modelAsked !== undefined && { "gen_ai.request.model": model ?? OTHER }),
      ...(answered !== undefined && { "gen_ai.response.model": answered }),
    };
    instruments.requestDuration.record(seconds(endMs), {
      ...labels,
      "polygate.outcome": outcome,
      ...(errorCode && { "error.type": errorCode }),
      ...(refusedBy && { "polygate.refused_by": refusedBy.kind }),
    });
    // A rate needs a first value: without it, Prometheus would not see the first refusals of a budget in use.
    const unseen = key?.budget === undefined ? undefined : budgets.firstLabelOf(key.budget);
    if (unseen !== undefined) instruments.budgetRefusals.add(0, { "polygate.budget": unseen });
    if (refusedBy?.budget !== undefined)
      instruments.budgetRefusals.add(1, { "polygate.budget": budgets.labelOf(refusedBy.budget) });
    for (const attempt of record.attempts)
      instruments.attempts.add(1, {
        "polygate.upstream": attempt.upstream,
        ...(attempt.errorCode && isFailure(attempt) && { "error.type": attempt.errorCode }),
        ...(attempt.movedOn && { "polygate.moved_on": attempt.movedOn }),
      });
    if (units > 0) {
      instruments.callUnits.add(units, { ...labels, "polygate.certainty": certainty });
      spend.add(record);
    }
    this.#measureTokens(record, labels);
    if (outcome !== "completed" || firstEventMs === undefined) return;
    instruments.timeToFirstToken.record(seconds(firstEventMs), labels);
    const laterTokens = (record.usage?.outputTokens ?? 0) - 1;
    if (laterTokens > 0) instruments.timePerOutputToken.record(seconds(endMs - firstEventMs) / laterTokens, labels);
  }

  #measureTokens(record: CallRecord, labels: Attributes): void {
    const { inference, embeddings, usage } = this.#telemetry.instruments;
    const tokens = tokensOf(record);
    if (!tokens) return;
    const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, details } = tokens;
    if (this.#isEmbedding) return embeddings.inputTokens.record(inputTokens, labels);
    inference.inputTokens.record(inputTokens, labels);
    inference.outputTokens.record(outputTokens, labels);
    addTokens(usage.input, labels, inputTokens, details?.input);
    addTokens(usage.output, labels, outputTokens, details?.output);
    addTokens(usage.cacheRead, labels, cacheReadTokens, details?.cacheRead);
    addTokens(usage.cacheWrite, labels, cacheWriteTokens);
    addTokens(usage.reasoning, labels, reasoningTokens);
  }

  #endSpan(record: CallRecord): void {
    const span = this.#span;
    const { outcome, stream, firstEventMs } = record;
    try {
      span.setAttributes({
        "gen_ai.request.model": shortened(record.modelAsked),
        "gen_ai.response.model": shortened(record.modelAnswered),
        "gen_ai.request.stream": stream || undefined,
        "gen_ai.response.time_to_first_chunk": stream && firstEventMs !== undefined ? seconds(firstEventMs) : undefined,
        ...usageAttributes(tokensOf(record)),
        "error.type": record.errorCode,
        "http.response.status_code": record.status,
        "polygate.outcome": outcome,
        "polygate.units": record.units,
        "polygate.certainty": record.certainty,
      });
      if (IS_ERROR[outcome]) span.setStatus({ code: SpanStatusCode.ERROR });
      span.setAttributes(this.#telemetry.spanAttributes(record));
    } finally {
      span.end();
    }
  }
}

/** True unless the gateway cut the request to the upstream. An upstream that keeps a call until its deadline has failed. */
const isFailure = ({ cut, errorCode }: Pick<UpstreamOutcome, "cut" | "errorCode">): boolean =>
  errorCode !== "client_closed" && (cut !== true || errorCode === "deadline_exceeded");

const headersGetter: TextMapGetter<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  keys: (headers) => [...headers.keys()],
};

/** Returns the parent of a call's span, with the span's kind and links. */
function parentOf(
  { propagator, incoming }: Telemetry,
  { headers }: BegunCall,
): { kind: SpanKind; parent: Context; links: Link[] } {
  const active = contexts.active();
  // If the host traces its server, the host has already read the caller's context.
  if (trace.getSpan(active)) return { kind: SpanKind.INTERNAL, parent: active, links: [] };
  if (incoming === "ignore") return { kind: SpanKind.SERVER, parent: active, links: [] };
  const caller = propagator.extract(active, headers, headersGetter);
  if (incoming === "parent") return { kind: SpanKind.SERVER, parent: caller, links: [] };
  const context = trace.getSpanContext(caller);
  return { kind: SpanKind.SERVER, parent: active, links: context ? [{ context }] : [] };
}

/**
 * Stops other instrumentations from tracing the request to an upstream. The request already has a span and its headers, and a second
 * `traceparent` would make both invalid.
 */
const SUPPRESSED = createContextKey("OpenTelemetry SDK Context Key SUPPRESS_TRACING");

class ObservedUpstream implements UpstreamObserver {
  readonly headers: Record<string, string> = {};
  readonly #instruments: Instruments;
  readonly #isEmbedding: boolean;
  readonly #labels: Attributes;
  readonly #isStreamed: boolean;
  readonly #span: Span;
  readonly #context: Context;

  constructor({ instruments, models, tracer, propagator }: Telemetry, asked: AskedUpstream, parent: Context) {
    const { operation, provider } = conventionOf(asked);
    // A row of prices may be for a model at one upstream.
    const isListed = asked.modelListed || models.isNamed(`${asked.name}/${asked.model}`);
    const label = models.labelOf(asked.model, isListed);
    const common = {
      "gen_ai.operation.name": operation,
      "gen_ai.provider.name": provider,
      ...(asked.address !== undefined && { "server.address": asked.address }),
      ...(asked.port !== undefined && { "server.port": asked.port }),
      ...(asked.name !== undefined && { "polygate.upstream": asked.name }),
    };
    this.#instruments = instruments;
    this.#isEmbedding = asked.kind === "embedding";
    this.#isStreamed = asked.stream;
    this.#labels = { ...common, "gen_ai.request.model": label ?? OTHER };
    const attributes = {
      ...common,
      "gen_ai.request.model": shortened(asked.model),
      "gen_ai.request.stream": asked.stream || undefined,
    };
    const name = label === undefined ? operation : `${operation} ${label}`;
    const startTime = asked.beganAt === undefined ? {} : { startTime: asked.beganAt };
    this.#span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes, ...startTime }, parent);
    this.#context = trace.setSpan(parent, this.#span);
    propagator.inject(this.#context, this.headers, defaultTextMapSetter);
  }

  run<Result>(work: () => Result): Result {
    return contexts.with(this.#context.setValue(SUPPRESSED, true), work);
  }

  /** Records the metrics and ends the span, even if a meter throws. */
  end(outcome: UpstreamOutcome): void {
    const { endMs, errorCode, finishReason, firstEventMs } = outcome;
    const firstChunk = this.#isStreamed && firstEventMs !== undefined ? seconds(firstEventMs) : undefined;
    const span = this.#span;
    try {
      const { inference, embeddings } = this.#instruments;
      const labels = { ...this.#labels, ...(errorCode && { "error.type": errorCode }) };
      (this.#isEmbedding ? embeddings : inference).duration.record(seconds(endMs), labels);
      if (firstChunk !== undefined) inference.timeToFirstChunk.record(firstChunk, this.#labels);
    } finally {
      try {
        span.setAttributes({
          "gen_ai.response.model": shortened(outcome.model),
          "gen_ai.response.finish_reasons": finishReason && [finishReason],
          "gen_ai.response.time_to_first_chunk": firstChunk,
          ...usageAttributes(outcome.usage),
          "http.response.status_code": outcome.status,
          "error.type": errorCode,
        });
        if (errorCode && isFailure(outcome)) span.setStatus({ code: SpanStatusCode.ERROR });
      } finally {
        span.end();
      }
    }
  }
}

interface Convention {
  readonly operation: string;
  readonly provider: string;
}

/** The usual `gen_ai.operation.name` of each kind. */
const OPERATIONS: Readonly<Record<string, string | undefined>> = {
  chat: "chat",
  image: "generate_content",
  embedding: "embeddings",
} satisfies Record<ModelKind, string>;

/** Returns the names of a call's format. A backend of the host's own may give none. */
function conventionOf({ format, kind, telemetry }: Pick<AskedUpstream, "format" | "kind" | "telemetry">): Convention {
  const asked = kind ?? (format === "images" ? "image" : "chat");
  const { provider = format, operations } = telemetry ?? {};
  return { operation: operations?.[asked] ?? OPERATIONS[asked] ?? asked, provider };
}

/** The longest text of a caller or an upstream in a span, in characters. */
const MAX_CHARS = 256;

const shortened = (text: string | undefined): string | undefined => text?.slice(0, MAX_CHARS);

const seconds = (ms: number): number => ms / 1000;

/** Adds tokens to a counter, by their kind of content as far as the backend has told it. */
function addTokens(counter: Counter, labels: Attributes, tokens = 0, parts: readonly ModalityCount[] = []): void {
  let unknown = tokens;
  for (const { modality, tokens: told } of parts) {
    const known = modality === "unspecified" ? 0 : Math.min(told, unknown);
    unknown -= known;
    if (known > 0) counter.add(known, { ...labels, "gen_ai.token.modality": modality });
  }
  if (unknown > 0) counter.add(unknown, { ...labels, "gen_ai.token.modality": "unknown" });
}

/** Returns the tokens of a call of any kind; undefined if no backend has done anything. */
function tokensOf({
  usage,
  images,
}: CallRecord): (Partial<Usage> & Pick<Usage, "inputTokens" | "outputTokens">) | undefined {
  if (usage || !images) return usage;
  const { inputTextTokens, inputImageTokens, outputTokens } = images.usage;
  const input: ModalityCount[] = [
    { modality: "text", tokens: inputTextTokens },
    { modality: "image", tokens: inputImageTokens },
  ];
  const output: ModalityCount[] = [{ modality: "image", tokens: outputTokens }];
  return { inputTokens: inputTextTokens + inputImageTokens, outputTokens, details: { input, output } };
}

const usageAttributes = (usage: Partial<Usage> | undefined): Attributes => ({
  "gen_ai.usage.input_tokens": usage?.inputTokens,
  "gen_ai.usage.output_tokens": usage?.outputTokens,
  "gen_ai.usage.cache_read.input_tokens": usage?.cacheReadTokens || undefined,
  "gen_ai.usage.cache_write.input_tokens": usage?.cacheWriteTokens || undefined,
  "gen_ai.usage.reasoning.output_tokens": usage?.reasoningTokens || undefined,
});
