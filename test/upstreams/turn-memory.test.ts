/** The memory of signatures and reasoning: whose it is, what it compares, and what it forgets. */

import { describe, expect, it } from "vitest";
import type { ChatEvent } from "../../src/model/chat-event.ts";
import type { Part } from "../../src/model/chat-request.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { TurnMemory, type TurnMemoryLimits } from "../../src/upstreams/turn-memory.ts";
import { chatRequest } from "./relay/stage.ts";

const MAKER = "chat-completions";
const ID = "call_0123456789abcdefghij";

function memoryOf(limits: Partial<TurnMemoryLimits> = {}) {
  const clock = manualClock();
  const memory = new TurnMemory({ maxRememberedChars: 100_000, rememberedMs: 60_000, ...limits }, clock);
  return {
    clock,
    hear: (keyId: string, ...events: ChatEvent[]): void => {
      const read = memory.recorder(keyId, MAKER);
      for (const event of events) read?.(event);
    },
    /** Returns the parts of one assistant turn after they were restored. */
    restored: (keyId: string, ...parts: Part[]): readonly Part[] => {
      const { messages } = memory.restored(keyId, chatRequest({ messages: [{ role: "assistant", parts }] }), MAKER);
      return messages[0]?.parts ?? [];
    },
  };
}

type Input = Extract<Part, { type: "tool-call" }>["input"];

const call = (id: string = ID, input: Input = {}, name = "look"): Extract<Part, { type: "tool-call" }> => ({
  type: "tool-call",
  id,
  name,
  input,
});
const thought = (text: string): ChatEvent => ({ type: "reasoning-delta", text });
const reasoning = (text: string): Part => ({ type: "reasoning", text, maker: MAKER });
const text = (text: string): Part => ({ type: "text", text });

describe("what is remembered", () => {
  it("is reasoning that nobody signs, joined from its pieces, with the upstream as its maker", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Let me "), thought("think."), { type: "text-delta", text: "Well." }, call());
    expect(restored("one", text("Well."), call())).toEqual([reasoning("Let me think."), text("Well."), call()]);
  });

  it("stands where it stood: before the text, between the text and the call, between two calls", () => {
    const { hear, restored } = memoryOf();
    hear(
      "one",
      { type: "reasoning-delta", text: "a", block: "0" },
      { type: "reasoning-delta", text: "b", block: "1" },
      { type: "text-delta", text: "Well." },
      { type: "redacted-reasoning", data: "c" },
      call(`${ID}1`),
      thought("d"),
      { type: "reasoning-signature", signature: "sig", maker: "messages" },
      call(`${ID}2`),
      thought("after all calls"),
    );
    expect(restored("one", text("Well."), call(`${ID}1`), call(`${ID}2`), text("End."))).toEqual([
      reasoning("a"),
      reasoning("b"),
      text("Well."),
      { type: "redacted-reasoning", data: "c", maker: MAKER },
      call(`${ID}1`),
      { type: "reasoning", text: "d", signature: "sig", maker: "messages" },
      call(`${ID}2`),
      text("End."),
    ]);
  });

  it("is the signature of a call, from its beginning, its end or all of it, unless the client has sent one", () => {
    const { hear, restored } = memoryOf();
    const seal = { signature: "sig", maker: "generate-content" };
    hear("one", { ...call(`${ID}1`), signature: "sig" });
    hear(
      "one",
      { type: "tool-call-start", id: `${ID}2`, name: "look", ...seal },
      { type: "tool-call-end", id: `${ID}2` },
    );
    hear(
      "one",
      { type: "tool-call-start", id: `${ID}3`, name: "look" },
      { type: "tool-call-end", id: `${ID}3`, ...seal },
    );
    expect(restored("one", call(`${ID}1`), call(`${ID}2`), call(`${ID}3`))).toEqual([
      { ...call(`${ID}1`), signature: "sig", maker: MAKER },
      { ...call(`${ID}2`), ...seal },
      { ...call(`${ID}3`), ...seal },
    ]);
    const own = { ...call(`${ID}1`), signature: "the client's" };
    expect(restored("one", own)).toEqual([own]);
  });

  it("replaces the text that the client has sent back without its maker", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), { type: "reasoning-signature", signature: "sig" }, call());
    const signed = { ...reasoning("Hm."), signature: "sig" };
    expect(restored("one", { type: "reasoning", text: "Hm." }, call())).toEqual([signed, call()]);
  });

  it.each<Part>([
    { type: "reasoning", text: "Hm.", signature: "sig", maker: MAKER },
    { type: "reasoning", text: "Hm.", maker: MAKER },
    { type: "reasoning", text: "Hm.", signature: "sig" },
    { type: "redacted-reasoning", data: "Hm.", maker: MAKER },
  ])("is not added to %o, which the client has sent back itself", (own) => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), call());
    expect(restored("one", own, call())).toEqual([own, call()]);
  });

  it("is added to reasoning of another maker", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), call());
    const foreign: Part = { type: "reasoning", text: "Hm.", signature: "sig", maker: "messages" };
    expect(restored("one", foreign, call())).toEqual([reasoning("Hm."), foreign, call()]);
  });

  it("belongs to one candidate", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("first"), { type: "reasoning-delta", text: "second", candidate: 1 }, call(), {
      ...call(`${ID}1`),
      candidate: 1,
    });
    expect(restored("one", call())).toEqual([reasoning("first"), call()]);
    expect(restored("one", call(`${ID}1`))).toEqual([reasoning("second"), call(`${ID}1`)]);
  });
});

describe("a call", () => {
  it("is the key's own, and has its tool's name", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), call());
    expect(restored("two", call())).toEqual([call()]);
    expect(restored("one", call(ID, {}, "feel"))).toEqual([call(ID, {}, "feel")]);
  });

  it("with an id that nobody repeats may have other arguments, because some clients change them", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), call(ID, { at: "sky" }));
    expect(restored("one", call(ID, { at: "sea" }))).toHaveLength(2);
  });

  it.each(["call_1", "look:0", "functions.look_and_feel_and_more:0"])(
    "with the id %s, which a server counts, needs its arguments, in any order",
    (id) => {
      const name = id.includes("more") ? "look_and_feel_and_more" : "look";
      const { hear, restored } = memoryOf();
      const json = ['{"at":"sky",', '"by":{"d":1.0,"c":[2]}}'].map((json): ChatEvent => ({
        type: "tool-call-delta",
        id,
        json,
      }));
      hear("one", thought("Hm."), { type: "tool-call-start", id, name }, ...json, { type: "tool-call-end", id });
      expect(restored("one", call(id, { by: { c: [2], d: 1 }, at: "sky" }, name))).toHaveLength(2);
      expect(restored("one", call(id, { at: "sea" }, name))).toHaveLength(1);
    },
  );

  it.each([
    ["the same id and arguments", "call_1", [thought("Another.")]],
    ["the same id and arguments, without reasoning", "call_1", []],
    ["a long id that is repeated all the same", ID, [thought("Another.")]],
  ])("is forgotten when two answers have %s", (_name, id, events) => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), call(id));
    hear("one", ...events, call(id));
    expect(restored("one", call(id))).toEqual([call(id)]);
    // The order of the two answers does not matter.
    hear("two", ...events, call(id));
    hear("two", thought("Hm."), call(id));
    hear("two", thought("Hm."), call(id));
    expect(restored("two", call(id))).toEqual([call(id)]);
  });

  it("stays when an upstream gives the same answer again", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), call());
    hear("one", thought("Hm."), call());
    expect(restored("one", call())).toEqual([reasoning("Hm."), call()]);
  });

  it("is added once, although a hostile client repeats its id", () => {
    const { hear, restored } = memoryOf();
    hear("one", thought("Hm."), { ...call(), signature: "sig" });
    const parts = restored("one", ...Array.from({ length: 1_000 }, () => call()));
    expect(parts).toHaveLength(1_001);
    expect(parts.filter((part) => "signature" in part)).toHaveLength(1);
  });
});

describe("the limits", () => {
  it("forget a call some time after its last use", async () => {
    const { hear, restored, clock } = memoryOf();
    hear("one", thought("Hm."), call());
    for (const length of [2, 2, 2, 1]) {
      await clock.advance(length === 1 ? 60_000 : 40_000);
      expect(restored("one", call())).toHaveLength(length);
    }
    expect(restored("one", call())).toHaveLength(1);
  });

  it("forget the calls that were not used for longest, of the key that has most", () => {
    const { hear, restored } = memoryOf();
    const says = "x".repeat(1_000);
    hear("small", thought(says), call());
    const ids = Array.from({ length: 10_000 }, (_, index) => `${ID}${index}`);
    for (const id of ids) hear("large", thought(says), call(id));
    expect(restored("small", call())).toHaveLength(2);
    const kept = ids.filter((id) => restored("large", call(id)).length === 2);
    expect(kept.length).toBeGreaterThan(30);
    expect(kept.length).toBeLessThan(100);
    expect(kept).toEqual(ids.slice(-kept.length));
  });

  it("leave every key its part, however many there are", () => {
    const { hear, restored } = memoryOf();
    const says = "x".repeat(1_000);
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);
    for (let round = 0; round < 20; round++) for (const key of keys) hear(key, thought(says), call(`${ID}${round}`));
    for (const key of keys) expect(restored(key, call(`${ID}19`))).toHaveLength(2);
  });

  it("hold of an answer no more than one call may have, and nothing of what comes after that", () => {
    const { hear, restored } = memoryOf();
    const piece = thought("x".repeat(1_000));
    hear("one", ...Array.from({ length: 50 }, () => piece), call(`${ID}1`), thought("Hm."), call(`${ID}2`));
    expect(restored("one", call(`${ID}1`), call(`${ID}2`))).toHaveLength(2);
    hear("one", thought("Hm."), call("call_1", { text: "x".repeat(20_000) }), call("x".repeat(2_000)));
    expect(restored("one", call("call_1", { text: "x".repeat(20_000) }), call("x".repeat(2_000)))).toHaveLength(2);
  });
});
