/** Code that models run in several turns: quota, prices, limits, reports, repetitions and hang-ups hold for each turn and for all together. */

import { describe, expect, it } from "vitest";
import {
  type CallRecord,
  type CodeRunner,
  type HoldChange,
  type HoldRequest,
  type LedgerReport,
  memoryQuotaStore,
  memoryReplayStore,
  type Outcome,
  type RateLimiter,
  type RateVerdict,
  type Renewal,
} from "../../../src/index.ts";
import { priceTable } from "../../../src/prices/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { MINUTE, opened, type Opened, type Setup, speaking, verbsOf } from "../../pipeline/bench.ts";

/** A turn of the upstream: the text that it says, and the code that it wants to run. Without counts, it tells none. */
interface Turn {
  readonly text?: string;
  /** Null for a call without code. */
  readonly code?: string | null;
  readonly input?: number;
  readonly output?: number;
  readonly reason?: string;
}

const RUN: Turn = { code: "print(1)", input: 300, output: 20 };
const DONE: Turn = { text: "It is 8.", input: 330, output: 10 };

function bodyOf({ text = "", code, input, output = 0, reason }: Turn, name: string, number: number): object {
  const call = { id: `t${number}`, type: "function", function: { name, arguments: JSON.stringify({ code }) } };
  return {
    id: `c${number}`,
    object: "chat.completion",
    created: 1,
    model: "large-1",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: text, ...(code !== undefined && { tool_calls: [call] }) },
        finish_reason: reason ?? (code === undefined ? "stop" : "tool_calls"),
      },
    ],
    ...(input !== undefined && {
      usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
    }),
  };
}

interface Stage extends Opened {
  readonly records: CallRecord[];
  /** The bodies that the upstream gets. */
  readonly sent: Record<string, unknown>[];
  readonly ran: string[];
  readonly holds: HoldChange[];
  /** What the store is asked, in its order. */
  readonly asked: (HoldRequest | (Outcome & { id: string }) | (Renewal & { id: string }))[];
  readonly ask: (more?: object, init?: { headers?: Record<string, string>; signal?: AbortSignal }) => Promise<Response>;
}

type Verb = "reserve" | "settle" | "renew";

interface Options extends Setup {
  readonly codeRunner?: CodeRunner;
  /** Called before the store is asked. */
  readonly before?: (verb: Verb, id: string) => Promise<void> | void;
  /** Called before the upstream answers. */
  readonly onTurn?: (number: number) => Promise<void> | void;
  readonly wrapped?: (backend: ReturnType<typeof relay>) => Setup["backend"];
}

function stage(turns: readonly Turn[], { before, onTurn, wrapped = (one) => one, ...setup }: Options = {}): Stage {
  const [records, sent, ran, holds, asked]: [CallRecord[], Stage["sent"], string[], HoldChange[], Stage["asked"]] = [
    [],
    [],
    [],
    [],
    [],
  ];
  const backend = relay({
    format: "chat-completions",
    baseUrl: "http://up.test/v1",
    fetch: async (_url, init) => {
      const body = JSON.parse(init?.body as string) as Record<string, unknown>;
      const number = sent.push(body);
      await onTurn?.(number);
      init?.signal?.throwIfAborted();
      const [tool] = body["tools"] as readonly { readonly function: { readonly name: string } }[];
      const turn = turns[number - 1] ?? turns.at(-1) ?? {};
      return Response.json(bodyOf(turn, tool?.function.name ?? "", number));
    },
  });
  const codeRunner: CodeRunner = {
    async run({ code }) {
      ran.push(code);
      return { outcome: "ok", output: `${code.length}\n` };
    },
  };
  const bench = opened({
    key: { granted: 100_000 },
    codeRunner,
    backend: wrapped(backend) ?? backend,
    onCall: (record) => void records.push(record),
    observer: {
      begin: () => ({ hold: (change) => void holds.push(change), end() {}, run: (work) => work() }),
    },
    ...setup,
    around: (store, clock) => {
      const verbs = verbsOf(store);
      return {
        async reserve(request, call) {
          asked.push(request);
          await before?.("reserve", request.id);
          return verbs.reserve(request, call);
        },
        async settle(id, outcome, call) {
          asked.push({ id, ...outcome });
          await before?.("settle", id);
          return verbs.settle(id, outcome, call);
        },
        async renew(id, renewal, call) {
          asked.push({ id, ...renewal });
          await before?.("renew", id);
          return verbs.renew(id, renewal, call);
        },
        ...setup.around?.(store, clock),
      };
    },
  });
  const ask: Stage["ask"] = (more = {}, init = {}) =>
    bench.send({
      path: "/v1beta/models/m:generateContent?key=sk-one",
      body: JSON.stringify({
        contents: [{ role: "user", parts: [{ text: "x".repeat(300) }] }],
        tools: [{ codeExecution: {} }],
        generationConfig: { maxOutputTokens: 100 },
        ...more,
      }),
      ...init,
    });
  return { ...bench, records, sent, ran, holds, asked, ask };
}

const limitsOf = (sent: Stage["sent"]): unknown[] =>
  sent.map((body) => body["max_tokens"] ?? body["max_completion_tokens"]);

const verdict = async (): Promise<RateVerdict> => ({ limits: [] });

/** Returns a function that puts a route before the relay. */
const routed =
  (routeOf: (backend: ReturnType<typeof relay>) => Parameters<typeof route>[0]["routes"][string]) =>
  (backend: ReturnType<typeof relay>) =>
    route({ routes: { m: routeOf(backend) } });

/** The parts that a caller sees when the answer ends behind the first run of code. */
const ENDED = {
  candidates: [
    {
      content: { parts: [{ executableCode: { code: "print(1)" } }, { codeExecutionResult: { output: "8\n" } }] },
      finishReason: "MAX_TOKENS",
    },
  ],
};

describe("the turns of code", () => {
  it("are each held for before they are asked, one hold at a time, and charged to the token", async () => {
    const books: (LedgerReport | undefined)[] = [];
    const all: Stage = stage([RUN, RUN, DONE], { onTurn: () => void books.push(all.store.report("one")) });
    const { ask, asked, holds, records, report } = all;
    const answer = (await (await ask()).json()) as { usageMetadata: object };
    const id = records[0]?.requestId ?? "";
    expect(books.map((one) => one && [one.liveHolds, one.used - one.held])).toEqual([
      [1, 0],
      [1, 320],
      [1, 640],
    ]);
    expect(asked).toMatchObject([
      { id, keyId: "one" },
      { id, used: 320, certainty: "exact" },
      { id: `${id}-2` },
      { id: `${id}-2`, used: 320, certainty: "exact" },
      { id: `${id}-3` },
      { id: `${id}-3`, used: 340, certainty: "exact" },
    ]);
    // A character is a token here. The later turns have the function that runs code, the code and its result beside the prompt.
    const [first = 0, second = 0, third = 0] = asked.flatMap((one) => ("atMost" in one ? one.atMost : []));
    expect([first, second > 300 + 80, third > second - 20]).toEqual([400, true, true]);
    expect(holds.map(({ type }) => type)).toEqual(Array.from({ length: 3 }, () => ["reserved", "settled"]).flat());
    expect(records).toMatchObject([
      { units: 980, certainty: "exact", holds: 3, outcome: "completed", modelAnswered: "large-1" },
    ]);
    expect(records[0]?.usage).toMatchObject({ inputTokens: 930, outputTokens: 50 });
    expect(answer.usageMetadata).toMatchObject({ promptTokenCount: 930, candidatesTokenCount: 50 });
    expect(report()).toMatchObject({ used: 980, held: 0, liveHolds: 0, overdraft: 0, estimated: 0, timers: 0 });
  });

  it.each([false, true])(
    "end with what has run where the key cannot pay for a further turn (stream: %s)",
    async (isStream) => {
      const { ask, ran, records, report, sent, failures, send } = stage([RUN, DONE], { key: { granted: 1_500 } });
      // The first turn holds what there is, and leaves too little for its input again.
      const long = { contents: [{ role: "user", parts: [{ text: "x".repeat(1_000) }] }] };
      const answer = isStream
        ? await send({
            path: "/v1beta/models/m:streamGenerateContent?alt=sse&key=sk-one",
            body: JSON.stringify({
              ...long,
              tools: [{ codeExecution: {} }],
              generationConfig: { maxOutputTokens: 100 },
            }),
          })
        : await ask(long);
      expect(answer.status).toBe(200);
      const text = await answer.text();
      expect(text).toMatch(/executableCode.*"print\(1\)".*codeExecutionResult.*8\\n.*MAX_TOKENS/s);
      expect(text).not.toContain('"error"');
      expect([sent.length, ran]).toEqual([1, ["print(1)"]]);
      expect(records).toMatchObject([
        { outcome: "completed", units: 320, certainty: "exact", affordedOutputTokens: 20, errorCode: undefined },
      ]);
      expect(records[0]).not.toHaveProperty("holds");
      expect([report(), failures]).toMatchObject([{ used: 320, held: 0, liveHolds: 0, overdraft: 0, timers: 0 }, []]);
    },
  );

  it("get the output limit that the quota covers, and tell it for the answer as a whole", async () => {
    const { ask, asked, records, sent } = stage([RUN, DONE], { key: { granted: 1_010 } });
    await (await ask()).text();
    const second = asked.flatMap((one) => (one.id.endsWith("-2") && "atLeast" in one ? one.atLeast : []));
    // The rest of the quota, less the input.
    const left = 1_010 - 320 - ((second[0] ?? 0) - 1);
    expect([left > 0, left < 80, limitsOf(sent)]).toEqual([true, true, [100, left]]);
    expect(records[0]?.affordedOutputTokens).toBe(20 + left);
  });

  it("are held for as what the model's window takes, at most", async () => {
    const { ask, asked } = stage([RUN, DONE], {
      wrapped: (backend) => ({ ...backend, models: () => [{ id: "m", maxInputTokens: 350 }] }),
    });
    await (await ask()).text();
    expect(asked.flatMap((one) => ("atMost" in one ? one.atMost : []))).toEqual([400, 350 + 80]);
  });

  it("are each charged to the period of the budget in which they are reserved", async () => {
    let books: (() => unknown) | undefined;
    const { ask, clock } = stage([RUN, DONE], {
      around: (_store, clock) => {
        const keys = [{ apiKey: "sk-one", id: "one", budget: "team" }];
        const store = memoryQuotaStore(keys, { clock, budgets: [{ id: "team", amount: 10_000, period: "day" }] });
        books = () => store.budgetReport("team");
        return verbsOf(store);
      },
      codeRunner: {
        async run() {
          await clock.advance(2_000);
          return { outcome: "ok", output: "8\n" };
        },
      },
    });
    await clock.advance(24 * 60 * MINUTE - 1_000);
    await (await ask()).text();
    expect(books?.()).toMatchObject({ used: 340, held: 0 });
  });

  it("are each priced by themselves", async () => {
    const row = { input: 3, output: 15, longer: [{ above: 500, input: 6, output: 30 }] };
    const { ask, records } = stage([RUN, RUN, DONE], { ...priceTable({ "*": row }), key: { granted: 1_000_000 } });
    await (await ask()).text();
    expect(records[0]?.units).toBe((300 + 300 + 330) * 3 + 50 * 15);
  });

  it("are estimated where one of them was not counted, and the others are not", async () => {
    const { ask, asked, records } = stage([RUN, { code: "print(1)" }, DONE]);
    await (await ask()).text();
    const settled = asked.flatMap((one) => ("certainty" in one ? one.certainty : []));
    expect(settled).toEqual(["exact", "estimated", "estimated"]);
    expect(records).toMatchObject([{ certainty: "estimated", usage: { outputTokens: 20 + 8 + 10 } }]);
  });

  it("are believed their counts each alone", async () => {
    // With 48 tokens left, and 16 times as many and 256 beside believed, a lie of 1,500 is not.
    const { ask, failures, records } = stage([
      { ...RUN, output: 80 },
      { ...DONE, output: 1_500 },
    ]);
    await (await ask()).text();
    expect(failures.map(({ text }) => text).join()).toContain("reported 1500 output tokens");
    expect(records).toMatchObject([{ certainty: "estimated", usage: { outputTokens: 80 + 8 } }]);
  });

  it("are not believed a count of nothing", async () => {
    const { ask, asked, failures } = stage([{ ...RUN, output: 0 }, DONE]);
    await (await ask()).text();
    expect(asked[1]).toMatchObject({ used: 308, certainty: "estimated" });
    expect(failures.map(({ text }) => text).join()).toContain("reported 0 output tokens for about 8");
  });

  it("of an unlimited key are counted, and none is refused", async () => {
    const { ask, records, sent, report } = stage([RUN, RUN, DONE], { key: {} });
    await (await ask()).text();
    expect([sent.length, report()?.used]).toEqual([3, 980]);
    expect(records[0]).toMatchObject({ units: 980, certainty: "exact", affordedOutputTokens: undefined });
  });

  it("tell a rate limiter the tokens of all turns", async () => {
    const ended: number[] = [];
    const rateLimiter: RateLimiter = {
      begin: verdict,
      take: verdict,
      end: async (_id, tokens) => void ended.push(tokens),
    };
    const { ask } = stage([RUN, RUN, DONE], { rateLimiter });
    await (await ask()).text();
    expect(ended).toEqual([980]);
  });

  it("are repeated whole under their idempotency key, for one charge", async () => {
    const { ask, report, sent } = stage([RUN, DONE], { replays: (clock) => memoryReplayStore({ clock }) });
    const headers = { "idempotency-key": "one" };
    const texts = [await (await ask({}, { headers })).text(), await (await ask({}, { headers })).text()];
    expect(texts[1]).toBe(texts[0]);
    expect([sent.length, report()?.used]).toEqual([2, 660]);
  });
});

describe("a store that is away", () => {
  it.each<[string, Verb]>([
    ["when the first turn is settled", "settle"],
    ["when the next turn is held for", "reserve"],
  ])("%s loses neither the answer nor its charge", async (_when, failing) => {
    let isAway = true;
    let count = 0;
    const { ask, clock, failures, records, report, sent, asked } = stage([RUN, DONE], {
      before(verb) {
        if (verb === failing && isAway && (verb === "settle" || ++count > 1)) throw new Error("away");
      },
    });
    const answer = await ask();
    expect([answer.status, await answer.json()]).toMatchObject([200, ENDED]);
    expect([sent.length, records[0]?.units, records[0]?.outcome]).toEqual([1, 320, "completed"]);
    expect(failures.map(({ port }) => port)).toContain("quota-store");
    isAway = false;
    await clock.advance(MINUTE);
    expect(report()).toMatchObject({ used: 320, held: 0, liveHolds: 0, overdraft: 0, timers: 0 });
    // Nobody settles a settled hold again.
    expect(asked.filter((one) => "certainty" in one).length).toBe(failing === "settle" ? 3 : 1);
  });

  it("when the next turn is held for ends the charge, whatever the price does from then on", async () => {
    let isBroken = false;
    const { ask, records, report } = stage([{ code: "print(1)" }, DONE], {
      before(verb, id) {
        if (verb !== "reserve" || !id.endsWith("-2")) return;
        isBroken = true;
        throw new Error("away");
      },
      price({ inputTokens, outputTokens }) {
        if (isBroken) throw new Error("broken");
        return inputTokens + outputTokens;
      },
    });
    await (await ask()).text();
    const { units, certainty } = records[0] ?? {};
    expect([certainty, report()?.used, report()?.overdraft]).toEqual(["estimated", units, 0]);
  });

  it("and grants what nobody asked for, is not believed", async () => {
    const { ask, failures, records, sent } = stage([RUN, DONE], {
      around: (store) => ({
        reserve: async (request, call) => {
          const told = await verbsOf(store).reserve(request, call);
          return request.id.endsWith("-2") ? { granted: 1e9 } : told;
        },
      }),
    });
    expect(await (await ask()).json()).toMatchObject(ENDED);
    expect(failures.map(({ text }) => text).join()).toContain("The store granted 1000000000 units");
    expect([sent.length, records[0]?.units]).toEqual([1, 320]);
  });
});

describe("a call that is cut between two turns", () => {
  it.each<[string, Verb]>([
    ["its first turn is settled", "settle"],
    ["its second turn is held for", "reserve"],
  ])("while %s is charged for the first, whatever the price does from then on", async (_when, at) => {
    const waiting = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    // The call ends after the answer of the store.
    const released = Promise.withResolvers<void>();
    const leaving = new AbortController();
    let count = 0;
    const { ask, clock, holds, records, report, sent } = stage([RUN, DONE], {
      rateLimiter: { begin: verdict, take: verdict, end: () => released.promise },
      price: ({ inputTokens, outputTokens }) => (leaving.signal.aborted ? 2 : 1) * (inputTokens + outputTokens),
      async before(verb) {
        if (verb !== at || (verb === "reserve" && ++count < 2)) return;
        reached.resolve();
        await waiting.promise;
      },
    });
    const answered = ask({}, { signal: leaving.signal });
    await reached.promise;
    leaving.abort();
    await clock.advance(0);
    waiting.resolve();
    await clock.advance(0);
    released.resolve();
    await answered;
    await clock.advance(MINUTE);
    expect(sent.length).toBe(1);
    expect(records).toMatchObject([{ outcome: "client-closed", units: 320 }]);
    expect(report()).toMatchObject({ used: 320, held: 0, liveHolds: 0, timers: 0 });
    const [reserved, ended] = ["reserved", "settled"].map((type) => holds.filter((one) => one.type === type).length);
    expect(reserved).toBe(ended);
  });

  it("before the second turn has answered is charged for no output of it", async () => {
    const leaving = new AbortController();
    const { ask, clock, records, report, sent } = stage([RUN, DONE], {
      onTurn: (number) => void (number === 2 && leaving.abort()),
    });
    await ask({}, { signal: leaving.signal });
    await clock.advance(MINUTE);
    expect(sent.length).toBe(2);
    expect(records).toMatchObject([{ outcome: "client-closed", units: 320 }]);
    expect(report()).toMatchObject({ used: 320, held: 0, liveHolds: 0, timers: 0 });
  });
});

it.each([
  ["in time", false],
  ["when the second turn is held for", true],
])("notes what each turn has used in its own hold, for a process that dies: the first %s", async (_when, isLate) => {
  const moved = Promise.withResolvers<void>();
  const all: Stage = stage([], {
    limits: { usageNoteMs: 1_000, leaseMs: MINUTE },
    before: (verb, id) => (isLate && verb === "renew" && !id.endsWith("-2") ? moved.promise : undefined),
    wrapped: () => ({
      async *chat(request, call) {
        yield { type: "start", id: "a", usage: { inputTokens: 300 } };
        yield "word";
        yield { type: "usage", usage: { outputTokens: 4 } };
        await all.clock.advance(2_000);
        const next = await call.continueWith?.(request, true);
        expect(next?.maxOutputTokens).toBe(96);
        moved.resolve();
        await all.clock.advance(0);
        yield { type: "usage", usage: { inputTokens: 300, outputTokens: 4 } };
        await all.clock.advance(2_000);
        yield { type: "finish", reason: "stop" };
      },
    }),
  });
  const body = { model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] };
  await (await all.send({ body })).text();
  const id = all.records[0]?.requestId;
  const notes = all.asked.flatMap((one) => ("leaseMs" in one && "used" in one ? [[one.id, one.used]] : []));
  expect(notes).toEqual([
    [id, 304],
    [`${id}-2`, 304],
  ]);
  expect(all.records).toMatchObject([{ units: 608, certainty: "exact", usage: { inputTokens: 600, outputTokens: 8 } }]);
});

describe("behind a route", () => {
  it("the turns have the price of their upstream, and the caller's name of the model", async () => {
    const asked = new Set<string>();
    const { ask, records, sent } = stage([RUN, DONE], {
      key: { granted: 5_000 },
      wrapped: routed((backend) => ({
        upstreams: [
          { name: "cheap", backend, model: "large-1" },
          { name: "dear", backend: speaking("never"), weight: 0 },
        ],
      })),
      price(usage, model, _kind, upstream) {
        asked.add(`${model} ${upstream?.name}`);
        return (usage.inputTokens + usage.outputTokens) * (sent.length > 0 && upstream?.name === "dear" ? 100 : 1);
      },
    });
    await (await ask()).text();
    expect(sent.map(({ model }) => model)).toEqual(["large-1", "large-1"]);
    expect([...asked].toSorted()).toEqual(["m cheap", "m dear"]);
    expect(records).toMatchObject([{ units: 660, certainty: "exact" }]);
  });

  it("a turn is charged although it shows nothing: its call has no code", async () => {
    const { ask, asked, ran, records } = stage([{ ...RUN, code: null }, DONE], {
      wrapped: routed((backend) => ({ upstreams: [{ name: "only", backend }] })),
    });
    expect(await (await ask()).json()).toMatchObject({ candidates: [{ content: { parts: [{ text: "It is 8." }] } }] });
    expect([ran, records[0]?.units, records[0]?.certainty]).toEqual([[], 660, "exact"]);
    expect(asked.flatMap((one) => ("certainty" in one ? one.used : []))).toEqual([320, 340]);
  });

  it("the turns of an upstream that continues a broken answer have the rest of the output limit", async () => {
    const broken = {
      async *chat() {
        yield { type: "start", id: "a", usage: { inputTokens: 300 } } as const;
        yield "x".repeat(30);
        throw new Error("gone");
      },
    };
    const { ask, records, report, sent } = stage([RUN, DONE], {
      wrapped: routed((backend) => ({
        upstreams: [
          { name: "first", backend: broken },
          { name: "second", backend, weight: 0 },
        ],
        onBreak: "continue",
      })),
    });
    await (await ask()).text();
    // The first has written 30 tokens, and the second 20 in its first turn. 32 more are for the words that it repeats.
    expect(limitsOf(sent)).toEqual([70 + 32, 50]);
    expect(records).toMatchObject([
      { outcome: "completed", units: 330 + 320 + 340, certainty: "estimated", holds: 3, usage: { outputTokens: 60 } },
    ]);
    expect(report()).toMatchObject({ used: 990, held: 0, liveHolds: 0, overdraft: 0 });
  });
});

describe("before a conversation that is compacted", () => {
  const long = {
    model: "m",
    input: [
      { role: "user", content: "x".repeat(300) },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "Count" },
    ],
    max_output_tokens: 100,
    tools: [{ type: "code_interpreter", container: { type: "auto" } }],
  };
  const compaction = { keys: [{ name: "one", secret: new Uint8Array(32).fill(1) }] };
  const bodyFor = (compact_threshold: number): string =>
    JSON.stringify({ ...long, context_management: [{ type: "compaction", compact_threshold }] });

  it("a further turn is not held for as if its conversation were compacted again", async () => {
    const { asked, send, records } = stage([RUN, DONE], { compaction });
    // The input of the second turn is above the threshold.
    const answer = await send({ path: "/v1/responses", body: bodyFor(500) });
    expect([answer.status, records[0]?.units]).toEqual([200, 660]);
    const most = asked.flatMap((one) => ("atMost" in one ? one.atMost : []));
    expect(most[1]).toBeGreaterThan(500 + 80);
    // A summary alone may have thousands of tokens.
    expect(most[1]).toBeLessThan(2_000);
  });

  it("the turns behind the summary have the output limit of the answer", async () => {
    const summary = { text: "They said x.", input: 700, output: 90 };
    const { asked, send, records, report, sent } = stage([summary, RUN, DONE], { compaction });
    const answer = await send({ path: "/v1/responses", body: bodyFor(200) });
    expect([answer.status, limitsOf(sent).slice(1)]).toEqual([200, [100, 80]]);
    expect(records).toMatchObject([{ units: 790 + 320 + 340, certainty: "exact", holds: 2 }]);
    expect(asked.flatMap((one) => ("certainty" in one ? one.used : []))).toEqual([790 + 320, 340]);
    expect(report()).toMatchObject({ used: 1_450, held: 0, liveHolds: 0 });
  });
});
