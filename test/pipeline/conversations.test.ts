/** Conversations and their items: made, read, changed, listed and deleted by their own key alone, and extended by responses, once. */

import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type ChatEvent, memoryReplayStore, type NewDocument } from "../../src/index.ts";
import { AT_REST, counted, INPUT, never, PROMPT, readUntil, WORD } from "./bench.ts";
import { framesOf, type Keeping, keeping, OTHER, type Told, type Wire } from "./keeping.ts";

const DAY_MS = 86_400_000;

const post = (bench: Keeping, path: string, body: object, init: object = {}): Promise<Told> =>
  bench.ask(path, { method: "POST", body: JSON.stringify(body), ...init });

const conversationOf = async (bench: Keeping, body: object = {}): Promise<string> =>
  (await post(bench, "conversations", body)).body.id;

const message = (content: string, more: object = {}): object => ({ type: "message", role: "user", content, ...more });

/** The content of an item's document. */
const itemOf = (text: string): string => JSON.stringify({ role: "user", content: [{ type: "input_text", text }] });

const textOf = (item: Wire | undefined): string =>
  (item?.["content"] as { text: string }[] | undefined)?.[0]?.text ?? "";

/** The texts of all items of a conversation, the oldest first. */
async function textsIn({ ask }: Keeping, id: string): Promise<string[]> {
  const { body } = await ask(`conversations/${id}/items?order=asc&limit=100`);
  return body.data.map((item) => textOf(item));
}

describe("a conversation", () => {
  it("is created, read, changed and deleted", async () => {
    const bench = keeping();
    const created = await post(bench, "conversations", { metadata: { team: "one" } });
    const { id } = created.body;
    const conversation = { id, object: "conversation", created_at: 1_767_225_600, metadata: { team: "one" } };
    expect(created).toEqual({ status: 200, body: conversation });
    expect(id).toMatch(/^conv_[0-9a-f]{32}$/);
    expect((await bench.ask(`conversations/${id}`)).body).toEqual(conversation);
    const changed = await post(bench, `conversations/${id}`, { metadata: { team: "two" } });
    expect(changed.body).toEqual({ ...conversation, metadata: { team: "two" } });
    expect((await bench.ask(`conversations/${id}`)).body).toEqual(changed.body);
    const deleted = await bench.ask(`conversations/${id}`, { method: "DELETE" });
    expect(deleted.body).toEqual({ id, object: "conversation.deleted", deleted: true });
    for (const [method, path] of [
      ["GET", id],
      ["POST", id],
      ["DELETE", id],
      ["GET", `${id}/items`],
    ] as const)
      expect(await bench.ask(`conversations/${path}`, { method, body: "{}" })).toMatchObject({
        status: 404,
        body: { error: { message: `Conversation with id '${id}' not found.` } },
      });
    expect(bench.kept.documents).toBe(0);
  });

  it("begins with items, and takes more, several at once", async () => {
    const bench = keeping();
    const id = await conversationOf(bench, { items: [message("a"), message("b")] });
    const added = await post(bench, `conversations/${id}/items`, {
      items: [message("c", { id: "msg_mine" }), message("d", { role: "assistant" })],
    });
    expect(added.body).toMatchObject({ object: "list", has_more: false, first_id: "msg_mine" });
    expect(added.body.data).toMatchObject([
      { id: "msg_mine", role: "user", status: "completed", content: [{ type: "input_text", text: "c" }] },
      { role: "assistant", content: [{ type: "output_text", text: "d" }] },
    ]);
    expect(await textsIn(bench, id)).toEqual(["a", "b", "c", "d"]);
    await bench.create({ input: "e", conversation: id });
    expect(bench.said()).toEqual(["user: a", "user: b", "user: c", "assistant: d", "user: e"]);
  });

  it("gives its items one by one, and deletes them with the order of the others left", async () => {
    const bench = keeping();
    const odd = "msg/1?%2F#x";
    const id = await conversationOf(bench, { items: [message("a"), message("b", { id: odd }), message("c")] });
    const path = `conversations/${id}/items/${encodeURIComponent(odd)}`;
    const found = await bench.ask(path);
    expect([found.status, found.body.id, textOf(found.body)]).toEqual([200, odd, "b"]);
    const deleted = await bench.ask(path, { method: "DELETE" });
    expect(deleted).toMatchObject({ status: 200, body: { id, object: "conversation" } });
    expect(await textsIn(bench, id)).toEqual(["a", "c"]);
    for (const method of ["GET", "DELETE"]) expect(await bench.ask(path, { method })).toMatchObject({ status: 404 });
  });

  it("lists its items in pages, in both orders", async () => {
    const bench = keeping();
    const id = await conversationOf(bench);
    const texts = Array.from({ length: 45 }, (_, index) => `${index}`);
    for (const start of [0, 20, 40])
      await post(bench, `conversations/${id}/items`, {
        items: texts.slice(start, start + 20).map((text) => message(text)),
      });
    for (const [order, expected] of [
      ["asc", texts],
      ["desc", texts.toReversed()],
    ] as const) {
      const seen: string[] = [];
      for (let after = "", more = true; more;) {
        const { body } = await bench.ask(`conversations/${id}/items?order=${order}&limit=10${after}`);
        seen.push(...body.data.map((item) => textOf(item)));
        expect([body["first_id"], body["last_id"]]).toEqual([body.data[0]?.id, body.data.at(-1)?.id]);
        after = `&after=${String(body["last_id"])}`;
        more = body["has_more"] === true;
      }
      expect(seen).toEqual(expected);
    }
    const { body } = await bench.ask(`conversations/${id}/items`);
    expect([body.data.length, textOf(body.data[0])]).toEqual([20, "44"]);
    const last = (await bench.ask(`conversations/${id}/items?order=asc&limit=100`)).body.data.at(-1)?.id;
    expect((await bench.ask(`conversations/${id}/items?order=asc&after=${last}`)).body.data).toEqual([]);
    expect((await bench.ask(`conversations/${id}/items?limit=101`)).status).toBe(400);
    expect(await bench.ask(`conversations/${id}/items?after=msg_none`)).toMatchObject({
      status: 404,
      body: { error: { param: "after" } },
    });
  });

  it("lists large items in shorter pages, so that no page fills the memory", async () => {
    const bench = keeping(undefined, { key: { granted: 10 ** 9 } });
    const id = await conversationOf(bench);
    for (const text of ["a", "b", "c", "d", "e"])
      await post(bench, `conversations/${id}/items`, { items: [message(text.repeat(3 * 1024 ** 2))] });
    const seen: string[] = [];
    for (let after = "", more = true; more;) {
      const { body } = await bench.ask(`conversations/${id}/items?order=asc&limit=100${after}`);
      expect(body.data.length).toBeLessThanOrEqual(3);
      seen.push(...body.data.map((item) => textOf(item).slice(0, 1)));
      after = `&after=${String(body["last_id"])}`;
      more = body["has_more"] === true;
    }
    expect(seen).toEqual(["a", "b", "c", "d", "e"]);
    await bench.create({ input: "f", conversation: id });
    expect(bench.said()).toHaveLength(6);
  });

  it.each<[string, string, object, string]>([
    ["too many items", "/items", { items: Array.from({ length: 21 }, () => message("a")) }, "items"],
    ["no items", "/items", {}, "items"],
    ["an item of no kind", "/items", { items: [{ type: 1 }] }, "items.0.type"],
    ["a reference to nothing", "/items", { items: [{ type: "item_reference", id: "msg_1" }] }, "items.0.id"],
    ["metadata of another kind", "", { metadata: { a: 1 } }, "metadata.a"],
    ["long metadata", "", { metadata: { a: "x".repeat(513) } }, "metadata.a"],
  ])("refuses %s, and stays as it is", async (_name, path, body, param) => {
    const bench = keeping();
    const id = await conversationOf(bench, { items: [message("a")], metadata: { b: "c" } });
    const refused = await post(bench, `conversations/${id}${path}`, body);
    expect([Math.floor(refused.status / 100), refused.body["error"]]).toMatchObject([4, { param }]);
    expect(await textsIn(bench, id)).toEqual(["a"]);
    expect((await bench.ask(`conversations/${id}`)).body["metadata"]).toEqual({ b: "c" });
  });

  it("takes an id once", async () => {
    const bench = keeping();
    const items = [message("a", { id: "msg_1" })];
    const id = await conversationOf(bench, { items });
    expect(await post(bench, `conversations/${id}/items`, { items })).toMatchObject({ status: 400 });
    expect(await bench.create({ input: items, conversation: id })).toMatchObject({
      status: 400,
      body: { error: { param: "input.0.id" } },
    });
    const again = { items: [message("c", { id: "msg_2" })] };
    const both = await Promise.all([
      post(bench, `conversations/${id}/items`, again),
      post(bench, `conversations/${id}/items`, again),
    ]);
    expect(both.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([200, 400]);
    await bench.ask(`conversations/${id}/items/msg_2`, { method: "DELETE" });
    // Another conversation may have an item of the same id.
    const other = await conversationOf(bench, { items: [message("b", { id: "msg_1" })] });
    expect([await textsIn(bench, id), await textsIn(bench, other)]).toEqual([["a"], ["b"]]);
    expect(textOf((await bench.ask(`conversations/${id}/items/msg_1`)).body)).toBe("a");
    await bench.ask(`conversations/${other}`, { method: "DELETE" });
    expect(await textsIn(bench, id)).toEqual(["a"]);
  });

  it("of another key is not found by any route", async () => {
    const bench = keeping();
    const id = await conversationOf(bench, { items: [message("a", { id: "msg_1" })] });
    for (const [method, path] of [
      ["GET", id],
      ["POST", id],
      ["DELETE", id],
      ["GET", `${id}/items`],
      ["POST", `${id}/items`],
      ["GET", `${id}/items/msg_1`],
      ["DELETE", `${id}/items/msg_1`],
    ] as const) {
      const body = JSON.stringify({ items: [message("b")] });
      const answer = await bench.ask(`conversations/${path}`, { method, body, ...OTHER });
      expect({ method, path, ...answer }).toMatchObject({ method, path, status: 404 });
    }
    const body = JSON.stringify({ model: "any", input: "b", conversation: id });
    expect((await bench.create({}, { body, ...OTHER })).status).toBe(404);
    expect(await textsIn(bench, id)).toEqual(["a"]);
    expect(bench.asked).toEqual([]);
  });

  it("expires when nothing was added for the time of the host", async () => {
    const bench = keeping();
    const [used, unused] = [await conversationOf(bench), await conversationOf(bench)];
    await bench.clock.advance(29 * DAY_MS);
    await bench.create({ input: "a", conversation: used });
    await bench.clock.advance(2 * DAY_MS);
    expect(await textsIn(bench, used)).toEqual(["a", WORD]);
    expect((await bench.ask(`conversations/${unused}`)).status).toBe(404);
  });
});

describe("a response in a conversation", () => {
  it.each(["complete", "streamed"])("adds its items, and reads those before: %s", async (form) => {
    const bench = keeping([["one"], ["two"]]);
    const id = await conversationOf(bench);
    for (const input of ["a", "b"]) {
      const body = JSON.stringify({ model: "any", input, conversation: { id }, stream: form === "streamed" });
      const response = await bench.send({ path: "/v1/responses", body });
      const answer = form === "streamed" ? framesOf(await response.text()).at(-1)?.response : await response.json();
      expect(answer).toMatchObject({ status: "completed", conversation: { id }, previous_response_id: null });
    }
    expect(bench.said()).toEqual(["user: a", "assistant: one", "user: b"]);
    expect(await textsIn(bench, id)).toEqual(["a", "one", "b", "two"]);
  });

  it("adds items of a backend that gives them the same ids in each answer", async () => {
    const search = { type: "web_search_call", id: "ws_0", status: "completed" };
    const bench = keeping([[{ type: "provider", format: "responses", value: search }]]);
    const id = await conversationOf(bench);
    for (const input of ["a", "b"]) expect((await bench.create({ input, conversation: id })).status).toBe(200);
    const { body } = await bench.ask(`conversations/${id}/items?order=asc`);
    expect(body.data.map(({ type }) => type)).toEqual(["message", search.type, "message", search.type]);
    expect(new Set(body.data.map((item) => item.id)).size).toBe(4);
  });

  it("adds its items though it is not kept itself", async () => {
    const bench = keeping();
    const id = await conversationOf(bench);
    const { body } = await bench.create({ input: "a", conversation: id, store: false });
    expect(body).toMatchObject({ store: false, conversation: { id } });
    expect((await bench.ask(`responses/${body.id}`)).status).toBe(404);
    expect(await textsIn(bench, id)).toEqual(["a", WORD]);
  });

  it("goes on over tool calls, with the seals of its reasoning", async () => {
    const call: ChatEvent = { type: "tool-call", id: "call_1", name: "look", input: {} };
    const sealed: ChatEvent = { type: "reasoning-signature", signature: "seal", maker: "messages" };
    const bench = keeping([[{ type: "reasoning-delta", text: "hm" }, sealed, call], [WORD]]);
    const id = await conversationOf(bench);
    const tools = [{ type: "function", name: "look", parameters: { type: "object" } }];
    await bench.create({ input: "a", conversation: id, tools });
    const result = { type: "function_call_output", call_id: "call_1", output: "seen" };
    expect((await bench.create({ input: [result], conversation: id, tools })).status).toBe(200);
    expect(bench.said()).toEqual(["user: a", "reasoning", "call call_1", "result call_1"]);
    const parts = bench.asked.at(-1)?.messages.flatMap((message) => message.parts) ?? [];
    expect(parts).toContainEqual(expect.objectContaining({ type: "reasoning", signature: "seal" }));
  });

  it("adds referenced items of other places, and those of the conversation not again", async () => {
    const bench = keeping([["one"], ["two"]]);
    const elsewhere = (await bench.create({ input: "a" })).body.output[0]?.id;
    const id = await conversationOf(bench, { items: [message("b", { id: "msg_b" })] });
    const input = [
      { type: "item_reference", id: elsewhere },
      { type: "item_reference", id: "msg_b" },
      message("c"),
      message("d", { id: "msg_d" }),
      message("e", { id: "msg_d" }),
    ];
    await bench.create({ input, conversation: id });
    expect(bench.said()).toEqual(["user: b", "assistant: one", "user: c", "user: d", "user: e"]);
    expect(await textsIn(bench, id)).toEqual(["b", "one", "c", "d", "e", "two"]);
  });

  it("adds its items together, also when two calls race", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const bench = keeping(
      gates.map(({ promise }, index) => ["ab"[index] ?? "", promise, counted(1)]),
      {},
      (store) => ({
        // A store takes its time.
        async create(keyId, documents) {
          await setImmediate();
          return store.create(keyId, documents);
        },
      }),
    );
    const id = await conversationOf(bench);
    // Both have the same id for their item. One of them gets another.
    const calls = ["1", "2"].map((text) => bench.create({ input: [message(text, { id: "msg_1" })], conversation: id }));
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    for (const { resolve } of gates) resolve();
    for (const { status } of await Promise.all(calls)) expect(status).toBe(200);
    const texts = await textsIn(bench, id);
    expect([texts.slice(0, 2).join(""), texts.slice(2).join("")].toSorted()).toEqual(["1a", "2b"]);
  });

  it("loses no item, however often another call is first", async () => {
    let rivals = 0;
    const bench = keeping([["c"]], {}, (store) => ({
      async create(keyId, documents) {
        const item = documents.find(({ id, parentId }) => parentId === conversation && !/_n\d+$/.test(id));
        const rival = { ...item, content: itemOf(`rival ${++rivals}`) } as NewDocument;
        if (item) await store.create(keyId, [rival]);
        return store.create(keyId, documents);
      },
    }));
    let conversation = "";
    conversation = await conversationOf(bench);
    const input = ["a", "b"].map((text) => message(text, { id: `msg_${text}` }));
    const { status, body } = await bench.create({ input, conversation });
    expect([status, body["store"]]).toEqual([200, true]);
    expect(await textsIn(bench, conversation)).toEqual(["rival 2", "rival 3", "a", "b", "c"]);
  });

  it("adds its items once when the call is repeated", async () => {
    const bench = keeping([[WORD, counted(7)]], { replays: (clock) => memoryReplayStore({ clock }) });
    const id = await conversationOf(bench);
    const body = JSON.stringify({ model: "any", input: PROMPT, conversation: id });
    const headers = { "idempotency-key": "retry-1" };
    const answers = await Promise.all([1, 2, 3].map(() => bench.create({}, { body, headers })));
    answers.push(await bench.create({}, { body, headers }));
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    expect(await textsIn(bench, id)).toEqual([PROMPT, WORD]);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("is made once when a conversation or its items are created by a repeated call", async () => {
    const bench = keeping([[WORD]], { replays: (clock) => memoryReplayStore({ clock }) });
    const headers = { "idempotency-key": "retry-1" };
    const [one, two] = [
      await post(bench, "conversations", {}, { headers }),
      await post(bench, "conversations", {}, { headers }),
    ];
    expect(two.body).toEqual(one.body);
    const path = `conversations/${one.body.id}/items`;
    const added = [1, 2].map(() => post(bench, path, { items: [message("a")] }, { headers }));
    const [first, second] = await Promise.all(added);
    expect(second?.body).toEqual(first?.body);
    expect(await textsIn(bench, one.body.id)).toEqual(["a"]);
  });

  it("adds nothing when it fails, or its client leaves", async () => {
    const bench = keeping([[new Error("No.")], [WORD, new Error("No.")], [WORD, never]]);
    const id = await conversationOf(bench);
    const body = JSON.stringify({ model: "any", input: "a", conversation: id, stream: true });
    await (await bench.send({ path: "/v1/responses", body })).text();
    await (await bench.send({ path: "/v1/responses", body })).text();
    const client = new AbortController();
    const reader = await readUntil(WORD, await bench.send({ path: "/v1/responses", body, signal: client.signal }));
    await reader.cancel();
    client.abort();
    await bench.clock.advance(0);
    expect(await textsIn(bench, id)).toEqual([]);
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it("is kept without its conversation when that was deleted meanwhile", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const bench = keeping([[WORD, promise, counted(7)]]);
    const id = await conversationOf(bench);
    const answer = bench.create({ input: PROMPT, conversation: id });
    await bench.clock.advance(0);
    await bench.ask(`conversations/${id}`, { method: "DELETE" });
    resolve();
    const { status, body } = await answer;
    expect([status, body["store"]]).toEqual([200, true]);
    expect((await bench.ask(`responses/${body.id}`)).status).toBe(200);
    expect((await bench.ask(`conversations/${id}`)).status).toBe(404);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("tells as not kept when the store fails, and the conversation has all of it or nothing", async () => {
    let isDown = false;
    const bench = keeping([[WORD, counted(7)]], {}, (store) => ({
      create: (keyId, documents) => (isDown ? Promise.reject(new Error("Away.")) : store.create(keyId, documents)),
    }));
    const id = await conversationOf(bench);
    isDown = true;
    const { status, body } = await bench.create({ input: PROMPT, conversation: id });
    expect([status, body["store"]]).toEqual([200, false]);
    expect(await textsIn(bench, id)).toEqual([]);
    expect(bench.failures).toMatchObject([{ port: "response-store" }]);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("reads a long conversation in few reads, each item once, and writes its own items alone", async () => {
    const TURNS = 500;
    let [reads, read, created] = [0, 0, 0];
    const bench = keeping([["x"]], {}, (store) => ({
      async list(keyId, parentId, page) {
        const found = await store.list(keyId, parentId, page);
        reads++;
        read += found.length;
        return found;
      },
      create(keyId, documents) {
        created += documents.length;
        return store.create(keyId, documents);
      },
    }));
    const id = await conversationOf(bench);
    const items = Array.from({ length: 20 }, (_, index) => message(`${index}`));
    for (let turn = 0; turn < TURNS / 10; turn++) await post(bench, `conversations/${id}/items`, { items });
    expect(await bench.create({ input: "last", conversation: id })).toMatchObject({ status: 200 });
    expect([reads, read]).toEqual([3, 1_000]);
    // The conversation, its items, and the response with its input and two items of its own.
    expect(created).toBe(1 + 1_000 + 4);
  });

  it("refuses a conversation that has become too long, before anything is held", async () => {
    const bench = keeping([["x"]]);
    const id = await conversationOf(bench);
    const documents = Array.from({ length: 10_001 }, (_, index) => ({
      id: `${id}/m${index}`,
      parentId: id,
      content: JSON.stringify(message("a", { id: `m${index}` })),
      retainMs: DAY_MS,
    }));
    await bench.kept.create("one", documents);
    expect(await bench.create({ input: "b", conversation: id })).toMatchObject({
      status: 400,
      body: { error: { param: "conversation" } },
    });
    expect(bench.report()).toMatchObject({ used: 0, ...AT_REST });
    // Its caller may let it go on with the newest items. None is deleted.
    expect((await bench.create({ input: "b", conversation: id, truncation: "auto" })).status).toBe(200);
    expect(bench.said()).toHaveLength(10_001);
    expect(bench.said().at(-1)).toBe("user: b");
    expect(await bench.ask(`conversations/${id}/items/m0`)).toMatchObject({ status: 200 });
  });
});
