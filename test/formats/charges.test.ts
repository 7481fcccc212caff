/** What upstreams bill beside their counts of tokens: uses of their own tools, service tiers, and kinds of content. Asked over whole gateways. */

import { describe, expect, it } from "vitest";
import { describeError } from "../../src/errors.ts";
import { type CallRecord, createGateway, memoryQuotaStore, memoryResponseStore, type Usage } from "../../src/index.ts";
import { type ModelPrice, type PriceRows, priceTable, unitsOfMoney } from "../../src/prices/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";
import { png } from "./images/pictures.ts";

const CALLERS = {
  "chat-completions": {
    path: () => "/v1/chat/completions",
    body: { messages: [{ role: "user", content: "Hi" }] },
  },
  responses: { path: () => "/v1/responses", body: { input: "Hi" } },
  "generate-content": {
    path: (stream: boolean) => `/v1beta/models/m:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: "Hi" }] }] },
  },
  messages: { path: () => "/v1/messages", body: { max_tokens: 100, messages: [{ role: "user", content: "Hi" }] } },
} as const;
type Name = keyof typeof CALLERS;

interface Asked {
  /** The upstream's answer: a body, or the events of a stream. */
  readonly answer: object | readonly object[];
  readonly body?: object;
  /** The caller's format. Default: the upstream's. */
  readonly caller?: Name;
  readonly row?: Partial<ModelPrice>;
  /** The price of the model that draws for the tool. Default: that of `row`. */
  readonly drawing?: ModelPrice;
  /** All prices. Default: those of `row` and `drawing`. */
  readonly rows?: PriceRows;
  /** True when the caller hangs up behind the last event. The upstream goes on. */
  readonly isCut?: boolean;
}

const LAST = "the last words";

/** Asks a gateway before an upstream. Returns the record of the call, with the caller's answer and the gateway's failures. */
async function charged(
  format: RelayFormat & Name,
  { answer, body, caller = format, row, drawing, rows, isCut = false }: Asked,
) {
  const isStream = Array.isArray(answer);
  const done = Promise.withResolvers<CallRecord>();
  const failures: string[] = [];
  const gateway = createGateway({
    backend: relay({
      format,
      baseUrl: "http://up.test/v1",
      fetch: async () => (isStream ? streamed(answer as readonly object[], isCut) : Response.json(answer)),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: unitsOfMoney(100) }]),
    responseStore: memoryResponseStore(),
    ...priceTable(rows ?? { "*": { input: 1, output: 1, ...row }, ...(drawing && { "gpt-image-2": drawing }) }),
    onCall: (record) => done.resolve(record),
    onFailure: ({ error }) => failures.push(describeError(error.cause ?? error)),
  });
  const isNamed = caller !== "generate-content";
  const response = await gateway.fetch(
    new Request(`http://gateway.test${CALLERS[caller].path(isStream)}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: "Bearer sk-one",
        "anthropic-version": "2023-06-01",
      },
      body: JSON.stringify({ ...CALLERS[caller].body, ...(isNamed && { model: "m", stream: isStream }), ...body }),
    }),
  );
  const text = isCut ? await readTo(response, LAST) : await response.text();
  return { record: await done.promise, failures, text, dropped: response.headers.get("polygate-dropped") ?? "" };
}

function streamed(events: readonly object[], isCut: boolean): Response {
  const frames = events.map((event) => `${nameOf(event)}data: ${JSON.stringify(event)}\n\n`);
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      for (const frame of frames) {
        controller.enqueue(new TextEncoder().encode(frame));
        // Each frame comes in a piece of its own.
        await Promise.resolve();
      }
      if (!isCut) controller.close();
    },
  });
  return new Response(stream, { headers: { "content-type": "text/event-stream" } });
}

const nameOf = (event: object): string => ("type" in event ? `event: ${String(event.type)}\n` : "");

/** Reads up to a text, and hangs up. */
async function readTo(response: Response, end: string): Promise<string> {
  let text = "";
  // A loop that is left ends the stream.
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? [])
    if ((text += piece).includes(end)) return text;
  throw new Error(`The answer ended before "${end}": ${text}`);
}

const usesOf = async (format: RelayFormat & Name, asked: Asked): Promise<Usage["serverToolUses"]> =>
  (await charged(format, asked)).record.usage?.serverToolUses;

const message = (text: string) => ({
  type: "message",
  id: "m1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});
const search = (id: string, more: object = {}) => ({
  type: "web_search_call",
  id,
  status: "completed",
  action: { type: "search", query: "noon" },
  ...more,
});
const code = (id: string, container_id: string) => ({
  type: "code_interpreter_call",
  id,
  container_id,
  status: "completed",
  code: "1",
  outputs: [],
});
const COUNTS = { input_tokens: 1_000, output_tokens: 100, total_tokens: 1_100 };
const responseOf = (output: readonly object[], more: object = {}) => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: "m",
  output,
  usage: COUNTS,
  ...more,
});
const created = (more: object = {}) => ({
  type: "response.created",
  sequence_number: 0,
  response: { ...responseOf([], more), status: "in_progress", usage: null },
});
const added = (item: object, output_index: number) => ({
  type: "response.output_item.added",
  sequence_number: 1,
  output_index,
  item: { ...item, status: "in_progress" },
});
const itemDone = (item: object, output_index: number) => ({
  type: "response.output_item.done",
  sequence_number: 2,
  output_index,
  item,
});
const says = (delta: string, output_index = 0) => ({
  type: "response.output_text.delta",
  sequence_number: 3,
  output_index,
  item_id: "m1",
  content_index: 0,
  delta,
});
const completed = (response: object) => ({ type: "response.completed", sequence_number: 9, response });

const ITEMS = [
  search("ws_1"),
  search("ws_2", { action: undefined }),
  search("ws_3", { action: { type: "open_page", url: "https://a.test" } }),
  search("ws_4", { status: "failed" }),
  { type: "file_search_call", id: "fs_1", status: "completed", queries: ["noon"], results: null },
  { type: "file_search_call", id: "fs_2", status: "incomplete", queries: ["noon"], results: null },
  code("ci_1", "cntr_a"),
  code("ci_2", "cntr_a"),
  { type: "shell_call", id: "sh_1", environment: { type: "container_reference", container_id: "cntr_b" } },
  { type: "shell_call", id: "sh_2", environment: { type: "local" } },
  { type: "image_generation_call", id: "ig_1", status: "completed", result: "iVBORw0KGgo=" },
  { type: "image_generation_call", id: "ig_2", status: "failed", result: null },
  { type: "mcp_call", id: "mcp_1", name: "look", arguments: "{}", output: "" },
  message("Noon."),
];
const USES = { web_search: 2, file_search: 1, code_interpreter: 2, image_generation: 1 };

describe("the tools of Responses", () => {
  it("are charged by their finished items, and code by its container", async () => {
    const row = { toolUses: { web_search: 0.01, file_search: 0.0025, code_interpreter: 0.03, image_generation: 0.04 } };
    const { record, failures } = await charged("responses", { answer: responseOf(ITEMS), row });
    expect(record.usage?.serverToolUses).toEqual(USES);
    expect([record.units, record.certainty, failures]).toEqual([1_100 + 20_000 + 2_500 + 60_000 + 40_000, "exact", []]);
  });

  it("are counted once in a stream that tells each item several times", async () => {
    const events = ITEMS.flatMap((item, index) => [added(item, index), itemDone(item, index), itemDone(item, index)]);
    const answer = [created(), ...events, completed(responseOf(ITEMS))];
    expect(await usesOf("responses", { answer })).toEqual(USES);
    // Callers of another format pay for them, too.
    const { record } = await charged("responses", { answer, caller: "chat-completions" });
    expect([record.usage?.serverToolUses, record.droppedFromAnswer.map(({ field }) => field)]).toEqual([
      USES,
      expect.arrayContaining(["answer.usage.serverToolUses"]),
    ]);
  });

  it("are charged in a response that is made in the background", async () => {
    const events = [
      created({ service_tier: "flex" }),
      itemDone(search("ws_1"), 0),
      completed(responseOf([search("ws_1")])),
    ];
    for (const answer of [events, responseOf([search("ws_1")], { service_tier: "flex" })]) {
      const { record } = await charged("responses", { answer, body: { background: true } });
      expect(record.usage).toMatchObject({
        serverToolUses: { web_search: 1 },
        serviceTier: "flex",
        inputTokens: 1_000,
      });
    }
  });

  it("are charged in an answer that is cut, as far as they have finished", async () => {
    const row = { toolUses: { web_search: 0.01 } };
    const begun = added(search("ws_2"), 1);
    const answer = [created(), added(search("ws_1"), 0), itemDone(search("ws_1"), 0), begun, says(LAST, 2)];
    const { record } = await charged("responses", { answer, row, isCut: true });
    expect([record.usage?.serverToolUses, record.certainty]).toEqual([{ web_search: 1 }, "estimated"]);
    expect(record.units).toBe(10_000 + (record.usage?.inputTokens ?? 0) + (record.usage?.outputTokens ?? 0));
  });

  it.each<[string, object, Usage["serverToolUses"]]>([
    [
      "OpenAI's bill",
      { tool_usage: { web_search: { num_requests: 3 }, image_gen: { input_tokens: 0 } } },
      { web_search: 3 },
    ],
    ["a bill of OpenAI's without searches", { tool_usage: { web_search: { num_requests: 0 } } }, { web_search: 1 }],
    [
      "xAI's bill",
      {
        usage: { ...COUNTS, server_side_tool_usage_details: { web_search_calls: 2, x_search_calls: 1, mcp_calls: 0 } },
      },
      { web_search: 2, x_search: 1 },
    ],
    ["OpenRouter's bill", { usage: { ...COUNTS, server_tool_use: { web_search_requests: 4 } } }, { web_search: 4 }],
    ["no bill", { tool_usage: "none", usage: { ...COUNTS, server_tool_use: 3 } }, { web_search: 1 }],
  ])("are counted as %s counts them", async (_name, more, uses) => {
    const answer = responseOf([search("ws_1"), message("Noon.")], more);
    expect(await usesOf("responses", { answer })).toEqual(uses);
    const events = [created(), itemDone(search("ws_1"), 0), completed(answer)];
    expect(await usesOf("responses", { answer: events })).toEqual(uses);
  });

  it("are charged where the upstream counts no tokens", async () => {
    const answer = responseOf([search("ws_1"), message("Noon.")], { usage: null });
    expect(await usesOf("responses", { answer })).toEqual({ web_search: 1 });
  });

  it("hold no memory without end", async () => {
    const id = "c".repeat(1024 ** 2);
    const items = Array.from({ length: 20 }, (_, at) => itemDone(code(`ci_${at}`, `${at}${id}`), at));
    const { failures } = await charged("responses", { answer: [created(), ...items] });
    expect(failures.join()).toContain("does not end what it has begun");
  });

  it("cost nothing when their number cannot be true", async () => {
    const usage = { ...COUNTS, server_tool_use: { web_search_requests: 4e9 } };
    const row = { toolUses: { web_search: 0.01 } };
    const { record, failures } = await charged("responses", { answer: responseOf([message("Noon.")], { usage }), row });
    expect(failures.join()).toContain("4000000000 runs of tools");
    expect([record.certainty, record.units < 100]).toEqual(["estimated", true]);
  });
});

describe("pictures that the tool of Responses draws", () => {
  const drawn = { type: "image_generation_call", id: "ig_1", status: "completed", result: "iVBORw0KGgo=" };
  const image_gen = {
    input_tokens: 50,
    input_tokens_details: { text_tokens: 20, image_tokens: 30 },
    output_tokens: 28_000,
    output_tokens_details: { text_tokens: 0, image_tokens: 28_000 },
    total_tokens: 28_050,
  };
  const tools = [{ type: "image_generation", model: "gpt-image-2" }];
  const billed = responseOf([drawn], { tool_usage: { image_gen, web_search: { num_requests: 0 } }, tools });
  const events = [created(), added({ ...drawn, result: null }, 0), itemDone(drawn, 0), completed(billed)];
  const row = { toolUses: { image_generation: 0.04 } };

  it.each<[string, Asked["answer"]]>([
    ["whole", billed],
    ["streamed", events],
  ])("are charged by the tokens of the model that draws, in an answer that is %s", async (_name, answer) => {
    const drawing = { input: 5, output: 30, imageInput: 8 };
    const { record, failures } = await charged("responses", {
      answer,
      body: { tools, max_output_tokens: 200 },
      row,
      drawing,
    });
    const step = {
      model: "gpt-image-2",
      inputTokens: 50,
      outputTokens: 28_000,
      details: { input: [{ modality: "image", tokens: 30 }], output: [{ modality: "image", tokens: 28_000 }] },
    };
    expect([failures, record.certainty]).toEqual([[], "exact"]);
    const serverToolUses = { image_generation: 1 };
    expect(record.usage).toMatchObject({ inputTokens: 1_050, outputTokens: 28_100, serverToolUses, steps: [step] });
    expect(record.units).toBe(1_000 + 100 + 20 * 5 + 30 * 8 + 28_000 * 30);
  });

  it("cost what the requested model's pictures cost where the answer names no other", async () => {
    const answer = { ...billed, tools: [{ type: "image_generation" }] };
    const { record } = await charged("responses", { answer, body: { tools }, row: { ...row, imageOutput: 30 } });
    expect(record.units).toBe(1_000 + 100 + 50 + 28_000 * 30);
  });

  it("cost their number where the model that draws has no price, and its tokens without a price of a picture", async () => {
    const m = { input: 1, output: 1 };
    const byNumber = await charged("responses", { answer: billed, body: { tools }, rows: { m: { ...m, ...row } } });
    expect([byNumber.record.units, byNumber.record.certainty]).toEqual([40_000 + 1_100, "exact"]);
    const byToken = await charged("responses", { answer: billed, body: { tools }, rows: { m } });
    expect([byToken.record.units, byToken.record.certainty]).toEqual([28_050 + 1_100, "estimated"]);
    expect(byToken.failures.join()).toContain('The model "gpt-image-2" has answered, and has no price.');
  });

  it("have tokens of pictures where the bill does not divide them", async () => {
    const image = { input_tokens: 50, output_tokens: 28_000, output_tokens_details: null };
    const answer = { ...billed, tool_usage: { image_gen: image } };
    const drawing = { input: 5, output: 0, imageOutput: 30 };
    const { record } = await charged("responses", { answer, body: { tools }, drawing });
    expect(record.units).toBe(1_100 + 50 * 5 + 28_000 * 30);
  });

  it("cost nothing twice from a cache", async () => {
    const image = {
      ...image_gen,
      input_tokens: 1_000,
      input_tokens_details: { text_tokens: 100, image_tokens: 900 },
      cached_tokens: 900,
      cached_tokens_details: { cached_text_tokens: 0, cached_image_tokens: 900 },
    };
    const drawing = { input: 5, output: 30, imageInput: 8, cacheRead: 2 };
    const answer = { ...billed, tool_usage: { image_gen: image } };
    const { record } = await charged("responses", { answer, body: { tools }, drawing });
    expect(record.units).toBe(1_100 + 900 * 2 + 100 * 5 + 28_000 * 30);
  });

  const begun = created({ tools });
  const partial = {
    type: "response.image_generation_call.partial_image",
    sequence_number: 1,
    output_index: 0,
    item_id: "ig_1",
    partial_image_index: 0,
    partial_image_b64: "iVBORw0KGgo=",
  };
  const low = { ...drawn, quality: "low" };

  it.each<[what: string, events: readonly object[], tokens: number]>([
    ["a picture", [itemDone(drawn, 0)], 6_240],
    ["an unfinished picture", [partial], 6_240],
    ["a picture with unfinished versions", [partial, { ...partial, partial_image_index: 1 }, itemDone(low, 0)], 6_240],
    ["pictures of low quality", [itemDone(low, 0), itemDone({ ...low, id: "ig_2" }, 1)], 2 * 408],
  ])("are charged by estimate in an answer that is cut behind %s", async (_what, drawing, tokens) => {
    const asked = { body: { tools, max_output_tokens: 20 }, drawing: { input: 5, output: 30 }, isCut: true };
    const { record } = await charged("responses", { ...asked, answer: [begun, ...drawing, says(LAST, 2)] });
    const plain = await charged("responses", { ...asked, answer: [begun, says(LAST, 2)] });
    expect(record.usage?.steps).toMatchObject([{ model: "gpt-image-2", outputTokens: tokens }]);
    expect(record.certainty).toBe("estimated");
    expect(record.units - plain.record.units).toBe(tokens * 30);
  });

  it("cost their number in a cut answer where the model that draws has no price", async () => {
    const rows = { m: { input: 1, output: 1, ...row } };
    const asked = { body: { tools }, rows, isCut: true };
    const { record } = await charged("responses", { ...asked, answer: [begun, partial, says(LAST, 2)] });
    const plain = await charged("responses", { ...asked, answer: [begun, says(LAST, 2)] });
    expect(record.units - plain.record.units).toBe(40_000);
  });

  const failed = { ...billed, status: "failed", error: { code: "server_error", message: "No." } };
  const drawing = { input: 5, output: 30, imageInput: 8 };

  it.each<[what: string, answer: Asked["answer"]]>([
    ["fails", [begun, itemDone(drawn, 0), { type: "response.failed", sequence_number: 9, response: failed }]],
    ["fails at once", failed],
    ["is broken", { ...billed, output: [drawn, { type: "message", content: "none" }] }],
  ])("are charged by the bill of an answer that %s", async (_what, answer) => {
    const { record } = await charged("responses", { answer, body: { tools }, drawing });
    expect(record.usage?.steps).toMatchObject([{ model: "gpt-image-2", inputTokens: 50, outputTokens: 28_000 }]);
    expect(record.units).toBeGreaterThanOrEqual(1_000 + 20 * 5 + 30 * 8 + 28_000 * 30);
  });

  it("are charged beside the estimate of an answer whose other tokens are not counted", async () => {
    const asked = { body: { tools }, drawing };
    const { record } = await charged("responses", { ...asked, answer: { ...billed, usage: null } });
    const { usage, units } = record;
    expect(usage?.steps).toMatchObject([{ inputTokens: 50, outputTokens: 28_000 }]);
    const rest = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0) - 28_050;
    expect([rest > 0, units]).toEqual([true, rest + 20 * 5 + 30 * 8 + 28_000 * 30]);
  });

  it.each<[string, object]>([
    ["no tokens", { image_gen: { input_tokens: 0, output_tokens: 0 } }],
    ["no bill", {}],
    ["a bill that is none", { image_gen: { output_tokens: "many" } }],
  ])("are charged by their number for %s", async (_name, tool_usage) => {
    const { record } = await charged("responses", { answer: { ...billed, tool_usage }, body: { tools }, row });
    expect(record.usage?.serverToolUses).toEqual({ image_generation: 1 });
    expect(record.units).toBe(40_000 + 1_100);
  });
});

const chunkOf = (delta: object) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: null }],
});

const cut = async (...deltas: readonly object[]) => {
  const answer = [...deltas, { content: LAST }].map((delta) => chunkOf(delta));
  const row = { imageOutput: 30, audioOutput: 60 };
  return (await charged("chat-completions", { answer, row, isCut: true })).record;
};

describe("media of an answer that is cut", () => {
  const picture = { images: [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } }] };
  // A quarter of a second of raw samples, in base64.
  const sound = { audio: { id: "a", data: "A".repeat(16_000) } };

  it.each<[what: string, deltas: readonly object[], details: readonly object[], units: number]>([
    ["pictures", [picture, picture], [{ modality: "image", tokens: 2_580 }], 2_580 * 30],
    // 32 tokens a second, however many pieces a second has.
    ["sounds", Array.from({ length: 12 }, () => sound), [{ modality: "audio", tokens: 96 }], 96 * 60],
  ])("have the prices of %s", async (_what, deltas, output, units) => {
    const { record, plain } = { record: await cut(...deltas), plain: await cut({ content: "" }) };
    expect([record.certainty, record.usage?.details]).toEqual(["estimated", { output }]);
    expect(record.units - plain.units).toBe(units);
  });
});

const startOf = (content_block: object, index: number) => ({ type: "content_block_start", index, content_block });
const stopOf = (index: number) => ({ type: "content_block_stop", index });
const resultOf = (tool: string, content: object, index: number) => [
  startOf({ type: `${tool}_tool_result`, tool_use_id: `srv_${index}`, content }, index),
  stopOf(index),
];
const FAILED_SEARCH = { type: "web_search_tool_result_error", error_code: "max_uses_exceeded" };
const BLOCKS = [
  ...resultOf("web_search", [{ type: "web_search_result", url: "https://a.test", title: "A" }], 0),
  ...resultOf("web_search", [], 1),
  ...resultOf("web_search", FAILED_SEARCH, 2),
  ...resultOf("web_fetch", { type: "web_fetch_result", url: "https://a.test" }, 3),
  ...resultOf("bash_code_execution", { type: "bash_code_execution_result" }, 4),
];
const begunMessage = (server_tool_use: object | null) => ({
  type: "message_start",
  message: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 1_000, output_tokens: 1, server_tool_use },
  },
});
const endedMessage = (usage: object) => [
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
  { type: "message_stop" },
];

it("writes to caches of messages are charged where only their times to live are counted", async () => {
  const cache_creation = { ephemeral_5m_input_tokens: 2_000, ephemeral_1h_input_tokens: 500 };
  const usage = { input_tokens: 100, output_tokens: 9, cache_creation };
  const { message } = begunMessage(null);
  const answer = { ...message, content: [{ type: "text", text: "Noon." }], stop_reason: "end_turn", usage };
  const row = { cacheWrite: 2, cacheWrite1h: 4 };
  const { record, failures } = await charged("messages", { answer, row });
  expect([failures, record.certainty, record.units]).toEqual([[], "exact", 100 + 2 * 2_000 + 4 * 500 + 9]);
});

describe("the tools of messages", () => {
  it.each([null, { web_search_requests: 0, web_fetch_requests: 0 }])(
    "are charged in an answer that is cut by the results that have come, after the count %j",
    async (told) => {
      const words = [
        startOf({ type: "text", text: "" }, 5),
        { type: "content_block_delta", index: 5, delta: { type: "text_delta", text: LAST } },
      ];
      const answer = [begunMessage(told), ...BLOCKS, ...words];
      const row = { toolUses: { web_search: 0.01 } };
      const { record } = await charged("messages", { answer, row, isCut: true });
      expect(record.usage?.serverToolUses).toEqual({ web_search: 2, web_fetch: 1 });
      expect(record.units).toBe(20_000 + 1_000 + (record.usage?.outputTokens ?? 0));
    },
  );

  it.each<[string, object, Usage["serverToolUses"]]>([
    ["the bill", { server_tool_use: { web_search_requests: 5 } }, { web_search: 5 }],
    ["a bill of nothing", { server_tool_use: { web_search_requests: 0 } }, {}],
    ["the results, where there is no bill", {}, { web_search: 2, web_fetch: 1 }],
  ])("are counted as %s counts them", async (_name, more, uses) => {
    const answer = [begunMessage(null), ...BLOCKS, ...endedMessage({ output_tokens: 9, ...more })];
    expect(await usesOf("messages", { answer })).toEqual(uses);
    const content = BLOCKS.flatMap((block) => ("content_block" in block ? block.content_block : []));
    const usage = { input_tokens: 1_000, output_tokens: 9, ...more };
    const { message } = begunMessage(null);
    const whole = { ...message, content, stop_reason: "end_turn", usage };
    expect(await usesOf("messages", { answer: whole })).toEqual(uses);
  });
});

const completion = (message: object, more: object = {}) => ({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "Noon.", ...message }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 },
  ...more,
});
const tokens = (more: object) => ({
  usage: { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100, ...more },
});
const chunk = (delta: object, more: object = {}) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: null }],
  ...more,
});
const CITED = { annotations: [{ type: "url_citation", url_citation: { url: "https://a.test", title: "A" } }] };

describe("the tools behind chat completions", () => {
  it.each<[string, object, object, Usage["serverToolUses"]]>([
    [
      "OpenRouter",
      CITED,
      tokens({ server_tool_use: { web_search_requests: 3, tool_calls_requested: 3, tool_calls_executed: 3 } }),
      { web_search: 3 },
    ],
    ["Perplexity's research", {}, tokens({ search_context_size: "low", num_search_queries: 5 }), { web_search: 5 }],
    ["Perplexity", {}, tokens({ search_context_size: "low" }), { web_search: 1 }],
    ["LiteLLM", {}, tokens({ prompt_tokens_details: { web_search_requests: 2 } }), { web_search: 2 }],
    ["a model of OpenAI that searches", CITED, {}, { web_search: 1 }],
    [
      "a server with nothing of the kind",
      { annotations: [] },
      tokens({ server_tool_use: { web_search_requests: 0 } }),
      undefined,
    ],
  ])("are counted as %s counts them", async (_name, told, more, uses) => {
    expect(await usesOf("chat-completions", { answer: completion(told, more) })).toEqual(uses);
    const { usage = completion({}).usage } = more as { usage?: object };
    const answer = [
      chunk({ role: "assistant", content: "Noon.", ...told }),
      chunk({ ...told }),
      { ...chunk({}), choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      { ...chunk({}), choices: [], usage },
    ];
    expect(await usesOf("chat-completions", { answer })).toEqual(uses);
  });

  it("are charged in an answer that is cut", async () => {
    const answer = [chunk({ role: "assistant", content: "Noon", ...CITED }), chunk({ content: LAST })];
    expect(await usesOf("chat-completions", { answer, isCut: true })).toEqual({ web_search: 1 });
  });
});

const content = (text: string, more: object = {}, usageMetadata?: object) => ({
  candidates: [{ index: 0, content: { role: "model", parts: [{ text }] }, ...more }],
  ...(usageMetadata && { usageMetadata: { promptTokenCount: 1_000, candidatesTokenCount: 100, ...usageMetadata } }),
  modelVersion: "m",
});
const grounded = (groundingMetadata: object) => ({ groundingMetadata });
const WEB = { groundingChunks: [{ web: { uri: "https://a.test", title: "A" } }] };
const PLACES = { groundingChunks: [{ maps: { uri: "https://maps.test", title: "A" } }] };

describe("the grounding of Gemini", () => {
  it.each<[string, object, object, Usage["serverToolUses"]]>([
    [
      "each query once, and the prompt",
      grounded({ webSearchQueries: ["a", "b", "", "a"], imageSearchQueries: ["a"], ...WEB }),
      {},
      { web_search: 3, web_search_prompt: 1 },
    ],
    ["a prompt whose queries are not told", grounded(WEB), {}, { web_search_prompt: 1 }],
    [
      "a prompt with pictures",
      grounded({ groundingChunks: [{ image: { imageUri: "https://a.test/1.png" } }] }),
      {},
      { web_search_prompt: 1 },
    ],
    ["a prompt that was not searched for", grounded({ webSearchQueries: [""] }), {}, undefined],
    ["queries of Maps", grounded({ webSearchQueries: ["a", "b"], ...PLACES }), {}, { maps: 2, maps_prompt: 1 }],
    ["Maps without a query", grounded(PLACES), {}, { maps: 1, maps_prompt: 1 }],
    [
      "Maps beside a search",
      grounded({ webSearchQueries: ["a", "b"], groundingChunks: [...WEB.groundingChunks, ...PLACES.groundingChunks] }),
      {},
      { web_search: 2, web_search_prompt: 1, maps: 1, maps_prompt: 1 },
    ],
    ["a search of files", grounded({ retrievalQueries: ["a", "b"] }), {}, { file_search: 1 }],
    [
      "the text of a file",
      grounded({ groundingChunks: [{ retrievedContext: { uri: "gs://a" } }] }),
      {},
      { file_search: 1 },
    ],
    [
      "the bill, where the answer has one",
      grounded({ webSearchQueries: ["a"] }),
      { billedToolCalls: [{ tool: "GOOGLE_SEARCH_RETRIEVAL", successfulToolCallCount: 2 }] },
      { web_search: 2, web_search_prompt: 1 },
    ],
    [
      "the bill alone",
      {},
      {
        billedToolCalls: [
          { tool: "google_search", successfulToolCallCount: 2 },
          { tool: "google_maps", successfulToolCallCount: 1 },
          { tool: "google_search", successfulToolCallCount: "3" },
        ],
      },
      { web_search: 2, web_search_prompt: 1, maps: 1, maps_prompt: 1 },
    ],
  ])("counts %s", async (_name, notes, usage, uses) => {
    const last = content("Noon.", { finishReason: "STOP", ...notes }, usage);
    expect(await usesOf("generate-content", { answer: last })).toEqual(uses);
    // Streams repeat what they have told.
    expect(
      await usesOf("generate-content", { answer: [content("It is ", notes, usage), content("", notes), last] }),
    ).toEqual(uses);
  });

  it("takes back queries that turn out to be of Maps", async () => {
    const answer = [
      content("It is ", grounded({ webSearchQueries: ["a"] })),
      content("noon.", { finishReason: "STOP", ...grounded({ webSearchQueries: ["a"], ...PLACES }) }, {}),
    ];
    expect(await usesOf("generate-content", { answer })).toEqual({ maps: 1, maps_prompt: 1 });
  });

  it("is charged by the word that the row of the model has, also in an answer that is cut", async () => {
    const notes = grounded({ webSearchQueries: ["a", "b"], ...WEB });
    for (const [toolUses, units] of [
      [{ web_search: 0.014 }, 28_000],
      [{ web_search_prompt: 0.035 }, 35_000],
    ] as const) {
      const answer = [content("It is ", notes, {}), content(LAST)];
      const { record } = await charged("generate-content", { answer, isCut: true, row: { toolUses } });
      const { inputTokens = 0, outputTokens = 0 } = record.usage ?? {};
      expect(record.units).toBe(units + inputTokens + outputTokens);
    }
  });

  it("holds no memory without end", async () => {
    const query = "q".repeat(1024 ** 2);
    const answer = Array.from({ length: 20 }, (_, at) =>
      content("x", grounded({ webSearchQueries: [`${at}${query}`] })),
    );
    const { failures } = await charged("generate-content", { answer });
    expect(failures.join()).toContain("does not end what it has begun");
  });

  it("costs nothing when its queries cannot be as many", async () => {
    const webSearchQueries = Array.from({ length: 3_000 }, (_, at) => `q${at}`);
    const answer = content("Noon.", { finishReason: "STOP", ...grounded({ webSearchQueries }) }, {});
    const { record, failures } = await charged("generate-content", {
      answer,
      row: { toolUses: { web_search: 0.014 } },
    });
    // Only so many are remembered, with the prompt that they ground.
    expect(failures.join()).toContain("2001 runs of tools");
    expect(record.units).toBeLessThan(2_000);
  });
});

const TIERED = {
  tiers: { priority: { input: 2_000, output: 2_000 }, flex: { input: 1, output: 1 } },
  input: 1_000,
  output: 1_000,
};

/** The units of one token. */
async function rateOf(format: RelayFormat & Name, asked: Asked): Promise<number> {
  const { record } = await charged(format, { ...asked, row: TIERED });
  const { inputTokens = 0, outputTokens = 0 } = record.usage ?? {};
  return record.units / (inputTokens + outputTokens);
}

/** The beginning of an answer whose upstream names a tier, and its end. */
const NAMED: Readonly<
  Record<string, (tier: string | undefined, last?: string) => { begin: object[]; end: object[]; whole: object }>
> = {
  "chat-completions": (tier, last = tier) => ({
    begin: [
      chunk({ role: "assistant", content: "" }, { service_tier: tier }),
      chunk({ content: LAST }, { service_tier: tier }),
    ],
    end: [
      { ...chunk({}, { service_tier: last }), choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      { ...chunk({}, { service_tier: last }), choices: [], ...tokens({}) },
    ],
    whole: completion({}, { service_tier: last }),
  }),
  responses: (tier, last = tier) => ({
    begin: [created({ service_tier: tier }), says(LAST)],
    end: [completed(responseOf([message(LAST)], { service_tier: last }))],
    whole: responseOf([message(LAST)], { service_tier: last }),
  }),
  "generate-content": (tier, last = tier) => ({
    begin: [content(LAST, {}, { serviceTier: tier })],
    end: [content("", { finishReason: "STOP" }, { serviceTier: last })],
    whole: content(LAST, { finishReason: "STOP" }, { serviceTier: last }),
  }),
};
const TIERED_FORMATS = Object.keys(NAMED) as Exclude<Name, "messages">[];
const wanted = (format: Name, tier: string): object => ({
  [format === "generate-content" ? "serviceTier" : "service_tier"]: tier,
});

describe.each(TIERED_FORMATS)("the tier of an answer of %s", (format) => {
  const named = NAMED[format] as NonNullable<(typeof NAMED)[string]>;

  it("prices a whole answer, complete and streamed, for callers of each format", async () => {
    const { begin, end, whole } = named("priority");
    for (const caller of Object.keys(CALLERS) as Name[]) {
      expect(await rateOf(format, { answer: [...begin, ...end], caller })).toBe(2_000);
      expect(await rateOf(format, { answer: whole, caller })).toBe(2_000);
    }
  });

  it("prices an answer that is cut, as far as the upstream has named it", async () => {
    expect(await rateOf(format, { answer: named("priority").begin, isCut: true })).toBe(2_000);
    expect(await rateOf(format, { answer: named("default").begin, isCut: true, body: wanted(format, "flex") })).toBe(
      1_000,
    );
  });

  it("is the last that the upstream has named, and no `auto`", async () => {
    const { begin, end } = named("priority", "default");
    expect(await rateOf(format, { answer: [...begin, ...end] })).toBe(1_000);
    const later = named("auto", "priority");
    expect(await rateOf(format, { answer: [...later.begin, ...later.end] })).toBe(2_000);
    const row = { ...TIERED, tiers: { auto: { input: 9_000, output: 9_000 } } };
    const { record } = await charged(format, { answer: named("auto").whole, row, body: wanted(format, "auto") });
    expect([record.units, record.usage?.serviceTier]).toEqual([1_100_000, undefined]);
  });

  it("is that of the request where the upstream has named none before a cut", async () => {
    const { begin, whole } = named(undefined);
    const body = wanted(format, "priority");
    expect(await rateOf(format, { answer: begin, isCut: true, body })).toBe(2_000);
    const { record } = await charged(format, { answer: begin, isCut: true, body });
    expect(record.usage?.serviceTier).toBe("priority");
    for (const free of ["auto", "default"]) {
      const cut = await charged(format, { answer: begin, isCut: true, body: wanted(format, free) });
      expect(cut.record.usage).not.toHaveProperty("serviceTier");
    }
    // A whole answer that names none has cost no more than usual.
    expect(await rateOf(format, { answer: whole, body })).toBe(1_000);
  });

  it("alone costs nothing, when the answer fails before it begins", async () => {
    const [first = {}] = named("priority").begin;
    const {
      choices: _choices,
      candidates: _candidates,
      usageMetadata: _usage,
      ...head
    } = first as Record<string, unknown>;
    const answer = [
      { ...head, ...(format === "generate-content" && { usageMetadata: { serviceTier: "priority" } }) },
      { type: "error", error: { code: 503, message: "x", status: "UNAVAILABLE", type: "server_error" } },
    ];
    const { record } = await charged(format, { answer, row: TIERED });
    expect([record.units, record.usage]).toEqual([0, undefined]);
  });
});

declare const tiered: { readonly usageMetadata: { readonly serviceTier: unknown } };

describe("a tier", () => {
  it.each([
    ["ON_DEMAND_PRIORITY", "priority", 2_000],
    ["ON_DEMAND_FLEX", "flex", 1],
    ["ON_DEMAND", "standard", 1_000],
    ["TRAFFIC_TYPE_UNSPECIFIED", undefined, 1_000],
    ["PROVISIONED_THROUGHPUT", "provisioned_throughput", 1_000],
  ])("of the traffic %s of Vertex AI is %s", async (trafficType, serviceTier, rate) => {
    const { record } = await charged("generate-content", {
      answer: content("Noon.", { finishReason: "STOP" }, { trafficType }),
      row: TIERED,
    });
    expect([record.usage?.serviceTier, record.units]).toEqual([serviceTier, rate * 1_100]);
    const answer = [content(LAST, {}, { trafficType })];
    expect(await rateOf("generate-content", { answer, isCut: true })).toBe(rate);
  });

  it("of an upstream of the caller's format is not lost", async () => {
    const answer = content("Noon.", { finishReason: "STOP" }, { trafficType: "ON_DEMAND_OFFPEAK" });
    const { record, text } = await charged("generate-content", { answer });
    expect([record.usage?.serviceTier, record.droppedFromAnswer, JSON.parse(text)]).toEqual(["offpeak", [], answer]);
  });

  it("that the upstream's format does not have is not that of a cut answer", async () => {
    const answer = [
      {
        type: "message_start",
        message: { id: "m", type: "message", role: "assistant", model: "m", content: [], usage: { input_tokens: 5 } },
      },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: LAST } },
    ];
    const asked = { answer, isCut: true, caller: "chat-completions", body: { service_tier: "flex" } } as const;
    expect((await charged("messages", asked)).dropped).toContain("serviceTier");
    expect(await rateOf("messages", asked)).toBe(1_000);
  });

  it.each<[Name, object, Name, string, string | undefined]>([
    ["generate-content", { service_tier: "SERVICE_TIER_PRIORITY" }, "chat-completions", "service_tier", "priority"],
    ["generate-content", { serviceTier: "standard" }, "responses", "service_tier", "default"],
    ["generate-content", { serviceTier: "unspecified" }, "responses", "service_tier", undefined],
    ["chat-completions", { service_tier: "flex" }, "generate-content", "serviceTier", "flex"],
    ["chat-completions", { service_tier: "default" }, "generate-content", "serviceTier", "standard"],
    ["messages", { service_tier: "standard_only" }, "generate-content", "serviceTier", "standard"],
    ["messages", { service_tier: "standard_only" }, "chat-completions", "service_tier", "default"],
  ])("of a request of %s, %j, is sent to an upstream of %s as %s: %s", async (caller, body, format, field, tier) => {
    let sent: Record<string, unknown> = {};
    const { whole } = NAMED[format]?.("default") ?? {};
    const gateway = createGateway({
      backend: relay({
        format,
        baseUrl: "http://up.test/v1",
        async fetch(_url, init) {
          sent = JSON.parse(init?.body as string) as Record<string, unknown>;
          return Response.json(whole);
        },
      }),
      quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    });
    const response = await gateway.fetch(
      new Request(`http://gateway.test${CALLERS[caller].path(false)}`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: "Bearer sk-one",
          "anthropic-version": "2023-06-01",
        },
        body: JSON.stringify({
          ...CALLERS[caller].body,
          ...(caller !== "generate-content" && { model: "m" }),
          ...body,
        }),
      }),
    );
    expect([response.status, sent[field], response.headers.get("polygate-dropped") ?? ""]).toEqual([
      200,
      tier,
      expect.not.stringContaining("serviceTier"),
    ]);
  });

  it("that Gemini's format does not have is left out, and told, in both directions", async () => {
    for (const service_tier of ["scale", "auto"]) {
      const asked = { caller: "chat-completions", body: { service_tier } } as const;
      const { whole = {} } = NAMED["generate-content"]?.("standard") ?? {};
      expect((await charged("generate-content", { ...asked, answer: whole })).dropped).toContain("serviceTier");
    }
    const { whole: scale = {} } = NAMED["chat-completions"]?.("scale") ?? {};
    const scaled = await charged("chat-completions", { answer: scale, caller: "generate-content" });
    expect(JSON.parse(scaled.text)).toMatchObject({ usageMetadata: { promptTokenCount: 1_000 } });
    expect(scaled.text).not.toContain("serviceTier");
    expect(scaled.record.droppedFromAnswer.map(({ field }) => field)).toContain("answer.usage.serviceTier");
    const { whole: flex = {} } = NAMED["chat-completions"]?.("flex") ?? {};
    const flexible = await charged("chat-completions", { answer: flex, caller: "generate-content" });
    expect(JSON.parse(flexible.text)).toMatchObject({ usageMetadata: { serviceTier: "flex" } });
    // A stream tells it from its first chunk on.
    const { begin = [], end = [] } = NAMED["chat-completions"]?.("flex") ?? {};
    const { text } = await charged("chat-completions", { answer: [...begin, ...end], caller: "generate-content" });
    const chunks = text.split("data: ").slice(1);
    expect(chunks.map((one) => (JSON.parse(one) as typeof tiered).usageMetadata.serviceTier)).toEqual(
      chunks.map(() => "flex"),
    );
    expect(flexible.record.droppedFromAnswer.map(({ field }) => field)).not.toContain("answer.usage.serviceTier");
  });
});

describe("kinds of content", () => {
  const row = { input: 1, output: 1, imageInput: 3, videoInput: 5, audioInput: 7, imageOutput: 11, audioOutput: 13 };

  it("are charged at their prices in chat completions", async () => {
    const answer = completion(
      {},
      tokens({
        prompt_tokens_details: { image_tokens: 100, video_tokens: 10, audio_tokens: 1, text_tokens: 889 },
        completion_tokens_details: { image_tokens: 50, audio_tokens: 5, reasoning_tokens: 0 },
      }),
    );
    const { record } = await charged("chat-completions", { answer, row });
    expect([record.units, record.certainty]).toEqual([889 + 300 + 50 + 7 + 45 + 550 + 65, "exact"]);
  });

  it("are charged at their prices in Responses", async () => {
    const usage = {
      ...COUNTS,
      input_tokens_details: { image_tokens: 100 },
      output_tokens_details: { image_tokens: 50 },
    };
    const { record } = await charged("responses", { answer: responseOf([message("Noon.")], { usage }), row });
    expect(record.units).toBe(900 + 300 + 50 + 550);
  });

  it.each([4e9, 1.5, -1])("are not believed to be %d", async (image_tokens) => {
    const answer = completion({}, tokens({ completion_tokens_details: { image_tokens } }));
    const { record, failures } = await charged("chat-completions", { answer, row });
    expect([failures.length, record.certainty, record.units < 100]).toEqual([1, "estimated", true]);
  });

  it.each(["50", 0])("are none of %j", async (image_tokens) => {
    const answer = completion({}, tokens({ completion_tokens_details: { image_tokens } }));
    const { record } = await charged("chat-completions", { answer, row });
    expect([record.units, record.usage?.details]).toEqual([1_100, undefined]);
  });
});

const counted = (promptTokenCount: number, ...details: readonly (readonly [string, number])[]): object => ({
  embeddings: [{ values: [0.1] }],
  usageMetadata: {
    promptTokenCount,
    promptTokensDetails: details.map(([modality, tokenCount]) => ({ modality, tokenCount })),
  },
});

describe("embeddings of Gemini", () => {
  const row = { input: 1, output: 0, imageInput: 10 };
  const data = Buffer.from(png()).toString("base64");
  const requests = [{ text: "Hi" }, { inlineData: { mimeType: "image/png", data } }, { text: "Hi" }].map((part) => ({
    model: "models/m",
    content: { parts: [part] },
  }));
  /** Embeds three inputs, each in a request of its own. */
  async function embedded(answers: readonly object[]) {
    const done = Promise.withResolvers<CallRecord>();
    const left = [...answers];
    const gateway = createGateway({
      backend: relay({
        format: "generate-content",
        baseUrl: "http://up.test/v1",
        embeddings: { maxInputs: 1, concurrency: 1 },
        async fetch() {
          const next = left.shift();
          return Response.json(next ?? { error: { message: "Away." } }, { status: next ? 200 : 503 });
        },
      }),
      quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: unitsOfMoney(100) }]),
      ...priceTable({ "*": row }),
      onCall: (record) => done.resolve(record),
      onFailure: () => {},
    });
    const response = await gateway.fetch(
      new Request("http://gateway.test/v1beta/models/m:batchEmbedContents", {
        method: "POST",
        headers: { "content-type": "application/json", "x-goog-api-key": "sk-one" },
        body: JSON.stringify({ requests }),
      }),
    );
    return { record: await done.promise, answer: await response.json() };
  }

  it("are charged by the kinds of content of all their requests", async () => {
    const answers = [counted(5, ["TEXT", 5]), counted(258, ["IMAGE", 258]), counted(7, ["TEXT", 4], ["IMAGE", 3])];
    const { record, answer } = await embedded(answers);
    expect([record.units, record.certainty]).toEqual([9 + 2_610, "exact"]);
    expect(record.usage?.details).toEqual({
      input: [
        { modality: "text", tokens: 9 },
        { modality: "image", tokens: 261 },
      ],
    });
    expect(answer).toMatchObject({ usageMetadata: { promptTokenCount: 270 } });
  });

  it("are charged by them where a later request fails", async () => {
    const { record } = await embedded([counted(5, ["TEXT", 5]), counted(258, ["IMAGE", 258])]);
    expect(record.errorCode).toBeDefined();
    expect(record.usage?.details?.input).toContainEqual({ modality: "image", tokens: 258 });
    expect(record.units).toBeGreaterThanOrEqual(5 + 2_580);
  });
});
