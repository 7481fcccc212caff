/** A request on its way through the pipeline: the object that travels from step to step. */

import { GatewayError } from "../errors.ts";
import type { AnyEndpoint, Incoming, KeptDocuments, SocketTurns } from "../formats/format.ts";
import { newRequestId, originOf } from "../http/request.ts";
import type { Limits } from "../limits.ts";
import { JsonBudget } from "../model/json.ts";
import type { CallInfo, WaitUntil } from "../ports/call-info.ts";
import { afterAlive, CallClock, Wait, within } from "../ports/clock.ts";
import type { LiveCall } from "../ports/observer.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { CallAbort, type OnDisconnect } from "./abort.ts";
import { Findings, liveCallOf, recordCall } from "./record.ts";
import { type CallWatch, failureOf, report, watchOf } from "./reports.ts";
import type { InFlightSlot, Services } from "./services.ts";

/** Facts that a mount knows about a request, and the request itself does not tell. */
export interface Mounted<Context = unknown> {
  /** The part that the host has removed from the beginning of the request's path, such as `/ai`. */
  readonly path?: string | undefined;
  /** The host's own context for this request. The backend and the stores receive it. */
  readonly context?: Context | undefined;
  /** The address of the connection's other end. */
  readonly clientAddress?: string | undefined;
  /**
   * Keeps the runtime working, for a runtime that stops all work when the client is gone, as Workers do. The gateway passes it the work
   * that must finish, such as the settlement. Default: the request's own `waitUntil`, which servers such as h3's set.
   */
  readonly waitUntil?: WaitUntil | undefined;
  /** Reports that the client has disconnected. Default: the request's own signal. */
  readonly onDisconnect?: OnDisconnect | undefined;
  /** The state of the WebSocket that the request is a message of. */
  readonly socket?: SocketTurns | undefined;
  /** Accepts the request as a WebSocket for a key. */
  readonly accept?: ((key: ApiKey) => void) | undefined;
}

/** A request with its route. */
interface Routed {
  readonly endpoint: AnyEndpoint;
  readonly request: Request;
  /** The text in place of the route's wildcard, still percent-encoded. */
  readonly wildcardPath: string;
  /** The path of the gateway, beside the part that the host has removed. */
  readonly prefix: string;
  readonly mounted: Mounted;
}

/** Releases something. The call counts as ended when the returned promise has settled. */
type Release = () => Promise<unknown> | void;

/**
 * A call: its identity, its clock, and its end, at which it releases what it holds and tells its record. The steps pass their results on
 * as arguments; `found` collects the facts for the record.
 */
export class Call implements Incoming {
  readonly id: string = newRequestId();
  readonly services: Services;
  readonly limits: Limits;
  /** The gateway's clock, with one timer for all waits of the call. */
  readonly clock: CallClock;
  readonly endpoint: AnyEndpoint;
  readonly wildcardPath: string;
  /** The host's own context. */
  readonly context: unknown;
  readonly abort: CallAbort;
  /** True in a runtime that stops work whose client is gone, unless it is told to wait. */
  readonly hasWaitUntil: boolean;
  readonly json: JsonBudget;
  /** The observer's view of the call; undefined without an observer. */
  readonly watch: CallWatch | undefined;

  /** The API key as the caller sent it, so that reports can blot it out. */
  secret: string | undefined = undefined;
  /** The caller's key, after authentication. */
  key: ApiKey | undefined = undefined;
  /** The documents of the key in the host's store of responses, after authentication; undefined without a store. */
  kept: KeptDocuments | undefined = undefined;
  /** The time of the call's beginning, in milliseconds since the Unix epoch; for the record alone. */
  readonly beganAt: number;
  /** The call's slot among the calls in flight. */
  slot: InFlightSlot | undefined = undefined;
  /** The findings so far. After the end of the call, the findings of late steps are dropped. */
  found: Findings = new Findings();
  /** True after the end of the call. The results of late steps are dropped. */
  isEnded = false;

  #request: Request | undefined;
  #details: CallInfo | undefined = undefined;
  /** Undefined after the end of the call, like the request. */
  #mounted: Mounted | undefined;
  readonly #prefix: string;
  readonly #waitUntil: WaitUntil | undefined;
  readonly #releases: Release[] = [];
  /** Tells the runtime that the call needs nothing more. */
  #settled: (() => void) | undefined = undefined;
  #ending: Promise<void> | undefined = undefined;

  constructor(services: Services, { endpoint, request, wildcardPath, prefix, mounted }: Routed) {
    this.services = services;
    this.limits = services.limits;
    this.clock = new CallClock(services.clock);
    this.endpoint = endpoint;
    this.#request = request;
    this.wildcardPath = wildcardPath;
    this.#prefix = prefix;
    this.#mounted = mounted;
    this.context = mounted.context;
    this.json = new JsonBudget(services.limits);
    this.beganAt = services.isRecorded ? services.clock.now() : 0;
    this.watch = services.observer && watchOf(services.observer, this);
    this.abort = new CallAbort(this.clock, services.limits.deadlineMs, services.clock);
    this.#waitUntil = mounted.waitUntil ?? (request as { waitUntil?: WaitUntil }).waitUntil;
    this.hasWaitUntil = this.#waitUntil !== undefined;
    this.#listenForDisconnect(request, mounted);
    // A runtime that stops all work for a client who is gone must wait for the settlement.
    if (this.#waitUntil) this.waitUntil(new Promise<void>((resolve) => (this.#settled = resolve)));
  }

  #listenForDisconnect(request: Request, mounted: Mounted): void {
    // A mount may keep this function as long as its connection lives, so the function holds no call.
    const { abort } = this;
    const disconnect = (): void => abort.disconnect();
    if (mounted.onDisconnect) {
      const stop = mounted.onDisconnect(disconnect);
      if (stop) this.defer(stop);
      return;
    }
    // Read the signal only here: some runtimes create it on the first read.
    const { signal } = request;
    if (signal.aborted) return disconnect();
    signal.addEventListener("abort", disconnect, { once: true });
    this.defer(() => signal.removeEventListener("abort", disconnect));
  }

  /** The request. Throws after the end of the call, when the request is no longer kept. */
  get request(): Request {
    if (this.#request) return this.#request;
    throw this.endedBecause;
  }

  /** Fires when the call is cut short: work for the call must stop. */
  get signal(): AbortSignal {
    return this.abort.signal;
  }

  /** Turns the failure of the call into the error that the caller is told, and notes it. Reports an error whose cause the caller is not told. */
  fail(thrown: unknown): GatewayError {
    const { found, abort } = this;
    const error = failureOf(this, thrown);
    const isLate = error === abort.reason && error.code === "deadline_exceeded";
    // The time before the request is read is its client's.
    if (isLate && !found.error && found.model !== undefined) this.#tellLate(error);
    return (found.error = error);
  }

  #tellLate({ code, message }: GatewayError): void {
    const { meter, answering } = this.found;
    const last = answering ? `; the last upstream is ${answering.name}` : "";
    const cause = new Error(`The call has lasted for limits.deadlineMs, ${this.limits.deadlineMs} ms${last}.`);
    report(this, new GatewayError(code, message, { port: meter && "model-backend", cause }));
  }

  /** The call as the host's stores see it. A settlement after the end of the call needs it still. */
  get details(): CallInfo {
    return (this.#details ??= {
      requestId: this.id,
      context: this.context,
      headers: this.request.headers,
      clientAddress: this.#mounted?.clientAddress,
    });
  }

  get keyId(): string | undefined {
    return this.key?.id;
  }

  get socket(): SocketTurns | undefined {
    return this.#mounted?.socket;
  }

  get accept(): ((key: ApiKey) => void) | undefined {
    return this.#mounted?.accept;
  }

  baseUrl(): string {
    return `${originOf(this.request.url)}${this.#mounted?.path ?? ""}${this.#prefix}`;
  }

  get isOver(): boolean {
    return this.abort.isOver;
  }

  /** Ends the call early. */
  cut(reason: GatewayError): void {
    this.abort.cut(reason);
  }

  live(beganAt: number): LiveCall {
    return liveCallOf(this, beganAt);
  }

  /** Throws the reason of a call that was cut. */
  assertLive(): void {
    if (this.isEnded) throw this.endedBecause;
  }

  /** The error for a step that goes on after the end of the call. */
  get endedBecause(): GatewayError {
    return this.abort.reason ?? new GatewayError("client_closed", "The call is over.");
  }

  /** Releases something at the end of the call, the last first; at once after the end. */
  defer(release: Release): void {
    if (this.isEnded) this.waitUntil(Promise.resolve(release()));
    else this.#releases.push(release);
  }

  /** Takes back one `defer`. */
  forget(release: Release): void {
    const at = this.#releases.lastIndexOf(release);
    if (at >= 0) this.#releases.splice(at, 1);
  }

  /**
   * Waits for a promise of a host's function, which may never settle. Rejects with the reason when the call ends first; from then on the
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

  /** Waits for `ms` milliseconds. Rejects with the reason when the call ends first. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const wait = new Wait<void>(resolve, reject);
      const release = (): void => wait.reject(this.endedBecause);
      const cancel = afterAlive(this.clock, ms, () => wait.resolve());
      wait.whenOver(() => {
        cancel();
        this.forget(release);
      });
      this.defer(release);
    });
  }

  /** Keeps the runtime working for a promise, which must not reject. */
  waitUntil(work: Promise<unknown>): void {
    try {
      this.#waitUntil?.(work);
    } catch (error) {
      // A runtime that takes no more work must not keep the call from its end.
      report(this, error);
    }
  }

  /** The one end of a call: settles, and releases everything. Resolves when that is done; returns undefined when it is done at once. */
  end(): Promise<void> | undefined {
    if (this.isEnded) return this.#ending;
    this.isEnded = true;
    const endedAt = this.services.isRecorded ? this.clock.now() : 0;
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
    if (releasing.length > 0) this.#ending = Promise.all(releasing).then(() => this.#finish(endedAt));
    else this.#finish(endedAt);
    return this.#ending;
  }

  /** Ends the call and waits until it is settled, but not beyond the deadline: a function of the host may hang. */
  async endAndSettle(): Promise<void> {
    const ending = this.end();
    if (ending) await within(ending, this.abort.leftMs, this.clock);
  }

  /**
   * Records the call, and drops its request and its findings: a store that has not answered yet may keep the call. A late settlement needs
   * the id, the details, the clock and the services, which stay.
   */
  #finish(endedAt: number): void {
    if (this.services.isRecorded) {
      const record = recordCall(this, endedAt);
      this.found.hooked?.end(this, record);
    }
    if (this.slot) this.services.inFlight.end(this.slot);
    this.#settled?.();
    this.found = new Findings();
    this.#request = this.#mounted = this.#settled = this.kept = this.slot = undefined;
  }
}
