/** A route that goes on after a break: what does no harm, who pays, and who is told. */

import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { describe, expect, it } from "vitest";
import { withDuring } from "../../../src/hooks/index.ts";
import type { GatewayOptions } from "../../../src/index.ts";
import { hedge } from "../../../src/upstreams/route/index.ts";
import { type RawAnswer, STREAM_HEAD, whole } from "../relay/raw-upstream.ts";
import { callerOf, type ChatFormatName, FORMATS, type Read, readResponse, ResponseCheck } from "./callers.ts";
import { type BreakOptions, type BreakStage, breakStage, KEY, restOf, type Voice } from "./on-break.stage.ts";
import { breaksAfter, framesOf, lastTurns, type Said, type Script, writesAll } from "./speakers.ts";

const WHOLE = "Now is the winter of our discontent made glorious summer by this sun of York";
const text = (said: string): Said => ({ type: "text", pieces: said.match(/[^]{1,8}/gu) ?? [] });
const CALL: Said = { type: "call", id: "call_1", name: "look", pieces: ['{"at":', '"the sun"}'] };
const THOUGHT: Said = { type: "reasoning", pieces: ["Let me ", "think."], signature: "c2lnbmVk" };
const script = (id: string, ...parts: readonly Said[]): Script => ({ id, inputTokens: 75, parts });

/** Breaks off behind the frame that holds a text. */
function breaksBehind(format: ChatFormatName, said: Script, needle: string): RawAnswer {
  const frames = framesOf(format, said);
  const count = frames.findIndex(({ bytes }) => bytes.includes(needle)) + 1;
  if (count === 0) throw new Error(`There is no ${needle}.`);
  return (socket) => breaksAfter(socket, frames, count);
}

/** Writes a whole answer, or the rest of one. */
const goesOn =
  (format: ChatFormatName, said: Script): RawAnswer =>
  (socket, { body }) =>
    writesAll(socket, framesOf(format, restOf(said, body)));

const down: RawAnswer = (socket) => socket.end(whole(503, "application/json", "{}", { connection: "close" }));

/** The reason that the host is told. */
const told = ({ failures }: BreakStage): string => failures.map((failure) => failure.text).join("\n");

/** A break of an answer with these parts, behind a frame, and the same answer from the second upstream. */
async function broken(
  caller: ChatFormatName,
  first: ChatFormatName,
  parts: readonly Said[],
  needle: string,
  options: BreakOptions & { readonly second?: ChatFormatName } = {},
): Promise<BreakStage & { read(): ReturnType<ReturnType<typeof callerOf>["stream"]> }> {
  const { second = first } = options;
  const stage = await breakStage(
    [
      { format: first, answer: breaksBehind(first, script("first", ...parts), needle) },
      { format: second, answer: goesOn(second, script("second", ...parts)) },
    ],
    options,
  );
  return { ...stage, read: () => callerOf(caller, stage.url, KEY).stream("ten tokens") };
}

describe("a tool call", () => {
  it.each<[ChatFormatName, ChatFormatName, string]>([
    ["messages", "messages", '"partial_json":"{\\"at'],
    ["messages", "chat-completions", '"arguments":"{\\"at'],
    ["responses", "responses", '"delta":"{\\"at'],
    ["chat-completions", "messages", '"partial_json":"{\\"at'],
  ])(
    "of which a caller of %s has half from %s ends the answer as without the option, and says why",
    async (...pair) => {
      const [caller, first, needle] = pair;
      await using stage = await broken(caller, first, [text("Look: "), CALL], needle);
      await expect(stage.read()).rejects.toBeInstanceOf(Error);
      expect(told(stage)).toContain("The answer was not continued: a tool call was half shown.");
      expect(stage.upstreams[1]?.requests).toEqual([]);
      expect(stage.records[0]).toMatchObject({ outcome: "failed", attempts: [{ errorCode: "backend_failed" }] });
      expect(stage.failures).toHaveLength(1);
    },
  );

  it.each<[ChatFormatName, ChatFormatName, string, string]>([
    ["messages", "messages", 'content_block_stop","index":1', "tool_use"],
    ["messages", "messages", "the sun", "tool_use"],
    ["messages", "chat-completions", "the sun", "tool_use"],
    ["chat-completions", "chat-completions", "the sun", "tool_calls"],
    ["chat-completions", "messages", "the sun", "tool_calls"],
    ["responses", "responses", "the sun", "completed"],
    ["responses", "chat-completions", "the sun", "completed"],
    ["generate-content", "generate-content", "the sun", "STOP"],
    ["generate-content", "messages", 'content_block_stop","index":1', "STOP"],
  ])("that a caller of %s has whole from %s ends the answer, and nobody else is asked", async (...row) => {
    const [caller, first, needle, finish] = row;
    await using stage = await broken(caller, first, [text("Look: "), CALL], needle);
    expect(await stage.read()).toMatchObject({
      text: "Look: ",
      calls: [{ id: "call_1", name: "look", input: { at: "the sun" } }],
      finish,
    });
    expect(stage.upstreams[1]?.requests).toEqual([]);
    expect(stage.records[0]).toMatchObject({ outcome: "completed", certainty: "estimated" });
  });

  it("of which nothing was shown is begun anew", async () => {
    // A caller of generate-content gets whole calls alone.
    await using stage = await broken("generate-content", "messages", [text("Look: "), CALL], '"partial_json":"{\\"at');
    const read = await stage.read();
    expect(read).toMatchObject({ text: "Look: ", calls: [{ name: "look", input: { at: "the sun" } }], finish: "STOP" });
    expect(stage.records[0]?.attempts).toMatchObject([{ movedOn: "broke-off" }, { upstream: "upstream-1" }]);
  });
});

describe("reasoning", () => {
  it.each<[ChatFormatName, ChatFormatName]>([
    ["chat-completions", "chat-completions"],
    ["generate-content", "generate-content"],
    ["messages", "chat-completions"],
    ["responses", "generate-content"],
  ])("of which a caller of %s has half from %s, which signs nothing, is not shown again", async (caller, first) => {
    await using stage = await broken(caller, first, [THOUGHT, text(WHOLE)], "Let me ");
    expect(await stage.read()).toMatchObject({ reasoning: "Let me ", text: WHOLE });
  });

  it.each<ChatFormatName>(["messages", "responses"])(
    "whose signature is missing ends the answer: %s",
    async (format) => {
      await using stage = await broken(format, format, [THOUGHT, text(WHOLE)], "Let me ");
      await expect(stage.read()).rejects.toBeInstanceOf(Error);
      expect(told(stage)).toContain("reasoning was shown without the signature at its end");
      expect(stage.upstreams[1]?.requests).toEqual([]);
    },
  );

  it("that is signed stays as it is, and the answer goes on behind it", async () => {
    await using stage = await broken("messages", "messages", [THOUGHT, text(WHOLE)], "Now is");
    expect(await stage.read()).toMatchObject({ reasoning: "Let me think.", text: WHOLE, finish: "end_turn" });
  });
});

describe("a source that the next upstream cites", () => {
  const CITED = "Süden";
  const whole = `Grüße aus Köln: der Wind kömmt heute aus ${CITED}, sagt man.`;
  const url = "https://wind.test";

  /** The rest of the answer, behind words that it may have been told to repeat, with the place of a word in it. */
  const citing =
    (format: "chat-completions" | "responses"): RawAnswer =>
    (socket, { body }) => {
      const rest = restOf(script("second", text(whole)), body);
      const said = rest.parts.flatMap(({ pieces }) => pieces).join("");
      const start_index = said.indexOf(CITED);
      const place = { url, title: "Wind", start_index, end_index: start_index + CITED.length };
      const bytes = framesOf(format, rest)
        .map((frame) => frame.bytes)
        .join("");
      const cited =
        format === "responses"
          ? bytes.replaceAll(
              '"annotations":[]',
              JSON.stringify({ annotations: [{ type: "url_citation", ...place }] }).slice(1, -1),
            )
          : bytes.replace(
              '"delta":{},"finish_reason":"stop"',
              `"delta":${JSON.stringify({ annotations: [{ type: "url_citation", url_citation: place }] })},"finish_reason":"stop"`,
            );
      socket.end(STREAM_HEAD + cited);
    };

  describe.each(["chat-completions", "responses"] as const)("(%s)", (second) => {
    it.each(
      (["chat-completions", "responses"] as const).flatMap((caller) =>
        (["chat-completions", "responses", "messages"] as const).flatMap((first) =>
          [true, false].map((prefill) => [caller, first, prefill] as const),
        ),
      ),
    )("has its place in the whole text for a caller of %s, begun by %s (prefill: %s)", async (...row) => {
      const [caller, first, prefill] = row;
      await using stage = await breakStage([
        { format: first, answer: breaksBehind(first, script("first", text(whole)), "der Win") },
        { format: second, answer: citing(second), more: { prefill } },
      ]);
      const response = await fetch(`${stage.url}/v1/${caller === "responses" ? "responses" : "chat/completions"}`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
        body: JSON.stringify({
          model: "m",
          stream: true,
          [caller === "responses" ? "input" : "messages"]: [{ role: "user", content: "Hi" }],
        }),
      });
      const answer = await response.text();
      expect(stage.upstreams[1]?.requests).toHaveLength(1);
      const places = answer.match(/"start_index":\d+,"end_index":\d+/g) ?? [];
      const start = whole.indexOf(CITED);
      expect(new Set(places)).toEqual(new Set([`"start_index":${start},"end_index":${start + CITED.length}`]));
    });
  });
});

describe("the next upstream", () => {
  const cut: Voice = { format: "messages", answer: breaksBehind("messages", script("first", text(WHOLE)), "r of our") };
  const said = WHOLE.slice(0, 24);

  it.each<[string, (said: string, repeated: string, rest: string) => string]>([
    ["goes on behind the words that it was told to repeat", (_said, repeated, rest) => repeated + rest],
    ["begins again", (before, _repeated, rest) => before + rest],
    ["goes on at once", (_said, _repeated, rest) => rest],
  ])("that is asked in words %s", async (_name, written) => {
    await using stage = await breakStage([
      cut,
      {
        format: "chat-completions",
        answer(socket, { body }) {
          const asked = lastTurns(body);
          const words = asked.instruction?.split("Its last words:\n")[1] ?? "";
          // The turn is the text so far, and the instruction ends in its last words.
          expect([WHOLE.startsWith(asked.said ?? "?"), asked.said?.endsWith(words)]).toEqual([true, true]);
          const rest = WHOLE.slice(asked.said?.length);
          writesAll(
            socket,
            framesOf("chat-completions", script("second", text(written(asked.said ?? "", words, rest)))),
          );
        },
      },
    ]);
    expect(await callerOf("messages", stage.url, KEY).stream("Hi")).toMatchObject({ text: WHOLE });
  });

  it("that refuses the beginning of an answer is asked in words, now and from then on", async () => {
    const bodies: ReturnType<typeof lastTurns>[] = [];
    await using stage = await breakStage([
      cut,
      {
        format: "messages",
        answer(socket, { body }) {
          const asked = lastTurns(body);
          bodies.push(asked);
          if (asked.instruction !== undefined)
            return writesAll(socket, framesOf("messages", restOf(script("b", text(WHOLE)), body)));
          const error = {
            type: "error",
            error: { type: "invalid_request_error", message: "This model takes no prefill." },
          };
          return socket.end(whole(400, "application/json", JSON.stringify(error), { connection: "close" }));
        },
      },
    ]);
    // The clients of the pairs have a tool; a plain request is enough here.
    const client = callerOf("messages", stage.url, KEY);
    expect([await client.stream("Hi"), await client.stream("Hi")]).toMatchObject([{ text: WHOLE }, { text: WHOLE }]);
    expect(bodies.map(({ instruction }) => instruction !== undefined)).toEqual([false, true, true]);
    expect(stage.records[0]?.attempts.map(({ errorCode }) => errorCode)).toEqual([
      "backend_failed",
      "invalid_request",
      undefined,
    ]);
  });

  it.each([
    [true, 1, false],
    [false, 1, true],
  ])("with prefill: %s is asked %i time, in words: %s", async (prefill, times, inWords) => {
    const asked: boolean[] = [];
    await using stage = await breakStage([
      { ...cut, format: "messages" },
      {
        format: "chat-completions",
        more: { prefill },
        answer(socket, { body }) {
          asked.push(lastTurns(body).instruction !== undefined);
          writesAll(socket, framesOf("chat-completions", restOf(script("b", text(WHOLE)), body)));
        },
      },
    ]);
    expect(await callerOf("messages", stage.url, KEY).stream("Hi")).toMatchObject({ text: WHOLE });
    expect(asked).toEqual(Array.from({ length: times }, () => inWords));
  });

  it("may break off, too: a third goes on, and no upstream is asked twice", async () => {
    const second: RawAnswer = (socket, { body }) => {
      const frames = framesOf("chat-completions", restOf(script("second", text(WHOLE)), body));
      return breaksAfter(socket, frames, 12);
    };
    await using stage = await breakStage([
      cut,
      { format: "chat-completions", answer: second },
      { format: "responses", answer: goesOn("responses", script("third", text(WHOLE))) },
    ]);
    expect(await callerOf("messages", stage.url, KEY).stream("Hi")).toMatchObject({ text: WHOLE, finish: "end_turn" });
    expect(stage.records[0]?.attempts.map(({ upstream, movedOn }) => [upstream, movedOn])).toEqual([
      ["upstream-0", "broke-off"],
      ["upstream-1", "broke-off"],
      ["upstream-2", undefined],
    ]);
    expect(stage.upstreams.map(({ requests }) => requests.length)).toEqual([1, 1, 1]);
    expect(stage.quotas.report("caller")).toMatchObject({ held: 0, liveHolds: 0, used: stage.records[0]?.units });
  });

  it("that does not begin leaves the error of the break to the caller, and the reason to the host", async () => {
    await using stage = await breakStage([cut, { format: "messages", answer: down }], {});
    await expect(callerOf("messages", stage.url, KEY).stream("Hi")).rejects.toBeInstanceOf(Error);
    expect(told(stage)).toContain("The answer was not continued: no other upstream has begun to answer.");
    // Only what was written is charged.
    expect(stage.records[0]).toMatchObject({ outcome: "failed", units: 75 + said.length });
  });
});

/** Asks over a WebSocket, and reads the response to its end. */
async function askOverSocket(url: string): Promise<ResponseCheck> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY });
  const ws = new ResponsesWS(client);
  const check = new ResponseCheck();
  const ended = new Promise<void>((resolve, reject) => {
    ws.on("event", (event) => {
      check.add(event as OpenAI.Responses.ResponseStreamEvent);
      if (event.type === "response.completed") resolve();
    });
    ws.on("error", reject);
  });
  await new Promise((open) => ws.socket.once("open", open));
  ws.send({ type: "response.create", model: "m", input: "Hi", store: false });
  await ended;
  ws.close();
  return check;
}

async function readOverSocket(url: string): Promise<Read> {
  const check = await askOverSocket(url);
  return readResponse(check.ended(), check.ids);
}

describe.each(FORMATS)("a hedged answer, whose first upstream is silent and whose second breaks off (%s)", (format) => {
  const said = script("second", text(WHOLE));
  const voices = (): readonly Voice[] => {
    let asked = 0;
    const slow: RawAnswer = (socket, request) => {
      if (asked++ > 0) return goesOn(format, script("first", text(WHOLE)))(socket, request);
      // Begins, and never says anything.
      return void socket.write(STREAM_HEAD + (format === "generate-content" ? "" : framesOf(format, said)[0]?.bytes));
    };
    return [
      { format, answer: slow },
      { format, answer: breaksBehind(format, said, "r of our") },
    ];
  };
  const target = { hedge: hedge({ afterMs: 20, share: 1 }) };

  it.each([...FORMATS, "socket"] as const)("is one answer for a caller of %s", async (caller) => {
    await using stage = await breakStage(voices(), { target });
    const read =
      caller === "socket" ? await readOverSocket(stage.url) : await callerOf(caller, stage.url, KEY).stream("Hi");
    expect([read.text, read.ids.length]).toEqual([WHOLE, 1]);
    await expect
      .poll(() => stage.records.flatMap(({ attempts }) => attempts))
      .toMatchObject([
        { upstream: "upstream-0", movedOn: "outrun" },
        { upstream: "upstream-1", movedOn: "broke-off" },
        { upstream: "upstream-0", movedOn: undefined },
      ]);
    expect(stage.quotas.report("caller")).toMatchObject({ held: 0, liveHolds: 0 });
  });
});

describe.each(FORMATS)("a hook that changes pieces of an answer of %s", (format) => {
  const marked = withDuring({
    during: (event) =>
      event.type === "text-delta" ? { show: [{ ...event, text: event.text.replaceAll("o", "0") }] } : undefined,
  });

  it.each<[string, readonly Said[], string, object]>([
    ["text", [text(WHOLE)], "r of our", { text: WHOLE.replaceAll("o", "0") }],
    ["a whole call", [text("Look: "), CALL], "the sun", { text: "L00k: ", calls: [{ input: { at: "the sun" } }] }],
  ])("sees one answer with %s", async (_name, parts, needle, whole) => {
    await using stage = await broken(format, format, parts, needle, { gateway: { hooks: [marked] } });
    expect(await stage.read()).toMatchObject(whole);
  });
});

/** Asks for an answer whose conversation is compacted before. */
const askCompacted = (url: string): Promise<Response> =>
  fetch(`${url}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
    body: JSON.stringify({
      model: "m",
      stream: true,
      reasoning: { effort: "low", summary: "auto" },
      include: ["reasoning.encrypted_content"],
      context_management: [{ type: "compaction", compact_threshold: 200 }],
      input: [
        { role: "user", content: "word ".repeat(100) },
        { role: "assistant", content: "Yes." },
        { role: "user", content: "When is it?" },
      ],
    }),
  });

describe("a compaction whose summary breaks off", () => {
  const SUMMARY = "They spoke of a launch in May.";
  const compacting: Partial<GatewayOptions> = {
    responses: { compaction: { keys: [{ name: "one", secret: new Uint8Array(32) }] } },
  };

  it.each(FORMATS)("goes on, and is charged with the answer, by upstreams of %s", async (format) => {
    const answered = script("answer", THOUGHT, text("In May."));
    let count = 0;
    const first: RawAnswer = (socket, request) =>
      count++ === 0
        ? breaksBehind(format, script("first", text(SUMMARY)), "launch i")(socket, request)
        : writesAll(socket, framesOf(format, answered));
    await using stage = await breakStage(
      [
        { format, answer: first },
        { format, answer: goesOn(format, script("second", text(SUMMARY))) },
      ],
      { gateway: compacting },
    );
    const frames = await (await askCompacted(stage.url)).text();
    expect(told(stage)).toContain("broke off");
    const [record] = stage.records;
    expect(record).toMatchObject({ outcome: "completed", attempts: [{ movedOn: "broke-off" }, {}, {}] });
    expect(stage.quotas.report("caller")).toMatchObject({ used: record?.units });
    // The input of all three requests is charged, and the output of each upstream.
    expect(record?.units).toBeGreaterThan(3 * 75 + SUMMARY.length + "In May.".length);
    const { response } = JSON.parse(/^data: (.*"response\.completed".*)$/m.exec(frames)?.[1] ?? "{}") as {
      response: { id: string; output: Record<string, unknown>[] };
    };
    expect(response.output.map(({ type }) => type)).toEqual(["compaction", "reasoning", "message"]);
    // An id of another format would tell the caller nothing.
    expect(response.id).toMatch(/^resp_/);
    expect(typeof response.output[1]?.["encrypted_content"] === "string").toBe(format !== "generate-content");
  });
});

describe("a caller over a WebSocket", () => {
  it.each(FORMATS.map((format) => [format] as const))("gets one response, begun by %s", async (format) => {
    await using stage = await broken("responses", format, [text(WHOLE)], "r of our", { second: "responses" });
    const check = await askOverSocket(stage.url);
    expect(check.ended()).toMatchObject({ status: "completed" });
    expect(check.ids).toHaveLength(1);
    // The upgrade has a record, too.
    const attempts = stage.records.flatMap((record) => record.attempts);
    expect(attempts).toMatchObject([{ movedOn: "broke-off" }, { upstream: "upstream-1" }]);
  });
});
