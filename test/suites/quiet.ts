/** What a stream does while its backend is quiet: it is kept alive, and begins without it when it must (spec 6). */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/index.ts";
import { ask, type AnswerReader, type Driver, type Pieces, type StreamForm, streamsOf } from "../drivers/driver.ts";
import type { Cues } from "../hosts/cues.ts";
import type { Mount } from "../hosts/stage.ts";
import { answersOnCue, QUIET_MS, timedStage, type TimedStage } from "./timed.ts";

const KEPT_ALIVE = { type: "keep-alive" };
const piece = (text: string): object => ({ type: "piece", text });

const textsOnCue = (cues: Cues): Pieces =>
  async function* () {
    yield "One";
    await cues.wait("two");
    yield "Two";
    await cues.wait("three");
    yield "Three";
  };

const failsOnCue = (cues: Cues): Pieces =>
  async function* () {
    cues.give("asked");
    await cues.wait("fail");
    yield* [];
    throw new GatewayError("backend_unavailable", "Gone.");
  };

export function quietSuite(mount: Mount, driver: Driver): void {
  describe.each(streamsOf(driver))("of an answer that is $name", (form) => {
    /** A reader that has read the first piece. */
    async function readOne(stage: TimedStage): Promise<AnswerReader> {
      const reader = form.read(await ask(stage, driver, form));
      expect(await reader.next()).toEqual(piece("One"));
      return reader;
    }

    it("is covered by keep-alives", async () => {
      await using stage = await timedStage(mount, driver, textsOnCue);
      const reader = await readOne(stage);
      for (let silence = 0; silence < 3; silence++) {
        await stage.clock.advance(QUIET_MS);
        expect(await reader.next()).toEqual(KEPT_ALIVE);
      }
      stage.cues.give("two");
      expect(await reader.next()).toEqual(piece("Two"));
    });

    it("is not covered before its time", async () => {
      await using stage = await timedStage(mount, driver, textsOnCue);
      const reader = await readOne(stage);
      await stage.clock.advance(QUIET_MS - 1);
      stage.cues.give("two");
      expect(await reader.next()).toEqual(piece("Two"));
    });

    it("is quiet from its last word on", async () => {
      await using stage = await timedStage(mount, driver, textsOnCue);
      const reader = await readOne(stage);
      await stage.clock.advance(QUIET_MS - 100);
      stage.cues.give("two");
      expect(await reader.next()).toEqual(piece("Two"));
      await stage.clock.advance(QUIET_MS - 1);
      stage.cues.give("three");
      expect(await reader.next()).toEqual(piece("Three"));
    });

    it("gets its stream begun without it", async () => {
      await using stage = await timedStage(mount, driver, answersOnCue);
      const reader = await begun(stage, form);
      await stage.clock.advance(QUIET_MS);
      expect(await reader.next()).toEqual(KEPT_ALIVE);
      stage.cues.give("answer");
      expect(await afterKeepAlives(reader)).toEqual(piece("At last."));
      expect(await reader.next()).toBeUndefined();
    });

    it("that fails after its stream has begun is told in the stream", async () => {
      await using stage = await timedStage(mount, driver, failsOnCue);
      const reader = await begun(stage, form);
      stage.cues.give("fail");
      const { error } = driver.refusal("backend_unavailable");
      expect(await afterKeepAlives(reader)).toEqual({ type: "error", error: { ...error, message: "Gone." } });
      expect(await reader.next()).toBeUndefined();
    });

    it("that fails before that has its true status", async () => {
      await using stage = await timedStage(mount, driver, failsOnCue);
      const sent = ask(stage, driver, form);
      await stage.cues.wait("asked");
      await stage.clock.advance(QUIET_MS - 1);
      stage.cues.give("fail");
      expect(await driver.refusalOf(await sent)).toEqual(driver.refusal("backend_unavailable"));
    });
  });

  /** A stream that was begun while the backend had said nothing. */
  async function begun(stage: TimedStage, form: StreamForm): Promise<AnswerReader> {
    const sent = ask(stage, driver, form);
    await stage.cues.wait("asked");
    await stage.clock.advance(QUIET_MS);
    const response = await sent;
    expect(response.status).toBe(200);
    return form.read(response);
  }

  it("may be quiet before a complete answer", async () => {
    const [complete] = driver.forms;
    await using stage = await timedStage(mount, driver, answersOnCue);
    const sent = ask(stage, driver, complete);
    await stage.cues.wait("asked");
    await stage.clock.advance(10 * QUIET_MS);
    stage.cues.give("answer");
    expect(await complete.textOf(await sent)).toBe("At last.");
  });
}

/** What is told next, past what keeps alive: where nothing is written, no header leaves a server, so a beginning may be one. */
async function afterKeepAlives(reader: AnswerReader): Promise<unknown> {
  let told = await reader.next();
  while (told?.type === "keep-alive") told = await reader.next();
  return told;
}
