/** The `during` of hooks: it changes, holds back and ends running answers, and its own failures let nothing pass. */

import { describe, expect, it } from "vitest";
import { withDuring } from "../../src/hooks/index.ts";
import {
  type ChatEvent,
  GatewayError,
  type Hook,
  type HookAnswer,
  type HookDecision,
  type HookEvent,
  memoryReplayStore,
  memoryResponseStore,
  type ModelBackend,
} from "../../src/index.ts";
import { drawn } from "../hosts/stage.ts";
import { AT_REST, counted, INPUT, never, obedient, opened, readUntil, speaking, WORD } from "./bench.ts";

const STREAMS = [false, true];

type During = NonNullable<Hook["during"]>;

const during = (run: During, options: Partial<Hook> = {}): Hook => withDuring({ during: run, ...options });

/** Changes each text of an answer. */
const writing = (change: (text: string) => string): Hook =>
  during((event) => (event.type === "text-delta" ? { ...event, text: change(event.text) } : undefined));

const adding = (name: string): Hook => writing((text) => `${text}${name}`);

const upper = writing((text) => text.toUpperCase());

/** Returns the texts of a messages answer, complete or streamed. */
function textOf(body: string, stream: boolean): string {
  if (!stream)
    return (JSON.parse(body) as { content: { text?: string; thinking?: string }[] }).content
      .map(({ text, thinking }) => text ?? thinking ?? "")
      .join("");
  return Array.from(
    body.matchAll(/"(?:text|thinking)":"((?:[^"\\]|\\.)+)"/g),
    ([, text]) => JSON.parse(`"${text}"`) as string,
  ).join("");
}

describe("during", () => {
  it.each(STREAMS)(
    "sees each piece once, the finish last, and the same call as the others (stream: %s)",
    async (stream) => {
      const seen: HookEvent[] = [];
      const calls = new Set<unknown>();
      const hook = withDuring({
        before: (_request, call) => void calls.add(call),
        during(event, call, held) {
          calls.add(call);
          seen.push(event);
          expect(held).toEqual([]);
        },
        after: (_answer, call) => void calls.add(call),
      });
      const backend = speaking(
        { type: "start", id: "up-1" },
        { type: "reasoning-delta", text: "Hm." },
        WORD,
        { type: "tool-call-start", id: "c-1", name: "look" },
        { type: "tool-call-delta", id: "c-1", json: "{}" },
        { type: "tool-call-end", id: "c-1" },
        { type: "finish", reason: "tool-calls", usage: { inputTokens: INPUT, outputTokens: 9 } },
      );
      const { send, clock, report } = opened({ backend, hooks: [hook] });
      expect(await (await send({ body: { stream } })).text()).toContain(WORD);
      await clock.advance(0);
      expect(seen).toMatchObject([
        { type: "reasoning-delta", text: "Hm." },
        { type: "text-delta", text: WORD },
        { type: "tool-call-start", id: "c-1" },
        { type: "tool-call-delta", json: "{}" },
        { type: "tool-call-end" },
        { type: "finish", endings: [{ reason: "tool-calls" }], usage: { outputTokens: 9 } },
      ]);
      expect(calls.size).toBe(1);
      expect(report()).toMatchObject({ used: INPUT + 9, ...AT_REST });
    },
  );

  it.each(STREAMS)("changes what is shown, and not what is charged (stream: %s)", async (stream) => {
    const { send, report } = opened({
      backend: speaking(WORD, WORD, counted(8)),
      hooks: [
        during((event) =>
          event.type === "text-delta"
            ? [
                { ...event, text: "***" },
                { ...event, text: "!" },
              ]
            : undefined,
        ),
      ],
    });
    const body = await (await send({ body: { stream } })).text();
    expect(textOf(body, stream)).toBe("***!***!");
    expect(body).toContain('"output_tokens":8');
    expect(report()).toMatchObject({ used: INPUT + 8, ...AT_REST });
  });

  it.each(STREAMS)("drops pieces, and charges them (stream: %s)", async (stream) => {
    const { send, report } = opened({
      backend: speaking(WORD, "more", counted(8)),
      hooks: [during((event) => (event.type === "text-delta" && event.text === WORD ? [] : undefined))],
    });
    expect(textOf(await (await send({ body: { stream } })).text(), stream)).toBe("more");
    expect(report()).toMatchObject({ used: INPUT + 8 });
  });

  it("runs in the opposite order, each with what the one nearer to the model has shown", async () => {
    const { send } = opened({ hooks: [adding("1"), { before: () => undefined }, adding("2"), adding("3")] });
    expect(textOf(await (await send()).text(), false)).toBe(`${WORD}321`);
  });

  it.each(STREAMS)("may wait for something, one piece at a time (stream: %s)", async (stream) => {
    const running: string[] = [];
    const slow = during(async (event) => {
      running.push(`+${event.type}`);
      await Promise.resolve();
      running.push(`-${event.type}`);
      return event.type === "text-delta" ? { ...event, text: "slow" } : undefined;
    });
    const { send, report } = opened({ backend: speaking(WORD, counted(4)), hooks: [upper, slow] });
    expect(textOf(await (await send({ body: { stream } })).text(), stream)).toBe("SLOW");
    expect(running).toEqual(["+text-delta", "-text-delta", "+finish", "-finish"]);
    expect(report()).toMatchObject(AT_REST);
  });

  it("may show very many pieces in place of one", async () => {
    const many = Array.from({ length: 100_000 }, (): HookEvent => ({ type: "text-delta", text: "x" }));
    const hook = during((event) => (event.type === "finish" ? undefined : many));
    const { send } = opened({ backend: speaking(WORD, counted(4)), hooks: [hook], key: {} });
    expect(textOf(await (await send()).text(), false)).toHaveLength(100_000);
  });

  it("changes nothing by a change in place", async () => {
    const { send } = opened({ hooks: [during((event) => void Object.assign(event, { text: "changed" }))] });
    expect(textOf(await (await send()).text(), false)).toBe(WORD);
  });

  it("shows after, replays and kept responses what the caller was shown", async () => {
    const answers: HookAnswer[] = [];
    const { send, clock } = opened({
      hooks: [upper, { after: (answer) => void answers.push(answer) }],
      replays: (clock) => memoryReplayStore({ clock }),
      responses: (clock) => memoryResponseStore({ clock }),
    });
    const body = { input: "ten tokens", max_output_tokens: 50, messages: undefined, max_tokens: undefined };
    for (const stream of STREAMS) {
      const headers = { "idempotency-key": `key-${stream}` };
      const send1 = () => send({ path: "/v1/responses", body: { ...body, stream }, headers });
      const first = await (await send1()).text();
      expect(first).toContain("WORD");
      expect(first).not.toContain(WORD);
      expect(await (await send1()).text()).toContain("WORD");
      const id = /"(resp_[^"]+)"/.exec(first)?.[1] ?? "";
      const kept = await (await send({ path: `/v1/responses/${id}`, method: "GET" })).text();
      expect(kept).toContain("WORD");
      expect(kept).not.toContain(`"${WORD}"`);
    }
    await clock.advance(0);
    expect(answers.map(({ text }) => text)).toEqual(["WORD", "WORD"]);
  });

  it("runs for images, which it may leave out, and whose prompts it may change", async () => {
    const backend: ModelBackend = {
      async *image() {
        yield { ...drawn(0), revisedPrompt: "a secret cat" };
        yield { ...drawn(1), revisedPrompt: "a secret dog" };
      },
    };
    const send = (hook: During) =>
      opened({ backend, hooks: [during(hook)], key: { granted: 100_000 } }).send({
        path: "/v1/images/generations",
        body: JSON.stringify({ model: "image-model-2", prompt: "cats", n: 2, response_format: "b64_json" }),
      });
    const seen: string[] = [];
    const response = await send((event) => {
      seen.push(event.type);
      if (event.type !== "image") return undefined;
      return event.number === 0 ? [] : { ...event, revisedPrompt: "a dog" };
    });
    expect(await response.json()).toMatchObject({ data: [{ revised_prompt: "a dog" }] });
    expect(seen).toEqual(["image", "image", "finish"]);
    const forged = await send((event) => (event.type === "image" ? { ...event, bytes: new Uint8Array(1) } : undefined));
    expect(forged.status).toBe(500);
    const ended = await send(() => ({ end: "refusal" }));
    expect(ended.status).toBe(500);
  });

  it("is not asked for embeddings", async () => {
    const backend: ModelBackend = {
      async *embed() {
        yield [1];
      },
    };
    const { send } = opened({
      backend,
      hooks: [
        during(() => {
          throw new Error("asked");
        }),
      ],
    });
    const response = await send({
      path: "/v1/embeddings",
      body: JSON.stringify({ model: "any", input: "ten tokens" }),
    });
    expect(response.status).toBe(200);
  });
});

/** Holds the words of a sentence, and decides when the sentence is complete. */
const judging =
  (judge: (sentence: string) => HookDecision): During =>
  (event, _call, held) => {
    if (event.type !== "text-delta") return undefined;
    if (!event.text.endsWith(".")) return "hold";
    return judge([...held, event].map((one) => ("text" in one ? one.text : "")).join(""));
  };

/** Holds the first word for 400 ms, while the backend waits. */
const lapsing = async (down: "closed" | "open") => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const holding = during((event) => (event.type === "finish" ? undefined : "hold"), { maxHoldMs: 400, down });
  const open = opened({ backend: speaking(WORD, promise, "more", counted(8)), hooks: [holding] });
  const sending = open.send({ body: { stream: true } });
  await open.clock.advance(399);
  expect(open.failures).toEqual([]);
  await open.clock.advance(1);
  expect(open.failures).toMatchObject([
    { port: "hook", text: expect.stringContaining("longer than 400 ms") as string },
  ]);
  return { ...open, resolve, response: await sending };
};

describe("a hold", () => {
  it.each(STREAMS)("releases what it holds, behind one another (stream: %s)", async (stream) => {
    const { send, report } = opened({
      backend: speaking("One ", "two.", "Three ", "four.", counted(5)),
      hooks: [during(judging(() => undefined))],
    });
    expect(textOf(await (await send({ body: { stream } })).text(), stream)).toBe("One two.Three four.");
    expect(report()).toMatchObject(AT_REST);
  });

  it.each(STREAMS)("may show others in place of what it holds (stream: %s)", async (stream) => {
    const { send } = opened({
      backend: speaking("Bad ", "words.", "Good ", "words.", counted(5)),
      hooks: [
        during(judging((said) => (said.includes("Bad") ? { type: "text-delta", text: "[removed]" } : undefined))),
      ],
    });
    expect(textOf(await (await send({ body: { stream } })).text(), stream)).toBe("[removed]Good words.");
  });

  it.each(STREAMS)("may show a part, and hold another (stream: %s)", async (stream) => {
    const seen: string[][] = [];
    const tail: During = (event, _call, held) => {
      seen.push(held.map((one) => ("text" in one ? one.text : "")));
      if (event.type !== "text-delta") return undefined;
      const text = `${held.map((one) => ("text" in one ? one.text : "")).join("")}${event.text}`;
      return { show: [{ ...event, text: text.slice(0, -2) }], hold: [{ ...event, text: text.slice(-2) }] };
    };
    const { send } = opened({ backend: speaking("abcd", "efgh", counted(5)), hooks: [during(tail)] });
    expect(textOf(await (await send({ body: { stream } })).text(), stream)).toBe("abcdefgh");
    expect(seen).toEqual([[], ["cd"], ["gh"]]);
  });

  it.each(["closed", "open"] as const)("that is too large is a failure (%s)", async (down) => {
    const { send, failures, report } = opened({
      backend: speaking(WORD, "more", counted(8)),
      hooks: [during((event) => (event.type === "finish" ? undefined : "hold"), { maxHoldBytes: 200, down })],
    });
    const body = await (await send({ body: { stream: true } })).text();
    expect(failures).toMatchObject([
      { port: "hook", text: expect.stringContaining("maxHoldBytes, 200 bytes") as string },
    ]);
    expect(textOf(body, true)).toBe(down === "open" ? `${WORD}more` : "");
    expect(body.includes("event: error") || body.includes('"type":"error"')).toBe(down === "closed");
    expect(report()).toMatchObject(AT_REST);
  });

  it("that lasts too long ends the answer, though no piece comes", async () => {
    const { response, report } = await lapsing("closed");
    expect(response.status).toBe(503);
    expect(report()).toMatchObject({ liveHolds: 0, timers: 0 });
  });

  it("that lasts too long is shown by an open hook, and the rest of the answer", async () => {
    const { response, resolve, clock, report } = await lapsing("open");
    const reader = await readUntil(WORD, response);
    resolve();
    await clock.advance(0);
    expect(new TextDecoder().decode((await reader.read()).value)).toContain("more");
    expect(report()).toMatchObject({ used: INPUT + 8, ...AT_REST });
  });

  it("lasts from its first piece on, however many follow", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { send, clock, failures } = opened({
      backend: speaking(WORD, promise, "more", never),
      hooks: [during(() => "hold", { maxHoldMs: 400 })],
    });
    const sending = send();
    await clock.advance(300);
    resolve();
    await clock.advance(99);
    expect(failures).toEqual([]);
    await clock.advance(1);
    expect(failures).toMatchObject([{ port: "hook" }]);
    expect((await sending).status).toBe(503);
  });

  it("counts only the time for which the answer waits", async () => {
    const pause = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let asked = 0;
    const { send, clock, failures } = opened({
      backend: speaking(WORD, pause[0]?.promise ?? never, "a", pause[1]?.promise ?? never, "b", counted(8)),
      hooks: [during((event) => (event.type === "finish" || ++asked === 2 ? undefined : "hold"), { maxHoldMs: 400 })],
    });
    const sending = send();
    await clock.advance(300);
    pause[0]?.resolve();
    await clock.advance(0);
    await clock.advance(300);
    pause[1]?.resolve();
    expect(textOf(await (await sending).text(), false)).toBe(`${WORD}ab`);
    expect(failures).toEqual([]);
  });

  it("lets the caller hear keep-alives, and an error behind them is one of the stream", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = during((event) => {
      if (event.type !== "finish") return "hold";
      throw new GatewayError("invalid_request", "Too late.");
    });
    const { send, clock, report } = opened({
      backend: speaking(WORD, promise, counted(4)),
      hooks: [late],
      limits: { keepAliveMs: 1_000 },
    });
    const sending = send({ body: { stream: true } });
    await clock.advance(1_000);
    const response = await sending;
    const reading = response.text();
    await clock.advance(2_000);
    resolve();
    const body = await reading;
    expect([response.status, body.includes("event: ping"), textOf(body, true)]).toEqual([200, true, ""]);
    expect(body).toContain("Too late.");
    expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });

  it("is dropped when the backend breaks off", async () => {
    const { send, failures, report } = opened({
      backend: speaking("shown.", "held", new Error("gone")),
      hooks: [during((event) => ("text" in event && event.text === "held" ? "hold" : undefined))],
    });
    const body = await (await send({ body: { stream: true } })).text();
    expect(textOf(body, true)).toContain("shown.");
    expect(body).not.toContain("held");
    expect(failures).toMatchObject([{ port: "model-backend" }]);
    expect(report()).toMatchObject(AT_REST);
  });
});

describe("an end", () => {
  it.each(STREAMS)("is a finish with a reason, behind what is shown (stream: %s)", async (stream) => {
    const backend = obedient();
    const { send, report, clock } = opened({
      backend: {
        async *chat(request, call) {
          yield { type: "start" };
          yield* backend.chat?.(request, call) ?? [];
        },
      },
      hooks: [
        during((event) =>
          event.type === "text-delta" ? { show: [{ ...event, text: "Sorry." }], end: "refusal" } : undefined,
        ),
      ],
    });
    const body = await (await send({ body: { stream } })).text();
    expect(textOf(body, stream)).toContain("Sorry.");
    expect(body).toContain('"stop_reason":"refusal"');
    await clock.advance(0);
    expect(backend.seen.ended).toBe(true);
    // The model has made one word.
    expect(report()).toMatchObject({ used: INPUT + WORD.length, ...AT_REST });
  });

  it("keeps the counts of a backend that has ended already", async () => {
    const { send, report } = opened({
      backend: speaking(WORD, counted(7)),
      hooks: [during((event) => (event.type === "finish" ? { end: "content-filter" } : undefined))],
    });
    expect(await (await send()).json()).toMatchObject({ stop_reason: "refusal", usage: { output_tokens: 7 } });
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("lets the hooks nearer to the caller show what they hold, and asks the others no more", async () => {
    const seen: string[] = [];
    const holding = during((event, _call, held) => {
      if (event.type === "finish") return undefined;
      return held.length < 9 ? "hold" : undefined;
    });
    const ending = during((event) => {
      seen.push(event.type);
      return "text" in event && event.text === "b" ? { show: [event], end: "content-filter" } : undefined;
    });
    const outer = during((event) => void seen.push(`model ${event.type}`));
    const { send } = opened({ backend: speaking("a", "b", "c", counted(3)), hooks: [holding, ending, outer] });
    expect(await (await send()).json()).toMatchObject({ content: [{ text: "ab" }], stop_reason: "refusal" });
    expect(seen).toEqual(["model text-delta", "text-delta", "model text-delta", "text-delta"]);
  });

  it("may come with a piece that another hook has held until the finish", async () => {
    const holding = during((event) => (event.type === "finish" ? undefined : "hold"));
    const ending = during(async (event) => {
      await Promise.resolve();
      return event.type === "text-delta" && event.text === "b" ? { end: "content-filter" } : undefined;
    });
    for (const hooks of [
      [ending, holding],
      [upper, ending, holding],
    ]) {
      const { send, report } = opened({ backend: speaking("a", "b", "c", counted(3)), hooks });
      const answer = (await (await send()).json()) as { content: { text: string }[]; stop_reason: string };
      expect([answer.content[0]?.text.toLowerCase(), answer.stop_reason]).toEqual(["a", "refusal"]);
      expect(report()).toMatchObject({ used: INPUT + 3, ...AT_REST });
    }
  });

  it("is an error with a true status, where nothing was sent", async () => {
    const refusing = during(async () => {
      throw new GatewayError("invalid_request", "This answer is against our rules.");
    });
    for (const stream of STREAMS) {
      const { send, failures, report } = opened({ backend: speaking(WORD, counted(4)), hooks: [refusing] });
      const response = await send({ body: { stream } });
      expect([response.status, failures]).toEqual([400, []]);
      expect(await response.json()).toMatchObject({ error: { message: "This answer is against our rules." } });
      expect(report()).toMatchObject({ used: stream ? INPUT + WORD.length : INPUT + WORD.length, ...AT_REST });
    }
  });

  it("is an error of the stream behind a piece that was shown", async () => {
    const refusing = during((event) => {
      if ("text" in event && event.text === "bad") throw new GatewayError("invalid_request", "No more.");
    });
    const { send, failures, report } = opened({ backend: speaking(WORD, "bad", "c", counted(9)), hooks: [refusing] });
    const response = await send({ body: { stream: true } });
    expect(response.status).toBe(200);
    const body = await response.text();
    expect(textOf(body, true)).toBe(WORD);
    expect(body).toContain("No more.");
    expect(failures).toEqual([]);
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });
});

describe("a during that fails", () => {
  const broken: readonly [string, During][] = [
    ["throws", () => JSON.parse("{") as undefined],
    ["rejects", () => Promise.reject(new Error("secret reason"))],
    ["throws nothing", () => Promise.reject(undefined)],
  ];

  it.each(broken)("closed: ends the answer when it %s", async (_name, run) => {
    for (const stream of STREAMS) {
      const { send, failures, report } = opened({ backend: speaking(WORD, counted(4)), hooks: [during(run)] });
      const response = await send({ body: { stream } });
      const body = await response.text();
      expect([response.status, body.includes(WORD), body.includes("secret")]).toEqual([503, false, false]);
      expect(failures).toMatchObject([{ port: "hook" }]);
      expect(report()).toMatchObject(AT_REST);
    }
  });

  it.each(broken)("open: shows the rest as it is when it %s, and asks it no more", async (_name, run) => {
    let asked = 0;
    const hook = during((...given) => (asked++, run(...given)), { down: "open" });
    const { send, failures } = opened({ backend: speaking(WORD, "more", counted(4)), hooks: [upper, hook] });
    expect(textOf(await (await send()).text(), false)).toBe("WORDMORE");
    expect([asked, failures.length]).toEqual([1, 1]);
  });

  it.each(["closed", "open"] as const)("%s, when it never answers, after its time", async (down) => {
    const hook = during((event) => ("text" in event && event.text === "b" ? never : undefined), {
      timeoutMs: 300,
      down,
    });
    const { send, clock, failures, report } = opened({ backend: speaking("a", "b", counted(4)), hooks: [hook] });
    const response = await send({ body: { stream: true } });
    const reading = response.text();
    await clock.advance(299);
    expect(failures).toEqual([]);
    await clock.advance(1);
    const body = await reading;
    expect(textOf(body, true)).toContain(down === "open" ? "ab" : "a");
    expect(body.includes("is not available")).toBe(down === "closed");
    expect(failures).toMatchObject([{ port: "hook", text: expect.stringContaining("longer than 300 ms") as string }]);
    expect(report()).toMatchObject(AT_REST);
  });

  const text = { type: "text-delta", text: "x" } as const;
  it.each<[string, unknown]>([
    ["a text", "no"],
    ["a number", 1],
    ["a list of nothing", [null]],
    ["an event of no type", [{ type: "words" }]],
    ["an event with a wrong field", { type: "text-delta", text: 1 }],
    ["an event of another candidate", { ...text, candidate: 1 }],
    ["a start", { type: "start" }],
    ["a count", { type: "usage", usage: { outputTokens: 0 } }],
    ["a native event", { type: "native", format: "messages", events: [], frames: [] }],
    ["a finish in the middle", [text, { type: "finish", endings: [{ candidate: 0, reason: "stop" }] }]],
    ["an unknown field", { shows: [text] }],
    ["a hold at the end", { hold: [text], end: "stop" }],
    ["an end for no reason", { end: "because" }],
    ["a list that is none", { show: text }],
  ])("refuses the answer when it returns %s", async (_name, returned) => {
    const hook = during((event) => (event.type === "finish" ? undefined : (returned as HookDecision)), {
      down: "open",
    });
    const { send, failures, report } = opened({ backend: speaking(WORD, counted(4)), hooks: [hook] });
    expect((await send()).status).toBe(500);
    expect(failures).toMatchObject([{ port: "hook" }]);
    expect(report()).toMatchObject(AT_REST);
  });

  it.each<[string, unknown]>([
    ["holds it", "hold"],
    ["holds a piece", { hold: [text] }],
    ["gives it no endings", { type: "finish" }],
    ["gives it another candidate", { type: "finish", endings: [{ candidate: 1, reason: "stop" }] }],
    ["ends it for no reason", { type: "finish", endings: [{ candidate: 0, reason: "because" }] }],
    ["shows a piece behind it", [{ type: "finish", endings: [{ candidate: 0, reason: "stop" }] }, text]],
  ])("refuses the answer when it gets the finish and %s", async (_name, returned) => {
    const hook = during((event) => (event.type === "finish" ? (returned as HookDecision) : undefined));
    const { send, failures, report } = opened({ backend: speaking(WORD, counted(4)), hooks: [hook] });
    expect((await send()).status).toBe(500);
    expect(failures).toMatchObject([{ port: "hook" }]);
    expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });

  it("cannot lose the finish, nor change its counts", async () => {
    const lying = during((event) => {
      if (event.type !== "finish") return undefined;
      if (!("endings" in event)) return [];
      return {
        ...event,
        usage: { ...event.usage, outputTokens: 0 },
        endings: [{ ...event.endings[0], reason: "length" }],
      };
    });
    const { send } = opened({
      backend: speaking(WORD, counted(4)),
      hooks: [lying, during((event) => (event.type === "finish" ? [] : undefined))],
    });
    expect(await (await send()).json()).toMatchObject({ stop_reason: "max_tokens", usage: { output_tokens: 4 } });
  });

  it("leaves nothing when its caller leaves first", async () => {
    const leave = new AbortController();
    const { send, clock, report } = opened({ hooks: [during(() => never)] });
    const response = send({ signal: leave.signal });
    await clock.advance(1);
    leave.abort();
    expect((await response).status).toBe(499);
    expect(report()).toMatchObject(AT_REST);
  });
});

describe("needsDuring", () => {
  it("is asked once, behind before, and decides for the call", async () => {
    const seen: string[] = [];
    const hook = withDuring({
      before: () => void seen.push("before"),
      needsDuring: ({ format }) => (seen.push("needed"), format !== "messages"),
      during: () => void seen.push("during"),
    });
    const { send } = opened({ backend: speaking(WORD, WORD, counted(8)), hooks: [hook] });
    await (await send()).text();
    expect(seen).toEqual(["before", "needed"]);
  });

  it("that fails refuses the call", async () => {
    const { send, failures, report } = opened({
      hooks: [{ before: () => undefined }, during(() => undefined, { needsDuring: () => JSON.parse("{") as boolean })],
    });
    expect((await send()).status).toBe(503);
    expect(failures).toMatchObject([
      { port: "hook", error: { cause: { message: expect.stringContaining("hooks[1].needsDuring") } } },
    ]);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });
});

describe("the reasoning that a hook changes", () => {
  const signed: readonly (ChatEvent | string)[] = [
    { type: "reasoning-delta", text: "I think " },
    { type: "reasoning-delta", text: "so." },
    { type: "reasoning-signature", signature: "c2ln", maker: "messages" },
    WORD,
    counted(9),
  ];
  const body = { thinking: { type: "enabled", budget_tokens: 1024 }, max_tokens: 4096 };
  const sent = async (run: During, stream: boolean): Promise<string> =>
    (
      await opened({ backend: speaking(...signed), hooks: [during(run)], key: {} }).send({ body: { ...body, stream } })
    ).text();

  it.each(STREAMS)("loses its signature (stream: %s)", async (stream) => {
    const changed = await sent(
      (event) => (event.type === "reasoning-delta" ? { ...event, text: "Hm." } : undefined),
      stream,
    );
    expect(changed).toContain("Hm.");
    expect(changed).not.toContain("c2ln");
    const less = await sent(
      (event) => (event.type === "reasoning-delta" && event.text === "so." ? [] : undefined),
      stream,
    );
    expect(less).not.toContain("c2ln");
  });

  it.each(STREAMS)("keeps it in other pieces, and where it is not changed (stream: %s)", async (stream) => {
    const split = await sent((event) => {
      if (event.type !== "reasoning-delta") return undefined;
      return Array.from(event.text, (text) => ({ ...event, text }));
    }, stream);
    expect(split).toContain("c2ln");
    expect(await sent(() => undefined, stream)).toContain("c2ln");
  });
});

it.each([
  ["good", 200, '"text":"a"'],
  ["bad", 400, "Against our rules."],
])("a guardrail's verdict runs beside the call, and holds only the first frame: %s", async (verdict, status, said) => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const verdicts = new WeakMap<object, Promise<string>>();
  const seen: string[] = [];
  const guard = withDuring({
    before(_request, call) {
      verdicts.set(call, promise);
    },
    async during(event, call) {
      seen.push(event.type);
      if ((await verdicts.get(call)) === "bad") throw new GatewayError("invalid_request", "Against our rules.");
    },
  });
  const { send, clock, report } = opened({ backend: speaking("a", "b", counted(2)), hooks: [guard] });
  let response: Response | undefined;
  const sending = send({ body: { stream: true } }).then((answer) => (response = answer));
  await clock.advance(100);
  // The backend is asked already, and its first piece waits.
  expect([seen, response]).toEqual([["text-delta"], undefined]);
  resolve(verdict);
  await clock.advance(0);
  await sending;
  expect(response?.status).toBe(status);
  expect(await response?.text()).toContain(said);
  expect(report()).toMatchObject(AT_REST);
});

it.each<[string, Hook, string]>([
  ["without a function", { needsDuring: () => true }, "must have a function before, during or after"],
  [
    "with a hold of no bytes",
    { during: () => undefined, maxHoldBytes: 0 },
    "maxHoldBytes must be a positive integer, not 0",
  ],
  ["without the code of its during", { during: () => undefined }, "give withDuring(hook) of polygate/hooks"],
  ["with a hold of no time", during(() => undefined, { maxHoldMs: 0 }), "maxHoldMs must be an integer from 1"],
])("a hook %s is refused by createGateway", (_name, hook, message) => {
  expect(() => opened({ hooks: [hook] })).toThrow(message);
});

it("withDuring refuses what has no during, and keeps the functions of a class", async () => {
  expect(() => withDuring({ before: () => undefined })).toThrow("withDuring: the hook must have a function during.");
  expect(() => withDuring(undefined as never)).toThrow("withDuring");
  class Counting {
    #count = 0;
    before(): void {
      this.#count++;
    }
    during(event: HookEvent): HookDecision {
      return event.type === "text-delta" ? { ...event, text: String(this.#count) } : undefined;
    }
  }
  const { send } = opened({ hooks: [withDuring(new Counting())] });
  expect(textOf(await (await send()).text(), false)).toBe("1");
});
