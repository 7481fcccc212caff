/** Counting in several windows at once: in all of them, or in none. */

import type { Clock } from "../ports/clock.ts";
import type { RateLimit, RateVerdict } from "../ports/rate-limiter.ts";

/** What is needed of rate-limiter-flexible: its RateLimiterMemory, RateLimiterRedis or RateLimiterPostgres will do. */
export interface RateCounter {
  /** How many a window has. */
  readonly points: number;
  /** Counts; rejects with the same, which is no Error, where that is more than the window has. */
  consume(key: string, points: number): Promise<RateCount>;
  /** Counts points even where the window has none left. */
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

/** One count to be made. */
export interface Want {
  readonly kind: RateLimit["kind"];
  readonly counter: RateCounter;
  readonly key: string;
  readonly points: number;
  /** Who reserves from the same window, of what is corrected when calls end. */
  readonly reservation?: { readonly callId: string; readonly least: number; readonly shared: Reservations };
}

/** The calls of this process that hold a part of one window, or are about to. */
export interface Reservations {
  /** In the order in which they came. */
  readonly calls: Set<string>;
  /** How many points they hold. */
  points: number;
}

/** What was counted, and until when its window lasts, in milliseconds since the Unix epoch. */
export interface Taken extends Want {
  readonly windowEnd: number;
}

/** When a caller may come back whose limit is held by calls that may give some of it back, in milliseconds. */
const HELD_RETRY_MS = 1_000;

/**
 * Counts in each window, or, where one has no room, in none. The first of the calls that reserve from a window is content with the room
 * that there is: nobody could give it more. Others are not, or their answers could exceed the window all at once.
 */
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
      const { kind, counter, key, points } = want;
      const resetMs = Math.max(0, count.msBeforeNext);
      limits.push({ kind, limit: counter.points, remaining: isFull ? 0 : count.remainingPoints, resetMs });
      const windowEnd = count.msBeforeNext < 0 ? Number.POSITIVE_INFINITY : clock.now() + resetMs;
      // A blocked key is refused without being counted.
      const isCounted = !isFull || count.consumedPoints > counter.points;
      if (isCounted) taken.push({ ...want, windowEnd });
      if (!isFull) continue;
      const room = isCounted ? counter.points - (count.consumedPoints - points) : 0;
      if (maySettleFor(want, room)) {
        await counter.reward(key, points - room);
        taken.splice(-1, 1, { ...want, points: room, windowEnd });
        continue;
      }
      await takeBack(taken);
      const retryAfterMs = isHeld(want, room) ? Math.min(HELD_RETRY_MS, resetMs) : resetMs;
      return { refused: { by: kind, retryAfterMs }, limits, taken: [] };
    }
  } catch (error) {
    await takeBack(taken).catch(() => {});
    throw error;
  }
  return { limits, taken };
}

const maySettleFor = ({ reservation }: Want, room: number): boolean => {
  if (!reservation || room < reservation.least) return false;
  const [first] = reservation.shared.calls;
  return first === reservation.callId;
};

/** Whether calls of this process hold enough that there may be room for another once they end. */
const isHeld = ({ reservation }: Want, room: number): boolean =>
  reservation !== undefined && reservation.shared.points > 0 && room + reservation.shared.points >= reservation.least;

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
