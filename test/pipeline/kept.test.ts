/** Kept responses: they are continued, read again, listed and deleted, by their own key alone, as long as they are kept. */

import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  type ChatEvent,
  encryptedResponseStore,
  type KeptDocument,
  memoryReplayStore,
  memoryResponseStore,
} from "../../src/index.ts";
import type { ManualClock } from "../../src/testing/laws/manual-clock.ts";
import { AT_REST, counted, INPUT, microtasks, never, opened, PROMPT, readUntil, type Step, WORD } from "./bench.ts";
import { framesOf, keeping, OTHER, told, type Told, type Wire } from "./keeping.ts";

const DAY_MS = 86_400_000;

const CALL: ChatEvent = { type: "tool-call", id: "call_1", name: "look", input: { at: "it" } };
const TOOLS = [{ type: "function", name: "look", parameters: { type: "object" } }];

const typesOf = (items: readonly Wire[]): unknown[] => items.map(({ type, role }) => role ?? type);
const textOf = (item: Wire | undefined): unknown => (item?.["content"] as { text: string }[] | undefined)?.[0]?.text;
const away = (): Promise<never> => Promise.reject(new Error("The database is away."));
const notFound = (message: string) => ({ status: 404, body: { error: { message, type: "invalid_request_error" } } });

/** Winds the clock until there is an answer: a read may wait for room for some time. */
async function patient<Value>(clock: ManualClock, answer: Promise<Value>): Promise<Value> {
  const wait = { isOver: false };
  void answer.finally(() => (wait.isOver = true));
  while (!wait.isOver) await clock.advance(100);
  return answer;
}

describe("a response", () => {
  it("is kept where the gateway has a store, and is read again as it was told", async () => {
    const { create, ask } = keeping();
    const { body } = await create({ input: "a", metadata: { team: "one" } });
    expect(body).toMatchObject({ store: true, metadata: { team: "one" }, status: "completed" });
    expect(await ask(`responses/${body.id}`)).toEqual({ status: 200, body });
  });

  it("is read again though its tools are nested as deep as a request may be", async () => {
    const { create, ask } = keeping([["word"]], { limits: { maxJsonDepth: 400 } });
    let parameters: object = { type: "object" };
    for (let depth = 5; depth < 400; depth++) parameters = { properties: parameters };
    const { body, status } = await create({ input: "a", tools: [{ type: "function", name: "look", parameters }] });
    expect(status).toBe(200);
    expect((await ask(`responses/${body.id}`)).status).toBe(200);
  });

  it("is told as not kept without a store, and cannot be asked for, continued or made in the background", async () => {
    const { send } = opened();
    const post = async (body: object) =>
      told(await send({ path: "/v1/responses", body: JSON.stringify({ model: "any", input: "a", ...body }) }));
    const { status, body } = await post({ store: true });
    expect([status, body["store"]]).toEqual([200, false]);
    expect(await post({ previous_response_id: body.id })).toMatchObject({
      status: 404,
      body: { error: { code: "previous_response_not_found", param: "previous_response_id" } },
    });
    expect(await post({ conversation: "conv_1" })).toMatchObject({ status: 404 });
    expect(await post({ background: true })).toMatchObject({ status: 400, body: { error: { param: "background" } } });
    for (const [method, path] of [
      ["GET", `responses/${body.id}`],
      ["DELETE", `responses/${body.id}`],
      ["POST", "conversations"],
    ] as const) {
      const answer = await told(await send({ method, path: `/v1/${path}`, body: "{}" }));
      expect(answer).toMatchObject(notFound("This service keeps no responses."));
    }
  });

  it("has items of its input with a status and with the detail of pictures, also in a conversation", async () => {
    const { create, ask } = keeping();
    const picture = { type: "input_image", file_id: "file-1" };
    const input = [
      { role: "user", content: [picture, { ...picture, detail: "low" }] },
      { type: "function_call", call_id: "a", name: "look", arguments: "{}" },
      { type: "function_call_output", call_id: "a", output: [picture] },
      { type: "custom_tool_call", call_id: "b", name: "tell", input: "x" },
      { type: "custom_tool_call_output", call_id: "b", output: "y" },
      { type: "shell_call", call_id: "c", action: { commands: ["ls"] }, status: "incomplete" },
      { type: "shell_call_output", call_id: "c", output: [], status: null },
      { type: "computer_call_output", call_id: "d", output: { type: "computer_screenshot", file_id: "f" } },
      { type: "reasoning", summary: [], encrypted_content: "abc" },
    ];
    const status = "completed";
    const shown = [
      { content: [{ ...picture, detail: "auto" }, { detail: "low" }] },
      { status },
      { status, output: [{ ...picture, detail: "auto" }] },
      { status },
      { status, output: "y" },
      { status: "incomplete" },
      { status, output: [] },
      { status, output: { file_id: "f" } },
      expect.not.objectContaining({ status }),
    ];
    const { body } = await create({ input });
    expect((await ask(`responses/${body.id}/input_items?order=asc`)).body.data).toMatchObject(shown);
    const { id } = (await ask("conversations", { method: "POST", body: JSON.stringify({ items: input }) })).body;
    expect((await ask(`conversations/${id}/items?order=asc`)).body.data).toMatchObject(shown);
  });

  it("is not kept where its caller says so", async () => {
    const { create, ask, kept } = keeping();
    const { body } = await create({ input: "a", store: false });
    expect(body["store"]).toBe(false);
    expect(await ask(`responses/${body.id}`)).toMatchObject(notFound(`Response with id '${body.id}' not found.`));
    expect(kept.documents).toBe(0);
  });

  it("may continue a kept response without being kept", async () => {
    const { create, made, said } = keeping();
    const first = await made({ input: "a" });
    const { body } = await create({ input: "b", previous_response_id: first, store: false });
    expect([body["store"], body["previous_response_id"]]).toEqual([false, first]);
    expect(said()).toEqual(["user: a", "assistant: word", "user: b"]);
  });

  it("is deleted at once, and then nothing finds it", async () => {
    const { create, made, ask, kept } = keeping();
    const first = await made({ input: "a" });
    expect(await ask(`responses/${first}`, { method: "DELETE" })).toEqual({
      status: 200,
      body: { id: first, object: "response", deleted: true },
    });
    expect(kept.documents).toBe(0);
    for (const method of ["GET", "DELETE"])
      expect(await ask(`responses/${first}`, { method })).toMatchObject({ status: 404 });
    expect(await ask(`responses/${first}/input_items`)).toMatchObject({ status: 404 });
    expect(await create({ input: "b", previous_response_id: first })).toMatchObject({ status: 404 });
  });

  it.each([
    ["30 days", undefined, 30 * DAY_MS],
    ["the time that the host sets", 5_000, 5_000],
  ])("expires after %s", async (_name, responseRetainMs, retainMs) => {
    const { made, ask, clock } = keeping(undefined, responseRetainMs === undefined ? {} : { responseRetainMs });
    const first = await made({ input: "a" });
    await clock.advance(retainMs - 1);
    expect((await ask(`responses/${first}`)).status).toBe(200);
    await clock.advance(1);
    expect((await ask(`responses/${first}`)).status).toBe(404);
  });

  it("of another key is not found by any route", async () => {
    const { made, ask, create } = keeping();
    const first = await made({ input: "a" });
    const items = (await ask(`responses/${first}/input_items`)).body.data;
    for (const [method, path] of [
      ["GET", `responses/${first}`],
      ["GET", `responses/${first}?stream=true`],
      ["GET", `responses/${first}/input_items`],
      ["POST", `responses/${first}/cancel`],
      ["DELETE", `responses/${first}`],
    ] as const)
      expect({ path, ...(await ask(path, { method, ...OTHER })) }).toMatchObject({ path, status: 404 });
    const body = { model: "any", input: "b", previous_response_id: first };
    expect(await create(body, { body: JSON.stringify(body), ...OTHER })).toMatchObject({
      status: 404,
      body: { error: { code: "previous_response_not_found" } },
    });
    const referring = JSON.stringify({ model: "any", input: [{ type: "item_reference", id: items[0]?.id }] });
    expect(await create({}, { body: referring, ...OTHER })).toMatchObject({ status: 404 });
    expect((await ask(`responses/${first}`)).status).toBe(200);
  });

  it("is streamed with the same answer, and kept when the stream ends", async () => {
    const { send, ask } = keeping();
    const body = JSON.stringify({ model: "any", input: "a", stream: true });
    const frames = framesOf(await (await send({ path: "/v1/responses", body })).text());
    const last = frames.at(-1);
    expect(last).toMatchObject({ type: "response.completed", response: { store: true } });
    expect(await ask(`responses/${last?.response?.id}`)).toEqual({ status: 200, body: last?.response });
  });

  it("that was not made in the background cannot be streamed later, nor cancelled", async () => {
    const { made, ask } = keeping();
    const first = await made({ input: "a" });
    for (const [method, path] of [
      ["GET", `responses/${first}?stream=true`],
      ["POST", `responses/${first}/cancel`],
    ] as const)
      expect(await ask(path, { method })).toMatchObject({ status: 400 });
  });
});

describe("a chain", () => {
  it("of three has what was said in all, and no instructions of earlier ones", async () => {
    const { create, made, said, asked } = keeping([["one"], ["two"], ["three"]]);
    const first = await made({ input: "a", instructions: "Be brief." });
    const second = await made({ input: "b", previous_response_id: first });
    const { body } = await create({ input: "c", previous_response_id: second, instructions: "Be long." });
    expect(said()).toEqual(["user: a", "assistant: one", "user: b", "assistant: two", "user: c"]);
    expect(asked.map(({ system }) => system.map(({ text }) => text))).toEqual([["Be brief."], [], ["Be long."]]);
    expect(body).toMatchObject({ previous_response_id: second, instructions: "Be long." });
  });

  it("branches, and each branch has what was said in it", async () => {
    const { made, said } = keeping();
    const first = await made({ input: "a" });
    await made({ input: "b", previous_response_id: first });
    await made({ input: "c", previous_response_id: first });
    expect(said()).toEqual(["user: a", "assistant: word", "user: c"]);
  });

  it("goes on over tool calls", async () => {
    const { create, made, said } = keeping([[CALL], [WORD]]);
    const first = await made({ input: "a", tools: TOOLS });
    const result = { type: "function_call_output", call_id: "call_1", output: "seen" };
    expect((await create({ input: [result], tools: TOOLS, previous_response_id: first })).status).toBe(200);
    expect(said()).toEqual(["user: a", "call call_1", "result call_1"]);
    const strange = { ...result, call_id: "call_2" };
    expect(await create({ input: [strange], tools: TOOLS, previous_response_id: first })).toMatchObject({
      status: 400,
      body: { error: { param: "input.0.call_id" } },
    });
  });

  it("keeps reasoning and its seals whole, though nobody asked for them", async () => {
    const thinking: readonly Step[] = [
      { type: "reasoning-delta", text: "hm" },
      { type: "reasoning-signature", signature: "seal", maker: "messages" },
      { type: "redacted-reasoning", data: "black", maker: "messages" },
      CALL,
    ];
    const { create, made, asked } = keeping([thinking, [WORD]]);
    const first = await made({ input: "a", tools: TOOLS });
    const result = { type: "function_call_output", call_id: "call_1", output: "seen" };
    await create({ input: [result], tools: TOOLS, previous_response_id: first });
    const parts = asked.at(-1)?.messages.flatMap((message) => message.parts) ?? [];
    expect(parts.filter(({ type }) => type.includes("reasoning"))).toMatchObject([
      { signature: "seal", maker: "messages" },
      { data: "black", maker: "messages" },
    ]);
  });

  it("is broken by the deletion of a response in the middle, and says which", async () => {
    const { create, made, ask } = keeping();
    const first = await made({ input: "a" });
    const second = await made({ input: "b", previous_response_id: first });
    await ask(`responses/${first}`, { method: "DELETE" });
    const { status, body } = await create({ input: "c", previous_response_id: second });
    expect(status).toBe(404);
    expect(body["error"]).toMatchObject({
      code: "previous_response_not_found",
      message: `The response '${first}', which '${second}' continues, was deleted or has expired.`,
    });
  });

  it("does not begin with the id of something else", async () => {
    const { create, ask, made } = keeping();
    const first = await made({ input: "a" });
    const conversation = await ask("conversations", { method: "POST", body: "{}" });
    const item = (await ask(`responses/${first}/input_items`)).body.data[0]?.id;
    for (const id of [conversation.body.id, item, "resp_1", "ä", "x".repeat(500)]) {
      const { status, body } = await create({ input: "b", previous_response_id: id });
      expect([id, status, body["error"]]).toMatchObject([id, 404, { code: "previous_response_not_found" }]);
    }
  });

  it("cannot be continued beside a conversation", async () => {
    const { create } = keeping();
    expect(await create({ input: "a", previous_response_id: "resp_1", conversation: "conv_1" })).toMatchObject({
      status: 400,
      body: { error: { param: "conversation" } },
    });
  });

  it("that is long takes few reads, and documents that do not grow", async () => {
    const TURNS = 130;
    let reads = 0;
    const sizes: number[] = [];
    const { create, said } = keeping([["x"]], {}, (store) => ({
      read(keyId, ids) {
        reads++;
        return store.read(keyId, ids);
      },
      create(keyId, documents) {
        sizes.push(documents[0]?.content.length ?? 0);
        return store.create(keyId, documents);
      },
    }));
    let last: string | undefined;
    for (let turn = 0; turn < TURNS; turn++) {
      reads = 0;
      const { status, body } = await create({ input: `${turn}`, ...(last && { previous_response_id: last }) });
      expect([turn, status]).toEqual([turn, 200]);
      expect(reads).toBeLessThanOrEqual(2 + turn / 32);
      last = body.id;
    }
    expect(said()).toEqual(
      Array.from({ length: TURNS }, (_, turn) => [`user: ${turn}`, "assistant: x"])
        .flat()
        .slice(0, -1),
    );
    expect(Math.max(...sizes)).toBeLessThan(4_096);
  });

  it("that is long is continued by a gateway with little room too", async () => {
    const { create } = keeping([["word"]], { limits: { maxBodyBytesInFlight: 2_000_000 } });
    let last: string | undefined;
    for (let turn = 0; turn < 34; turn++) {
      const { status, body } = await create({ input: "a", ...(last && { previous_response_id: last }) });
      expect([turn, status]).toEqual([turn, 200]);
      last = body.id;
    }
  });

  it("that is long is continued by many calls at once", async () => {
    let slow = false;
    const { create } = keeping([["word"]], {}, (store) => ({
      async read(keyId, ids) {
        if (slow) await setImmediate();
        return store.read(keyId, ids);
      },
    }));
    let last: string | undefined;
    for (let turn = 0; turn < 33; turn++) last = (await create({ input: "a", previous_response_id: last })).body.id;
    slow = true;
    const burst = Array.from({ length: 200 }, () => create({ input: "a", previous_response_id: last }));
    const statuses = (await Promise.all(burst)).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  });

  it("or a conversation waits for room while the reads of a burst take it, and no longer", async () => {
    let reading: Promise<void> | undefined;
    const { create, ask, clock } = keeping([["word"]], { limits: { maxBodyBytesInFlight: 8_000_000 } }, (store) => ({
      async list(keyId, parentId, page) {
        await (reading ?? setImmediate());
        return store.list(keyId, parentId, page);
      },
    }));
    const conversation = (await ask("conversations", { method: "POST", body: "{}" })).body.id;
    const burst = async () => {
      const all = Array.from({ length: 20 }, () => create({ input: "a", conversation }));
      return (await patient(clock, Promise.all(all))).map(({ status }) => status);
    };
    expect(new Set(await burst())).toEqual(new Set([200]));
    const { promise, resolve } = Promise.withResolvers<void>();
    reading = promise;
    clock.after(3_000, resolve);
    expect(new Set(await burst())).toEqual(new Set([200, 503]));
  });

  it("ends after a thousand responses", async () => {
    const { create, made, kept } = keeping();
    const id = await made({ input: "a" });
    const deepen = async (revision: number, depth: number): Promise<void> => {
      const [document] = await kept.read("one", [id]);
      const [head = "", response] = document?.content.split("\n") ?? [];
      const content = `${JSON.stringify({ ...JSON.parse(head), chain: { depth, ids: [] } })}\n${response}`;
      await kept.update("one", { id, revision, content, retainMs: DAY_MS });
    };
    await deepen(0, 998);
    expect((await create({ input: "b", previous_response_id: id })).status).toBe(200);
    await deepen(1, 999);
    expect(await create({ input: "b", previous_response_id: id })).toMatchObject({
      status: 400,
      body: { error: { param: "previous_response_id" } },
    });
  });

  it("that is larger than a request may be is refused, and costs nothing", async () => {
    const { create, made, report } = keeping([["x".repeat(50_000)]], { limits: { maxJsonBytes: 100_000 } });
    let last = await made({ input: "a" });
    last = await made({ input: "b", previous_response_id: last });
    const used = report()?.used;
    expect(await create({ input: "c", previous_response_id: last })).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining("larger than 100000 characters") as string } },
    });
    expect(report()).toMatchObject({ used, ...AT_REST });
  });

  it("goes on without its oldest responses where its caller lets it", async () => {
    const call = { type: "tool-call", id: "call_1", name: "f", input: {} } as const;
    const { create, made, said } = keeping([[call, "x".repeat(60_000)], ["y".repeat(60_000)], ["z"]], {
      limits: { maxJsonBytes: 100_000 },
    });
    const first = await made({ input: "a" });
    const result = { type: "function_call_output", call_id: "call_1", output: "1" };
    const second = await made({ input: [result, { role: "user", content: "b" }], previous_response_id: first });
    const third = await create({ input: "c", previous_response_id: second, truncation: "auto" });
    expect(third.status).toBe(200);
    // A result goes with its call.
    expect(said()).toEqual(["user: b", `assistant: ${"y".repeat(60_000)}`, "user: c"]);
    const fourth = { input: "d", previous_response_id: third.body.id };
    expect(await create(fourth)).toMatchObject({ status: 400, body: { error: { param: "input" } } });
    expect((await create({ ...fourth, truncation: "auto" })).status).toBe(200);
    expect(said().slice(-3)).toEqual(["user: c", "assistant: z", "user: d"]);
  });
});

describe("a reference to an item", () => {
  it("stands for output, input and reasoning of earlier responses, once for each", async () => {
    const { create, made, said, ask } = keeping([["one"], ["two"], ["three"]]);
    const first = (await create({ input: "a" })).body;
    const [input] = (await ask(`responses/${first.id}/input_items`)).body.data;
    const references = [input?.id, first.output[0]?.id].map((id) => ({ type: "item_reference", id }));
    const second = (await create({ input: [...references, ...references, { role: "user", content: "b" }] })).body;
    expect(said()).toEqual(["user: a", "assistant: one", "user: b"]);
    // What is in the chain already is not said again.
    await made({ input: [...references, { role: "user", content: "c" }], previous_response_id: second.id });
    expect(said()).toEqual(["user: a", "assistant: one", "user: b", "assistant: two", "user: c"]);
    const items = (await ask(`responses/${second.id}/input_items?order=asc`)).body.data;
    expect(items.map(({ id }) => id).slice(0, 2)).toEqual([input?.id, first.output[0]?.id]);
    expect(typesOf(items)).toEqual(["user", "assistant", "user", "assistant", "user"].slice(0, items.length));
  });

  it("to nothing is refused with its place", async () => {
    const { create } = keeping();
    const input = [
      { role: "user", content: "a" },
      { type: "item_reference", id: "msg_1" },
    ];
    expect(await create({ input })).toMatchObject({
      status: 404,
      body: { error: { message: "Item with id 'msg_1' not found.", param: "input.1.id" } },
    });
  });

  it("is refused with the beginning of an id that is too long", async () => {
    const { create } = keeping();
    const { body } = await create({ input: [{ type: "item_reference", id: "x".repeat(100_000) }] });
    expect(JSON.stringify(body).length).toBeLessThan(500);
  });

  it("keeps a session of references small: each turn adds its own items alone", async () => {
    const sizes: number[] = [];
    const { create, said } = keeping([["x".repeat(1_000)]], {}, (store) => ({
      create: (keyId, documents) => (sizes.push(documents[0]?.content.length ?? 0), store.create(keyId, documents)),
    }));
    const history: object[] = [];
    for (let turn = 0; turn < 40; turn++) {
      const asking = { type: "message", role: "user", id: `msg_u${turn}`, content: `${turn}` };
      const { body, status } = await create({ input: [...history, asking] });
      expect(status).toBe(200);
      history.push(
        ...["item_reference"].flatMap((type) => [`msg_u${turn}`, body.output[0]?.id].map((id) => ({ type, id }))),
      );
    }
    expect(said()).toHaveLength(79);
    expect(sizes.at(-1)).toBeLessThan(12_000);
  });
});

describe("the documents that a request reads", () => {
  it("are not the inputs of the answers that it refers to", async () => {
    const { create, said } = keeping([["word"]], { limits: { maxJsonBytes: 100_000 } });
    const history: object[] = [{ role: "user", content: "x".repeat(40_000) }];
    for (let turn = 0; turn < 8; turn++) {
      const { body, status } = await create({ input: history });
      expect(status).toBe(200);
      history.push({ type: "item_reference", id: body.output[0]?.id }, { role: "user", content: `${turn}` });
    }
    expect(said()).toHaveLength(15);
  });

  it("are read once, however many of their items are named", async () => {
    let read = 0;
    const { create, said } = keeping([["word"]], { limits: { maxJsonBytes: 100_000 } }, (store) => ({
      read: (keyId, ids) => (read++, store.read(keyId, ids)),
    }));
    const input = Array.from({ length: 500 }, (_, index) => ({ role: "user", content: "a", id: `msg_${index}` }));
    expect((await create({ input })).status).toBe(200);
    expect((await create({ input: input.map(({ id }) => ({ type: "item_reference", id })) })).status).toBe(200);
    // The documents of an input have at most 32 Ki characters.
    expect([said().length, read]).toEqual([500, 2]);
  });

  it("count with the request's own values, and take room like its body while its call runs", async () => {
    const input = Array.from({ length: 300 }, () => ({ role: "user", content: "a" }));
    const values = keeping([["word"]], { limits: { maxJsonValues: 3_000 } });
    const first = await values.made({ input });
    expect(await values.create({ input, previous_response_id: first })).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining("holds more than 3000 values") as string } },
    });
    const { create, made, clock } = keeping([["word"]], {
      limits: { maxBodyBytesInFlight: 2_000_000 },
    });
    const id = await made({ input });
    const many = Array.from({ length: 300 }, () => create({ input: "b", previous_response_id: id }));
    const statuses = new Set((await patient(clock, Promise.all(many))).map(({ status }) => status));
    expect(statuses).toEqual(new Set([200, 503]));
    expect((await create({ input: "b", previous_response_id: id })).status).toBe(200);
  });
});

describe("a store that lists one page for ever", () => {
  it.each(["~part.1~", ""])("is asked for it no more than twice: %s", async (sign) => {
    let pages = 0;
    const { create, ask, send, clock } = keeping([["word"]], {}, () => ({
      async list(_keyId, parentId) {
        if (++pages % 100 === 0) throw new Error("asked too often");
        return [{ id: `${sign}${parentId}/one`, parentId, content: "{}", aliases: [], revision: 0 }];
      },
    }));
    const { id } = (await create({ input: "a", background: true })).body;
    await clock.advance(0);
    const stream = await send({ method: "GET", path: `/v1/responses/${id}?stream=true` });
    expect([await stream.text(), pages <= 3]).toEqual(["", true]);
    const conversation = (await ask("conversations", { method: "POST", body: "{}" })).body.id;
    expect(await ask(`conversations/${conversation}/items?limit=5`)).toMatchObject({ status: 200 });
    expect(pages).toBeLessThan(16);
  });
});

const MIB = 1024 ** 2;
/** Counts what the store gives: in all, and by one verb. */
const counting = (setup: Parameters<typeof keeping>[1] = {}) => {
  const seen = { chars: 0, most: 0 };
  const count = (documents: readonly KeptDocument[]): readonly KeptDocument[] => {
    const chars = documents.reduce((total, { content }) => total + content.length, 0);
    seen.chars += chars;
    seen.most = Math.max(seen.most, chars);
    return documents;
  };
  const bench = keeping([["word"]], { key: { granted: 10 ** 9 }, ...setup }, (store) => ({
    read: async (keyId, ids) => count(await store.read(keyId, ids)),
    list: async (keyId, parentId, page) => count(await store.list(keyId, parentId, page)),
  }));
  return { ...bench, seen };
};

const large = (id: string): object => ({ role: "user", id, content: "é😀".repeat(MIB / 3) });

describe("a large response", () => {
  it("is read in pieces: its items without each other, its stream, and all that it was", async () => {
    const { create, ask, send, clock, seen, said } = counting();
    const small = Array.from({ length: 3_000 }, (_, index) => ({ role: "user", id: `m${index}`, content: "a" }));
    const body = { input: [large("l0"), ...small], instructions: "é😀x".repeat(MIB / 4), background: true };
    const { id } = (await create(body)).body;
    await clock.advance(0);
    const spent = async (work: () => Promise<Told>): Promise<number> => {
      seen.chars = 0;
      expect(await work()).toMatchObject({ status: 200 });
      return seen.chars;
    };
    const { body: whole } = await ask(`responses/${id}`);
    expect(whole).toMatchObject({
      status: "completed",
      instructions: body.instructions,
      output: [{ id: whole.output[0]?.id }],
    });
    const text = await (await send({ method: "GET", path: `/v1/responses/${id}?stream=true` })).text();
    expect(framesOf(text).at(-1)).toMatchObject({ type: "response.completed", response: whole });
    const last = await ask(`responses/${id}/input_items?order=asc&limit=100&after=m2899`);
    expect(last.body).toMatchObject({ first_id: "m2900", last_id: "m2999", has_more: false });
    expect((await ask(`responses/${id}/input_items?order=asc&limit=1`)).body.data[0]).toMatchObject({ id: "l0" });
    const cheap: [string, () => Promise<Told>][] = [
      ["one small item", () => create({ input: [{ type: "item_reference", id: "m1500" }] })],
      ["its output", () => create({ input: [{ type: "item_reference", id: whole.output[0]?.id }] })],
      ["a page in the middle", () => ask(`responses/${id}/input_items?order=asc&after=m1500`)],
    ];
    for (const [what, work] of cheap) expect([what, (await spent(work)) < MIB / 4]).toEqual([what, true]);
    expect(await create({ input: "b", previous_response_id: id })).toMatchObject({ status: 200 });
    expect(said()).toHaveLength(3_003);
    expect(seen.most).toBeLessThan(1.1 * MIB);
  });

  it("leaves nothing: no call behind a HEAD, and nothing of an item that was deleted", async () => {
    const { made, send } = counting({ limits: { maxCallsInFlight: 1 } });
    const id = await made({ input: "a", instructions: "x".repeat(100_000) });
    for (const method of ["HEAD", "HEAD", "GET"])
      expect((await send({ method, path: `/v1/responses/${id}` })).status).toBe(200);
    const other = counting();
    const post = { method: "POST", body: JSON.stringify({ items: [large("l")] }) };
    const conversation = (await other.ask("conversations", post)).body.id;
    expect((await other.ask(`conversations/${conversation}/items/l`)).body).toMatchObject({ id: "l" });
    await other.ask(`conversations/${conversation}/items/l`, { method: "DELETE" });
    expect(other.kept.documents).toBe(1);
  });

  it("costs little before it is refused: too large together, or for a key that cannot pay", async () => {
    const { create, store, seen, asked } = counting({ limits: { maxJsonBytes: 3 * MIB } });
    const ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (const id of ids) expect(await create({ input: [large(id)] })).toMatchObject({ status: 200 });
    const refer = (...named: string[]) => create({ input: named.map((id) => ({ type: "item_reference", id })) });
    seen.chars = 0;
    expect(await refer(...ids)).toMatchObject({ status: 400 });
    expect(seen.chars).toBeLessThan(MIB);
    expect(await refer("a")).toMatchObject({ status: 200 });
    const [balance, calls] = [await store.balance("one"), asked.length];
    await store.reserve({ id: "h", keyId: "one", atLeast: 1, atMost: balance?.available ?? 0, leaseMs: 60_000 });
    seen.chars = 0;
    expect(await refer("a", "b")).toMatchObject({ status: 429 });
    expect([seen.chars < MIB / 2, asked.length]).toEqual([true, calls]);
  });

  it.each(["", "?stream=true"])(
    "that its clients do not read takes room of their key until it is read%s",
    async (query) => {
      const { made, send, ask, clock } = keeping([["word"]], { limits: { maxBodyBytesInFlight: 4_000_000 } });
      const id = await made({ input: "a", instructions: "x".repeat(100_000), background: true });
      await clock.advance(0);
      const path = `/v1/responses/${id}${query}`;
      const unread: Response[] = [];
      for (let count = 0; count < 20; count++) unread.push(await patient(clock, send({ method: "GET", path })));
      expect(new Set(unread.map(({ status }) => status))).toEqual(new Set([200, 503]));
      for (const response of unread) await response.text();
      expect((await ask(`responses/${id}`)).body["instructions"]).toHaveLength(100_000);
    },
  );

  it("beside small items takes room for all of its page until the page is read", async () => {
    const limit = 8_000_000;
    const { send, ask, clock } = keeping([["word"]], { limits: { maxBodyBytesInFlight: limit } });
    const post = (path: string, body: object) => ask(path, { method: "POST", body: JSON.stringify(body) });
    const sizes = [100_000, ...Array.from({ length: 19 }, () => 60_000)];
    const path = `conversations/${(await post("conversations", {})).body.id}/items`;
    for (const size of sizes)
      expect((await post(path, { items: [{ role: "user", content: "x".repeat(size) }] })).status).toBe(200);
    const unread: Response[] = [];
    for (let count = 0; count < 20; count++)
      unread.push(await patient(clock, send({ method: "GET", path: `/v1/${path}?limit=100` })));
    const opened = unread.filter(({ status }) => status === 200).length;
    expect(opened).toBeGreaterThan(1);
    expect(opened * 19 * 60_000).toBeLessThan(limit);
    for (const response of unread) await response.text();
    expect((await ask(`${path}?limit=100`)).body.data).toHaveLength(20);
  });
});

describe("the items of an input", () => {
  const INPUT_ITEMS = Array.from({ length: 25 }, (_, index) => ({ role: "user", content: `${index}` }));

  it("come in pages, the newest first unless asked, without those of earlier responses", async () => {
    const { made, ask } = keeping();
    const first = await made({ input: "earlier" });
    const id = await made({ input: INPUT_ITEMS, previous_response_id: first });
    const page = await ask(`responses/${id}/input_items`);
    expect(page.body).toMatchObject({ object: "list", has_more: true });
    expect([textOf(page.body.data[0]), page.body.data.length]).toEqual(["24", 20]);
    const rest = await ask(`responses/${id}/input_items?after=${String(page.body["last_id"])}`);
    expect(rest.body.data.map(textOf)).toEqual(["4", "3", "2", "1", "0"]);
    expect(rest.body).toMatchObject({ has_more: false, first_id: rest.body.data[0]?.id });
    const few = await ask(`responses/${id}/input_items?order=asc&limit=2&include[]=message.input_image.image_url`);
    expect(few.body.data.map(textOf)).toEqual(["0", "1"]);
    expect(new Set([...page.body.data, ...rest.body.data].map((item) => item.id)).size).toBe(25);
  });

  it.each(["order=up", "limit=0", "limit=x", "limit=101", "limit=1e1", "limit=0x5", "limit=%205"])(
    "are refused for %s",
    async (query) => {
      const { made, ask } = keeping();
      const id = await made({ input: "a" });
      expect((await ask(`responses/${id}/input_items?${query}`)).status).toBe(400);
    },
  );

  it("after an item that is not there are none, and the error names it", async () => {
    const { made, ask } = keeping();
    const id = await made({ input: "a" });
    expect(await ask(`responses/${id}/input_items?after=msg_1`)).toMatchObject({
      status: 404,
      body: { error: { param: "after" } },
    });
  });
});

describe("a call that does not end well", () => {
  const whole = { type: "finish", reason: "length", usage: { inputTokens: INPUT, outputTokens: 4 } } as const;

  it("is kept when it is incomplete, and can be continued", async () => {
    const { create, said } = keeping([[WORD, whole], [WORD]]);
    const { body } = await create({ input: "a" });
    expect(body).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
    expect((await create({ input: "b", previous_response_id: body.id })).status).toBe(200);
    expect(said()).toEqual(["user: a", "assistant: word", "user: b"]);
  });

  it("is not kept when its backend fails, complete or in mid-stream", async () => {
    const { create, send, kept, report } = keeping([[new Error("No.")], [WORD, new Error("No.")]]);
    expect((await create({ input: "a" })).status).toBe(500);
    const body = JSON.stringify({ model: "any", input: "a", stream: true });
    const frames = framesOf(await (await send({ path: "/v1/responses", body })).text());
    expect(frames.at(-1)).toMatchObject({ type: "response.failed", response: { status: "failed", store: false } });
    expect(kept.documents).toBe(0);
    expect(report()).toMatchObject(AT_REST);
  });

  it("is not kept when its client leaves in mid-stream, and is charged once for what has come", async () => {
    const { send, kept, report, clock } = keeping([[WORD, never]]);
    const client = new AbortController();
    const body = JSON.stringify({ model: "any", input: "ten tokens", stream: true });
    const response = await send({ path: "/v1/responses", body, signal: client.signal });
    const reader = await readUntil(WORD, response);
    await reader.cancel();
    client.abort();
    await clock.advance(0);
    expect(kept.documents).toBe(0);
    expect(report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });

  it("is kept once when it is repeated, and answered with the same id", async () => {
    const { create, kept, asked, report } = keeping([[WORD, counted(7)]], {
      replays: (clock) => memoryReplayStore({ clock }),
    });
    const headers = { "idempotency-key": "retry-1" };
    const answers = [];
    for (let time = 0; time < 3; time++) answers.push(await create({ input: "a" }, { headers, body: REPEATED }));
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect([kept.documents, asked.length]).toEqual([2, 1]);
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });
});

const REPEATED = JSON.stringify({ model: "any", input: "a" });

describe("a store that is down", () => {
  it.each(["complete", "streamed"])("loses no answer: it is told as not kept, and charged once: %s", async (form) => {
    const { send, report, failures } = keeping([[WORD, counted(7)]], {}, () => ({ create: away }));
    const body = JSON.stringify({ model: "any", input: "a", stream: form === "streamed" });
    const response = await send({ path: "/v1/responses", body });
    expect(response.status).toBe(200);
    const told =
      form === "streamed" ? framesOf(await response.text()).at(-1)?.response : ((await response.json()) as Wire);
    expect(told).toMatchObject({ status: "completed", store: false });
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
    expect(failures).toMatchObject([{ port: "response-store" }]);
  });

  it("that hangs holds an answer up until its time is over", async () => {
    const { create, clock, report } = keeping([[WORD, counted(7)]], {}, () => ({ create: () => never }));
    const answer = create({ input: "a" });
    await clock.advance(9_999);
    expect(await Promise.race([answer, Promise.resolve("waiting")])).toBe("waiting");
    await clock.advance(1);
    expect(await answer).toMatchObject({ status: 200, body: { store: false } });
    expect(report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("refuses to continue before anything is held or asked", async () => {
    const { create, ask, asked, report } = keeping([[WORD]], {}, () => ({ read: away }));
    for (const answer of [
      await create({ input: "a", previous_response_id: "resp_1" }),
      await create({ input: [{ type: "item_reference", id: "msg_1" }] }),
      await ask("responses/resp_1"),
    ])
      expect(answer).toMatchObject({ status: 503, body: { error: { type: "server_error" } } });
    expect(asked).toEqual([]);
    expect(report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("has no room for a response says so to the host, and answers all the same", async () => {
    const small = memoryResponseStore({ maxBytes: 4_096 });
    const { create, ask, failures } = keeping([[WORD]], {}, () => ({
      create: (keyId, documents) => small.create(keyId, documents),
    }));
    expect(await create({ input: "x".repeat(5_000) })).toMatchObject({ status: 200, body: { store: false } });
    expect(failures).toMatchObject([{ port: "response-store", error: { code: "busy" } }]);
    const items = [{ role: "user", content: "x".repeat(5_000) }];
    const conversation = await ask("conversations", { method: "POST", body: JSON.stringify({ items }) });
    expect([conversation.status, conversation.body["error"]]).toMatchObject([503, { message: /full/ }]);
  });
});

describe("a client that leaves at any moment", () => {
  it.each([
    ["complete", {}],
    ["streamed", { stream: true }],
    ["in the background", { background: true }],
    ["streamed and in the background", { background: true, stream: true }],
  ])("is charged at most once, and leaves no hold and no unfinished response: %s", async (_name, fields) => {
    for (let moment = 0; moment < 120; moment += 3) {
      const created: string[] = [];
      const bench = keeping([[WORD, counted(7)]], {}, (store) => ({
        async create(keyId, documents) {
          created.push(
            ...documents.flatMap(({ id, parentId }) => (parentId === undefined && !id.endsWith("/lease") ? id : [])),
          );
          await setImmediate();
          return store.create(keyId, documents);
        },
        async update(keyId, update) {
          await setImmediate();
          return store.update(keyId, update);
        },
      }));
      const request = new Request("http://host/v1/responses", {
        method: "POST",
        headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
        body: JSON.stringify({ model: "any", input: PROMPT, ...fields }),
      });
      let hangUp: (() => void) | undefined;
      const answer = bench.gateway.answer(request, { onDisconnect: (listener) => void (hangUp = listener) });
      // Some moments lie within one turn of the event loop, and others in later turns.
      await microtasks(moment % 30);
      for (let turn = 0; turn < moment / 30; turn++) await setImmediate();
      hangUp?.();
      const { body } = (await answer) ?? {};
      if (body && typeof body !== "string") await (body as AsyncIterator<unknown>).return?.();
      await bench.clock.advance(60_000);
      const report = bench.report();
      expect([0, INPUT + WORD.length, INPUT + 7]).toContain(report?.used);
      expect(report).toMatchObject(AT_REST);
      const documents = created.map((id) => bench.ask(`responses/${id}`));
      for (const { body: kept } of await Promise.all(documents))
        expect(["completed", "failed"]).toContain(kept["status"]);
    }
  });
});

describe("an encrypted store", () => {
  it("holds nothing in plain text, and serves chains and conversations", async () => {
    const keys = [{ name: "2026", secret: new Uint8Array(32).fill(7) }];
    const seen: string[] = [];
    const { create, made, said, ask } = keeping([["secret answer"]], {}, (store) => {
      const encrypted = encryptedResponseStore(
        {
          create: (keyId, documents) => {
            seen.push(...documents.map(({ content }) => content));
            return store.create(keyId, documents);
          },
          update: (keyId, update) => store.update(keyId, update),
          read: (keyId, ids) => store.read(keyId, ids),
          list: (keyId, parentId, page) => store.list(keyId, parentId, page),
          delete: (keyId, id) => store.delete(keyId, id),
        },
        { keys },
      );
      return {
        create: (keyId, documents) => encrypted.create(keyId, documents),
        update: (keyId, update) => encrypted.update(keyId, update),
        read: (keyId, ids) => encrypted.read(keyId, ids),
        list: (keyId, parentId, page) => encrypted.list(keyId, parentId, page),
      };
    });
    const first = await made({ input: "secret question" });
    await create({ input: "more", previous_response_id: first });
    expect(said()).toEqual(["user: secret question", "assistant: secret answer", "user: more"]);
    const conversation = (await ask("conversations", { method: "POST", body: "{}" })).body.id;
    await create({ input: "again", conversation });
    await create({ input: "and again", conversation });
    expect(said()).toEqual(["user: again", "assistant: secret answer", "user: and again"]);
    expect(seen.length).toBeGreaterThan(4);
    for (const content of seen) expect(content).toMatch(/^aes-gcm:2026:/);
  });
});
