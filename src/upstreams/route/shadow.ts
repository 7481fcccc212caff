/** Sends a share of the calls to one more upstream. Callers neither see its answers, nor wait or pay for them. */

import { GatewayError, type GatewayErrorCode, toGatewayError } from "../../errors.ts";
import type { ChatEvent } from "../../model/chat-event.ts";
import type { Usage } from "../../model/usage.ts";
import { assertOptions } from "../../options.ts";
import { type Clock, EVENTS_A_SLICE, nextIteration, within } from "../../ports/clock.ts";
import { type CallContext, type ModelBackend, VERB_OF } from "../../ports/model-backend.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import { SHARE } from "./canary.ts";
import { upstreamOf } from "./given.ts";
import { charsIn, isContent, mayRepeat, neutral, type RoutableRequest, usageIn } from "./reading.ts";
import type { RouteUpstream } from "./upstream.ts";

/** The options of `shadow`. */
export interface ShadowOptions {
  /** The upstream that gets the copies. The route closes its backend with the others. */
  readonly upstream: ModelBackend | RouteUpstream;
  /** The share of the calls that are copied, from 0 to 1. */
  readonly share: number;
  /** Receives each answer. Its own errors and rejections are ignored. */
  readonly onAnswer: (answer: ShadowAnswer) => unknown;
  /** The most copies at a time, with those whose `onAnswer` has not resolved. Further calls are not copied. Default: 8. */
  readonly maxAtOnce?: number;
  /** The longest time of a copy, in milliseconds. Default: 5 minutes. */
  readonly timeoutMs?: number;
  /** The most characters of an answer that are kept. The counts go on behind them. Default: 65,536. */
  readonly maxChars?: number;
}

/** The answer of a shadow. */
export interface ShadowAnswer {
  /** The id of the copied call, as its caller and its record have it. */
  readonly requestId: string;
  /** The host's own context of the copied call. */
  readonly context: unknown;
  /** The key of the copied call. It is not charged. */
  readonly key: Pick<ApiKey, "id" | "name">;
  /** The caller's name of the model. */
  readonly model: string;
  /** The name of the shadow's upstream, and its name of the model: `price` of a `priceTable` takes both. */
  readonly upstream: { readonly name: string; readonly model: string };
  /** The neutral events of the answer, up to `maxChars`. */
  readonly events: readonly (Exclude<ChatEvent, { readonly type: "native" }> | string)[];
  /** True when `events` lacks the rest of a long answer. */
  readonly isShortened: boolean;
  /** The counts that the upstream has reported. */
  readonly usage: Partial<Usage>;
  /** The code of the error that ended the answer: `deadline_exceeded` after `timeoutMs`, `busy` when the route was closed. */
  readonly errorCode: GatewayErrorCode | undefined;
  /** The error itself, for a log. */
  readonly error: GatewayError | undefined;
  /** The start, in milliseconds since the Unix epoch. */
  readonly beganAt: number;
  /** The time from the start to the first content, in milliseconds; undefined without content. */
  readonly firstEventMs: number | undefined;
  /** The time from the start to the end, in milliseconds. */
  readonly endMs: number;
}

/** Copies of calls. Made by `shadow`. */
export interface Shadow {
  readonly upstream: RouteUpstream;
  /** Called once for each route that has it. */
  open(clock: Clock, random: () => number): ShadowCopies;
}

const [MAX_AT_ONCE, TIMEOUT_MS, MAX_CHARS] = [8, 300_000, 65_536];

/**
 * Sends a share of a route's chats to one more upstream, once the caller's own upstream has begun to answer or has failed. Requests that make
 * an upstream do or keep something are not copied. Throws a TypeError or a RangeError for wrong options.
 *
 * @example shadow({ upstream: next, share: 0.02, onAnswer: ({ requestId, usage, events }) => compare(requestId, usage, events) });
 */
export function shadow(options: ShadowOptions): Shadow {
  assertOptions<ShadowOptions>("shadow", options, {
    upstream: "any",
    share: SHARE,
    onAnswer: "function",
    maxAtOnce: "positive?",
    timeoutMs: "timerMs?",
    maxChars: "fromZero?",
  });
  const upstream = upstreamOf("shadow: upstream", options.upstream, [VERB_OF.chat]);
  return { upstream, open: (clock, random) => new ShadowCopies(options, clock, random) };
}

/** Returns the characters of an event that is kept: at least one, so that `maxChars` also limits the number of events. */
function keptChars(event: ShadowAnswer["events"][number]): number {
  if (typeof event === "string" || "text" in event || "json" in event) return Math.max(1, charsIn(event));
  return COUNTING.has(event.type) ? 1 : JSON.stringify(event).length;
}

const COUNTING: ReadonlySet<string> = new Set(["start", "usage", "finish"]);

/** Asks the shadow's upstream; undefined when it cannot answer the request. */
type AskShadow = (call: CallContext) => AsyncIterable<unknown> | undefined;

interface NamedUpstream {
  readonly name: string;
  /** The upstream's own name of the model. Default: the caller's. */
  readonly model: string | undefined;
}

/** The copies of one route. */
export class ShadowCopies {
  readonly #options: ShadowOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #running = new Set<Copy>();
  #isClosed = false;

  constructor(options: ShadowOptions, clock: Clock, random: () => number) {
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
  }

  /** Copies a call, if it is drawn and there is room. Returns at once, and never throws. */
  copy(
    kind: string,
    request: RoutableRequest,
    call: CallContext,
    { name, model }: NamedUpstream,
    ask: AskShadow,
  ): void {
    const { share, maxAtOnce = MAX_AT_ONCE, timeoutMs = TIMEOUT_MS } = this.#options;
    if (this.#isClosed || !mayRepeat(kind, request) || this.#running.size >= maxAtOnce) return;
    if (call.signal.aborted || this.#random() >= share) return;
    const upstream = { name, model: model ?? request.model };
    const copy = new Copy(call, request.model, upstream, this.#clock, this.#options);
    this.#running.add(copy);
    const cancelTimer = this.#clock.after(timeoutMs, () => copy.end(tooSlow()));
    // Encoding a long request takes milliseconds: do it behind the work of the caller's own answer.
    const cancelStart = this.#clock.after(0, () => void copy.read(() => ask(copy.context)));
    copy.onEnd = (answer) => {
      cancelTimer();
      cancelStart();
      void this.#tell(answer, timeoutMs).finally(() => this.#running.delete(copy));
    };
  }

  async #tell(answer: ShadowAnswer, timeoutMs: number): Promise<void> {
    try {
      // A hook that hangs must not take the room of further copies for ever.
      await within(Promise.resolve(this.#options.onAnswer(answer)), timeoutMs, this.#clock);
    } catch {
      // A failing hook of the host changes nothing.
    }
  }

  /** Ends all copies. Each is told as far as it came. */
  close(): void {
    this.#isClosed = true;
    for (const copy of this.#running) copy.end(closing());
  }
}

const tooSlow = (): GatewayError =>
  new GatewayError("deadline_exceeded", "The shadow took too long.", { port: "model-backend" });
const closing = (): GatewayError => new GatewayError("busy", "The route is closing.");

/** A copy of a call. */
class Copy {
  /** Gets the answer, once. */
  onEnd: ((answer: ShadowAnswer) => void) | undefined = undefined;
  /** The call as the shadow's upstream sees it. It reports nothing to the caller's call. */
  readonly context: CallContext;
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  readonly #maxChars: number;
  readonly #beganAt: number;
  readonly #facts: Pick<ShadowAnswer, "requestId" | "context" | "key" | "model" | "upstream">;
  readonly #events: ShadowAnswer["events"][number][] = [];
  #chars = 0;
  #count = 0;
  #usage: Partial<Usage> = {};
  #firstEventMs: number | undefined = undefined;

  constructor(
    { requestId, context, headers, clientAddress, key }: CallContext,
    model: string,
    upstream: ShadowAnswer["upstream"],
    clock: Clock,
    { maxChars = MAX_CHARS }: ShadowOptions,
  ) {
    const { signal } = this.#abort;
    this.context = { requestId, context, headers, clientAddress, key, signal, reportConversions: () => {} };
    this.#facts = { requestId, context, key: { id: key.id, name: key.name }, model, upstream };
    this.#clock = clock;
    this.#maxChars = maxChars;
    this.#beganAt = clock.now();
  }

  get #elapsedMs(): number {
    return Math.max(0, this.#clock.now() - this.#beganAt);
  }

  /** Reads the answer to its end, or until the copy is ended. */
  async read(ask: () => AsyncIterable<unknown> | undefined): Promise<void> {
    try {
      for await (const event of ask() ?? []) {
        if (!this.onEnd) return;
        this.#note(event);
        if (++this.#count % EVENTS_A_SLICE === 0) await nextIteration();
      }
      this.end();
    } catch (error) {
      this.end(toGatewayError(error, "model-backend"));
    }
  }

  #note(event: unknown): void {
    if (isContent(event)) this.#firstEventMs ??= this.#elapsedMs;
    this.#usage = { ...this.#usage, ...usageIn(event) };
    for (const known of neutral(event)) {
      this.#chars += keptChars(known);
      if (!this.#isShortened) this.#events.push(known);
    }
  }

  get #isShortened(): boolean {
    return this.#chars > this.#maxChars;
  }

  /** Ends the copy, once. Cuts an answer that is not complete. */
  end(error?: GatewayError): void {
    const { onEnd } = this;
    this.onEnd = undefined;
    if (!onEnd) return;
    if (error) this.#abort.abort(error);
    onEnd({
      ...this.#facts,
      events: this.#events,
      isShortened: this.#isShortened,
      usage: this.#usage,
      errorCode: error?.code,
      error,
      beganAt: this.#beganAt,
      firstEventMs: this.#firstEventMs,
      endMs: this.#elapsedMs,
    });
  }
}
