/** Asks a second upstream when the first content of an answer is late. The first upstream to speak answers the call. */

import { toGatewayError } from "../../errors.ts";
import { assertOptions, type NumberRule } from "../../options.ts";
import type { Cancel, Clock } from "../../ports/clock.ts";
import type { CallContext, UnreadEvents } from "../../ports/model-backend.ts";
import type { AskedUpstream, UpstreamObserver } from "../../ports/observer.ts";
import { SHARE } from "./canary.ts";
import { isContent, mayRepeat, type RoutableRequest, usageIn } from "./reading.ts";
import type { RoutedBackend, RoutedCall } from "./upstream.ts";

/** The options of `hedge`. */
export interface HedgeOptions {
  /**
   * The time without content after which a second upstream is asked, in milliseconds. With `percentile`, it applies only until 20 answers are
   * known. Default: the percentile alone.
   */
  readonly afterMs?: number;
  /** Waits for as long as this part of the route's last 256 answers took to their first content. Default: 0.95 without `afterMs`. */
  readonly percentile?: number;
  /** The most hedged calls, as a part of the calls that may be hedged, from 0 to 1. Default: 0.05. */
  readonly share?: number;
}

/** The rules for a second upstream. Made by `hedge`. */
export interface Hedge {
  /** Called once for each route that has it. */
  open(clock: Clock): Hedger;
}

const PERCENTILE: NumberRule = { words: "a number from 0.5 to below 1", allows: (value) => value >= 0.5 && value < 1 };

/**
 * Asks a second upstream of a route when the first content of a streamed chat is late. The first upstream to speak answers the call. The other one is
 * cut; the record of the call lists it as `outrun`, with the counts that it has reported, and the caller does not pay for it. Requests that
 * make an upstream do or keep something are asked once: those with tools that the provider runs, with `background`, with `store`.
 * Throws a TypeError or a RangeError for wrong options.
 *
 * @example route({ routes: { fast: { upstreams: [here, there], hedge: hedge({ percentile: 0.95, share: 0.05 }) } } });
 */
export function hedge(options: HedgeOptions = {}): Hedge {
  assertOptions<HedgeOptions>("hedge", options, {
    afterMs: "timerMs?",
    percentile: { optional: PERCENTILE },
    share: { optional: SHARE },
  });
  return { open: (clock) => new Hedger(options, clock) };
}

const DEFAULT_SHARE = 0.05;
const DEFAULT_PERCENTILE = 0.95;
/** The most answers whose times are kept, and the fewest that a percentile is learned from. */
const MOST_TIMES = 256;
const FEWEST_TIMES = 20;
/** The most hedged calls that the budget saves in quiet times. */
const MOST_SAVED = 10;
/** The most events before the first content that are held back. A further one counts as content. */
const MAX_EARLY = 64;

/** An upstream that has begun to speak. */
export interface Spoken<Event> {
  readonly upstream: RoutedBackend;
  readonly routed: RoutedCall;
  readonly source: AsyncIterator<Event>;
  readonly first: IteratorResult<Event, unknown>;
  /** The events before the first content. */
  readonly counts: readonly Event[];
}

/** The functions that ask upstreams and handle their failures. */
interface HedgedAsk<Event> {
  readonly call: CallContext;
  /** True when another upstream may go on after a break of the answer. */
  readonly mayGoOn: boolean;
  /** Asks an upstream, whose breaker has been entered. */
  start(upstream: RoutedBackend, call: CallContext): RoutedCall;
  events(upstream: RoutedBackend, routed: RoutedCall): AsyncIterable<Event>;
  /** Enters and returns the upstream that is asked second; undefined when no other may be asked. */
  second(): RoutedBackend | undefined;
  /** Notes a failure. Throws an error after which no upstream is asked. */
  failed(upstream: RoutedBackend, routed: RoutedCall, thrown: unknown): void;
  /** Gets the counts of an upstream before its first content. */
  onCounts(counts: readonly Event[], routed: RoutedCall): void;
}

export class Hedger {
  readonly #options: HedgeOptions;
  readonly #clock: Clock;
  /** The times to the first content of the last answers, in milliseconds: a ring. */
  readonly #times: number[] = [];
  #next = 0;
  #learnedMs: number | undefined = undefined;
  /** The hedged calls that the budget allows now. */
  #saved = 1;

  constructor(options: HedgeOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** Counts a call. Returns true for a request that two upstreams may get. The content of a complete answer comes only at its end. */
  takes(kind: string, request: RoutableRequest): boolean {
    if (request.stream !== true || !mayRepeat(kind, request)) return false;
    this.#saved = Math.min(MOST_SAVED, this.#saved + (this.#options.share ?? DEFAULT_SHARE));
    return true;
  }

  /** Asks an upstream, and a second one when the first is late. Resolves with undefined when all that were asked have failed. */
  begin<Event>(upstream: RoutedBackend, ask: HedgedAsk<Event>): Promise<Spoken<Event> | undefined> {
    return new Promise((resolve, reject) => {
      const race = new Race(this, this.#clock, ask, resolve, reject);
      race.enter(upstream);
      const afterMs = this.#afterMs();
      if (afterMs !== undefined) race.hedgeAfter(afterMs);
    });
  }

  /** Takes one hedged call from the budget. */
  spend(): boolean {
    if (this.#saved < 1) return false;
    this.#saved--;
    return true;
  }

  /** Returns a hedged call that no upstream was asked for. */
  save(): void {
    this.#saved++;
  }

  /** Notes the time to the first content of an answer. */
  note(ms: number): void {
    this.#times[this.#next] = ms;
    this.#next = (this.#next + 1) % MOST_TIMES;
    this.#learnedMs = undefined;
  }

  #afterMs(): number | undefined {
    const { afterMs, percentile = afterMs === undefined ? DEFAULT_PERCENTILE : undefined } = this.#options;
    if (percentile === undefined || this.#times.length < FEWEST_TIMES) return afterMs;
    this.#learnedMs ??= this.#times.toSorted((one, other) => one - other)[Math.floor(this.#times.length * percentile)];
    return this.#learnedMs;
  }
}

/** An upstream of a race. */
interface Runner<Event> {
  readonly upstream: RoutedBackend;
  readonly racing: RacingCall;
  readonly routed: RoutedCall;
  readonly early: Event[];
  source: AsyncIterator<Event> | undefined;
}

/** The upstreams that are asked for one call, until the first of them speaks. */
class Race<Event> {
  readonly #hedger: Hedger;
  readonly #clock: Clock;
  readonly #beganAt: number;
  /** These are undefined once the race is over. */
  #ask: HedgedAsk<Event> | undefined;
  #resolve: ((spoken: Spoken<Event> | undefined) => void) | undefined;
  #reject: ((reason: unknown) => void) | undefined;
  #running: readonly Runner<Event>[] = [];
  #cancel: Cancel | undefined = undefined;

  constructor(
    hedger: Hedger,
    clock: Clock,
    ask: HedgedAsk<Event>,
    resolve: (spoken: Spoken<Event> | undefined) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#hedger = hedger;
    this.#clock = clock;
    this.#beganAt = clock.now();
    this.#ask = ask;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  enter(upstream: RoutedBackend): void {
    if (!this.#ask) return;
    // Only one upstream reports to the call at a time: the first, until another one wins or is left alone.
    const [first] = this.#running;
    // A call that is cut now is charged for what the first upstream has counted.
    const racing = new RacingCall(this.#ask.call, first && (() => first.routed.choose()));
    const routed = this.#ask.start(upstream, racing);
    routed.isMetered = true;
    const runner: Runner<Event> = { upstream, racing, routed, early: [], source: undefined };
    this.#running = [...this.#running, runner];
    routed.counted(runner.early);
    try {
      runner.source = this.#ask.events(upstream, routed)[Symbol.asyncIterator]();
      void this.#hear(runner, runner.source);
    } catch (error) {
      this.#failed(runner, error);
    }
  }

  hedgeAfter(ms: number): void {
    const { signal } = this.#ask?.call ?? {};
    if (!signal || signal.aborted) return;
    const cancel = this.#clock.after(ms, () => {
      signal.removeEventListener("abort", cancel);
      if (!this.#ask || !this.#hedger.spend()) return;
      const second = this.#ask.second();
      if (second) this.enter(second);
      else this.#hedger.save();
    });
    signal.addEventListener("abort", cancel, { once: true });
    this.#cancel = () => {
      cancel();
      signal.removeEventListener("abort", cancel);
    };
  }

  /** Reads up to the first content. Holds nothing of the call: the next step may never come. */
  async #hear(runner: Runner<Event>, source: AsyncIterator<Event>): Promise<void> {
    try {
      for (;;) {
        const step = await source.next();
        if (!this.#running.includes(runner)) return;
        if (step.done === true || isContent(step.value) || runner.early.length === MAX_EARLY)
          return this.#won(runner, source, step);
        runner.early.push(step.value);
      }
    } catch (error) {
      this.#failed(runner, error);
    }
  }

  #won(runner: Runner<Event>, source: AsyncIterator<Event>, first: IteratorResult<Event, unknown>): void {
    const { upstream, racing, routed, early } = runner;
    const resolve = this.#resolve;
    const mayGoOn = this.#ask?.mayGoOn === true;
    this.#hedger.note(Math.max(0, this.#clock.now() - this.#beganAt));
    this.#end(runner);
    // Do not count a success yet: the end of the answer decides.
    upstream.breaker.leave();
    racing.speak();
    racing.hasWon = true;
    routed.won(mayGoOn);
    resolve?.({ upstream, routed, source, first, counts: early });
  }

  #failed(runner: Runner<Event>, thrown: unknown): void {
    if (!this.#ask || !this.#running.includes(runner)) return;
    const ask = this.#ask;
    this.#running = this.#running.filter((one) => one !== runner);
    const counts = runner.early.filter((event) => usageIn(event) !== undefined);
    const [resolve, reject] = [this.#resolve, this.#reject];
    const [other] = this.#running;
    try {
      if (counts.length > 0) ask.onCounts(counts, runner.routed);
      ask.failed(runner.upstream, runner.routed, thrown);
    } catch (error) {
      // A request that the second upstream alone refuses is not wrong: the first would have had it alone.
      if (!other || !runner.racing.isSilent || ask.call.signal.aborted) {
        this.#end(undefined, error);
        return reject?.(error);
      }
    }
    if (other) {
      other.racing.speak();
      return other.routed.choose();
    }
    this.#end();
    if (ask.call.signal.aborted) reject?.(thrown);
    else resolve?.(undefined);
  }

  /**
   * Ends the race. Cuts all upstreams but the winner.
   *
   * @param error The end of a call that nobody answers.
   */
  #end(winner?: Runner<Event>, error?: unknown): void {
    const losers = this.#running.filter((one) => one !== winner);
    this.#cancel?.();
    this.#running = [];
    this.#ask = this.#resolve = this.#reject = this.#cancel = undefined;
    for (const { upstream, racing, routed, source } of losers) {
      upstream.breaker.leave();
      if (winner) routed.outrun();
      else routed.failed(toGatewayError(error, "model-backend"), undefined);
      racing.cut();
      void stop(source);
    }
  }
}

/** Stops an upstream whose next step may never come. */
async function stop(source: AsyncIterator<unknown> | undefined): Promise<void> {
  try {
    await source?.return?.();
  } catch {
    // It fails because it was cut.
  }
}

/** The call as one upstream of a race sees it: with a signal of its own, and silent unless it speaks for the call. */
class RacingCall implements CallContext {
  readonly requestId: string;
  readonly context: unknown;
  readonly headers: Headers;
  readonly clientAddress: string | undefined;
  readonly key: CallContext["key"];
  readonly signal: AbortSignal;
  readonly observeUpstream: CallContext["observeUpstream"];
  /** True once the upstream answers the call. */
  hasWon = false;
  /** Called when a silent upstream begins an attempt. */
  readonly #onAttempt: (() => void) | undefined;
  readonly #abort = new AbortController();
  /** Undefined once the upstream is cut. */
  #call: CallContext | undefined;
  isSilent: boolean;
  #conversions: Parameters<CallContext["reportConversions"]>[0] = [];
  #unread: UnreadEvents | undefined = undefined;

  /** @param onAttempt Set for an upstream that is silent at first. Called when it begins an attempt. */
  constructor(call: CallContext, onAttempt: (() => void) | undefined) {
    this.requestId = call.requestId;
    this.context = call.context;
    this.headers = call.headers;
    this.clientAddress = call.clientAddress;
    this.key = call.key;
    this.signal = AbortSignal.any([call.signal, this.#abort.signal]);
    this.observeUpstream = call.observeUpstream && ((asked) => this.#observed(asked));
    this.#call = call;
    this.#onAttempt = onAttempt;
    this.isSilent = onAttempt !== undefined;
  }

  /** Throws once the upstream is cut, so that its backend sends nothing more. */
  #observed(asked: AskedUpstream): UpstreamObserver {
    const observe = this.#call?.observeUpstream;
    if (!observe) throw OUTRUN;
    const observer = observe(asked);
    if (this.isSilent) this.#onAttempt?.();
    return observer;
  }

  get continueWith(): CallContext["continueWith"] {
    const ask = this.#call?.continueWith;
    // The counts of the call are not those of this upstream before.
    return ask && ((...asked) => (this.hasWon ? ask(...asked) : Promise.reject(UNDECIDED)));
  }

  reportConversions(conversions: Parameters<CallContext["reportConversions"]>[0]): void {
    this.#conversions = conversions;
    if (!this.isSilent) this.#call?.reportConversions(conversions);
  }

  reportUnread(unread: UnreadEvents): void {
    this.#unread = unread;
    if (!this.isSilent) this.#call?.reportUnread?.(unread);
  }

  /** Passes on the past and all later reports of the upstream. */
  speak(): void {
    this.isSilent = false;
    this.#call?.reportConversions(this.#conversions);
    if (this.#unread) this.#call?.reportUnread?.(this.#unread);
  }

  cut(): void {
    this.#call = this.#unread = undefined;
    this.#abort.abort(OUTRUN);
  }
}

/** The reason of the cut of an upstream that was outrun. */
const OUTRUN: Error = new Error("Another upstream has answered first.");
const UNDECIDED: Error = new Error("Another upstream may still answer first.");
