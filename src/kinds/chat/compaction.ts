/** Answers in two steps: the model first writes a summary of a long conversation, and then answers with the summary in its place. */

import { backendFailed } from "../../errors.ts";
import { type AnswerEvent, type ChatEvent, withMaker } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { type Certainty, sumOfUsages } from "../../model/usage.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import type { CountTokens } from "../count-tokens.ts";
import type { BackendSteps, Cost } from "../kind.ts";
import type { Meter, MeterReport } from "../meter.ts";
import { estimateInputTokens } from "./input-tokens.ts";
import { ChatMeter, type MeteredCall } from "./meter.ts";

type BackendEvent = ChatEvent | string;

/** Counts both steps. The charge is the sum of what each costs, and so is the usage that the caller is told. */
class TwoStepMeter implements Meter<BackendEvent, AnswerEvent> {
  readonly #call: MeteredCall;
  readonly #first: ChatMeter;
  /** Undefined until the first step has ended. */
  #last: ChatMeter | undefined;
  readonly #lastUnits: number;
  /** The charge of the first step, once it has ended: another upstream may answer the second, for another price. */
  #firstUnits: number | undefined;

  /** @param lastUnits The highest cost of the second step. */
  constructor(call: MeteredCall, first: ChatRequest, inputTokens: number, lastUnits: number) {
    this.#call = call;
    this.#lastUnits = lastUnits;
    this.#first = new ChatMeter(call, first, inputTokens);
  }

  /** Counts an event of the first step. Throws `backend_failed` for an answer without end. */
  observeFirst(event: BackendEvent): void {
    this.#first.observe(event);
    if (this.#first.overrun) throw backendFailed("The model's summary does not end.");
  }

  /** Ends the first step, and begins the second. */
  beginLast(request: ChatRequest, inputTokens: number): void {
    this.#first.complete();
    this.#firstUnits = this.#first.units;
    this.#last = new ChatMeter(this.#call, request, inputTokens);
  }

  start(first: BackendEvent | undefined): AnswerEvent {
    return this.#whole(this.#current.start(first));
  }

  observe(event: BackendEvent): AnswerEvent | undefined {
    return this.#current.observe(event);
  }

  cut(): void {
    this.#current.cut();
  }

  complete(): void {
    this.#current.complete();
  }

  finish(): AnswerEvent {
    return this.#whole(this.#current.finish());
  }

  waiting(): AnswerEvent | undefined {
    return this.#current.waiting();
  }

  assertPrice(upstream: UpstreamModel): void {
    this.#current.assertPrice(upstream);
  }

  endTurn(): void {
    this.#current.endTurn();
  }

  nextUpstream(request: ChatRequest, inputTokens: number): void {
    this.#current.nextUpstream(request, inputTokens);
  }

  get outputLeft(): number {
    return this.#current.outputLeft;
  }

  get unitsAhead(): number | undefined {
    return this.#last ? undefined : this.#lastUnits;
  }

  get overrun(): boolean {
    return this.#current.overrun;
  }

  get isWhole(): boolean {
    return this.#last?.isWhole ?? false;
  }

  get isHeavy(): boolean {
    return this.#current.isHeavy;
  }

  get units(): number {
    return (this.#firstUnits ?? this.#first.units) + (this.#last?.units ?? 0);
  }

  get certainty(): Certainty {
    const both = [this.#first.certainty, this.#last?.certainty ?? "exact"];
    return both.every((one) => one === "exact") ? "exact" : "estimated";
  }

  get report(): MeterReport {
    const [first, last] = [this.#first.report, this.#last?.report];
    const usage = first.usage && last?.usage ? sumOfUsages(first.usage, last.usage) : (last?.usage ?? first.usage);
    return { usage, model: last?.model ?? first.model, tokens: first.tokens + (last?.tokens ?? 0) };
  }

  get #current(): ChatMeter {
    return this.#last ?? this.#first;
  }

  /** Adds the usage of the first step to an event. */
  #whole(event: AnswerEvent): AnswerEvent {
    const { usage } = this.#first.report;
    if (!this.#last || !usage || (event.type !== "start" && event.type !== "finish")) return event;
    return { ...event, usage: sumOfUsages(usage, event.usage) };
  }
}

/**
 * Returns the meter of a request that is answered in two steps, and the function that asks for them.
 *
 * @param lastUnits The highest cost of the second step.
 */
export function inTwoSteps(
  call: MeteredCall,
  request: ChatRequest,
  { first, firstCost }: NonNullable<Cost["steps"]>,
  lastUnits: number,
): {
  readonly meter: TwoStepMeter;
  readonly ask: (backend: BackendSteps<BackendEvent>) => AsyncIterable<BackendEvent>;
} {
  // The cast is safe: the cost of a chat request has made it.
  const asked = first as ChatRequest;
  const meter = new TwoStepMeter(call, asked, firstCost.inputTokens, lastUnits);
  return { meter, ask: (backend) => answered(backend, request, asked, meter, call.countTokens) };
}

/**
 * Asks for a summary, and then for the answer. Yields the item of the summary directly before the first content of the answer: an answer that
 * fails before its content has the status of its error.
 *
 * @param first The request for the summary.
 */
async function* answered(
  backend: BackendSteps<BackendEvent>,
  request: ChatRequest,
  first: ChatRequest,
  meter: TwoStepMeter,
  countTokens: CountTokens,
): AsyncGenerator<BackendEvent> {
  const compaction = request.native?.compaction;
  if (!compaction) return yield* backend.ask(request);
  let written = "";
  for await (const event of backend.ask(first)) {
    meter.observeFirst(event);
    written += textOf(event);
    await backend.counted();
  }
  const summary = written.trim();
  const next = compaction.replaced(request, summary);
  meter.beginLast(next, estimateInputTokens(next, countTokens));
  if (summary === "") throw backendFailed("The model wrote no summary.");
  const made = await compaction.itemOf(request, summary);
  let item: ChatEvent | undefined = made;
  for await (const event of backend.ask(next))
    for (const one of divided(event, made.format)) {
      if (item && !isBeginning(one)) {
        yield item;
        item = undefined;
      }
      yield one;
    }
  if (item) yield item;
}

/** Tells whether an event comes before the content of an answer. */
function isBeginning(event: BackendEvent): boolean {
  if (typeof event === "string") return false;
  return event.type === "native" ? event.events.every(isBeginning) : event.type === "start" || event.type === "usage";
}

function textOf(event: BackendEvent): string {
  if (typeof event === "string") return event;
  if (event.type === "native") return event.events.map(textOf).join("");
  return event.type === "text-delta" ? event.text : "";
}

/** Divides a piece into its events. The frames of the caller's own format are left out: they have no place for another item. */
function divided(event: BackendEvent, own: string): readonly BackendEvent[] {
  if (typeof event === "string" || event.type !== "native") return [event];
  const { format, events, unsupported } = event;
  if (format === own) return events.map((one) => withMaker(one, own));
  const others = unsupported ? { unsupported } : {};
  return events.map((one) => ({ type: "native", format, frames: [], events: [one], ...others }));
}
