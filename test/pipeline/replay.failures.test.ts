/** What is not recorded: failures that a repetition may mend, and answers that are too large. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/index.ts";
import {
  type Around,
  AT_REST,
  counted,
  errorCode,
  INPUT,
  never,
  readUntil,
  type Send,
  type Step,
  WORD,
} from "./bench.ts";
import { once, repeating, STREAM } from "./repeating.ts";

const failure = (code: GatewayError["code"]): GatewayError => new GatewayError(code, "No.");

describe("a failure", () => {
  it.each<[what: string, script: readonly Step[], status: number]>([
    ["a backend that fails", [new Error("broken")], 500],
    ["a backend that is full", [failure("rate_limited")], 429],
    ["a backend that is overloaded", [failure("backend_overloaded")], 529],
    ["a refusal that may be lifted", [failure("model_not_allowed")], 400],
    ["a broken answer", [WORD, new Error("broken")], 500],
  ])("is not recorded, so that its repetition is a call of its own: %s", async (_what, script, status) => {
    const { repeat, asked, report } = repeating([script, once]);
    expect((await repeat()).status).toBe(status);
    expect([(await repeat()).status, (await repeat()).status, asked()]).toEqual([200, 200, 2]);
    expect(report()).toMatchObject(AT_REST);
  });

  it("in the middle of a stream is not recorded", async () => {
    const { repeat, asked } = repeating([[WORD, new Error("broken")], once]);
    expect(await (await repeat(STREAM)).text()).toContain("event: error");
    expect(await (await repeat(STREAM)).text()).toContain("message_stop");
    expect(asked()).toBe(2);
  });

  it("that lasts is recorded, where the backend has said so", async () => {
    const { repeat, asked } = repeating([[failure("invalid_request")], once]);
    const first = await repeat();
    const again = await repeat();
    expect([first.status, again.status, asked()]).toEqual([400, 400, 1]);
    expect(await again.text()).toBe(await first.text());
  });

  it("before the backend is asked is not recorded", async () => {
    let reservations = 0;
    const around: Around = (store) => ({
      reserve: async (hold) => (reservations++ === 0 ? { refused: true, available: 0, held: 0 } : store.reserve(hold)),
    });
    const { repeat, asked } = repeating([once], { around });
    expect([(await repeat()).status, (await repeat()).status, asked()]).toEqual([429, 200, 1]);
  });

  it("of a call makes the first of those who follow it the next", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { repeat, clock, asked, report } = repeating([[told, new Error("broken")], once]);
    const answers = [repeat(), repeat(), repeat()];
    await clock.advance(0);
    open();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([500, 200, 200]);
    expect([asked(), report()]).toMatchObject([2, AT_REST]);
  });

  it("of a closing gateway is not recorded", async () => {
    const { repeat, clock, gateway, replays } = repeating([[WORD, never]]);
    const answer = repeat();
    await clock.advance(0);
    const closed = gateway.close({ deadlineMs: 1_000 });
    await clock.advance(1_000);
    await closed;
    expect([(await answer).status, (replays as { entries?: number }).entries]).toEqual([503, 0]);
  });
});

describe("an answer that is too large", () => {
  it.each<[form: string, send: Send]>([
    ["whole", {}],
    ["streamed", STREAM],
  ])("is given once, and not charged twice: %s", async (_form, send) => {
    const { repeat, asked, report } = repeating([["x".repeat(500), counted(7)]], { limits: { maxReplayBytes: 300 } });
    expect(await (await repeat(send)).text()).toContain("x".repeat(500));
    const again = await repeat(send);
    expect([again.status, again.headers.get("x-should-retry"), await errorCode(again)]).toEqual([
      409,
      "false",
      "idempotency_key_reused",
    ]);
    expect([asked(), report()]).toMatchObject([1, { used: INPUT + 500, ...AT_REST }]);
  });

  it("while it is streamed is refused to who comes too late for its beginning", async () => {
    const script: readonly Step[] = ["x".repeat(500), never];
    const { repeat, asked } = repeating([script], { limits: { maxReplayBytes: 300 } });
    await readUntil("x".repeat(500), await repeat(STREAM));
    expect([(await repeat(STREAM)).status, asked()]).toEqual([409, 1]);
  });
});
