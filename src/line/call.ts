/** One request on its way through the line: the one thing that travels from step to step. */

import type { Endpoint, Incoming } from "../dialects/dialect.ts";
import { GatewayError } from "../errors.ts";
import { originOf } from "../http/address.ts";
import { CallAbort, type OnDisconnect } from "../http/call-abort.ts";
import { newRequestId } from "../http/request-id.ts";
import { Wait, within } from "../http/within.ts";
import type { Limits } from "../limits.ts";
import { nextIteration } from "../media/yield-to-event-loop.ts";
import type { Metered } from "../metering/meter.ts";
import type { FieldFate } from "../model/fate.ts";
import { JsonBudget } from "../model/json.ts";
import type { ImageBooking } from "../ports/image-store.ts";
import type { ApiKey, Outcome } from "../ports/quota-store.ts";
import type { RateLimit } from "../ports/rate-limiter.ts";
import type { WaitUntil } from "../ports/wait-until.ts";
import { CallDetails } from "./call-details.ts";
import { report } from "./failure.ts";
import type { InFlight } from "./in-flight.ts";
import { recordCall } from "./record.ts";
import type { Repeatable } from "./repeatable.ts";
import type { AnswerRecorder } from "./replays.ts";
import type { Services } from "./services.ts";
import { type CallWatch, watchOf } from "./watch.ts";

/** What a mount knows of a request that the request itself does not say. */
export interface Mounted<Context = unknown> {
  /** What the host has taken off the beginning of the request's path, such as `/ai`. */
  readonly path?: string | undefined;
  /** The host's own context for this request: it reaches the backend and the stores. */
  readonly context?: Context | undefined;
  /** The address that the connection came from. */
  readonly clientAddress?: string | undefined;
  /**
   * For a runtime that stops all work for a client who is gone, as Workers do: is given what must be done nevertheless, such as
   * the settlement. Default: the request's own `waitUntil`, where a server such as h3's has put one.
   */
  readonly waitUntil?: WaitUntil | undefined;
  /** Tells when the client has disconnected. Default: the request's own signal. */
  readonly onDisconnect?: OnDisconnect | undefined;
}

/** A request, as its route hands it over. */
export interface Routed {
  readonly endpoint: Endpoint;
  readonly request: Request;
  /** What the route's wildcard stands for, still percent-encoded. */
  readonly tail: string;
  /** Under which path the gateway stands, beside what the host has taken off. */
  readonly prefix: string;
  readonly mounted: Mounted;
}

/** Lets go of something; a promise is waited for before the call counts as ended. */
type Release = () => Promise<unknown> | void;

/** What hears of a call that ends before its answer is complete. */
export interface CutListener {
  /** The call is cut: it answers with the reason, if it still can. */
  cut(reason: GatewayError): void;
  /** The client is gone, while the call goes on for a while: nobody reads what is written. */
  clientGone?(): void;
}

const NO_RATES: readonly RateLimit[] = [];

export class Call implements Incoming {
  readonly id: string = newRequestId();
  readonly services: Services;
  readonly endpoint: Endpoint;
  readonly tail: string;
  mounted: Mounted;
  /** The host's own. */
  readonly context: unknown;
  readonly abort: CallAbort;
  readonly json: JsonBudget;
  /** Where the host's observer watches the call. */
  readonly watch: CallWatch | undefined;

  /** The api key as the caller sent it, once it was read: known here so that no log gets it. */
  secret: string | undefined = undefined;
  /** Whose call it is, once that is known. */
  key: ApiKey | undefined = undefined;
  /** The tokens of the input as the backend counts them, where the host has it asked before the call. */
  countedInput: number | undefined = undefined;
  /** The tokens of the input, by that count or by estimate, once it was decoded. */
  inputTokens = 0;
  /** The most tokens that its answer may have, once it was decoded; 0 where no tokens limit it. */
  maxOutputTokens = 0;
  /** How many units are set aside for it, once they are. */
  granted = 0;
  /** How its key's rates stand, where they were asked for: one of each kind at most. */
  rates: readonly RateLimit[] = NO_RATES;
  /** The room set aside for the pictures that it links, where there are any. */
  booking: ImageBooking | undefined = undefined;
  /** The model that is asked for, once that is read. */
  model: string | undefined = undefined;
  /** Whether the backend lists that model. */
  modelListed = false;
  /** Whether a streamed answer is asked for. */
  stream = false;
  /** What became of fields that the backend could not pass on as they are. */
  fates: readonly FieldFate[] = [];
  /** What of the answer the caller's format cannot say, each field once. */
  answerFates: readonly FieldFate[] = [];
  /** What counts the answer, once a backend is asked. */
  meter: Metered | undefined = undefined;
  /** What the key is charged, once that is settled. */
  charged: Outcome | undefined = undefined;
  /** The call's idempotency key, where it has one and the host has a store for repetitions. */
  repeatable: Repeatable | undefined = undefined;
  /** Keeps the answer for repetitions, where this is the first call of its idempotency key. */
  recording: AnswerRecorder | undefined = undefined;
  /** The id of the call with whose answer it is answered, where it is a repetition. */
  replayOf: string | undefined = undefined;
  /** The answer's status, once its head is decided. */
  status: number | undefined = undefined;
  /** What the caller is told of instead of an answer, or at the end of its part. */
  error: GatewayError | undefined = undefined;
  /** When the call began and when its first event came, in milliseconds since the Unix epoch; noted for the record alone. */
  readonly beganAt: number;
  firstEventAt: number | undefined = undefined;
  /** Its place among the calls in flight, once it has one. */
  place: InFlight | undefined = undefined;
  /** Who hears of a cut at this stage of the line. */
  listener: CutListener | undefined = undefined;

  #request: Request | undefined;
  #details: CallDetails | undefined;
  readonly #prefix: string;
  readonly #waitUntil: WaitUntil | undefined;
  readonly #releases: Release[] = [];
  /** Tells the runtime that nothing of the call is left to wait for. */
  #settled: (() => void) | undefined;
  #ending: Promise<void> | undefined;
  #ended = false;

  constructor(services: Services, { endpoint, request, tail, prefix, mounted }: Routed) {
    this.services = services;
    this.endpoint = endpoint;
    this.#request = request;
    this.tail = tail;
    this.#prefix = prefix;
    this.mounted = mounted;
    this.context = mounted.context;
    this.json = new JsonBudget(services.limits);
    this.beganAt = services.isRecorded ? services.clock.now() : 0;
    this.watch = services.observer && watchOf(services.observer, this);
    this.abort = new CallAbort(services.clock, services.limits.deadlineMs, {
      aborted: (reason) => this.listener?.cut(reason),
      clientGone: () => this.listener?.clientGone?.(),
    });
    this.#waitUntil = mounted.waitUntil ?? (request as { waitUntil?: WaitUntil }).waitUntil;
    this.#listenForDisconnect();
    // A runtime that stops all work for a client who is gone must not stop this call's before it is settled.
    if (this.#waitUntil) this.waitUntil(new Promise<void>((resolve) => (this.#settled = resolve)));
  }

  #listenForDisconnect(): void {
    // A mount may keep what it is given for as long as its connection lives.
    const { abort, mounted } = this;
    const disconnect = (): void => abort.disconnect();
    if (mounted.onDisconnect) {
      const stop = mounted.onDisconnect(disconnect);
      if (stop) this.defer(stop);
      return;
    }
    const { signal } = this.request;
    if (signal.aborted) return disconnect();
    signal.addEventListener("abort", disconnect, { once: true });
    this.defer(() => signal.removeEventListener("abort", disconnect));
  }

  /** Throws where the call has ended: nothing of its request is kept then. */
  get request(): Request {
    if (this.#request) return this.#request;
    throw this.endedBecause;
  }

  get limits(): Limits {
    return this.services.limits;
  }

  /** Fires when the call is cut short: what works for it must stop. */
  get signal(): AbortSignal {
    return this.abort.signal;
  }

  /** What a store is told about the call. */
  get details(): CallDetails {
    return (this.#details ??= new CallDetails(this));
  }

  baseUrl(): string {
    return `${originOf(this.request.url)}${this.mounted.path ?? ""}${this.#prefix}`;
  }

  turn(): Promise<void> | undefined {
    return this.json.isLarge ? nextIteration() : undefined;
  }

  /** Ends the call early. */
  cut(reason: GatewayError): void {
    this.abort.cut(reason);
  }

  /** Whether the call is over: nobody waits for what a step still brings. */
  get isEnded(): boolean {
    return this.#ended;
  }

  /** Throws the reason for which the call was cut, where it was. */
  assertLive(): void {
    if (this.#ended) throw this.endedBecause;
  }

  /** What is told to a step that goes on when the call has ended. */
  get endedBecause(): GatewayError {
    return this.abort.reason ?? new GatewayError("client_closed", "The call is over.");
  }

  /** Has something let go of when the call ends, the last first; at once where it has ended. */
  defer(release: Release): void {
    if (this.#ended) this.waitUntil(Promise.resolve(release()));
    else this.#releases.push(release);
  }

  /** Takes back what was deferred, where it has been let go of. */
  forget(release: Release): void {
    const at = this.#releases.lastIndexOf(release);
    if (at >= 0) this.#releases.splice(at, 1);
  }

  /**
   * Waits for a promise of the host's that may never settle. Rejects with the reason when the call ends before; from then on the
   * promise holds nothing of the call.
   */
  wait<Value>(promise: Value | PromiseLike<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      const wait = new Wait<Value>(resolve, reject);
      const release = (): void => wait.reject(this.endedBecause);
      wait.whenOver(() => this.forget(release));
      wait.for(Promise.resolve(promise));
      this.defer(release);
    });
  }

  /** Waits for so many milliseconds. Rejects with the reason when the call ends before. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const wait = new Wait<void>(resolve, reject);
      const release = (): void => wait.reject(this.endedBecause);
      const cancel = this.services.clock.after(ms, () => wait.resolve());
      wait.whenOver(() => {
        cancel();
        this.forget(release);
      });
      this.defer(release);
    });
  }

  /** Whether its runtime stops work whose client is gone, unless it is told to wait. */
  get hasWaitUntil(): boolean {
    return this.#waitUntil !== undefined;
  }

  /** Keeps work alive that goes on after the answer. It must not reject. */
  waitUntil(work: Promise<unknown>): void {
    try {
      this.#waitUntil?.(work);
    } catch (error) {
      // A runtime that takes no more work does not keep the call from its end.
      report(this, error);
    }
  }

  /** The one end of a call, however it comes: settles, and lets go of everything. Resolves when that is done; undefined at once. */
  end(): Promise<void> | undefined {
    if (!this.#ended) this.#ending = this.#end();
    return this.#ending;
  }

  /** Ends the call for its caller, who waits until it is settled, but not beyond the deadline: a function of the host's may hang. */
  async answered(): Promise<void> {
    const ending = this.end();
    if (ending) await within(ending, this.abort.leftMs, this.services.clock);
  }

  #end(): Promise<void> | undefined {
    this.#ended = true;
    const endedAt = this.services.isRecorded ? this.services.clock.now() : 0;
    this.abort.end();
    let release: Release | undefined;
    const releasing: Promise<unknown>[] = [];
    while ((release = this.#releases.pop())) {
      try {
        const pending = release();
        if (pending) releasing.push(pending);
      } catch (error) {
        report(this, error);
      }
    }
    if (releasing.length > 0) return Promise.all(releasing).then(() => this.#finish(endedAt));
    this.#finish(endedAt);
    return undefined;
  }

  #finish(endedAt: number): void {
    recordCall(this, endedAt);
    if (this.place) this.services.inFlight.end(this.place);
    this.#settled?.();
    this.#letGo();
  }

  /** Lets go of all that is large: what still knows the call, such as a store that has not answered yet, keeps little of it. */
  #letGo(): void {
    // Not read off the mount once more, which makes the context when it is asked for it.
    this.mounted = { context: this.context, clientAddress: this.#details?.clientAddress };
    this.#request = this.#settled = undefined;
    this.meter = this.recording = this.repeatable = this.booking = this.listener = this.place = undefined;
  }
}
