/** Clients that hang up: at every moment, in every manner, with every form of answer and under both policies. */

import { describe, expect, it } from "vitest";
import type { GatewayError } from "../../src/index.ts";
import type { TestHost } from "../hosts/host.ts";
import { having } from "./messages/bodies.ts";
import { MANNERS, rawClient } from "./raw-client.ts";
import { KEY, type Mount, type Play } from "./stage.ts";
import { type Cues, DEADLINE_MS, timedStage, type TimedStage } from "./timed.ts";

const DRAIN_MS = 5_000;
/** When a settlement that failed is tried again for the first time. */
const SETTLE_AGAIN_MS = 500;
const USAGE = { inputTokens: 3, outputTokens: 4 };

const FORMS = [
  ["complete", having({}), "Two"],
  ["streamed", having({ stream: true }), "message_stop"],
] as const;

/** How much of the answer is there when the client hangs up. */
const MOMENTS = [
  ["before the first event", []],
  ["in the middle", ["One"]],
] as const;

/** Yields a beginning, and what is left when it is told to; tells when its signal fires, and when it has ended. */
const inTwo =
  (beginning: readonly string[]) =>
  (cues: Cues): Play =>
    async function* (_request, { signal }) {
      signal.addEventListener("abort", () => cues.give((signal.reason as GatewayError).code));
      yield* beginning;
      cues.give("halfway");
      await Promise.race([cues.wait("go on"), cues.wait("client_closed")]);
      if (signal.aborted) return;
      yield "Two";
      yield { type: "finish", reason: "stop", usage: USAGE };
      cues.give("ended");
    };

/** Waits until the gateway has set the timer that bounds a drain: it has seen that its client is gone. */
async function seen({ clock }: TimedStage, timersBefore: number): Promise<void> {
  await expect.poll(async () => (await clock.advance(0), clock.pending), { interval: 5 }).toBe(timersBefore + 1);
}

const PIECE = "x".repeat(64 * 1024);
const PIECES = 1_000;

const counting = (count: { made: number }) => (): Play =>
  async function* (_request, { signal }) {
    while (count.made < PIECES && !signal.aborted) {
      count.made++;
      yield PIECE;
    }
  };

/** Waits until the backend has made no further piece from one look to the next, several times in a row. */
async function stopped(count: { readonly made: number }): Promise<void> {
  let [last, still] = [0, 0];
  const same = (): number => {
    still = count.made === last && last > 0 ? still + 1 : 0;
    last = count.made;
    return still;
  };
  await expect.poll(same, { interval: 20 }).toBeGreaterThan(5);
}

export function hangUpsSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`hang-ups at ${prefix || "the root"}`, () => {
      suite({ host, prefix });
    });
}

function suite(mount: Mount): void {
  describe.each(FORMS)("of an answer that is %s", (_form, body, last) => {
    describe.each(MANNERS)("by a client that %s", (manner) => {
      describe.each(MOMENTS)("%s", (_moment, beginning) => {
        it("cancel the call, and charge what was generated", async () => {
          await using stage = await timedStage(mount, inTwo(beginning));
          const client = rawClient(stage, body);
          await stage.cues.wait("halfway");
          client.hangUp(manner);
          await stage.cues.wait("client_closed");
          await stage.settled;
          const { liveHolds, used, estimated } = stage.quotas.report(KEY) ?? {};
          expect(liveHolds).toBe(0);
          expect((used ?? 0) > 0).toBe(beginning.length > 0);
          expect(estimated).toBe(used);
          expect(stage.failures).toEqual([]);
        });

        it("let a backend that drains go on to its exact usage", async () => {
          await using stage = await timedStage(mount, inTwo(beginning), {}, { hangUp: { drainMs: DRAIN_MS } });
          const client = rawClient(stage, body);
          await stage.cues.wait("halfway");
          await stage.clock.advance(0);
          const timers = stage.clock.pending;
          client.hangUp(manner);
          await seen(stage, timers);
          stage.cues.give("go on");
          await stage.cues.wait("ended");
          await stage.settled;
          expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 7, estimated: 0 });
          await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
        });

        it("cancel a call that drains for too long", async () => {
          await using stage = await timedStage(mount, inTwo(beginning), {}, { hangUp: { drainMs: DRAIN_MS } });
          const client = rawClient(stage, body);
          await stage.cues.wait("halfway");
          await stage.clock.advance(0);
          const timers = stage.clock.pending;
          client.hangUp(manner);
          await seen(stage, timers);
          await stage.clock.advance(DRAIN_MS);
          await stage.cues.wait("client_closed");
          await stage.settled;
          expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
        });
      });

      it("while the quota is reserved void the hold when it comes", async () => {
        const granting = Promise.withResolvers<void>();
        const [asked, beforeGranting] = [Promise.withResolvers<void>(), () => (asked.resolve(), granting.promise)];
        await using stage = await timedStage(mount, inTwo([]), {}, { beforeGranting });
        const client = rawClient(stage, body);
        await asked.promise;
        client.hangUp(manner);
        // The deadline is called off once the client is known to be gone.
        await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
        granting.resolve();
        await stage.settled;
        expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 0 });
        expect(stage.backend.received).toEqual([]);
      });

      it("are settled in the end by a store that fails at first", async () => {
        let isDown = true;
        const beforeSettling = async (): Promise<void> => {
          if (isDown) throw new Error("The store is down.");
        };
        await using stage = await timedStage(mount, inTwo(["One"]), {}, { beforeSettling });
        const client = rawClient(stage, body);
        await stage.cues.wait("halfway");
        client.hangUp(manner);
        await stage.settling;
        await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(1);
        isDown = false;
        await stage.clock.advance(SETTLE_AGAIN_MS);
        await stage.settled;
        expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
        expect(stage.failures).toHaveLength(1);
      });

      it.each(["cancel", { drainMs: DRAIN_MS }] as const)("after its last event change nothing: %j", async (hangUp) => {
        let signal: AbortSignal | undefined;
        const whole = inTwo(["One"]);
        const play = (cues: Cues): Play =>
          function (request, call) {
            signal = call.signal;
            return whole(cues)(request, call);
          };
        await using stage = await timedStage(mount, play, {}, { hangUp });
        const client = rawClient(stage, body);
        stage.cues.give("go on");
        await client.until(last);
        client.hangUp(manner);
        await stage.settled;
        // Whatever the end of the connection sets off has run by then.
        await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
        expect(signal?.aborted).toBe(false);
        expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 7, estimated: 0 });
      });
    });
  });

  // How many pieces there are in the end of a backend that is cancelled, and of one that goes on unread.
  describe.each([
    ["cancelled", "cancel", (made: number) => made < PIECES],
    ["drained", { drainMs: DRAIN_MS }, (made: number) => made === PIECES],
  ] as const)("a client that does not read, its calls being %s", (_policy, hangUp, isRight) => {
    const large = having({ stream: true, max_tokens: 100_000_000 });

    it("makes the backend stop, until it reads", async () => {
      const count = { made: 0 };
      await using stage = await timedStage(mount, counting(count), {}, { hangUp });
      const client = rawClient(stage, large, false);
      await stopped(count);
      expect(count.made).toBeLessThan(PIECES);
      client.read();
      await client.until("message_stop");
      expect(count.made).toBe(PIECES);
    });

    // One that half-closes looks like one that is slow: the deadline ends it.
    it.each(["closes", "resets"] as const)("and %s leaves no hold", async (manner) => {
      const count = { made: 0 };
      await using stage = await timedStage(mount, counting(count), {}, { hangUp });
      const client = rawClient(stage, large, false);
      await stopped(count);
      client.hangUp(manner);
      await stage.settled;
      expect(count.made).toSatisfy(isRight);
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
    });

    it("and never comes back is ended by the deadline", async () => {
      const count = { made: 0 };
      await using stage = await timedStage(mount, counting(count), {}, { hangUp });
      rawClient(stage, large, false);
      await stopped(count);
      await stage.clock.advance(DEADLINE_MS);
      await stage.settled;
      expect(count.made).toBeLessThan(PIECES);
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
    });
  });
}
