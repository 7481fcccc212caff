/** The gateway's time: the clock, timers, pauses in long work, and waits for promises that may never settle. */

/** The work between two pauses, as a number of bytes to read. This much work takes a few milliseconds. */
const SLICE_BYTES = 2 * 1024 * 1024;

/**
 * The events of a backend, or the parts of an answer, between two pauses. The loop over a backend that never waits would otherwise delay
 * other calls, and hide a hang-up.
 */
export const EVENTS_A_SLICE = 256;

export interface YieldOptions {
  /** Ends the work at the next pause, which rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Resolves when the event loop has served other work. Default: at its next iteration. */
  readonly pause?: () => Promise<void>;
}

/** Cuts the work of one job into slices, so that the event loop serves other work between them. */
export class EventLoopYielder {
  readonly #signal: AbortSignal | undefined;
  readonly #pause: () => Promise<void>;
  #bytes = 0;

  constructor({ signal, pause = nextIteration }: YieldOptions = {}) {
    this.#signal = signal;
    this.#pause = pause;
  }

  /** Counts finished work. Returns true when the caller should await `pause`. A check that returns false costs no promise. */
  isDue(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes >= SLICE_BYTES;
  }

  /** Lets the event loop serve other work. Rejects with the signal's reason when the signal has fired. */
  async pause(): Promise<void> {
    this.#bytes = 0;
    await this.#pause();
    this.#signal?.throwIfAborted();
  }
}

/** Resolves at the event loop's next iteration, by a timer, because every runtime has timers. */
export const nextIteration = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve));

/** The gateway's source of time. Tests inject a clock that they advance by hand. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Calls back once, after `ms` milliseconds. */
  after(ms: number, callback: () => void): Cancel;
  /** Calls back every `ms` milliseconds until cancelled. */
  every(ms: number, callback: () => void): Cancel;
}

/** Cancels a timer. A second call changes nothing. */
export type Cancel = () => void;

/** Lets the process end before the timer fires. Timers of Node, Bun and Deno have `unref`; timers of browsers and Workers are numbers. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}

/** The machine's clock. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: afterInDeno() ?? after,
  every(ms, callback) {
    const timer = setInterval(callback, ms);
    unref(timer);
    return () => clearInterval(timer);
  },
};

/** A wall clock that steps backwards, or that jumps by less than this many milliseconds, is ignored. */
const JUMP_MS = 1_000;

/** A clock that never moves back, also when the wall clock is corrected. The clock also counts the time that the machine sleeps. */
export function steadyClock(): Clock {
  let ahead = Date.now() - performance.now();
  let slept = 0;
  return {
    ...systemClock,
    now() {
      const steady = performance.now();
      const difference = Date.now() - steady - ahead;
      if (Math.abs(difference) > JUMP_MS) {
        ahead += difference;
        slept += Math.max(0, difference);
      }
      return steady + slept;
    },
  };
}

function after(ms: number, callback: () => void): Cancel {
  const timer = setTimeout(callback, ms);
  unref(timer);
  return () => clearTimeout(timer);
}

/** Calls back like the clock's `after`, and keeps the process alive until then: a script may have nothing else that runs. */
export function afterAlive(clock: Clock, ms: number, callback: () => void): Cancel {
  const timer = setTimeout(() => {}, ms);
  const cancel = clock.after(ms, () => {
    clearTimeout(timer);
    callback();
  });
  return () => {
    clearTimeout(timer);
    cancel();
  };
}

/** The most shared timers. There is one for each length of wait; waits of further lengths get their own timers. */
const MAX_SHARED_TIMERS = 64;

/**
 * Returns a function like `after` that uses one timer of the runtime for all waits of the same length; undefined outside Deno. All calls
 * use the same two or three lengths, and cancel nearly all of their waits. In Deno, separate timers take a third of the time of a short
 * call. In other runtimes a timer is cheap. In Workers a timer belongs to one request, so calls cannot share it.
 */
function afterInDeno(): Clock["after"] | undefined {
  const { process } = globalThis as { process?: Partial<DenoProcess> };
  if (process?.versions?.["deno"] === undefined) return undefined;
  const hooks = process.getBuiltinModule?.("async_hooks");
  if (!hooks) return undefined;
  const timers = new Map<number, SharedTimer>();
  return (ms, callback) => {
    let timer = timers.get(ms);
    if (!timer && timers.size >= MAX_SHARED_TIMERS) return after(ms, callback);
    if (!timer) timers.set(ms, (timer = new SharedTimer(ms, () => timers.delete(ms))));
    // Run the callback in the asynchronous context of its own call, not of the call that armed the timer.
    const inContext = hooks.AsyncLocalStorage.snapshot();
    return timer.add(() => inContext(callback));
  };
}

/** The part of Deno's `process` that this file uses. */
interface DenoProcess {
  readonly versions: Readonly<Record<string, string | undefined>>;
  getBuiltinModule(name: "async_hooks"): {
    readonly AsyncLocalStorage: { snapshot(): (callback: () => void) => void };
  };
}

/** A wait, in a linked list of the waits of the same length, from the earliest to the latest. */
interface SharedWait {
  /** Undefined when the wait is over or cancelled. */
  callback: (() => void) | undefined;
  readonly dueAt: number;
  previous: SharedWait | undefined;
  next: SharedWait | undefined;
}

/** The waits of one length. One timer is armed for the earliest of them. */
export class SharedTimer {
  readonly #ms: number;
  readonly #emptied: () => void;
  #first: SharedWait | undefined;
  #last: SharedWait | undefined;

  /** @param emptied Called when no wait is left, and no timer is armed. */
  constructor(ms: number, emptied: () => void) {
    this.#ms = ms;
    this.#emptied = emptied;
    this.#arm(ms);
  }

  add(callback: () => void): Cancel {
    // At least 1 ms, like the runtime's timers: a callback that adds a wait of 0 ms must not keep `#fire` busy for ever.
    const dueAt = performance.now() + Math.max(1, this.#ms);
    const wait: SharedWait = { callback, dueAt, previous: this.#last, next: undefined };
    if (this.#last) this.#last.next = wait;
    else this.#first = wait;
    this.#last = wait;
    return () => this.#remove(wait);
  }

  #remove(wait: SharedWait): void {
    const { previous, next } = wait;
    if (!wait.callback) return;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    // Free the callback and the neighbours, even while the caller keeps the cancel function.
    wait.callback = wait.previous = wait.next = undefined;
  }

  #arm(ms: number): void {
    unref(setTimeout(() => this.#fire(), ms));
  }

  #fire(): void {
    const now = performance.now();
    try {
      // A callback may add waits, but they are due after `now`.
      for (let wait = this.#first; wait && wait.dueAt <= now; wait = this.#first) {
        const { callback } = wait;
        this.#remove(wait);
        callback?.();
      }
    } finally {
      // When a callback throws, the other due waits fire in the next turn.
      if (this.#first) this.#arm(Math.max(0, this.#first.dueAt - performance.now()));
      else this.#emptied();
    }
  }
}

/** A shared timer that fires later than this shows that the wall clock has jumped, in milliseconds. */
const LATE_TIMER_MS = 250;

/** The length of a call's shared timer, in milliseconds. Most calls end sooner. */
const SHARED_TIMER_MS = 1_000;

/** A wait of a call that has no timer of its own yet. */
interface UntimedWait {
  readonly ms: number;
  readonly callback: () => void;
  readonly begunAt: number;
  /** Cancels the wait's own timer, once it has one. */
  cancel: Cancel | undefined;
  /** The index in the list of waits; -1 for a wait that is cancelled or has its own timer. */
  index: number;
}

/**
 * The clock of one call. A call has three or four long waits (its deadline, its body, its hold, its store queries), and nearly all of
 * them are cancelled within milliseconds. So they share one timer: a wait gets its own timer only when that one fires.
 */
export class CallClock implements Clock {
  readonly #clock: Clock;
  readonly #waits: UntimedWait[] = [];
  /** Undefined while no wait shares the timer. */
  #cancelTimer: Cancel | undefined = undefined;
  #timerSetAt = 0;
  /** True once the shared timer has fired: later waits have timers of their own. */
  #isLong = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  after(ms: number, callback: () => void): Cancel {
    if (this.#isLong || ms < SHARED_TIMER_MS) return this.#clock.after(ms, callback);
    const wait: UntimedWait = {
      ms,
      callback,
      begunAt: this.#clock.now(),
      cancel: undefined,
      index: this.#waits.length,
    };
    this.#waits.push(wait);
    if (!this.#cancelTimer) {
      this.#timerSetAt = wait.begunAt;
      this.#cancelTimer = this.#clock.after(SHARED_TIMER_MS, () => this.#setTimers());
    }
    return () => this.#cancel(wait);
  }

  every(ms: number, callback: () => void): Cancel {
    return this.#clock.every(ms, callback);
  }

  #cancel(wait: UntimedWait): void {
    const last = this.#waits.at(-1);
    if (wait.index < 0 || !last) return wait.cancel?.();
    this.#waits[wait.index] = last;
    last.index = wait.index;
    wait.index = -1;
    this.#waits.pop();
    if (this.#waits.length > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #setTimers(): void {
    this.#isLong = true;
    this.#cancelTimer = undefined;
    const now = this.#clock.now();
    // After a jump of the wall clock, a wait may last a second longer. It must never end early.
    const hasJumped = now < this.#timerSetAt || now > this.#timerSetAt + SHARED_TIMER_MS + LATE_TIMER_MS;
    for (const wait of this.#waits.splice(0)) {
      wait.index = -1;
      const waitedMs = hasJumped ? 0 : Math.min(SHARED_TIMER_MS, Math.max(0, now - wait.begunAt));
      wait.cancel = this.#clock.after(wait.ms - waitedMs, wait.callback);
    }
  }
}

/** The result of a wait that ended before its promise settled. */
export const LATE: unique symbol = Symbol("late");

/**
 * A wait for one promise of a host's function. A promise keeps everything that waits for it until it settles, and this one may never
 * settle. So the promise holds this object alone, which drops all its references once the wait is over.
 */
export class Wait<Value> {
  #resolve: ((value: Value) => void) | undefined;
  #reject: ((reason: unknown) => void) | undefined;
  #over: (() => void) | undefined = undefined;

  constructor(resolve: (value: Value) => void, reject: (reason: unknown) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get isOver(): boolean {
    return this.#resolve === undefined;
  }

  /** Waits for the promise. A result or failure after the end of the wait is dropped. */
  for(promise: PromiseLike<Value>): void {
    promise.then(
      (value) => this.resolve(value),
      (reason: unknown) => this.reject(reason),
    );
  }

  resolve(value: Value): void {
    this.#end(this.#resolve, value);
  }

  reject(reason: unknown): void {
    this.#end(this.#reject, reason);
  }

  /** Calls `over` once, when the wait is over, however the wait ended. */
  whenOver(over: () => void): void {
    this.#over = over;
  }

  #end<Result>(settle: ((result: Result) => void) | undefined, result: Result): void {
    const over = this.#over;
    this.#resolve = this.#reject = this.#over = undefined;
    over?.();
    settle?.(result);
  }
}

/** Resolves in the next microtask. Node's own `queueMicrotask` costs more than a promise. */
export const NEXT_MICROTASK: Promise<void> = Promise.resolve();

/** A function of its own, so that whoever keeps the result does not keep the promise, which may hold a whole body. */
const endOf =
  (wait: Wait<typeof LATE>): (() => void) =>
  () =>
    wait.resolve(LATE);

/**
 * Resolves with the value of a promise, or with `LATE` after `ms` milliseconds.
 *
 * @param giveUp Receives a function that ends the wait at once.
 */
export function within<T>(
  promise: Promise<T>,
  ms: number,
  clock: Clock,
  giveUp?: (end: () => void) => void,
): Promise<T | typeof LATE> {
  const waited = Promise.withResolvers<T | typeof LATE>();
  const wait = new Wait(waited.resolve, waited.reject);
  wait.for(promise);
  // Skip the timer when the promise settles within one microtask.
  void NEXT_MICROTASK.then(() => {
    if (wait.isOver) return;
    const end = endOf(wait);
    wait.whenOver(clock.after(ms, end));
    giveUp?.(end);
  });
  return waited.promise;
}

/** Reads something that its reader can do without. Resolves with undefined when it fails, or is not there within `ms` milliseconds. */
export async function readSoon<T>(reading: Promise<T>, ms: number, clock: Clock): Promise<T | undefined> {
  const read = await within(reading, ms, clock).catch(() => undefined);
  return read === LATE ? undefined : read;
}
