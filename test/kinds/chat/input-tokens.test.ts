/** The estimated tokens of media beside the examples that vendors publish, and the count of the input by the backend. */

import { describe, expect, it } from "vitest";
import {
  type ChatRequest,
  countTokensByScript,
  GatewayError,
  type ModelBackend,
  type Part,
} from "../../../src/index.ts";
import { countInputTokens, estimateInputTokens } from "../../../src/kinds/chat/input-tokens.ts";
import { aiff, mp3, mp4, pdf, wav } from "../../media/files.ts";
import { INPUT, opened, WORD } from "../../pipeline/bench.ts";

const tokensOf = (...parts: readonly Part[]): number => {
  const request: ChatRequest = {
    model: "m",
    messages: [{ role: "user", parts }],
    system: [],
    tools: [],
    maxOutputTokens: 10,
    stopSequences: [],
    stream: false,
  };
  return estimateInputTokens(request, countTokensByScript);
};

const base64 = (mediaType: string, bytes: Uint8Array) =>
  ({ type: "base64", mediaType, data: Buffer.from(bytes).toString("base64") }) as const;
const media = (kind: "image" | "audio" | "video", mediaType: string, bytes: Uint8Array): Part => ({
  type: "media",
  kind,
  source: base64(mediaType, bytes),
});
const document = (mediaType: string, bytes: Uint8Array): Part => ({
  type: "document",
  source: base64(mediaType, bytes),
});

/** A PNG of which only the header is there. */
function picture(width: number, height: number): Part {
  const header = Buffer.from("89504e470d0a1a0a0000000d49484452000000000000000008020000000000000000", "hex");
  header.writeUInt32BE(width, 16);
  header.writeUInt32BE(height, 20);
  return media("image", "image/png", header);
}

describe("a long text", () => {
  const text = `${"word of ".repeat(30)}${"猫".repeat(90)}`.repeat(200);
  const request: ChatRequest = {
    model: "m",
    messages: [{ role: "user", parts: [{ type: "text", text }] }],
    system: [],
    tools: [],
    maxOutputTokens: 10,
    stopSequences: [],
    stream: false,
  };
  const whole = Math.ceil(countTokensByScript(text));

  it("is sampled for a hold, and counted whole for a caller who asks for the count", () => {
    const holds = Array.from({ length: 5 }, () => estimateInputTokens(request, countTokensByScript));
    expect(new Set(holds).size).toBeGreaterThan(1);
    for (const tokens of holds) expect(Math.abs(tokens / whole - 1)).toBeLessThan(0.2);
    expect(countInputTokens(request, countTokensByScript)).toBe(whole);
  });

  it("comes whole to a count of the host's own", () => {
    expect(estimateInputTokens(request, ({ length }) => length)).toBe(text.length);
  });
});

describe("a picture", () => {
  it.each<[width: number, height: number, atLeast: Readonly<Record<string, number>>, tokens: number]>([
    [1, 1, { "Gemini 3": 1_120 }, 1_120],
    [1_000, 1_000, { "Anthropic's example": 1_296, "two thirds": 1_032 }, 2_520],
    [1_024, 1_024, { "OpenAI's example of tiles": 765, "of patches": 1_024, "of patches times 2.46": 2_519.04 }, 2_520],
    [2_048, 4_096, { "OpenAI's example of tiles": 1_105, "Anthropic's most": 4_784 }, 8_192],
    [960, 540, { "Google's example of tiles": 6 * 258 }, 1_548],
    [9_000, 9_000, { "the most of all": 10_000 }, 10_000],
  ])("of %i × %i pixels costs the largest of what vendors count", (width, height, atLeast, tokens) => {
    const estimate = tokensOf(picture(width, height));
    for (const [vendor, count] of Object.entries(atLeast)) expect([vendor, estimate >= count]).toEqual([vendor, true]);
    expect(estimate).toBe(tokens);
  });

  it("costs the most where nobody knows its size", () => {
    for (const source of [
      { type: "url", url: "https://example.com/a.png" },
      { type: "file", id: "file-1" },
      base64("image/png", Buffer.from("broken")),
    ] as const)
      expect(tokensOf({ type: "media", kind: "image", source })).toBe(10_000);
  });

  it("is looked at among the first 600 files alone", () => {
    const small = picture(1, 1);
    expect(tokensOf(...Array.from({ length: 602 }, () => small))).toBe(600 * 1_120 + 2 * 10_000);
  });
});

describe("a document", () => {
  it("costs by its pages", () => {
    expect(tokensOf(document("application/pdf", pdf({ pages: 1 })))).toBe(4_568);
    expect(tokensOf(document("application/pdf", pdf({ pages: 50 })))).toBe(50 * 4_568);
    expect(tokensOf(document("application/pdf", pdf({ pages: 3_000 })))).toBe(1_000 * 4_568);
  });

  it("costs by its bytes where it tells no pages, and as a hundred pages where nobody fetched it", () => {
    expect(tokensOf(document("application/pdf", Buffer.alloc(320 * 1024)))).toBe(10 * 4_568);
    expect(tokensOf(document("text/csv", Buffer.alloc(3_000)))).toBe(1_000);
    for (const source of [
      { type: "url", url: "https://example.com/a.pdf" },
      { type: "file", id: "file-1" },
    ] as const)
      expect(tokensOf({ type: "document", source })).toBe(100 * 4_568);
  });
});

describe("a recording", () => {
  it("costs by its length", () => {
    expect(tokensOf(media("audio", "audio/wav", wav(60)))).toBe(60 * 32);
    expect(tokensOf(media("audio", "audio/mpeg", mp3(60)))).toBe(60 * 32);
    expect(tokensOf(media("video", "video/mp4", mp4(60)))).toBe(60 * 300);
    expect(tokensOf(media("audio", "audio/L16;codec=pcm;rate=24000", Buffer.alloc(48_000 * 10)))).toBe(10 * 32);
  });

  it("costs by its bytes where it tells nothing, or what cannot be true", () => {
    expect(tokensOf(media("audio", "audio/x", Buffer.alloc(40_000)))).toBe(10 * 32);
    expect(tokensOf(media("video", "video/avi", Buffer.alloc(320_000)))).toBe(10 * 300);
    const brief = Buffer.concat([mp4(1), Buffer.alloc(25_000_000)]);
    expect(tokensOf(media("video", "video/mp4", brief))).toBeGreaterThanOrEqual(2 * 300);
  });

  it("costs a whole window where nobody fetched it", () => {
    const source = { type: "url", url: "https://example.com/a.mp4" } as const;
    expect(tokensOf({ type: "media", kind: "video", source })).toBe(1_048_576);
    expect(tokensOf({ type: "media", kind: "audio", source })).toBe(1_048_576);
  });

  it("costs no more than the largest window, whatever its header tells", () => {
    const endless = aiff(1);
    endless.writeUInt32BE(0xffffffff, 22);
    // A rate of samples of nearly nothing: what it comes to in tokens is beyond every number.
    endless.writeUInt16BE(15_391, 28);
    endless.writeUInt32BE(0x80000000, 30);
    expect(tokensOf(media("audio", "audio/aiff", endless))).toBe(1_048_576);
    expect(tokensOf(media("audio", "audio/aiff", endless), media("audio", "audio/aiff", endless))).toBe(2_097_152);
    const slow = wav(100);
    slow.writeUInt32LE(1, 28);
    expect(tokensOf(media("audio", "audio/wav", slow))).toBe(1_048_576);
  });

  it("of raw samples whose rate is none costs as one at the usual rate", () => {
    const samples = Buffer.alloc(32_000 * 3);
    for (const mediaType of ["audio/pcm", "audio/pcm;rate=16000", "audio/pcm;rate=0000"])
      expect(tokensOf(media("audio", mediaType, samples))).toBe(3 * 32);
  });
});

/** A message with a PDF of 50 pages. */
const body = {
  messages: [
    {
      role: "user",
      content: [
        {
          type: "document",
          source: { type: "base64", media_type: "application/pdf", data: base64("", pdf({ pages: 50 })).data },
        },
        { type: "text", text: "Sum up." },
      ],
    },
  ],
};

/** A backend that charges 150,005 tokens for that, and counts as it is told. */
function reader(
  count?: ModelBackend["countInputTokens"],
  maxInputTokens?: number,
): ModelBackend & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    ...(maxInputTokens !== undefined && { models: () => [{ id: "any", maxInputTokens }] }),
    ...(count && {
      countInputTokens: (request, call) => {
        asked.push("count");
        return count(request, call);
      },
    }),
    async *chat() {
      asked.push("chat");
      yield WORD;
      yield { type: "finish", reason: "stop", usage: { inputTokens: 150_000, outputTokens: 5 } };
    },
  };
}

describe("a PDF of 50 pages", () => {
  it("is refused to a key that cannot pay for it, before anyone is asked", async () => {
    const backend = reader();
    const { send, report } = opened({ key: { granted: 2_000 }, backend });
    expect((await send({ body })).status).toBe(429);
    expect(backend.asked).toEqual([]);
    expect(report()).toMatchObject({ used: 0, overdraft: 0, held: 0 });
  });

  it("is charged what it took to one that can", async () => {
    const { send, report } = opened({ key: { granted: 1_000_000 }, backend: reader() });
    expect((await send({ body })).status).toBe(200);
    expect(report()).toMatchObject({ used: 150_005, overdraft: 0, held: 0 });
  });

  it("is taken to fill no more than the window that its model is listed with", async () => {
    const { send, report } = opened({ key: { granted: 160_000 }, backend: reader(undefined, 155_000) });
    expect((await send({ body })).status).toBe(200);
    expect(report()).toMatchObject({ used: 150_005, overdraft: 0, held: 0 });
  });
});

describe("a host that has the backend count the input", () => {
  const countInput = "backend";

  it("holds what the backend counts", async () => {
    const backend = reader(() => Promise.resolve(150_000));
    const { send, report } = opened({ key: { granted: 150_100 }, backend, countInput });
    expect((await send({ body })).status).toBe(200);
    expect(backend.asked).toEqual(["count", "chat"]);
    expect(report()).toMatchObject({ used: 150_005, overdraft: 0, held: 0 });
    const poor = opened({ key: { granted: 150_000 }, backend: reader(() => Promise.resolve(150_000)), countInput });
    expect((await poor.send({ body })).status).toBe(429);
  });

  it.each<[what: string, count: ModelBackend["countInputTokens"], told: number]>([
    ["cannot count", undefined, 0],
    ["cannot say", () => Promise.resolve(undefined), 0],
    ["fails", () => Promise.reject(new GatewayError("backend_unavailable", "away")), 1],
    ["counts what is no count", () => Promise.resolve(-1), 1],
    [
      "throws",
      () => {
        throw new Error("secret");
      },
      1,
    ],
  ])("holds the estimate where the backend %s", async (_what, count, told) => {
    const { send, failures, report } = opened({ key: { granted: 2_000 }, backend: reader(count), countInput });
    expect((await send({ body })).status).toBe(429);
    expect(failures).toHaveLength(told);
    expect(report()).toMatchObject({ used: 0, held: 0 });
    expect((await send()).status).toBe(200);
  });

  it("lowers the estimate to the model's window where the backend cannot count", async () => {
    const backend = { ...reader(undefined), models: () => [{ id: "any", maxInputTokens: 100 }] };
    const { send } = opened({ key: { granted: 2_000 }, backend, countInput });
    expect((await send({ body: { ...body, model: "any" } })).status).toBe(200);
  });

  it("waits for the count no longer than for the answer", async () => {
    const backend = reader(() => new Promise(() => {}));
    const { send, clock, report } = opened({ backend, countInput, limits: { deadlineMs: 1_000 } });
    const answer = send();
    await clock.advance(1_000);
    expect((await answer).status).toBe(504);
    expect(backend.asked).toEqual(["count"]);
    expect(report()).toMatchObject({ used: 0, liveHolds: 0, timers: 0 });
  });

  it("asks nothing where the option is not set", async () => {
    const backend = reader(() => Promise.resolve(INPUT));
    await opened({ key: {}, backend }).send();
    expect(backend.asked).toEqual(["chat"]);
  });
});
