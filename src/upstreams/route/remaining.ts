/** The share of its rate limits that an upstream has left, as the headers of its answers tell it. */

/** Returns a header by its name in lower case. */
type ReadHeader = (name: string) => string | undefined;

/** A limit of an upstream. */
interface KnownLimit {
  /** The part that is left, from 0 to 1. */
  readonly left: number;
  /** The time at which the limit is whole again, in milliseconds since the Unix epoch. */
  readonly until: number;
}

/** The names of the headers of one limit. */
interface Names {
  readonly limit: string;
  readonly remaining: string;
  readonly reset: string;
}

const anthropic = (kind: string): Names => ({
  limit: `anthropic-ratelimit-${kind}-limit`,
  remaining: `anthropic-ratelimit-${kind}-remaining`,
  reset: `anthropic-ratelimit-${kind}-reset`,
});
const openai = (kind: string): Names => ({
  limit: `x-ratelimit-limit-${kind}`,
  remaining: `x-ratelimit-remaining-${kind}`,
  reset: `x-ratelimit-reset-${kind}`,
});

const COUNTED: readonly Names[] = [
  ...["requests", "tokens", "input-tokens", "output-tokens"].map(anthropic),
  ...["requests", "tokens"].map(openai),
  { limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset" },
];

/** The windows of a subscription. Their headers tell the used share. */
const WINDOWS: readonly string[] = ["5h", "7d"].map((window) => `anthropic-ratelimit-unified-${window}`);

/** A limit is believed for this long at most, in milliseconds. The next answer then tells the newest state. */
const MAX_RESET_MS = 3_600_000;
/** A limit without a readable reset is believed for this long, in milliseconds: most limits are for a minute. */
const DEFAULT_RESET_MS = 60_000;

/** The limits of one upstream. */
export class RemainingRate {
  readonly #limits = new Map<string, KnownLimit>();

  /** Reads the headers of an answer. Ignores values that are no numbers. */
  read(header: ReadHeader, now: number): void {
    for (const { limit, remaining, reset } of COUNTED) {
      const [most, left] = [numberIn(header(limit)), numberIn(header(remaining))];
      if (left === undefined) continue;
      // Without a limit, only "none is left" says something.
      if (most !== undefined || left === 0)
        this.#note(remaining, most === undefined || most === 0 ? 0 : left / most, header(reset), header, now);
    }
    for (const window of WINDOWS) {
      const used = numberIn(header(`${window}-utilization`));
      const isRejected = header(`${window}-status`) === "rejected";
      if (used !== undefined || isRejected)
        this.#note(window, isRejected ? 0 : 1 - (used ?? 0), header(`${window}-reset`), header, now);
    }
  }

  /** Returns the part that is left of the tightest limit, from 0 to 1; 1 where nothing is known. */
  left(now: number): number {
    let least = 1;
    for (const { left, until } of this.#limits.values()) if (now < until) least = Math.min(least, left);
    return least;
  }

  #note(name: string, left: number, reset: string | undefined, header: ReadHeader, now: number): void {
    const resetMs = resetIn(reset, header("date"), now) ?? DEFAULT_RESET_MS;
    this.#limits.set(name, {
      left: Math.min(1, Math.max(0, left)),
      until: now + Math.min(MAX_RESET_MS, Math.max(0, resetMs)),
    });
  }
}

const NUMBER = /^\d{1,15}(?:\.\d{1,9})?$/;

const numberIn = (value: string | undefined): number | undefined =>
  value !== undefined && NUMBER.test(value) ? Number(value) : undefined;

/** Matches a duration such as `1h2m3.5s` or `250ms`. */
const DURATION = /^(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?$/;

/** Numbers from here on are times since the Unix epoch: in seconds, and in milliseconds. */
const EPOCH_SECONDS = 1e9;
const EPOCH_MS = 1e12;

/**
 * Returns the milliseconds until a limit is whole again: a duration, a number of seconds, or a time.
 *
 * @param date The upstream's own time: its clock may differ.
 */
function resetIn(reset: string | undefined, date: string | undefined, now: number): number | undefined {
  if (reset === undefined || reset === "" || reset.length > 64) return undefined;
  const told = Date.parse(date ?? "");
  const from = Number.isNaN(told) ? now : told;
  const number = numberIn(reset);
  if (number !== undefined) {
    if (number >= EPOCH_MS) return number - from;
    return number >= EPOCH_SECONDS ? number * 1_000 - from : number * 1_000;
  }
  const [, hours = 0, minutes = 0, seconds = 0, ms = 0] = DURATION.exec(reset) ?? [];
  if (DURATION.test(reset))
    return Number(hours) * 3_600_000 + Number(minutes) * 60_000 + Number(seconds) * 1_000 + Number(ms);
  const at = Date.parse(reset);
  return Number.isNaN(at) ? undefined : at - from;
}
