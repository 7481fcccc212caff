/** What a backend counts and does is checked before it is money: nonsense is charged by estimate, and no answer is endless. */

import { describe, expect, it, vi } from "vitest";
import { type ChatEvent, countTokensByScript, type Usage } from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import { declarationOf, texts, tokensOf } from "../kinds/texts.ts";
import { AT_REST, counted, INPUT, never, opened, PROMPT, speaking, WORD, requestOf } from "./bench.ts";

const finish = (usage: Partial<Usage>): ChatEvent => ({ type: "finish", reason: "stop", usage });

const uncached = (usage: Usage): number => usage.inputTokens - usage.cacheReadTokens + usage.outputTokens;

const nonsense = [2 ** 53 - 1, Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5, "7" as unknown as number, 2 ** 33];
const lies: readonly [what: string, usage: Partial<Usage>][] = nonsense.flatMap((count) => [
  [`input of ${count}`, { inputTokens: count, outputTokens: 7 }],
  [`output of ${count}`, { inputTokens: INPUT, outputTokens: count }],
  [`details of ${count}`, { outputTokens: 7, details: { output: [{ modality: "text", tokens: count }] } }],
]);

describe.each([false, true])("a backend's usage (stream: %s)", (stream) => {
  it.each(lies)("with %s is charged by estimate, and reported once", async (_what, usage) => {
    for (const events of [[finish(usage)], [{ type: "usage", usage } as const, finish(usage)]]) {
      const { send, failures, report } = opened({ backend: speaking(WORD, ...events) });
      const response = await send({ body: { stream } });
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(WORD)]);
      expect(failures).toMatchObject([{ port: "model-backend", error: { code: "backend_failed" } }]);
      expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, overdraft: 0, ...AT_REST });
    }
  });

  it.each<[what: string, usage: Partial<Usage>, used: number]>([
    ["more cached than input", { inputTokens: 1, cacheReadTokens: 200, outputTokens: 7 }, 1 + 7],
    ["more written to a cache than input", { inputTokens: 1, cacheWriteTokens: 2, outputTokens: 7 }, 1 + 2 + 7],
    ["more reasoning than output", { inputTokens: 1, outputTokens: 7, reasoningTokens: 50 }, 1 + 7 + 50],
  ])("of %s is charged with its parts beside it, as an estimate, and reported once", async (_what, usage, used) => {
    const { send, failures, report } = opened({ backend: speaking(WORD, finish(usage)), price: uncached });
    const response = await send({ body: { stream } });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining(WORD)]);
    expect(failures).toMatchObject([{ port: "model-backend", error: { code: "backend_failed" } }]);
    expect(report()).toMatchObject({ used, estimated: used, ...AT_REST });
  });

  it.each<[usage: object, fault: string]>([
    [{ inputTokens: 9e9 }, "inputTokens must be an integer from 0 to 4294967296, not 9000000000."],
    [{ outputTokens: -1.5 }, "outputTokens must be an integer from 0 to 4294967296, not -1.5."],
    [{ outputTokens: "7" }, "outputTokens must be an integer from 0 to 4294967296, not a text."],
    [{ serverToolUses: { web_search: -1 } }, "web_search must be an integer from 0 to 4294967296, not -1."],
    [
      { details: { output: [{ modality: "text", tokens: 9e9 }] } },
      "details must be an integer from 0 to 4294967296, not 9000000000.",
    ],
  ])("of %j is reported with the number and the bound", async (usage, fault) => {
    const { send, failures } = opened({ backend: speaking(WORD, finish(usage)) });
    await (await send({ body: { stream } })).text();
    expect(failures[0]?.error.message).toBe(`The model backend reported a usage that is no count: ${fault}`);
  });

  it("of an answer that ends for no known reason is charged all the same", async () => {
    const ending = { ...finish({ inputTokens: 5, outputTokens: 7 }), reason: "tired" } as unknown as ChatEvent;
    const { send, failures, report } = opened({ backend: speaking(ending) });
    await (await send({ body: { stream } })).text();
    expect(failures).toMatchObject([{ error: { code: "backend_failed" } }]);
    expect(report()).toMatchObject({ used: 5 + 7, estimated: 5 + 7, ...AT_REST });
  });

  it("of no output for words that came is charged by estimate, and reported once", async () => {
    const { send, failures, report } = opened({
      backend: speaking(WORD, finish({ inputTokens: INPUT, outputTokens: 0 })),
    });
    await (await send({ body: { stream } })).text();
    expect(failures).toMatchObject([{ port: "model-backend", error: { code: "backend_failed" } }]);
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, overdraft: 0, ...AT_REST });
  });

  it("of no input is charged by estimate, and reported once", async () => {
    const { send, failures, report } = opened({
      backend: speaking(WORD, finish({ inputTokens: 0, outputTokens: 7 })),
    });
    await (await send({ body: { stream } })).text();
    expect(failures).toMatchObject([{ port: "model-backend", error: { code: "backend_failed" } }]);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: INPUT + 7, overdraft: 0, ...AT_REST });
  });

  it("of no input may come before the count, and is charged by estimate where the answer breaks off", async () => {
    const begun: ChatEvent = { type: "start", usage: { inputTokens: 0, outputTokens: 0 } };
    const whole = opened({ backend: speaking(begun, WORD, counted(7)) });
    await (await whole.send({ body: { stream } })).text();
    expect(whole.report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
    const broken = opened({ backend: speaking(begun, WORD, new Error("Gone.")) });
    await (await broken.send({ body: { stream } })).text();
    expect(broken.report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST });
    const cached = opened({
      backend: speaking(begun, WORD, finish({ inputTokens: 0, cacheReadTokens: INPUT, outputTokens: 7 })),
    });
    await (await cached.send({ body: { stream } })).text();
    expect([whole.failures, cached.report()]).toMatchObject([[], { used: INPUT + 7, ...AT_REST }]);
  });

  it("of far more output than was asked for or came is charged by estimate, and reported once", async () => {
    const { send, failures, report } = opened({
      backend: speaking(WORD, finish({ inputTokens: INPUT, outputTokens: 2 ** 32 })),
    });
    await (await send({ body: { stream, max_tokens: 16 } })).text();
    expect(failures).toMatchObject([{ port: "model-backend", error: { code: "backend_failed" } }]);
    expect(failures[0]?.text).toContain(
      "The model backend reported 4294967296 output tokens, and at most 512 are believed.",
    );
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, overdraft: 0, ...AT_REST });
  });

  it("of each frame makes the gateway look through the request only for a count that is too high", async () => {
    const looks: number[] = [];
    const { send } = opened({
      backend: {
        async *chat(request) {
          if (!request.native) throw new Error("The request has no native one.");
          const look = vi.spyOn(request.native, "unsupported");
          yield { type: "usage", usage: { inputTokens: INPUT, outputTokens: 1 } };
          yield WORD;
          looks.push(look.mock.calls.length);
          yield { type: "usage", usage: { outputTokens: 2 ** 20 } };
          yield WORD;
          looks.push(look.mock.calls.length);
        },
      },
    });
    await (await send({ body: { stream, metadata: { user_id: "u" } } })).text();
    expect(looks[0]).toBe(0);
    expect(looks[1]).toBeGreaterThan(0);
  });

  it.each<[what: string, usage: Partial<Usage>]>([
    ["input", { inputTokens: 4e9 }],
    ["cached input", { cacheReadTokens: 4e9 }],
    ["cache writes", { cacheWritesByTtl: { "1h": 4e9 } }],
    ["output", { outputTokens: 4e9 }],
    ["reasoning", { reasoningTokens: 4e9 }],
    ["tool runs", { serverToolUses: { web_search: 4e9 } }],
    ["sound", { details: { output: [{ modality: "audio", tokens: 4e9 }] } }],
  ])("of far too much %s before its answer broke off is charged by estimate, and reported", async (_what, usage) => {
    const { send, failures, report } = opened({
      backend: speaking({ type: "start", usage }, WORD),
      price: ({
        inputTokens,
        cacheReadTokens,
        outputTokens,
        reasoningTokens,
        cacheWritesByTtl,
        serverToolUses,
        details,
      }) =>
        [inputTokens, cacheReadTokens, outputTokens, reasoningTokens]
          .concat(Object.values({ ...cacheWritesByTtl, ...serverToolUses }))
          .concat(details?.output?.map(({ tokens }) => tokens) ?? [])
          .reduce((sum, count) => sum + count, 0),
    });
    await (await send({ body: { stream } })).text();
    expect(failures).toHaveLength(2);
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, overdraft: 0, ...AT_REST });
  });

  it.each<[what: string, body: object, believed: number, doubted: number]>([
    ["a plain request", {}, 65_536, 66_000],
    ["a long request", { messages: [{ role: "user", content: "x".repeat(20_000) }] }, 16 * 20_000, 400_000],
    [
      "a tool that the provider runs",
      { tools: [{ type: "web_search_20250305", name: "web_search" }] },
      4_194_304,
      4_300_000,
    ],
    [
      "a field that only the provider knows",
      { mcp_servers: [{ type: "url", url: "https://a.test", name: "a" }] },
      4_194_304,
      4_300_000,
    ],
  ])(
    "of more input than %s can have is charged by estimate, and reported once",
    async (_what, body, believed, doubted) => {
      for (const inputTokens of [believed, doubted]) {
        const { send, failures, report } = opened({
          key: { granted: 1_000_000_000 },
          backend: { ...speaking(WORD, finish({ inputTokens, outputTokens: 4 })), takesUnknown: true },
        });
        await (await send({ body: { stream, ...body } })).text();
        const isBelieved = inputTokens === believed;
        expect(failures).toHaveLength(isBelieved ? 0 : 1);
        const { used = 0, estimated } = report() ?? {};
        expect([isBelieved ? used : used < 30_000, estimated]).toEqual([
          isBelieved ? believed + 4 : true,
          isBelieved ? 0 : used,
        ]);
      }
    },
  );

  it("that was told before a stop sequence ended the text is no count of it", async () => {
    const start: ChatEvent = { type: "start", usage: { inputTokens: INPUT, outputTokens: 1 } };
    const { send, failures, report } = opened({ backend: speaking(start, "x".repeat(200), "STOP", counted(170)) });
    await (await send({ body: { stream, stop_sequences: ["STOP"], max_tokens: 500 } })).text();
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 200, estimated: INPUT + 200, ...AT_REST });
  });

  it.each(["details", "cacheWritesByTtl", "serverToolUses"])("may have null for %s", async (field) => {
    const ending = finish({ inputTokens: INPUT, outputTokens: 7, [field]: null });
    const { send, failures, report } = opened({
      backend: speaking({ type: "start", usage: null } as unknown as ChatEvent, WORD, ending),
    });
    await (await send({ body: { stream } })).text();
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
  });

  it("may tell a part before its whole", async () => {
    const early: ChatEvent = { type: "usage", usage: { outputTokens: 1, reasoningTokens: 5, cacheReadTokens: 3 } };
    const { send, failures, report } = opened({ backend: speaking(early, WORD, counted(9)) });
    await (await send({ body: { stream } })).text();
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 9, estimated: 0, ...AT_REST });
  });

  it("with nonsense at the start is charged by what is counted later, but as an estimate", async () => {
    const start: ChatEvent = { type: "start", usage: { inputTokens: -1 } };
    const { send, failures, report } = opened({ backend: speaking(start, WORD, counted(7)) });
    expect((await send({ body: { stream } }).then((response) => response.text())).length).toBeGreaterThan(0);
    expect(failures).toHaveLength(1);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: INPUT + 7, ...AT_REST });
  });

  it("from before its answer was left is no count of all of it", async () => {
    const start: ChatEvent = { type: "start", usage: { inputTokens: INPUT, outputTokens: 1 } };
    const said = Array.from({ length: 240 }, () => WORD);
    const { send, failures, report } = opened({ backend: speaking(start, ...said) });
    await (await send({ body: { stream } })).text();
    expect(failures).toMatchObject([{ error: { message: expect.stringContaining("broke off") as string } }]);
    const used = INPUT + 240 * WORD.length;
    expect(report()).toMatchObject({ used, overdraft: 0, estimated: used, ...AT_REST });
  });

  it("that no count within the limit could match has its answer cut, and charged by the estimate", async () => {
    const start: ChatEvent = { type: "start", usage: { inputTokens: INPUT, outputTokens: 1 } };
    const said = Array.from({ length: 5_000 }, () => WORD);
    const { send, failures, report } = opened({ key: { granted: 5_000 }, backend: speaking(start, ...said) });
    expect(await (await send({ body: { stream } })).text()).toContain('"stop_reason":"max_tokens"');
    expect(failures).toEqual([]);
    const used = INPUT + 50 * 16 + 256;
    expect(report()).toMatchObject({ used, estimated: used, overdraft: 0, ...AT_REST });
  });

  const flood = WORD.repeat(5_000);
  const picture: ChatEvent = { type: "media", mediaType: "image/png", data: "AAAA" };
  it.each<[what: string, events: readonly (ChatEvent | string)[], limit: number]>([
    ["text", [flood, counted(60)], 50],
    ["text and its count", [flood, counted(flood.length)], 50],
    // A picture has more tokens than the limit.
    ["pictures", Array.from({ length: 200 }, () => picture), 1_290],
  ])("of %s far above the limit is charged no more than where smaller events are cut", async (_what, events, limit) => {
    const start: ChatEvent = { type: "start", usage: { inputTokens: INPUT, outputTokens: 1 } };
    const { send, report } = opened({ key: { granted: 50_000 }, backend: speaking(start, ...events) });
    await (await send({ body: { stream } })).text();
    const used = INPUT + limit * 16 + 256;
    expect(report()).toMatchObject({ used, estimated: used, overdraft: 0, ...AT_REST });
  });

  it.each<[what: string, begun: readonly ChatEvent[], passed: number]>([
    ["begins with a start", [{ type: "start" }], 60],
    ["tells a usage before its text", [{ type: "usage", usage: { inputTokens: INPUT } }], 60],
    // Two times the limit and 64 tokens: nobody had said that a count would come.
    ["only speaks", [], 42],
  ])("of a backend that %s decides where its answer ends", async (_what, begun, passed) => {
    const said = Array.from({ length: 60 }, () => WORD);
    const { send, failures, report } = opened({ backend: speaking(...begun, ...said, counted(45)) });
    const text = await (await send({ body: { stream } })).text();
    expect(text.match(new RegExp(WORD, "g"))).toHaveLength(passed);
    expect(failures).toEqual([]);
    const isCut = passed < 60;
    expect(text).toContain(isCut ? '"stop_reason":"max_tokens"' : '"stop_reason":"end_turn"');
    const used = INPUT + (isCut ? passed * WORD.length : 45);
    expect(report()).toMatchObject({ used, estimated: isCut ? used : 0, overdraft: 0, ...AT_REST });
  });

  it("far below what was delivered is charged by estimate, and reported once", async () => {
    const said = "x".repeat(4_000);
    const { send, failures, report } = opened({
      key: { granted: 10_000 },
      backend: speaking(said, counted(1)),
    });
    const response = await send({ body: { stream, max_tokens: 5_000 } });
    expect([response.status, (await response.text()).includes(said)]).toEqual([200, true]);
    expect(failures).toHaveLength(1);
    expect(report()).toMatchObject({ used: INPUT + 4_000, estimated: INPUT + 4_000, ...AT_REST });
  });

  it("a little below an estimate is believed", async () => {
    const { send, failures, report } = opened({
      key: { granted: 10_000 },
      backend: speaking("x".repeat(400), counted(100)),
    });
    await (await send({ body: { stream, max_tokens: 5_000 } })).text();
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 100, estimated: 0, ...AT_REST });
  });
});

describe.each([false, true])("a backend (stream: %s)", (stream) => {
  it("whose frames do not end after its finish is stopped before they fill the memory", async () => {
    const native = { type: "native", format: "messages" } as const;
    const end: ChatEvent = { ...native, frames: [{ data: "{}" }], events: [{ type: "finish", reason: "stop" }] };
    const frame: ChatEvent = { ...native, frames: [{ data: "x".repeat(1024 * 1024) }], events: [] };
    let yielded = 0;
    async function* chat(): AsyncGenerator<ChatEvent> {
      yield end;
      for (;;) {
        yielded++;
        yield frame;
      }
    }
    const { send, failures } = opened({ backend: { chat } });
    await (await send({ body: { stream } })).text();
    expect(failures).toMatchObject([{ error: { code: "backend_failed" } }]);
    expect(yielded).toBe(64);
  });

  it.each<[what: string, event: ChatEvent | string]>([
    ["counts", { type: "usage", usage: { inputTokens: INPUT } }],
    ["texts without a character", ""],
  ])("that yields %s without a pause leaves the event loop to others", async (_what, event) => {
    const seen = { events: 0, hasTurned: false };
    const { send, report } = opened({
      backend: {
        async *chat() {
          setImmediate(() => (seen.hasTurned = true));
          for (; seen.events < 10_000 && !seen.hasTurned; seen.events++) yield event;
          yield counted(7);
        },
      },
    });
    await (await send({ body: { stream, stop_sequences: ["the end"] } })).text();
    expect(seen.events).toBeLessThan(10_000);
    expect(report()).toMatchObject(AT_REST);
  });

  it("may tell its last counts after its finish", async () => {
    const last: ChatEvent = { type: "usage", usage: { inputTokens: INPUT, outputTokens: 7 } };
    const { send, failures, report } = opened({ backend: speaking(WORD, finish({}), last) });
    await (await send({ body: { stream } })).text();
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 7, estimated: 0, ...AT_REST });
  });

  it("that speaks on after its finish is heard out, because some upstreams finish early", async () => {
    const { send, failures } = opened({ backend: speaking(WORD, counted(7), "MORE") });
    expect(await (await send({ body: { stream } })).text()).toContain("MORE");
    expect(failures).toEqual([]);
  });

  it("that speaks for ever after its finish is stopped", async () => {
    let said = 0;
    let stopped = false;
    const { send, report } = opened({
      backend: {
        async *chat() {
          try {
            yield counted(7);
            for (;;) yield ((said++, WORD));
          } finally {
            stopped = true;
          }
        },
      },
    });
    const text = await (await send({ body: { stream } })).text();
    expect(text).toContain('"stop_reason":"end_turn"');
    expect(said).toBeLessThanOrEqual((2 * 50 + 64) / 4 + 1);
    expect(stopped).toBe(true);
    expect(report()).toMatchObject({ liveHolds: 0, timers: 0 });
  });

  it.each<[what: string, begun: ChatEvent]>([
    ["a start", { type: "start", id: "1" }],
    ["a start with counts", { type: "start", usage: { inputTokens: INPUT, outputTokens: 1 } }],
    ["a usage", { type: "usage", usage: { inputTokens: INPUT } }],
  ])("that begins with %s and ends without a finish has broken off", async (_what, begun) => {
    const { send, failures, report } = opened({ backend: speaking(begun, WORD) });
    const response = await send({ body: { stream } });
    expect(response.status).toBe(stream ? 200 : 500);
    expect(await response.text()).toMatch(
      stream ? /event: error\n.*"backend_failed".*\n\n$/ : /"code":"backend_failed"/,
    );
    expect(failures).toMatchObject([{ port: "model-backend" }]);
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST });
  });

  it("that only speaks need not say that it has finished", async () => {
    const { send, failures } = opened({ backend: speaking(WORD) });
    expect(await (await send({ body: { stream } })).text()).toContain('"stop_reason":"end_turn"');
    expect(failures).toEqual([]);
  });

  it("is charged for its first word, though nobody came to read it", async () => {
    const { gateway, report, clock } = opened({ backend: speaking(WORD, never), limits: { deadlineMs: 1_000 } });
    const answer = gateway.answer(requestOf(stream));
    await clock.advance(1_000);
    expect((await answer)?.status).toBe(stream ? 200 : 504);
    expect(report()).toMatchObject({ used: INPUT + 4, estimated: INPUT + 4, ...AT_REST });
  });
});

describe("a backend of pictures", () => {
  it.each([Number.NaN, -1, 2 ** 53, 1e12, 1e6, 0.5, "7" as unknown as number])(
    "that counts %s tokens has drawn its picture all the same",
    async (outputTokens) => {
      const { gateway, failures, report } = opened({
        imagePrice: () => 100,
        backend: {
          async *image() {
            yield drawn(0);
            yield { type: "usage", usage: { outputTokens } };
          },
        },
      });
      const response = await gateway.fetch(
        new Request("http://host/v1/images/generations", {
          method: "POST",
          headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
          body: JSON.stringify({ prompt: "A fox.", response_format: "b64_json" }),
        }),
      );
      expect([response.status, await response.json()]).toMatchObject([
        200,
        { data: [{ b64_json: expect.any(String) }] },
      ]);
      expect(failures).toMatchObject([{ port: "model-backend" }]);
      expect(report()).toMatchObject({ used: 100, ...AT_REST });
    },
  );
});

describe("a backend that counts at its end", () => {
  const hindi = declarationOf("hin");

  it.each([false, true])(
    "is charged 950 tokens for 10,560 bytes of Hindi under a limit of 1,000 (stream: %s)",
    async (stream) => {
      let bytes = 0;
      const said = Array.from(hindi).filter((character) => (bytes += Buffer.byteLength(character)) <= 10_560);
      const pieces = said.join("").match(/[^]{1,5}/gu) ?? [];
      expect(tokensOf(said.join(""))).toBeLessThan(1_300);
      const { send, failures, report } = opened({
        key: { granted: 10_000 },
        backend: speaking(...pieces, counted(950)),
        countTokens: countTokensByScript,
      });
      const text = await (await send({ body: { stream, max_tokens: 1_000 } })).text();
      expect(text).toContain('"stop_reason":"end_turn"');
      expect(failures).toEqual([]);
      expect(report()).toMatchObject({ used: INPUT + 950, estimated: 0, overdraft: 0, ...AT_REST });
    },
  );

  it.each(texts)("is believed when it counts %s as a real tokenizer does", async (_name, textOf) => {
    const text = textOf();
    const outputTokens = tokensOf(text);
    const { send, failures, report } = opened({
      key: { granted: 1_000_000 },
      backend: speaking(...(text.match(/[^]{1,400}/gu) ?? []), counted(outputTokens)),
      countTokens: countTokensByScript,
    });
    await (await send({ body: { stream: true, max_tokens: outputTokens } })).text();
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + outputTokens, estimated: 0, ...AT_REST });
  });

  it("is cut where it only speaks and never ends, and is charged by the estimate", async () => {
    let said = "";
    const { send, report } = opened({
      key: { granted: 10_000 },
      countTokens: countTokensByScript,
      backend: {
        async *chat() {
          for (let at = 0; ; at++) yield (((said += hindi[at % hindi.length] ?? ""), hindi[at % hindi.length] ?? ""));
        },
      },
    });
    const text = await (await send({ body: { stream: true, max_tokens: 500 } })).text();
    expect(text).toContain('"stop_reason":"max_tokens"');
    expect(countTokensByScript(said)).toBeGreaterThan(2 * 500 + 64);
    expect(countTokensByScript(said)).toBeLessThan(2 * 500 + 64 + 2);
    const tokens = Math.ceil(countTokensByScript(said));
    // The input of this gateway's request is estimated too.
    expect(report()).toMatchObject({ used: Math.ceil(countTokensByScript(PROMPT)) + tokens, overdraft: 0, ...AT_REST });
  });
});

it("a count before the call that the request cannot have is not held or charged", async () => {
  for (const counted of [0, 65_536, 70_000]) {
    const { send, failures, report } = opened({
      backend: { ...speaking(WORD), countInputTokens: () => Promise.resolve(counted) },
      countInput: "backend",
      key: { granted: 1_000_000 },
    });
    await (await send({ body: { max_tokens: 16 } })).text();
    const isBelieved = counted === 65_536;
    expect([failures.length, report()?.used]).toEqual(isBelieved ? [0, counted + 4] : [1, INPUT + 4]);
  }
});

it("a first event that cannot be counted is charged all the same", async () => {
  const input = { x: 10n } as unknown as Extract<ChatEvent, { type: "tool-call" }>["input"];
  const { send, report } = opened({ backend: speaking({ type: "tool-call", id: "a", name: "n", input }) });
  expect((await send()).status).toBe(500);
  expect(report()?.used).toBeGreaterThan(0);
  expect(report()).toMatchObject(AT_REST);
});
