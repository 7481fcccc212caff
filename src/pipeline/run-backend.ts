/** Asks the backend and passes its events on, each counted: one start first, one finish last. Also the call as its kind and its backend see it. */

import { GatewayError, type Port, toGatewayError } from "../errors.ts";
import type { CountTokens } from "../kinds/count-tokens.ts";
import type {
  BackendSteps,
  Cost,
  DecodedRequest,
  HostPrices,
  InputCounter,
  KindCall,
  KindModule,
  Generation,
} from "../kinds/kind.ts";
import { type Amounts, isCount, type Meter, wrongField } from "../kinds/meter.ts";
import type { Limits } from "../limits.ts";
import type { ChatRequest, NativeRequest } from "../model/chat-request.ts";
import type { Conversion } from "../model/conversion.ts";
import type { JsonLimits } from "../model/json.ts";
import { abandon, type Shapes, shown } from "../options.ts";
import { EVENTS_A_SLICE, LATE, within, nextIteration } from "../ports/clock.ts";
import type { CodeResult, CodeRunner, CodeToRun } from "../ports/code-runner.ts";
import {
  type CallContext,
  compactsItself,
  type ModelBackend,
  type ModelInfo,
  takesUnknown,
  type UnreadEvents,
  type UpstreamModel,
} from "../ports/model-backend.ts";
import type { AskedUpstream, UpstreamObserver } from "../ports/observer.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { beginAttempt } from "./record.ts";
import { doubt, quietly, report, guarded } from "./reports.ts";
import type { Hold } from "./reserve.ts";

/** The most upstreams whose prices are compared. */
const MAX_UPSTREAMS = 64;

/** A call as its kind sees it. */
export class CallOfKind implements KindCall {
  readonly key: ApiKey;
  readonly limits: Limits;
  readonly jsonLimits: JsonLimits;
  readonly prices: HostPrices;
  readonly countTokens: CountTokens;
  readonly isRecorded: boolean;
  /** Set once quota is held. */
  hold: Hold | undefined;
  readonly #call: Call;
  readonly #kind: KindModule;
  readonly #model: { readonly name: string; readonly info: ModelInfo | undefined };
  /** The upstream that is asked again, while its next turn is held for. */
  #sameUpstream: UpstreamModel | undefined = undefined;
  /** The output tokens of the answer before the part that is held for now. */
  #writtenTokens = 0;

  /** @param model The caller's name of the model, and the backend's entry for the model. */
  constructor(
    call: Call,
    key: ApiKey,
    kind: KindModule,
    model: { readonly name: string; readonly info: ModelInfo | undefined },
  ) {
    const { services } = call;
    this.#model = model;
    this.key = key;
    this.limits = services.limits;
    this.jsonLimits = call.json.limits;
    this.prices = services.prices;
    this.countTokens = services.countTokens;
    this.isRecorded = services.isRecorded;
    this.#call = call;
    this.#kind = kind;
  }

  // Create the signal only for a backend that reads it.
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get isEnded(): boolean {
    return this.#call.isEnded;
  }

  baseUrl(): string {
    return this.#call.baseUrl();
  }

  upstreamsOf(model: string): readonly UpstreamModel[] {
    const { backend } = this.#call.services;
    const { name } = this.#kind;
    if (!this.#kind.isPricedByUpstream(this.prices)) return [];
    if (this.#sameUpstream) return [this.#sameUpstream];
    if (!backend.upstreamsOf) return [];
    // A backend that fails here fails again, and is told, when it must answer.
    return quietly(() => backend.upstreamsOf?.(model, name).slice(0, MAX_UPSTREAMS)) ?? [];
  }

  compactsItself(model: string): boolean {
    return compactsItself(this.#call.services.backend, model);
  }

  answeringUpstream(): UpstreamModel | undefined {
    const { answering } = this.#call.found;
    return answering && { name: answering.name, model: answering.model };
  }

  leavesOut(field: string): boolean {
    return this.#call.found.conversions.some(
      ({ field: told, conversion }) => told === field && conversion === "dropped",
    );
  }

  doubt(why: string): void {
    doubt(this.#call, why);
  }

  report(error: unknown, port: Port): void {
    report(this.#call, error, port);
  }

  noteAffordedOutput(tokens: number): void {
    this.#call.found.affordedOutputTokens = this.#writtenTokens + tokens;
  }

  noteConversion(conversion: Conversion): void {
    const { found } = this.#call;
    if (found.conversions.some(({ field }) => field === conversion.field)) return;
    found.conversions = [...found.conversions, conversion];
  }

  noteAnswerConversions(conversions: readonly Conversion[]): void {
    this.#call.found.answerConversions = conversions;
  }

  askStore<T>(port: Port, verb: string, ask: () => Promise<T>, late?: (answer: T) => unknown): Promise<T> {
    return askStore(this.#call, port, verb, ask, late);
  }

  defer(release: () => void): void {
    this.#call.defer(release);
  }

  assertLive(): void {
    this.#call.assertLive();
  }

  /** Returns the request with its output limit lowered to what the hold covers. */
  afforded(request: DecodedRequest, cost: Cost): DecodedRequest {
    const [kind, { hold }] = [this.#kind, this];
    return this.key.unlimited || !kind.afford || !hold ? request : kind.afford(this, request, cost, hold.granted);
  }

  /** Prepares a further request for the same answer: see `CallContext.continueWith`. */
  async continued(request: ChatRequest, isNextTurn: boolean): Promise<ChatRequest | undefined> {
    const { meter } = this.#call.found;
    if (isNextTurn) meter?.endTurn?.();
    const { outputLeft = request.maxOutputTokens, report: counted } = meter ?? {};
    this.#writtenTokens = counted?.usage?.outputTokens ?? 0;
    const maxOutputTokens = Math.min(request.maxOutputTokens, outputLeft);
    if (maxOutputTokens < 1) return undefined;
    try {
      return await this.#paid({ ...request, maxOutputTokens }, isNextTurn);
    } catch (error) {
      // The answer ends with the turns so far, which are charged: an error in their place would lose them.
      if (!isNextTurn || this.#call.isEnded) throw error;
      if (isQuotaRefusal(error)) this.noteAffordedOutput(0);
      else report(this.#call, error);
      return undefined;
    }
  }

  /** Holds quota for a further request. Returns the request with the output limit that the hold covers. */
  async #paid(request: ChatRequest, isNextTurn: boolean): Promise<ChatRequest> {
    const { name: model, info } = this.#model;
    const { compaction: _, ...native } = request.native ?? {};
    // A route may have given the request its upstream's name of the model. The conversation was compacted before, if at all.
    const asked: ChatRequest = { ...request, model, ...(request.native && { native: native as NativeRequest }) };
    this.#sameUpstream = isNextTurn ? this.answeringUpstream() : undefined;
    const cost = this.#kind.cost(this, asked, { model: info });
    const { unitsAhead } = this.#call.found.meter ?? {};
    await this.hold?.again(this.key, unitsAhead === undefined ? cost : amountsWith(cost, unitsAhead));
    // The cast is safe: the kind returns a request of the same type.
    const paid = this.afforded(asked, cost) as ChatRequest;
    this.#call.found.meter?.nextUpstream?.(paid, cost.inputTokens);
    return { ...request, maxOutputTokens: paid.maxOutputTokens };
  }
}

/** Adds the cost of the request behind a request, which must be paid for as a whole. */
function amountsWith({ atMost }: Amounts, unitsAhead: number): Amounts {
  const units = Math.min(Number.MAX_SAFE_INTEGER, atMost + unitsAhead);
  return { atLeast: units, atMost: units };
}

/** True for a key that lacks the units for a request, now or for good. */
const isQuotaRefusal = (error: unknown): boolean =>
  error instanceof GatewayError && ["quota_exhausted", "quota_insufficient", "quota_held"].includes(error.code);

/** The call as its backend sees it, beside the request. */
export class BackendContext implements CallContext {
  readonly requestId: string;
  readonly context: unknown;
  readonly headers: Headers;
  readonly clientAddress: string | undefined;
  readonly key: ApiKey;
  readonly runCode?: (code: CodeToRun) => Promise<CodeResult>;
  readonly #call: Call;
  readonly #charged: CallOfKind | undefined;

  /**
   * @param mayRunCode True for a request with the tool that lets a model run code.
   * @param charged The call as its kind charges it. Missing where nothing is charged.
   */
  constructor(call: Call, key: ApiKey, mayRunCode = false, charged?: CallOfKind) {
    const { requestId, context, headers, clientAddress } = call.details;
    this.requestId = requestId;
    this.context = context;
    this.headers = headers;
    this.clientAddress = clientAddress;
    this.key = key;
    this.#call = call;
    this.#charged = charged;
    const { codeRunner, limits } = call.services;
    if (codeRunner && mayRunCode) this.runCode = runsFor(call, key.id, codeRunner, limits.codeDeadlineMs);
  }

  reportConversions(conversions: readonly Conversion[]): void {
    this.#call.found.conversions = conversions;
  }

  get reportUnread(): (unread: UnreadEvents) => void {
    return (unread) => void (this.#call.found.unread = unread);
  }

  get observeUpstream(): (asked: AskedUpstream) => UpstreamObserver {
    return (asked) => beginAttempt(this.#call, asked);
  }

  get continueWith(): CallContext["continueWith"] {
    const charged = this.#charged;
    return charged && ((request, isNextTurn = false) => charged.continued(request, isNextTurn));
  }

  // A getter, so that a signal nobody reads is never created. A getter of the class: one on each object would be slow to make.
  get signal(): AbortSignal {
    return this.#call.signal;
  }
}

/** The longest output of a run, in UTF-16 units. A runner should cut earlier. */
const MAX_CODE_OUTPUT = 262_144;

const CODE_RESULT: Shapes<CodeResult> = { outcome: ["ok", "failed", "deadline-exceeded"], output: "string" };

/** Returns the function that runs code for a call. A host's runner may hang, throw and return anything. */
const runsFor =
  (call: Call, keyId: string, runner: CodeRunner, deadlineMs: number) =>
  async (code: CodeToRun): Promise<CodeResult> => {
    try {
      const result = await call.wait(runner.run(code, { keyId, signal: call.signal, deadlineMs }));
      const wrong = wrongField("codeRunner: the result of run", result, CODE_RESULT);
      if (wrong !== undefined) throw new TypeError(wrong);
      const { outcome, output } = result;
      if (output.length <= MAX_CODE_OUTPUT) return { outcome, output };
      return { outcome, output: `${output.slice(0, MAX_CODE_OUTPUT)}\n[The output was cut here.]\n` };
    } catch (error) {
      throw toGatewayError(error, "code-runner");
    }
  };

/** Returns the backend's count of the input; undefined for a backend that does not count. Throws the backend's error. */
export async function countedByBackend<Request extends DecodedRequest>(
  call: Call,
  key: ApiKey,
  input: InputCounter<Request>,
  request: Request,
): Promise<number | undefined> {
  const { backend } = call.services;
  assertTaken(backend, request);
  try {
    const counting = input.byBackend(backend, request, new BackendContext(call, key));
    const tokens = counting === undefined ? undefined : await call.wait(counting);
    const isKnown: boolean = isCount(tokens);
    if (tokens === undefined || isKnown) return tokens;
    throw new TypeError(`A count of tokens must be an integer from 0 up, not ${tokens}.`);
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

/** Refuses the unknown types of a request, unless the backend takes them. */
function assertTaken(backend: ModelBackend, { model, native }: DecodedRequest): void {
  if (native?.assertKnown && !takesUnknown(backend, model)) native.assertKnown();
}

/**
 * Asks the backend and waits for its first event, so that an early failure still has its true status, and a generator that has started
 * runs its `finally`.
 *
 * @param ask Returns the events. Nothing runs before.
 * @param quietMs The time after which the answer begins without a first event, in milliseconds; undefined waits for ever.
 */
export async function runBackend<Event, Answered>(
  call: Call,
  hold: Hold,
  request: DecodedRequest,
  generation: Generation<Event, Answered>,
  ask: (request: DecodedRequest) => AsyncIterable<Event> | undefined,
  quietMs: number | undefined,
): Promise<MeteredEvents<Event, Answered>> {
  const { backend } = call.services;
  call.found.meter = hold.meter = generation.meter;
  try {
    assertTaken(backend, request);
    const hangUp = typeof backend.hangUp === "function" ? backend.hangUp(request.model) : backend.hangUp;
    if (hangUp !== undefined && hangUp !== "cancel") call.abort.drainFor(hangUp.drainMs);
    const metered = new MeteredEvents(call, hold, request, generation, ask);
    // Stop the backend when the call ends first.
    call.defer(() => metered.abandon());
    await metered.begin(quietMs);
    return metered;
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

/**
 * Checks the return value of a backend's verb. Throws a TypeError for anything else than an async iterable, such as the promise of an async
 * function that is not a generator. Handles the promise's rejection, because an unhandled rejection ends the process.
 */
function eventsOf<Event>(returned: AsyncIterable<Event> | undefined): AsyncIterable<Event> {
  const isPromise = "then" in Object(returned);
  if (!isPromise && typeof Object(returned)[Symbol.asyncIterator] === "function")
    return returned as AsyncIterable<Event>;
  if (isPromise) void Promise.resolve(returned).catch(() => {});
  const given = isPromise
    ? "a promise: write `async *chat`, not `async chat`"
    : `${shown(returned)}: write \`async *chat\``;
  throw new TypeError(`A backend must return an async iterable, not ${given}.`);
}

type Step<Event> = IteratorResult<Event, undefined>;

/**
 * The events of a backend, each awaited only while the call lives. This object stands next to the backend, below everything that works
 * on the events: a promise of the backend that never settles holds this object alone, and this object holds nothing after the call.
 */
class BackendEvents<Event> implements AsyncIterableIterator<Event, undefined> {
  /** The latest event, until it is counted. */
  uncounted: Event | undefined = undefined;
  #call: Call | undefined;
  /** Undefined once the backend has ended or was told to stop. */
  #source: AsyncIterator<Event, undefined> | undefined;
  /** The step that is awaited. */
  #next: PromiseWithResolvers<Step<Event>> | undefined = undefined;
  #count = 0;

  constructor(call: Call, events: AsyncIterable<Event>) {
    this.#call = call;
    this.#source = events[Symbol.asyncIterator]();
    call.defer(() => this.#end());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step<Event>> {
    if (!this.#source) return STOPPED;
    this.uncounted = undefined;
    const next = Promise.withResolvers<Step<Event>>();
    this.#next = next;
    // Pause here, below all loops that swallow events: for a backend that never waits, such a loop would let no timer fire.
    if (++this.#count % EVENTS_A_SLICE === 0) void nextIteration().then(() => this.#step());
    else this.#step();
    return next.promise;
  }

  #step(): void {
    try {
      // A backend may return a value that is not a promise. Its promise holds these functions, and they hold this object alone.
      Promise.resolve(this.#source ? this.#source.next() : STOPPED).then(
        (step) => {
          if (isLast(step)) this.#source = undefined;
          else if (this.#call) this.uncounted = step.value;
          this.#next?.resolve(step);
          this.#next = undefined;
        },
        (reason: unknown) => {
          this.#next?.reject(reason);
          this.#next = this.#source = undefined;
        },
      );
    } catch (error) {
      this.#next?.reject(error);
    }
  }

  /** Stops the backend, once. Does not wait for the backend's `finally`: it may hang, and a complete answer would hang with it. */
  return(): Promise<Step<Event>> {
    const source = this.#source;
    this.#source = undefined;
    if (source) this.#call?.waitUntil(guarded(() => source.return?.()));
    return STOPPED;
  }

  #end(): void {
    if (this.#source) void this.return();
    const [call, next] = [this.#call, this.#next];
    this.#call = this.#next = this.uncounted = undefined;
    // Create the error only when somebody waits: its stack costs more than everything else here.
    if (call) next?.reject(call.endedBecause);
  }
}

/** Tells whether a step is the last. A value that is no step passes here and fails where it is read; an error here nobody would catch. */
function isLast(step: Step<unknown>): boolean {
  try {
    return Boolean(step.done);
  } catch {
    return true;
  }
}

const STOPPED: Promise<IteratorReturnResult<undefined>> = Promise.resolve({ done: true, value: undefined });

/** The most unread events that are counted: more than the buffers of `relay` hold. */
const MAX_UNREAD = 65_536;

/** A backend's events under their hold. The hold is settled before the finish is handed on. */
class MeteredEvents<Event, Answered> implements BackendSteps<Event> {
  /** True once the finish was handed on: nothing follows, and the call is settled. */
  isFinished = false;
  /** Keeps the answer before its finish is handed on; set for an answer that its caller may ask for again. */
  keep: ((finish: Answered) => Promise<void> | undefined) | undefined = undefined;
  readonly #call: Call;
  readonly #hold: Hold;
  readonly #generation: Generation<Event, Answered>;
  readonly #meter: Meter<Event, Answered>;
  readonly #ask: (request: DecodedRequest) => AsyncIterable<Event> | undefined;
  /** The events as the backend yields them; those of the running step where the backend is asked more than once. */
  #backend: BackendEvents<Event> | undefined = undefined;
  /** The backend's events as the kind shapes them. */
  readonly #source: AsyncIterator<Event>;
  /** The next step, when it was requested already. */
  #pending: Promise<IteratorResult<Event, unknown>> | undefined = undefined;
  /** The start and the first event, until they are handed on. */
  readonly #first: Answered[] = [];
  #started = false;
  #done = false;
  /** True once the meter has refused an event. */
  #isRefused = false;

  constructor(
    call: Call,
    hold: Hold,
    request: DecodedRequest,
    generation: Generation<Event, Answered>,
    ask: (request: DecodedRequest) => AsyncIterable<Event> | undefined,
  ) {
    this.#call = call;
    this.#hold = hold;
    this.#generation = generation;
    this.#meter = generation.meter;
    this.#ask = ask;
    this.#source = call.watch
      ? call.watch.source(() => this.#events(request))
      : this.#events(request)[Symbol.asyncIterator]();
  }

  #events(request: DecodedRequest): AsyncIterable<Event> {
    const answer = this.#generation.ask?.(this) ?? this.ask(request);
    return this.#generation.shape?.(answer) ?? answer;
  }

  ask(request: DecodedRequest): AsyncIterable<Event> {
    this.#call.assertLive();
    return (this.#backend = new BackendEvents(this.#call, eventsOf(this.#ask(request))));
  }

  async counted(): Promise<void> {
    if (this.#backend) this.#backend.uncounted = undefined;
    this.#hold.noteSoon();
    if (this.#meter.isHeavy) await nextIteration();
    this.#call.assertLive();
  }

  /** Requests the first event, and waits for it. An event that is not read is charged, too. */
  async begin(quietMs: number | undefined): Promise<void> {
    const call = this.#call;
    for (;;) {
      const next = this.#source.next();
      this.#pending = next;
      const step = await (quietMs === undefined ? next : within(next, quietMs, call.clock, (end) => call.defer(end)));
      call.assertLive();
      if (step === LATE) return;
      this.#pending = undefined;
      if (step.done) {
        this.#done = true;
        // Throws where an empty answer is not a whole one.
        return this.#meter.complete();
      }
      if (!this.#started) this.#start(step.value);
      const passed = this.#observe(step.value);
      if (passed !== undefined) this.#first.push(passed);
      // A count alone begins no answer: an error may follow.
      if (Object(step.value).type !== "usage") return;
    }
  }

  #start(first: Event | undefined): void {
    this.#started = true;
    const start = this.#meter.start(first);
    this.#generation.onEvent?.(start);
    this.#first.push(start);
  }

  /**
   * Hands on the events of the answer, up to its finish, until `hand` returns false. Resolves with whether more events follow. One
   * promise serves many events, because promises are most of the cost of an event.
   */
  async each(hand: (event: Answered) => boolean): Promise<boolean> {
    try {
      if (!this.#started) this.#start(undefined);
      if (this.#meter.isHeavy) await nextIteration();
      while (this.#first.length > 0) if (!hand(this.#first.shift() as Answered)) return true;
      while (!this.#done) {
        let step: IteratorResult<Event, unknown>;
        try {
          step = await (this.#pending ?? this.#source.next());
        } catch (error) {
          // The backend has failed behind its last content: hand the content on first.
          const waiting = this.#call.isEnded ? undefined : this.#meter.waiting?.();
          if (waiting !== undefined) hand(waiting);
          throw error;
        }
        this.#pending = undefined;
        this.#call.assertLive();
        if (step.done) this.#done = true;
        const passed = step.done ? undefined : this.#observe(step.value);
        if (this.#meter.isHeavy) await nextIteration();
        if (passed !== undefined && !hand(passed)) return true;
      }
      if (!this.isFinished) hand(await this.#finish());
      return false;
    } catch (error) {
      throw toGatewayError(error, "model-backend");
    }
  }

  /** Counts an event. Returns the event to hand on, or undefined to swallow it. */
  #observe(event: Event): Answered | undefined {
    const call = this.#call;
    if (call.services.isRecorded) call.found.firstEventAt ??= call.clock.now();
    if (this.#backend) this.#backend.uncounted = undefined;
    this.#isRefused = true;
    const passed = this.#meter.observe(event);
    this.#isRefused = false;
    this.#hold.noteSoon();
    if (passed !== undefined) this.#generation.onEvent?.(passed);
    if (this.#meter.overrun) this.stop();
    return passed;
  }

  async #finish(): Promise<Answered> {
    this.#meter.complete();
    const finish = this.#meter.finish();
    this.#generation.onEvent?.(finish);
    this.isFinished = true;
    const settling = this.#hold.settle();
    // Resolves when the answer is settled, or when its caller has waited long enough.
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#call.abort.whole(resolve);
    settling.then(resolve, reject);
    await promise;
    this.#call.assertLive();
    const keeping = this.keep?.(finish);
    if (keeping) await keeping;
    // All work is done and settled: nothing cuts the rest.
    this.#call.abort.end();
    return finish;
  }

  /**
   * Ends an answer that is not complete. Where the call was cut, or an event is none, counts the events that have come and that nobody has
   * read: their upstream charges them.
   */
  abandon(): void {
    if (this.#done) return;
    if (this.#call.abort.reason || this.#isRefused) {
      const { hasWaitUntil, services } = this.#call;
      const uncounted = this.#backend?.uncounted;
      const { unread } = this.#call.found;
      const count = (): number => this.#countUnread(uncounted, unread);
      // In Workers, a call must not wait for the work of another one.
      this.#call.found.counting = hasWaitUntil ? void count() : services.lastWork.run(count);
    }
    this.stop();
  }

  /** Returns the number of events; Infinity when an event took milliseconds. Never throws. */
  #countUnread(uncounted: Event | undefined, unread: UnreadEvents | undefined): number {
    let count = 0;
    let isHeavy = false;
    try {
      if (uncounted !== undefined) this.#meter.observe(uncounted);
      const events = unread?.() ?? [];
      abandon(events);
      for (const event of events) {
        // A reader's call would be stopped here, too.
        if (this.#meter.overrun || ++count > MAX_UNREAD) break;
        // An event of another kind fails here, as it would if the backend had yielded it.
        this.#meter.observe(event as Event);
        isHeavy ||= this.#meter.isHeavy === true;
      }
      if (this.#meter.isWhole) this.#meter.complete();
    } catch (error) {
      report(this.#call, error, "model-backend");
    }
    return isHeavy ? Infinity : count;
  }

  /** Ends the answer before its backend does. Only the finish follows. */
  end(): void {
    if (!this.#done && !this.#meter.isWhole) this.#meter.cut?.();
    this.stop();
  }

  /** Stops the backend. Does not wait: a backend that hangs would hang its caller, and nobody is left to hear of its failure. */
  stop(): void {
    if (this.#done) return;
    this.#done = true;
    this.#call.waitUntil(guarded(() => this.#source.return?.()));
  }
}
