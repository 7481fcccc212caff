/** Fingerprints of prefixes: equal for equal beginnings of one tenant, bounded in number, and made in slices. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChatMessage, ChatRequest, JsonObject, Part, Tool } from "../../../src/index.ts";
import { EventLoopYielder } from "../../../src/ports/clock.ts";
import { type Fingerprints, fingerprintsOf } from "../../../src/upstreams/affinity/fingerprints.ts";
import { chatRequest } from "../relay/stage.ts";

const prints = (request: Partial<ChatRequest>, tenant = "key"): Promise<Fingerprints> =>
  fingerprintsOf(tenant, chatRequest(request), new EventLoopYielder());

const ids = ({ prefixes }: Fingerprints): number[] => prefixes.map(({ id }) => id);

const text = (words: string): Part => ({ type: "text", text: words });

const parts: fc.Arbitrary<Part> = fc.oneof(
  fc.string().map(text),
  fc.record({
    type: fc.constant("tool-call" as const),
    id: fc.string(),
    name: fc.string(),
    input: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })) as fc.Arbitrary<never>,
  }),
  fc.record({
    type: fc.constant("tool-result" as const),
    callId: fc.string(),
    parts: fc.array(fc.string().map((words) => ({ type: "text" as const, text: words }))),
  }),
);

const turns: fc.Arbitrary<ChatMessage[]> = fc
  .array(fc.array(parts, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 8 })
  .map((all) => all.map((one, at) => ({ role: at % 2 === 0 ? "user" : "assistant", parts: one })));

const marked = (messages: readonly ChatMessage[], at: number): ChatMessage[] =>
  messages.map((message, index) =>
    index === at
      ? { ...message, parts: message.parts.map((part) => ({ ...part, cache: { ttl: "5m" } }) as Part) }
      : message,
  );

const file = (data: string): Part => ({
  type: "media",
  kind: "image",
  source: { type: "base64", mediaType: "image/png", data },
});

const schema = (type: string): JsonObject => ({ type: "object", properties: { cache: { type } } });
const tool = (type: string): Tool => ({ type: "function", name: "a", inputSchema: schema(type) });

const call = (input: JsonObject): ChatMessage => ({
  role: "assistant",
  parts: [{ type: "tool-call", id: "1", name: "a", input }],
});

describe("the fingerprints of a request", () => {
  it("have the end of each request before it in the conversation, wherever its marks stand", async () => {
    await fc.assert(
      fc.asyncProperty(turns, turns, fc.nat(7), fc.nat(15), async (first, more, mark, later) => {
        const earlier = await prints({ messages: marked(first, mark) });
        const whole = await prints({ messages: marked([...first, ...more], later) });
        expect(ids(whole)).toContain(ids(earlier).at(-1));
        expect(whole.conversation).toBe(earlier.conversation);
      }),
    );
  });

  it("differ where anything but the marks differs", async () => {
    const one: ChatMessage = { role: "user", parts: [text("One"), text("Two")] };
    const two = call({ b: 1, c: [1, 2, { d: null }] });
    const result = { type: "tool-result", callId: "1", parts: [{ type: "text", text: "3" }] } as const;
    const three: ChatMessage = { role: "user", parts: [result] };
    const request: Partial<ChatRequest> = {
      tools: [tool("string")],
      system: [{ type: "text", text: "Be short." }],
      messages: [one, two, three],
    };
    const others: Partial<ChatRequest>[] = [
      { model: "other" },
      { cachedContent: "cachedContents/1" },
      { tools: [] },
      { tools: [tool("number")] },
      { system: [{ type: "text", text: "Be short!" }] },
      { messages: [{ ...one, parts: [text("OneT"), text("wo")] }, two, three] },
      { messages: [{ ...one, parts: [text("OneTwo")] }, two, three] },
      { messages: [{ ...one, name: "Ann" }, two, three] },
      { messages: [one, call({ b: 1, c: [1, 2], d: null }), three] },
      { messages: [one, { ...two, role: "user" }, three] },
      { messages: [one, two, { role: "user", parts: [{ ...result, isError: true }] }] },
    ];
    const last = new Set([ids(await prints(request)).at(-1)]);
    for (const other of others) last.add(ids(await prints({ ...request, ...other })).at(-1));
    last.add(ids(await prints(request, "other key")).at(-1));
    expect(last.size).toBe(others.length + 2);
  });

  it("share nothing between tenants", async () => {
    await fc.assert(
      fc.asyncProperty(turns, async (messages) => {
        const [one, two] = [await prints({ messages }, "one"), await prints({ messages }, "two")];
        expect(ids(one).filter((id) => ids(two).includes(id))).toEqual([]);
        expect(one.conversation).not.toBe(two.conversation);
      }),
    );
  });

  it("are as many for a long conversation as for a short one, with the newest of its turns, parts and marks", async () => {
    const messages = Array.from({ length: 5_000 }, (_, at): ChatMessage => ({
      role: at % 2 === 0 ? "user" : "assistant",
      parts: Array.from({ length: 4 }, (_unused, part) => ({ type: "text", text: `${at} ${part}`, cache: {} })),
    }));
    const { prefixes, answers } = await prints({
      messages,
      tools: [{ type: "code-execution" }],
      system: [{ type: "text", text: "s" }],
    });
    expect(answers).toBe(2_500);
    expect(prefixes.length).toBeLessThan(60);
    expect(prefixes.filter(({ isNoted }) => isNoted).length).toBeLessThanOrEqual(7);
    expect(prefixes.slice(0, 2).map(({ isTurn, isNoted }) => [isTurn, isNoted])).toEqual([
      [false, true],
      [false, true],
    ]);
    const shares = prefixes.map(({ share }) => share);
    expect(shares).toEqual(shares.toSorted((one, other) => one - other));
    expect(shares.at(-1)).toBe(1);
  });

  it("name the lifetime of a mark", async () => {
    const { prefixes, isMarked } = await prints({ system: [{ type: "text", text: "s", cache: { ttl: "1h" } }] });
    expect(isMarked).toBe(true);
    expect(prefixes.map(({ ttl }) => ttl)).toEqual(["1h", undefined]);
    expect((await prints({})).isMarked).toBe(false);
  });

  it("count a file in base64 as a few thousand characters", async () => {
    const [small, large] = await Promise.all(
      [10_000, 1_000_000].map((length) =>
        prints({ messages: [{ role: "user", parts: [file("iVBORw0K".repeat(length / 8))] }] }),
      ),
    );
    expect(small?.chars).toBe(large?.chars);
    expect(small && ids(small).at(-1)).not.toBe(large && ids(large).at(-1));
  });

  it("are made in slices, between which the event loop turns, and end with the call", async () => {
    const request = chatRequest({ messages: [{ role: "user", parts: [text("x".repeat(20 * 1024 * 1024))] }] });
    let pauses = 0;
    const pause = async (): Promise<void> => void pauses++;
    await fingerprintsOf("key", request, new EventLoopYielder({ pause }));
    expect(pauses).toBeGreaterThanOrEqual(9);
    const deep = chatRequest({ messages: [{ role: "user", parts: Array.from({ length: 400_000 }, () => text("")) }] });
    pauses = 0;
    await fingerprintsOf("key", deep, new EventLoopYielder({ pause }));
    expect(pauses).toBeGreaterThanOrEqual(3);
    const signal = AbortSignal.abort(new Error("Gone."));
    await expect(fingerprintsOf("key", request, new EventLoopYielder({ pause, signal }))).rejects.toThrow("Gone.");
  });
});
