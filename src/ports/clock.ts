/** Time, injected: what the gateway knows of now and later. */

/** Where the gateway takes its time from. Tests inject one that they wind by hand. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Calls back once, after `ms` milliseconds, unless cancelled. */
  after(ms: number, callback: () => void): Cancel;
  /** Calls back every `ms` milliseconds until cancelled. */
  every(ms: number, callback: () => void): Cancel;
}

/** Cancels what it was returned for; more than once is harmless. */
export type Cancel = () => void;

/** Keeps no process alive. Node, Bun and Deno hand out objects that can be unreferenced; browsers and Workers hand out numbers. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}

/** The machine's own clock. Its timers keep no process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after: afterInDeno() ?? after,
  every(ms, callback) {
    const timer = setInterval(callback, ms);
    unref(timer);
    return () => clearInterval(timer);
  },
};

function after(ms: number, callback: () => void): Cancel {
  const timer = setTimeout(callback, ms);
  unref(timer);
  return () => clearTimeout(timer);
}

/** How many lengths share timers at once. A wait of one more length gets a timer of its own. */
const MAX_SHARED_TIMERS = 64;

/**
 * Calls back as `after` does, with one timer of the runtime's for all waits of the same length; undefined outside of Deno. A call
 * waits for two or three lengths that every call has, and cancels nearly all of these waits. In Deno a timer of its own for each wait
 * would cost a third of a short call; elsewhere a timer is cheap, and in Workers it belongs to one request.
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
    // The callback runs in the asynchronous context of its own call, not in that of the call whose wait has armed the timer.
    const inContext = hooks.AsyncLocalStorage.snapshot();
    return timer.add(() => inContext(callback));
  };
}

/** The part of Deno's `process` that is used here. */
interface DenoProcess {
  readonly versions: Readonly<Record<string, string | undefined>>;
  getBuiltinModule(name: "async_hooks"): {
    readonly AsyncLocalStorage: { snapshot(): (callback: () => void) => void };
  };
}

/** A wait, as a link of the list of those of the same length, from the soonest to the latest. */
interface Wait {
  /** Undefined once the wait is over or cancelled. */
  callback: (() => void) | undefined;
  readonly dueAt: number;
  previous: Wait | undefined;
  next: Wait | undefined;
}

/** Waits of one length behind one timer, which is armed for the soonest of them. */
export class SharedTimer {
  readonly #ms: number;
  readonly #emptied: () => void;
  #first: Wait | undefined;
  #last: Wait | undefined;

  /** @param emptied Is called when nothing waits any more, and no timer is armed. */
  constructor(ms: number, emptied: () => void) {
    this.#ms = ms;
    this.#emptied = emptied;
    this.#arm(ms);
  }

  add(callback: () => void): Cancel {
    // As long as the runtime's own timers wait at the least, so that waits which add waits do not go on for ever.
    const dueAt = performance.now() + Math.max(1, this.#ms);
    const wait: Wait = { callback, dueAt, previous: this.#last, next: undefined };
    if (this.#last) this.#last.next = wait;
    else this.#first = wait;
    this.#last = wait;
    return () => this.#remove(wait);
  }

  #remove(wait: Wait): void {
    const { previous, next } = wait;
    if (!wait.callback) return;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    // Nothing hangs on a wait that is not in the list.
    wait.callback = wait.previous = wait.next = undefined;
  }

  #arm(ms: number): void {
    unref(setTimeout(() => this.#fire(), ms));
  }

  #fire(): void {
    const now = performance.now();
    try {
      // A wait that a callback adds is due later than now.
      for (let wait = this.#first; wait && wait.dueAt <= now; wait = this.#first) {
        const { callback } = wait;
        this.#remove(wait);
        callback?.();
      }
    } finally {
      // A callback that throws ends this turn; the others that are due get the next one.
      if (this.#first) this.#arm(Math.max(0, this.#first.dueAt - performance.now()));
      else this.#emptied();
    }
  }
}
