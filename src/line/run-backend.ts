/** The step that asks the backend, and passes on what it yields: one start first, one finish last, every event counted. */

import { GatewayError, toGatewayError } from "../errors.ts";
import { LATE, within } from "../http/within.ts";
import { nextIteration } from "../media/yield-to-event-loop.ts";
import type { Meter } from "../metering/meter.ts";
import type { ChatEvent } from "../model/event.ts";
import type { ImageEvent } from "../model/image.ts";
import { assertJsonBounds, JsonLimitError, type JsonLimits } from "../model/json.ts";
import type { Call } from "./call.ts";
import { guarded } from "./failure.ts";
import type { Hold } from "./hold.ts";
import type { Asked, Run } from "./operation.ts";

/** After how many events the event loop serves others, so that a backend that never waits cannot keep a hang-up from being seen. */
const EVENTS_A_SLICE = 256;

/**
 * Asks the backend and waits for its first event, so that a failure up to here still has its true status, and a generator that
 * has started will run its `finally`.
 *
 * @param quietMs How long the first event may take before the answer begins without it, in milliseconds; undefined waits for ever.
 */
export async function runBackend<Event, Answered>(
  call: Call,
  hold: Hold,
  { request, meter, saw, events }: Run<Asked, Event, Answered>,
  quietMs: number | undefined,
): Promise<MeteredEvents<Event, Answered>> {
  const { backend } = call.services;
  call.meter = meter;
  hold.meter = meter;
  try {
    const hangUp = typeof backend.hangUp === "function" ? backend.hangUp(request.model) : backend.hangUp;
    if (hangUp !== undefined && hangUp !== "cancel") call.abort.drainFor(hangUp.drainMs);
    const source = call.watch ? call.watch.source(events) : events()[Symbol.asyncIterator]();
    const metered = new MeteredEvents(call, hold, meter, source, saw);
    // Told to stop when the call ends before it is done.
    call.defer(() => metered.stop());
    await metered.begin(quietMs);
    return metered;
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

type Step<Event> = IteratorResult<Event, undefined>;

/**
 * The events of a backend, each waited for no longer than the call lives. This object stands next to the backend, below all that
 * works on its events: a promise of the backend's that never settles holds this object alone, which holds nothing once the call ends.
 */
export class BackendEvents<Event> implements AsyncIterableIterator<Event, undefined> {
  #call: Call | undefined;
  /** Undefined once it has ended, or was told to stop. */
  #source: AsyncIterator<Event, undefined> | undefined;
  #resolve: ((step: Step<Event>) => void) | undefined;
  #reject: ((reason: unknown) => void) | undefined;

  constructor(call: Call, events: AsyncIterable<Event>) {
    this.#call = call;
    this.#source = events[Symbol.asyncIterator]();
    call.defer(() => this.#end());
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step<Event>> {
    return new Promise((resolve, reject) => {
      if (!this.#source) return resolve({ done: true, value: undefined });
      this.#resolve = resolve;
      this.#reject = reject;
      this.#hear(this.#source.next());
    });
  }

  /** Listens to the backend. The functions are written here, where there is nothing of the call that they could hold. */
  #hear(asked: Promise<Step<Event>>): void {
    // A backend may return what is no promise.
    Promise.resolve(asked).then(
      (step) => {
        const resolve = this.#resolve;
        this.#resolve = this.#reject = undefined;
        if (isLast(step)) this.#source = undefined;
        resolve?.(step);
      },
      (reason: unknown) => {
        const reject = this.#reject;
        this.#resolve = this.#reject = this.#source = undefined;
        reject?.(reason);
      },
    );
  }

  /**
   * Has the backend stop, once. The backend's `finally` is not waited for: it may hang, and an answer that is whole by then would wait
   * with it.
   */
  return(): Promise<Step<Event>> {
    const source = this.#source;
    this.#source = undefined;
    if (source) this.#call?.waitUntil(guarded(() => source.return?.()));
    return LEFT;
  }

  #end(): void {
    void this.return();
    const [call, reject] = [this.#call, this.#reject];
    this.#call = this.#resolve = this.#reject = undefined;
    // An error is made only where somebody waits: its stack costs more than the rest of the end.
    if (call && reject) reject(call.endedBecause);
  }
}

/** Whether nothing comes after a step. What is no step is met where it is read; thrown here, nobody would catch its error. */
function isLast(step: Step<unknown>): boolean {
  try {
    return Boolean(step.done);
  } catch {
    return true;
  }
}

const LEFT: Promise<IteratorReturnResult<undefined>> = Promise.resolve({ done: true, value: undefined });

/** A backend's events under their hold. It is settled before the finish is handed on. */
export class MeteredEvents<Event, Answered> {
  readonly #call: Call;
  readonly #hold: Hold;
  readonly #meter: Meter<Event, Answered>;
  readonly #source: AsyncIterator<Event>;
  readonly #saw: ((event: Answered) => void) | undefined;
  /** The step that comes next, where it was asked for already. */
  #pending: Promise<IteratorResult<Event, unknown>> | undefined;
  /** What the first event has become, until it is asked for. */
  readonly #opening: Answered[] = [];
  #started = false;
  #done = false;
  #finished = false;
  #count = 0;

  constructor(
    call: Call,
    hold: Hold,
    meter: Meter<Event, Answered>,
    source: AsyncIterator<Event>,
    saw: ((event: Answered) => void) | undefined,
  ) {
    this.#call = call;
    this.#hold = hold;
    this.#meter = meter;
    this.#source = source;
    this.#saw = saw;
  }

  /** Whether the finish was handed on: nothing comes after it, and everything is settled. */
  get isFinished(): boolean {
    return this.#finished;
  }

  /** Asks for the first event, and waits for it for as long as it may take. It is charged for, also if nobody comes to read it. */
  async begin(quietMs: number | undefined): Promise<void> {
    const first = this.#source.next();
    this.#pending = first;
    const step = await (quietMs === undefined ? first : this.#soon(first, quietMs));
    this.#call.assertLive();
    if (step === LATE) return;
    this.#pending = undefined;
    if (step.done) {
      this.#done = true;
      // Whether nothing may be the whole answer.
      return this.#meter.complete();
    }
    this.#started = true;
    const start = this.#meter.start(step.value);
    this.#saw?.(start);
    this.#opening.push(start);
    const passed = this.#observe(step.value);
    if (passed !== undefined) this.#opening.push(passed);
  }

  #soon<Step>(first: Promise<Step>, quietMs: number): Promise<Step | typeof LATE> {
    const { services } = this.#call;
    return within(first, quietMs, services.clock, (end) => this.#call.defer(end));
  }

  /**
   * Hands on the events of the answer, up to its finish, until `hand` returns false. Resolves with whether events are still to come.
   * One promise for many events, because most of what an event costs is the promises that it passes through.
   */
  async each(hand: (event: Answered) => boolean): Promise<boolean> {
    try {
      if (!this.#started) this.#opening.push(this.#meter.start(undefined));
      this.#started = true;
      for (let event = this.#opening.shift(); event !== undefined; event = this.#opening.shift())
        if (!hand(event)) return true;
      while (!this.#done) {
        const passed = this.#take(await (this.#pending ?? this.#source.next()));
        if (++this.#count % EVENTS_A_SLICE === 0) await nextIteration();
        if (passed !== undefined && !hand(passed)) return true;
      }
      if (!this.#finished) hand(await this.#finish());
      return false;
    } catch (error) {
      throw toGatewayError(error, "model-backend");
    }
  }

  /** Takes what the backend yielded; what of it is handed on, if anything. */
  #take(step: IteratorResult<Event, unknown>): Answered | undefined {
    this.#pending = undefined;
    this.#call.assertLive();
    if (!step.done) return this.#observe(step.value);
    this.#done = true;
    return undefined;
  }

  /** Counts an event; what of it is handed on, if anything. */
  #observe(event: Event): Answered | undefined {
    if (this.#count === 0 && this.#call.services.isRecorded)
      this.#call.firstEventAt ??= this.#call.services.clock.now();
    if (typeof event === "object" && event !== null) assertBounded(event as object as Yielded, this.#call.json.limits);
    const passed = this.#meter.observe(event);
    this.#hold.noteSoon();
    if (passed !== undefined) this.#saw?.(passed);
    if (this.#meter.overrun) this.stop();
    return passed;
  }

  async #finish(): Promise<Answered> {
    this.#meter.complete();
    const finish = this.#meter.finish();
    this.#saw?.(finish);
    this.#finished = true;
    await this.#settled();
    this.#call.assertLive();
    // All work is done and settled: what is left is to hand it on, and nothing cuts that.
    this.#call.abort.end();
    return finish;
  }

  /** Resolves when the answer is settled, or when its caller is to wait no longer. */
  #settled(): Promise<void> {
    const settling = this.#hold.settle();
    return new Promise((resolve, reject) => {
      this.#call.abort.whole(resolve);
      settling.then(resolve, reject);
    });
  }

  /** Lets go of the backend. Not awaited: one that hangs would hang its caller too, and its failure has no one left to hear it. */
  stop(): void {
    if (this.#done) return;
    this.#done = true;
    this.#call.waitUntil(guarded(() => this.#source.return?.()));
  }
}

type Yielded = ChatEvent | ImageEvent;

/** Holds the JSON in a backend's event to the limits of a body: it may be cyclic, or deeper than those who write it can go. */
function assertBounded(event: Yielded, limits: JsonLimits): void {
  if (event.type === "tool-call") assertJson(event.input, limits);
  else if (event.type === "provider") assertJson(event.value, limits);
  else if (event.type === "annotation") assertJson(event.annotation, limits);
  else if (event.type === "native") for (const meant of event.means) assertBounded(meant, limits);
}

function assertJson(value: object, limits: JsonLimits): void {
  try {
    assertJsonBounds(value, limits);
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const message = `The model backend gave JSON that ${error.message}.`;
    throw new GatewayError("backend_failed", message, { port: "model-backend" });
  }
}
