/** Calls that are repeated while the first still runs, whether its client is there or gone. */

import { describe, expect, it } from "vitest";
import { type CallRecord } from "../../src/index.ts";
import { AT_REST, counted, INPUT, MINUTE, never, readUntil, type Send, type Setup, WORD } from "./bench.ts";
import { once, repeating, SEVEN, STREAM } from "./repeating.ts";

describe("a call that is repeated while it runs", () => {
  it("is followed: its backend is asked once, and both are answered the same", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { repeat, clock, asked, report } = repeating([[WORD, told, counted(7)]]);
    const answers = [repeat(), repeat(), repeat()];
    await clock.advance(0);
    open();
    const [first, ...others] = await Promise.all(answers);
    const text = await first?.text();
    for (const other of others) {
      expect(other.headers.get("polygate-replayed")).toBe(first?.headers.get("request-id"));
      expect(await other.text()).toBe(text);
    }
    expect(asked()).toBe(1);
    expect(report()).toMatchObject({ used: SEVEN, ...AT_REST });
  });

  it("is followed as a stream: what was sent, and then what comes", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { repeat, asked, report, clock } = repeating([[WORD, told, "more", counted(7)]]);
    const first = await repeat(STREAM);
    const reader = await readUntil(WORD, first);
    const second = await repeat(STREAM);
    expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
    await readUntil(WORD, second.clone());
    open();
    const text = await second.text();
    for (; !(await reader.read()).done;);
    expect(text).toMatch(/word[^]*more[^]*message_stop/);
    expect(await (await repeat(STREAM)).text()).toBe(text);
    expect(asked()).toBe(1);
    await clock.advance(0);
    expect(report()).toMatchObject({ used: SEVEN, ...AT_REST });
  });

  it("goes on for who follows when its own client reads no more", async () => {
    const { repeat, asked } = repeating([["a", "b", "c", counted(7)]]);
    const unread = await repeat(STREAM);
    expect(await (await repeat(STREAM)).text()).toContain("message_stop");
    expect([unread.bodyUsed, asked()]).toEqual([false, 1]);
  });

  it("passes keep-alives on to those who wait, and records none", async () => {
    const { promise: told, resolve: open } = Promise.withResolvers<void>();
    const { repeat, clock } = repeating([[WORD, told, counted(7)]], { limits: { keepAliveMs: 1_000 } });
    const first = (await repeat(STREAM)).text();
    await clock.advance(0);
    const second = (await repeat(STREAM)).text();
    await clock.advance(3_500);
    open();
    expect((await first).match(/event: ping/g)).toHaveLength(3);
    expect((await second).match(/event: ping/g)).toHaveLength(3);
    const again = await (await repeat(STREAM)).text();
    expect(again).not.toContain("event: ping");
    expect(again).toBe((await first).replaceAll(/event: ping\n.*\n\n/g, ""));
  });

  it("is cut for those who follow, each at its own deadline", async () => {
    const { repeat, clock, report } = repeating([[WORD, never]], {
      limits: { deadlineMs: MINUTE, replayDrainMs: MINUTE },
    });
    const first = (await repeat(STREAM)).text();
    await clock.advance(MINUTE / 2);
    const second = await repeat(STREAM);
    const whole = second.text();
    await clock.advance(MINUTE / 2);
    expect(await first).toContain('"deadline_exceeded"');
    expect(await whole).toContain('"deadline_exceeded"');
    await clock.advance(0);
    expect(report()).toMatchObject(AT_REST);
  });
});

/** A call whose client hangs up after the first word. */
async function leaving(send: Send, setup: Setup = {}) {
  const { promise: told, resolve: open } = Promise.withResolvers<void>();
  const records: CallRecord[] = [];
  const bench = repeating([[WORD, told, counted(7)]], {
    limits: { replayDrainMs: MINUTE, deadlineMs: 60 * MINUTE },
    onCall: (record) => records.push(record),
    ...setup,
  });
  const client = new AbortController();
  const first = bench.repeat({ ...send, signal: client.signal });
  await bench.clock.advance(0);
  client.abort();
  await bench.clock.advance(0);
  return { ...bench, first, open, records };
}

describe("a client that is gone", () => {
  it.each<[form: string, send: Send]>([
    ["whole", {}],
    ["streamed", STREAM],
  ])("finds its answer when it comes back: %s", async (_form, send) => {
    const { repeat, open, asked, report, records, clock } = await leaving(send);
    const again = repeat(send);
    await clock.advance(0);
    open();
    expect([(await again).status, await (await again).text()]).toEqual([200, expect.stringContaining(WORD)]);
    await clock.advance(0);
    expect(asked()).toBe(1);
    expect(report()).toMatchObject({ used: SEVEN, ...AT_REST });
    expect(records.map(({ outcome, units }) => [outcome, units])).toEqual(
      expect.arrayContaining([
        ["client-closed", SEVEN],
        ["completed", 0],
      ]),
    );
  });

  it.each<[form: string, send: Send]>([
    ["whole", {}],
    ["streamed", STREAM],
  ])("finds its answer also when that was done before it came back: %s", async (_form, send) => {
    const { repeat, open, asked, report, clock } = await leaving(send);
    open();
    await clock.advance(0);
    expect(report()).toMatchObject({ used: SEVEN, ...AT_REST });
    const again = await repeat(send);
    expect([again.status, asked()]).toEqual([200, 1]);
    expect(await again.text()).toContain(WORD);
  });

  it.each<[form: string, send: Send]>([
    ["whole", {}],
    ["streamed", STREAM],
  ])("and does not come back in time has its call cut, and charged for what came: %s", async (_form, send) => {
    const { repeat, asked, report, clock } = await leaving(send);
    await clock.advance(MINUTE - 1);
    expect(report()).toMatchObject({ liveHolds: 1 });
    await clock.advance(1);
    expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
    void repeat(send);
    await clock.advance(0);
    expect(asked(), "its repetition is a call of its own").toBe(2);
  });

  it("keeps its call for as long as somebody follows, and a while after", async () => {
    const { repeat, asked, report, clock } = await leaving(STREAM);
    const follower = new AbortController();
    await repeat({ ...STREAM, signal: follower.signal });
    await clock.advance(5 * MINUTE);
    expect(report()).toMatchObject({ liveHolds: 1 });
    follower.abort();
    await clock.advance(MINUTE - 1);
    expect(report()).toMatchObject({ liveHolds: 1 });
    await clock.advance(1);
    expect([asked(), report()]).toMatchObject([1, AT_REST]);
  });

  it("keeps its call where somebody followed before it went", async () => {
    const limits = { replayDrainMs: MINUTE, deadlineMs: 60 * MINUTE };
    const { repeat, report, clock } = repeating([[WORD, never]], { limits });
    const [client, follower] = [new AbortController(), new AbortController()];
    await repeat({ ...STREAM, signal: client.signal });
    await repeat(STREAM);
    await repeat({ ...STREAM, signal: follower.signal });
    for (const one of [client, follower]) {
      one.abort();
      await clock.advance(5 * MINUTE);
      expect(report()).toMatchObject({ liveHolds: 1 });
    }
  });

  it("before its backend was asked has its call cut at once", async () => {
    const client = new AbortController();
    const { repeat, clock, asked, report } = repeating([once], { around: () => ({ find: () => never }) });
    const answer = repeat({ signal: client.signal });
    await clock.advance(0);
    client.abort();
    expect([(await answer).status, asked(), report()]).toMatchObject([499, 0, AT_REST]);
  });
});

describe("a large answer that is repeated", () => {
  const large = "🦊".repeat(100_000);
  const room = { maxBodyBytesInFlight: 4_000_000, maxBodyBytesPerKey: 2_000_000 };
  const script = [[large, counted(300_000)]];
  const key = { granted: 10_000_000 };
  const send: Send = { body: { max_tokens: 400_000 } };

  it("is the same, also where a piece would end within a character", async () => {
    const { repeat, asked, clock, report } = repeating(script, { key });
    const first = await (await repeat(send)).text();
    const again = await repeat(send);
    expect(await again.text()).toBe(first);
    expect(again.headers.get("polygate-replayed")).not.toBeNull();
    expect(asked()).toBe(1);
    await clock.advance(0);
    expect(report()).toMatchObject({ used: INPUT + 300_000, ...AT_REST });
  });

  it("takes no more room than the key's share while nobody reads, and gives it back", async () => {
    const { repeat, clock } = repeating(script, { limits: room, key });
    await (await repeat(send)).text();
    const unread = await Promise.all(Array.from({ length: 10 }, () => repeat(send)));
    const statuses = unread.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    for (const { body } of unread) await body?.cancel();
    await clock.advance(0);
    expect((await repeat(send)).status).toBe(200);
  });
});
