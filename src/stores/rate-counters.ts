/** Counting in several windows at once: in all of them, or in none. */

import type { Clock } from "../ports/clock.ts";
import type { RateLimit, RateVerdict } from "../ports/rate-limiter.ts";

/** What is needed of rate-limiter-flexible: its RateLimiterMemory, RateLimiterRedis or RateLimiterPostgres will do. */
export interface RateCounter {
  /** How many a window has. */
  readonly points: number;
  /** Counts; rejects with the same, which is no Error, where that is more than the window has. */
  consume(key: string, points: number): Promise<RateCount>;
  /** Counts, whatever the window has. */
  penalty(key: string, points: number): Promise<RateCount>;
  /** Takes back what was counted. */
  reward(key: string, points: number): Promise<RateCount>;
}

/** How a counter stands. */
export interface RateCount {
  readonly remainingPoints: number;
  readonly consumedPoints: number;
  /** How long until the window begins anew, in milliseconds; -1 where it never does. */
  readonly msBeforeNext: number;
}

/** What is to be counted. */
export interface Want {
  readonly kind: RateLimit["kind"];
  readonly counter: RateCounter;
  readonly key: string;
  readonly points: number;
}

/** What was counted, and until when its window lasts, in milliseconds since the Unix epoch. */
export interface Taken extends Want {
  readonly windowEnd: number;
}

/** Counts in each window, or, where one has no room, in none. */
export async function countAll(wants: readonly Want[], clock: Clock): Promise<RateVerdict & { taken: Taken[] }> {
  const taken: Taken[] = [];
  const limits: RateLimit[] = [];
  try {
    for (const want of wants) {
      if (want.points === 0) {
        taken.push({ ...want, windowEnd: 0 });
        continue;
      }
      const { count, isFull } = await consume(want);
      const { kind, counter } = want;
      const resetMs = Math.max(0, count.msBeforeNext);
      limits.push({ kind, limit: counter.points, remaining: isFull ? 0 : count.remainingPoints, resetMs });
      const windowEnd = count.msBeforeNext < 0 ? Number.POSITIVE_INFINITY : clock.now() + resetMs;
      // One that is blocked refuses without having counted.
      if (!isFull || count.consumedPoints > counter.points) taken.push({ ...want, windowEnd });
      if (!isFull) continue;
      await takeBack(taken);
      return { refused: { by: kind, retryAfterMs: resetMs }, limits, taken: [] };
    }
  } catch (error) {
    await takeBack(taken).catch(() => {});
    throw error;
  }
  return { limits, taken };
}

async function consume({ counter, key, points }: Want): Promise<{ count: RateCount; isFull: boolean }> {
  try {
    return { count: await counter.consume(key, points), isFull: false };
  } catch (thrown) {
    if (thrown instanceof Error || typeof thrown !== "object" || thrown === null || !("msBeforeNext" in thrown))
      throw thrown;
    return { count: thrown as RateCount, isFull: true };
  }
}

/** Takes back all that was counted. */
export async function takeBack(taken: readonly Taken[]): Promise<void> {
  const counted = taken.filter(({ points }) => points > 0);
  await Promise.all(counted.map(({ counter, key, points }) => counter.reward(key, points)));
}

/** Counts `points` in place of what was taken. */
export async function correct(
  { counter, key, points: before, windowEnd }: Taken,
  points: number,
  clock: Clock,
): Promise<void> {
  if (points > before) await counter.penalty(key, points - before);
  // What is taken back from a window that is over would be a gift to the next.
  else if (points < before && clock.now() < windowEnd) await counter.reward(key, before - points);
}
