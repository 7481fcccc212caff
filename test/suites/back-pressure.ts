/** A client that does not read: its backend is made to stop, and goes on, ends or is drained as its connection does. */

import { describe, expect, it } from "vitest";
import { asking, type Driver, type Pieces, streamsOf } from "../drivers/driver.ts";
import { rawClient, type RawClient } from "../drivers/raw-client.ts";
import { KEY, type Mount } from "../hosts/stage.ts";
import { DEADLINE_MS, timedStage, type TimedStage } from "./timed.ts";

const DRAIN_MS = 5_000;
const PIECE = "x".repeat(64 * 1024);
/** The pieces of an answer: far more than the buffers of a connection hold. */
const PIECES = 1_000;
/** How many are still to come of an answer that is made to its end, which need not be all: they cost time. */
const REST = 20;

/** How many pieces a backend has made, and how many it makes in all. */
interface Count {
  made: number;
  all: number;
}

const counting = (count: Count) => (): Pieces =>
  async function* ({ signal }) {
    while (count.made < count.all && !signal.aborted) {
      count.made++;
      yield PIECE;
    }
  };

/** Waits until the backend has made no further piece from one look to the next, several times in a row. */
async function stopped(count: Readonly<Count>): Promise<void> {
  let [last, still] = [0, 0];
  const same = (): number => {
    still = count.made === last && last > 0 ? still + 1 : 0;
    last = count.made;
    return still;
  };
  await expect.poll(same, { interval: 20 }).toBeGreaterThan(5);
}

/** Lets the backend of an answer end soon. */
const endSoon = (count: Count): void => void (count.all = count.made + REST);

// Whether the backend of a client that is gone goes on to its end.
const POLICIES = [
  ["cancelled", "cancel", false],
  ["drained", { drainMs: DRAIN_MS }, true],
] as const;

export function backPressureSuite(mount: Mount, driver: Driver): void {
  const streams = streamsOf(driver).slice(0, 1);

  const cases = streams.flatMap((form) => POLICIES.map(([policy, ...rest]) => [policy, form, ...rest] as const));

  describe.each(cases)("a client that does not read, its calls being %s", (_policy, form, hangUp, isDrained) => {
    /** A client that has read nothing, before a backend that has stopped. */
    async function unread(): Promise<{ stage: TimedStage; client: RawClient; count: Count }> {
      const count = { made: 0, all: PIECES };
      const stage = await timedStage(mount, driver, counting(count), {}, { hangUp });
      const client = rawClient(stage, asking(driver, form), false);
      await stopped(count);
      expect(count.made).toBeLessThan(PIECES);
      return { stage, client, count };
    }

    it("makes the backend stop, until it reads", async () => {
      const { stage, client, count } = await unread();
      await using _ = stage;
      endSoon(count);
      client.read();
      await client.until(form.last);
      expect(count.made).toBe(count.all);
    });

    // One that half-closes looks like one that is slow: the deadline ends it.
    it.each(["closes", "resets"] as const)("and %s leaves no hold", async (manner) => {
      const { stage, client, count } = await unread();
      await using _ = stage;
      if (isDrained) endSoon(count);
      client.hangUp(manner);
      await stage.settled;
      expect(count.made === count.all).toBe(isDrained);
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
    });

    it("and never comes back is ended by the deadline", async () => {
      const { stage, count } = await unread();
      await using _ = stage;
      await stage.clock.advance(DEADLINE_MS);
      await stage.settled;
      expect(count.made).toBeLessThan(count.all);
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
    });
  });
}
