/** Passes the pieces of an answer through the `during` of the hooks, between the meter and the encoder. */

import { GatewayError } from "../errors.ts";
import type { HookFinish, Output, OutputKind } from "../kinds/kind.ts";
import type { FinishReason } from "../model/chat-event.ts";
import { LATE, within } from "../ports/clock.ts";
import type { Hook, HookCall, HookDecision, HookEvent, HookStep } from "../ports/hook.ts";
import {
  type AnswerEvents,
  type CallWithOutput,
  DEFAULT_TIMEOUT_MS,
  type EndableEvents,
  hookFailed,
  type OutputCode,
  wrongReturn,
} from "./output.ts";
import { report } from "./reports.ts";

const DEFAULT_HOLD_BYTES = 262_144;
const DEFAULT_HOLD_MS = 30_000;

/** The memory of a held piece beside its texts, in bytes. */
const PIECE_BYTES = 128;

/** Returns the code of `during` for these kinds. */
export function duringCode(kinds: readonly OutputKind[]): OutputCode {
  const outputs = new Map(kinds.map((output) => [output.kind, output]));
  return {
    open({ endpoint, json }, told, all) {
      const kind = outputs.get(told.kind);
      const hooks = all
        .map((hook, index) => ({ hook, name: `hooks[${index}]` }))
        .filter((one) => kind && one.hook.during && isNeeded(one, told));
      if (!kind || hooks.length === 0) return undefined;
      // The cast is safe: the answer is of the kind of its output.
      const output = kind.begin(endpoint.format, json.limits) as Output<never>;
      return {
        async shown(call, events, quietMs, onShown) {
          const shown = new ShownEvents(call, events, output, hooks, told, onShown);
          await shown.begin(quietMs);
          return shown;
        },
      };
    },
  };
}

/** A hook, and its name for the host: its place among the hooks of the gateway. */
interface NamedHook {
  readonly hook: Hook;
  readonly name: string;
}

function isNeeded({ hook, name }: NamedHook, told: HookCall): boolean {
  try {
    return hook.needsDuring?.(told) ?? true;
  } catch (thrown) {
    throw hookFailed(`${name}.needsDuring`, thrown);
  }
}

/** A decision in full, checked. The finish is always the last of `show`, and only there. */
interface Decided {
  readonly show: readonly HookEvent[];
  readonly end?: FinishReason | undefined;
}

const NONE: readonly HookEvent[] = Object.freeze([]);

/** A hook with a `during`, for one answer: asks the hook, and keeps the events that the hook holds back. */
class HookRun {
  readonly #call: CallWithOutput;
  readonly #hook: Hook;
  readonly #name: string;
  readonly #told: HookCall;
  readonly #output: Output<unknown>;
  #held: HookEvent[] = [];
  #heldBytes = 0;
  /** The rest of the time to wait for the next piece of the answer, in milliseconds. */
  leftMs: number;
  /** True once the hook has failed, where the rest of the answer is shown as it is. */
  #isOff = false;
  /** Ends the wait for the hook. */
  #giveUp: (() => void) | undefined;

  constructor(call: CallWithOutput, { hook, name }: NamedHook, told: HookCall, output: Output<unknown>) {
    this.#call = call;
    this.#hook = hook;
    this.#name = name;
    this.#told = told;
    this.#output = output;
    this.leftMs = this.#holdMs;
    call.defer(() => {
      this.#giveUp?.();
      this.#held = [];
    });
  }

  get #holdMs(): number {
    return this.#hook.maxHoldMs ?? DEFAULT_HOLD_MS;
  }

  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  /** Asks the hook. Returns a promise only when the hook does. Throws the error that ends the answer. */
  ask(event: HookEvent): Decided | Promise<Decided> {
    if (this.#isOff) return { show: [event] };
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = this.#hook;
    let decided: HookDecision | Promise<HookDecision>;
    try {
      const given = event.type === "finish" ? this.#output.finishFor(event) : { ...event };
      decided = this.#hook.during?.(given, this.#told, this.#held);
    } catch (thrown) {
      return this.#failed(event, thrown);
    }
    if (!isThenable(decided)) return this.#decided(event, decided);
    const deciding = within(Promise.resolve(decided), timeoutMs, this.#call.clock, (end) => (this.#giveUp = end));
    return this.#call.wait(deciding).then(
      (decision) => {
        this.#giveUp = undefined;
        this.#call.assertLive();
        return decision === LATE
          ? this.#failed(event, new Error(`A hook took longer than ${timeoutMs} ms.`))
          : this.#decided(event, decision);
      },
      (thrown: unknown) => {
        this.#giveUp = undefined;
        this.#call.assertLive();
        return this.#failed(event, thrown);
      },
    );
  }

  /** Ends a hold that has lasted too long. Returns the held pieces, or throws the error that ends the answer. */
  lapse(): Decided {
    return this.#failed(undefined, new Error(`A hook has held a piece for longer than ${this.#holdMs} ms.`));
  }

  #decided(event: HookEvent, decision: HookDecision): Decided {
    if (decision === undefined || decision === null) return { show: [...this.#released(), event] };
    const isLast = event.type === "finish";
    if (decision === "hold" && !isLast) return this.#holding(event, this.#held, [event]) ?? { show: NONE };
    const { show = NONE, hold = NONE, end } = this.#stepOf(decision);
    const [shown, held] = [this.#checked(show, event), this.#checked(hold)];
    if (held.length > 0 && (isLast || end !== undefined))
      throw wrongReturn("A hook cannot hold a piece at the end of the answer: nothing follows.");
    const before = this.#held;
    this.#released();
    if (held.length === 0) return { show: shown, end };
    return this.#holding(event, [], held, before) ?? { show: shown };
  }

  /**
   * Holds pieces behind those of a list. Returns the decision in place of a hold that takes too much memory.
   *
   * @param before The pieces that were held before. They are shown with the event where the hook may fail.
   */
  #holding(
    event: HookEvent,
    list: HookEvent[],
    pieces: readonly HookEvent[],
    before: HookEvent[] = list,
  ): Decided | undefined {
    const { maxHoldBytes = DEFAULT_HOLD_BYTES } = this.#hook;
    for (const piece of pieces) this.#heldBytes += bytesOf(piece);
    const isTooMuch = this.#heldBytes > maxHoldBytes;
    this.#held = isTooMuch ? before : list;
    if (isTooMuch)
      return this.#failed(event, new Error(`A hook has held more than maxHoldBytes, ${maxHoldBytes} bytes.`));
    for (const piece of pieces) list.push(piece);
    return undefined;
  }

  #stepOf(decision: NonNullable<HookDecision>): HookStep {
    if (Array.isArray(decision)) return { show: decision as readonly HookEvent[] };
    const step = decision as Partial<HookStep & HookEvent>;
    if (typeof step !== "object") throw wrongReturn(WRONG_DECISION);
    if ("type" in step) return { show: [step as HookEvent] };
    const { show = NONE, hold = NONE, end, ...others } = step;
    if (!Array.isArray(show) || !Array.isArray(hold) || Object.keys(others).length > 0)
      throw wrongReturn(WRONG_DECISION);
    return { show, hold, ...(end !== undefined && { end }) };
  }

  /**
   * Returns pieces that a hook has returned, each checked.
   *
   * @param finish The event that the hook was asked about: only for the finish can it return one, and the finish always goes on.
   */
  #checked(events: readonly HookEvent[], finish?: HookEvent): HookEvent[] {
    const checked: HookEvent[] = [];
    let last = finish?.type === "finish" ? finish : undefined;
    for (const [at, event] of events.entries()) {
      if (typeof event !== "object" || event === null) throw wrongReturn(WRONG_DECISION);
      if (event.type === "finish" && last && at === events.length - 1) {
        const finished = this.#output.finished(last, event);
        if (typeof finished === "string") throw wrongReturn(`A hook has returned a wrong finish: ${finished}.`);
        last = finished;
      } else {
        const wrong = this.#output.wrong(event);
        if (wrong !== undefined) throw wrongReturn(`A hook has returned a wrong event: ${wrong}.`);
        checked.push(event);
      }
    }
    if (last) checked.push(last);
    return checked;
  }

  #failed(event: HookEvent | undefined, thrown: unknown): Decided {
    if (thrown instanceof GatewayError) throw thrown;
    const failed = hookFailed(`${this.#name}.during`, thrown);
    if (this.#hook.down !== "open") throw failed;
    report(this.#call, failed);
    this.#isOff = true;
    return { show: event ? [...this.#released(), event] : this.#released() };
  }

  #released(): readonly HookEvent[] {
    const held = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    this.leftMs = this.#holdMs;
    return held;
  }
}

const WRONG_DECISION =
  'A hook must return from during nothing, an event, a list of events, "hold", or an object with show, hold or end.';

const isThenable = (value: unknown): value is PromiseLike<HookDecision> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === "function";

/** Estimates the memory of a value. Its depth is bounded, because it is a checked event. */
function bytesOf(value: unknown): number {
  if (typeof value === "string") return 2 * value.length;
  if (value instanceof Uint8Array) return value.byteLength;
  if (typeof value !== "object" || value === null) return 8;
  return Object.values(value).reduce((sum: number, one) => sum + bytesOf(one), PIECE_BYTES);
}

/** The events of an answer as its hooks show them. */
class ShownEvents<Answered> implements AnswerEvents<Answered> {
  isFinished = false;
  keep: ((finish: Answered) => Promise<void> | undefined) | undefined = undefined;
  readonly #call: CallWithOutput;
  readonly #events: EndableEvents<Answered>;
  readonly #output: Output<Answered>;
  readonly #onShown: ((event: Answered) => void) | undefined;
  /** The hooks, in their order. Pieces pass through them from the last to the first. */
  readonly #runs: readonly HookRun[];
  /** The index of the first hook that a piece passes through: the last, or the one before a hook that has ended the answer. */
  #first: number;
  #end: FinishReason | undefined;
  /** The events that have come, and that no hook has seen. */
  readonly #came: Answered[] = [];
  /** The wait for the next event; undefined when none is awaited. */
  #reading: Promise<boolean> | undefined;
  /** The step that `begin` has begun. */
  #stepping: Promise<void> | undefined;
  /** The events to hand on, of which the first ones are handed on: to shift them out of a long list takes long. */
  #shown: Answered[] = [];
  #handed = 0;
  /** True once the finish is among the shown events, as the last. */
  #isWhole = false;

  /** @param onShown Receives each event of the answer, and the fields that are lost. */
  constructor(
    call: CallWithOutput,
    events: EndableEvents<Answered>,
    output: Output<Answered>,
    hooks: readonly NamedHook[],
    told: HookCall,
    onShown: ((event: Answered) => void) | undefined,
  ) {
    this.#call = call;
    this.#events = events;
    this.#output = output;
    this.#runs = hooks.map((hook) => new HookRun(call, hook, told, output));
    this.#first = hooks.length - 1;
    this.#onShown = onShown;
  }

  /** Waits until hooks have shown the first piece, so that an answer that they refuse still has its true status. */
  async begin(quietMs: number | undefined): Promise<void> {
    const stepping = this.#untilShown();
    if (quietMs === undefined) return stepping;
    this.#stepping = stepping;
    const { clock } = this.#call;
    if ((await within(stepping, quietMs, clock, (end) => this.#call.defer(end))) !== LATE) return;
    // Its error is thrown where the answer is read. A call that ends first reads no more.
    stepping.catch(() => {});
    this.#call.assertLive();
  }

  async #untilShown(): Promise<void> {
    // The start alone begins no answer.
    do await this.#step();
    while (this.#shown.length < 2);
  }

  async each(hand: (event: Answered) => boolean): Promise<boolean> {
    for (;;) {
      while (this.#handed < this.#shown.length) {
        const event = this.#shown[this.#handed++] as Answered;
        if (this.#isWhole && this.#handed === this.#shown.length) {
          const keeping = this.keep?.(event);
          if (keeping) await keeping;
          this.isFinished = true;
          hand(event);
          return false;
        }
        if (!hand(event)) return true;
      }
      this.#shown = [];
      this.#handed = 0;
      await (this.#stepping ?? this.#step());
      this.#stepping = undefined;
    }
  }

  /** Reads the next event, and asks the hooks about its pieces. */
  async #step(): Promise<void> {
    this.#reading ??= this.#events.each((event) => {
      this.#came.push(event);
      return false;
    });
    if (!(await this.#inTime(this.#reading))) return;
    this.#reading = undefined;
    this.#call.assertLive();
    if (this.#came.length === 0) throw new Error("An answer must have a finish.");
    for (const event of this.#came.splice(0)) {
      const lost = this.#onShown && this.#output.lost?.(event);
      if (lost !== undefined) this.#onShown?.(lost);
      for (const plain of this.#output.plain(event)) await this.#take(plain);
    }
  }

  /** Waits for the next event while hooks hold pieces. Resolves with false when a hold has lasted too long. */
  async #inTime(reading: Promise<boolean>): Promise<boolean> {
    const holding = this.#runs.filter(({ isHolding }) => isHolding);
    const [first] = holding.toSorted((one, other) => one.leftMs - other.leftMs);
    const { clock } = this.#call;
    const begunAt = clock.now();
    // The end of the call ends the wait, too: the backend's events end then.
    const isLate = first ? (await within(reading, Math.max(0, first.leftMs), clock)) === LATE : void (await reading);
    for (const run of holding) run.leftMs -= clock.now() - begunAt;
    if (!first || !isLate) return true;
    await this.#pass(first.lapse().show, this.#runs.indexOf(first) - 1);
    return false;
  }

  #take(event: Answered & (HookEvent | { readonly type: "start" })): Promise<void> | undefined {
    if (event.type === "start") return this.#show(event);
    if (event.type !== "finish") return this.#end === undefined ? this.#pass([event], this.#first) : undefined;
    let finish = event as HookFinish;
    if (this.#end !== undefined) finish = this.#endedBy(finish, this.#end);
    return this.#pass([finish], this.#first);
  }

  #endedBy(finish: HookFinish, reason: FinishReason): HookFinish {
    const ended = this.#output.ended?.(finish, reason) ?? "only a chat answer has a reason of its end";
    if (typeof ended === "string") throw wrongReturn(`A hook cannot end this answer: ${ended}.`);
    return ended;
  }

  /** Passes pieces through the hooks from one index down to 0. Returns a promise only when a hook has returned one. */
  #pass(events: readonly HookEvent[], at: number, from = 0): Promise<void> | undefined {
    const run = this.#runs[at];
    for (let index = from; index < events.length; index++) {
      // This hook, or one nearer to the caller, has ended the answer: only the finish goes on.
      if (at > this.#first) {
        const last = events.at(-1);
        return last?.type === "finish" ? this.#take(last as Answered & HookEvent) : undefined;
      }
      const event = events[index] as HookEvent;
      if (!run) {
        this.#show(event as Answered & HookEvent);
        continue;
      }
      const decided = run.ask(event);
      const passing =
        decided instanceof Promise
          ? decided.then((one) => this.#onDecided(event, one, at))
          : this.#onDecided(event, decided, at);
      if (passing) return passing.then(() => this.#pass(events, at, index + 1));
    }
    return undefined;
  }

  #onDecided(event: HookEvent, { show, end }: Decided, at: number): Promise<void> | undefined {
    if (end === undefined) return this.#pass(show, at - 1);
    if (event.type === "finish") {
      const finish = this.#endedBy(show.at(-1) as HookFinish, end);
      return this.#pass([...show.slice(0, -1), finish], at - 1);
    }
    // Check the reason before anything is shown.
    if (!this.#output.ended)
      throw wrongReturn("A hook cannot end this answer: only a chat answer has a reason of its end.");
    const passing = this.#pass(show, at - 1);
    if (passing) return passing.then(() => this.#endAt(at, end));
    return this.#endAt(at, end);
  }

  #endAt(at: number, reason: FinishReason): undefined {
    // A hook nearer to the caller may have ended the answer already.
    if (this.#first < at) return;
    this.#first = at - 1;
    this.#end = reason;
    this.#events.end();
  }

  #show(event: Answered & (HookEvent | { readonly type: "start" })): undefined {
    const shown = event.type === "start" ? event : (this.#output.shown(event) as Answered | undefined);
    if (event.type === "finish") this.#isWhole = true;
    if (shown === undefined) return;
    this.#onShown?.(shown);
    this.#shown.push(shown);
  }
}
