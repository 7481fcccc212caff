/** Clients that hang up: at every moment, in every manner, with every form of answer and under both policies. */

import { describe, expect, it } from "vitest";
import type { GatewayError } from "../../src/index.ts";
import { aborted } from "../aborted.ts";
import { ask, asking, type Driver, type Form, type Pieces, streamsOf } from "../drivers/driver.ts";
import { MANNERS, type RawClient, rawClient } from "../drivers/raw-client.ts";
import type { Cues } from "../hosts/cues.ts";
import { KEY, type Mount, type StageOptions } from "../hosts/stage.ts";
import { timedStage, type TimedStage } from "./timed.ts";

const DRAIN_MS = 5_000;
/** When a settlement that failed is tried again for the first time. */
const SETTLE_AGAIN_MS = 500;
const STEPS = Array.from({ length: 16 }, (_, index) => index);

/** How much of the answer is there when the client hangs up. */
const MOMENTS = [
  ["before the first event", []],
  ["in the middle", ["One"]],
] as const;

/** Yields a beginning, and what is left when it is told to; tells when its signal fires, and when it has ended. */
const inTwo =
  (beginning: readonly string[]) =>
  (cues: Cues): Pieces =>
    async function* ({ signal }) {
      signal.addEventListener("abort", () => cues.give((signal.reason as GatewayError).code));
      yield* beginning;
      cues.give("halfway");
      await Promise.race([cues.wait("go on"), cues.wait("client_closed")]);
      if (signal.aborted) return;
      yield "Two";
      cues.give("ended");
    };

const untilAborted = (cues: Cues): Pieces =>
  async function* ({ stream, signal }) {
    try {
      if (stream) yield "One";
      cues.give("asked");
      await aborted(signal);
    } finally {
      cues.give(`ended: ${(signal.reason as GatewayError | undefined)?.code}`);
    }
  };

const twoOnCue = (cues: Cues): Pieces =>
  async function* () {
    yield "One";
    await cues.wait("two");
    yield "Two";
    yield "Three";
    await cues.wait("never");
  };

/** Waits until the gateway has set the timer that bounds a drain: it has seen that its client is gone. */
async function seen({ clock }: TimedStage, timersBefore: number): Promise<void> {
  await expect.poll(async () => (await clock.advance(0), clock.pending)).toBe(timersBefore + 1);
}

/** What the key was charged, once no hold of it lives. */
function charged({ quotas }: TimedStage): { readonly used: number; readonly estimated: number } {
  const { liveHolds, used = 0, estimated = 0 } = quotas.report(KEY) ?? {};
  expect(liveHolds).toBe(0);
  return { used, estimated };
}

export function hangUpsSuite(mount: Mount, driver: Driver): void {
  const [complete] = driver.forms;
  // The steps are those of the pipeline, which all formats share.
  const steps = driver.name === "messages" ? STEPS : STEPS.filter((step) => step % 5 === 0);

  const open = (pieces: (cues: Cues) => Pieces, more: StageOptions = {}): Promise<TimedStage> =>
    timedStage(mount, driver, pieces, {}, more);

  /** Holds what is charged for pieces that came before their client was gone. */
  function expectCharged(stage: TimedStage, pieces: number): void {
    const { used, estimated } = charged(stage);
    expect(used > 0).toBe(pieces > 0);
    expect(estimated).toBe(driver.estimates ? used : 0);
    expect(driver.estimates || used === driver.cost(pieces)).toBe(true);
  }

  it("abort the backend of a complete answer", async () => {
    await using stage = await open(untilAborted);
    const hangUp = new AbortController();
    const sent = Promise.allSettled([ask(stage, driver, complete, {}, { signal: hangUp.signal })]);
    await stage.cues.wait("asked");
    hangUp.abort();
    await stage.cues.wait("ended: client_closed");
    await sent;
    await stage.settled;
    expectCharged(stage, 0);
    expect(stage.failures).toEqual([]);
  });

  describe.each(streamsOf(driver))("of an answer that is $name", (form) => {
    it("abort the backend, and what was generated is charged", async () => {
      await using stage = await open(untilAborted);
      const reader = form.read(await ask(stage, driver, form));
      await reader.next();
      await stage.cues.wait("asked");
      await reader.cancel();
      await stage.cues.wait("ended: client_closed");
      await stage.settled;
      expectCharged(stage, 1);
      expect(stage.failures).toEqual([]);
    });

    // A frame takes some steps from its backend to its reader, and the end may come at each of them. Over a socket the
    // moment is not ours to choose; wherever it falls, the hold must go.
    it.each(steps)("settle, %i steps after a frame was made", async (steps) => {
      await using stage = await open(twoOnCue);
      const reader = form.read(await ask(stage, driver, form));
      await reader.next();
      await stage.clock.advance(0);
      stage.cues.give("two");
      for (let step = 0; step < steps; step++) await Promise.resolve();
      await reader.cancel();
      await stage.settled;
      charged(stage);
      // Polled: a host in another process learns only later that the store in this one has settled.
      await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
    });
  });

  describe.each(driver.forms)("of an answer that is $name", (form) => {
    describe.each(MANNERS)("by a client that %s", (manner) => {
      describe.each(MOMENTS)("%s", (_moment, beginning) => {
        it("cancel the call, and charge what was generated", async () => {
          await using stage = await open(inTwo(beginning));
          const client = clientOf(stage, form);
          await stage.cues.wait("halfway");
          client.hangUp(manner);
          await stage.cues.wait("client_closed");
          await stage.settled;
          expectCharged(stage, beginning.length);
          expect(stage.failures).toEqual([]);
        });

        it("let a backend that drains go on to its exact usage", async () => {
          await using stage = await open(inTwo(beginning), { hangUp: { drainMs: DRAIN_MS } });
          const client = clientOf(stage, form);
          await stage.cues.wait("halfway");
          await stage.clock.advance(0);
          const timers = stage.clock.pending;
          client.hangUp(manner);
          await seen(stage, timers);
          stage.cues.give("go on");
          await stage.cues.wait("ended");
          await stage.settled;
          expect(charged(stage)).toEqual({ used: driver.cost(beginning.length + 1), estimated: 0 });
          await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
        });

        it("cancel a call that drains for too long", async () => {
          await using stage = await open(inTwo(beginning), { hangUp: { drainMs: DRAIN_MS } });
          const client = clientOf(stage, form);
          await stage.cues.wait("halfway");
          await stage.clock.advance(0);
          const timers = stage.clock.pending;
          client.hangUp(manner);
          await seen(stage, timers);
          await stage.clock.advance(DRAIN_MS);
          await stage.cues.wait("client_closed");
          await stage.settled;
          expect(charged(stage).used > 0).toBe(beginning.length > 0);
        });
      });

      it("while the quota is reserved void the hold when it comes", async () => {
        const granting = Promise.withResolvers<void>();
        const [asked, beforeGranting] = [Promise.withResolvers<void>(), () => (asked.resolve(), granting.promise)];
        await using stage = await open(inTwo([]), { beforeGranting });
        const client = clientOf(stage, form);
        await asked.promise;
        client.hangUp(manner);
        // The deadline is called off once the client is known to be gone.
        await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
        granting.resolve();
        await stage.settled;
        expect(charged(stage).used).toBe(0);
        expect(stage.backend.calls).toBe(0);
      });

      it("are settled in the end by a store that fails at first", async () => {
        let isDown = true;
        const beforeSettling = async (): Promise<void> => {
          if (isDown) throw new Error("The store is down.");
        };
        await using stage = await open(inTwo(["One"]), { beforeSettling });
        const client = clientOf(stage, form);
        await stage.cues.wait("halfway");
        client.hangUp(manner);
        await stage.settling;
        await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(1);
        isDown = false;
        await stage.clock.advance(SETTLE_AGAIN_MS);
        await stage.settled;
        charged(stage);
        expect(stage.failures).toHaveLength(1);
      });

      it.each(["cancel", { drainMs: DRAIN_MS }] as const)("after its last event change nothing: %j", async (hangUp) => {
        let signal: AbortSignal | undefined;
        const whole = inTwo(["One"]);
        const pieces = (cues: Cues): Pieces =>
          function (call) {
            signal = call.signal;
            return whole(cues)(call);
          };
        await using stage = await open(pieces, { hangUp });
        const client = clientOf(stage, form);
        stage.cues.give("go on");
        await client.until(form.last);
        client.hangUp(manner);
        await stage.settled;
        // Whatever the end of the connection sets off has run by then.
        await expect.poll(async () => (await stage.clock.advance(0), stage.clock.pending)).toBe(0);
        expect(signal?.aborted).toBe(false);
        expect(charged(stage)).toEqual({ used: driver.cost(2), estimated: 0 });
      });
    });
  });

  const clientOf = (stage: TimedStage, form: Form): RawClient => rawClient(stage, asking(driver, form));
}
