/** Responses in the background: they go on without their client, are polled, streamed and cancelled, and end however their call ends. */

import { describe, expect, it } from "vitest";
import {
  createGateway,
  type Gateway,
  type KeptDocument,
  memoryQuotaStore,
  memoryReplayStore,
  memoryResponseStore,
  type OnCall,
} from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { AT_REST, counted, INPUT, never, obedient, PROMPT, readUntil, speaking, type Step, WORD } from "./bench.ts";
import { type Frame, framesOf, type Keeping, keeping, OTHER } from "./keeping.ts";

const MIB = 1024 ** 2;
const YEAR_MS = 365 * 86_400_000;
const BACKGROUND = { input: PROMPT, background: true };

const away = (): Promise<never> => Promise.reject(new Error("Away."));

/** A backend that says a word, and goes on when it is told to. */
function waiting(): { readonly script: readonly Step[]; readonly goOn: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { script: [WORD, promise, " more", counted(7)], goOn: resolve };
}

const statusOf = async ({ ask }: Keeping, id: string): Promise<unknown> =>
  (await ask(`responses/${id}`)).body["status"];

const textOf = (frames: readonly Frame[]): string =>
  frames.map(({ type, ...frame }) => (type === "response.output_text.delta" ? frame["delta"] : "")).join("");

/** Reads the rest of a stream while time passes. */
async function textIn({ clock }: Keeping, response: Response): Promise<string> {
  const reading = { isOver: false };
  const text = response.text().finally(() => (reading.isOver = true));
  for (let turns = 0; !reading.isOver && turns < 100; turns++) await clock.advance(500);
  return text;
}

const streamOf = (bench: Keeping, id: string, query = ""): Promise<Response> =>
  bench.send({ path: `/v1/responses/${id}?stream=true${query}`, method: "GET" });

describe("a response in the background", () => {
  it("is answered at once, goes on behind its answer, and is polled until it has ended", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script]);
    const { status, body } = await bench.create(BACKGROUND);
    expect([status, body]).toMatchObject([200, { status: "queued", background: true, store: true, output: [] }]);
    expect(await statusOf(bench, body.id)).toBe("in_progress");
    await bench.clock.advance(5_000);
    expect(await statusOf(bench, body.id)).toBe("in_progress");
    expect(bench.report()).toMatchObject({ liveHolds: 1 });
    goOn();
    await bench.clock.advance(0);
    const ended = await bench.ask(`responses/${body.id}`);
    expect(ended.body).toMatchObject({
      id: body.id,
      status: "completed",
      background: true,
      output: [{ content: [{ text: "word more" }] }],
      usage: { input_tokens: INPUT, output_tokens: 7 },
    });
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
    expect(bench.failures).toEqual([]);
  });

  it("goes on when its client has left, streamed or not", async () => {
    for (const stream of [true, false]) {
      const { script, goOn } = waiting();
      const bench = keeping([script]);
      const client = new AbortController();
      const body = JSON.stringify({ model: "any", ...BACKGROUND, stream });
      const response = await bench.send({ path: "/v1/responses", body, signal: client.signal });
      const reader = await readUntil(stream ? WORD : "queued", response);
      await reader.cancel();
      client.abort();
      await bench.clock.advance(1_000);
      const [document] = await bench.kept.read("one", [`resp_${response.headers.get("request-id")?.slice(4)}`]);
      expect(await statusOf(bench, document?.id ?? "")).toBe("in_progress");
      goOn();
      await bench.clock.advance(0);
      expect(await statusOf(bench, document?.id ?? "")).toBe("completed");
      expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
    }
  });

  it("is streamed later, from the beginning and from any event on", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script]);
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(1_000);
    const live = await streamOf(bench, id);
    await bench.clock.advance(2_000);
    goOn();
    const frames = framesOf(await textIn(bench, live));
    expect(textOf(frames)).toBe("word more");
    expect(frames.map((frame) => frame.sequence_number)).toEqual(frames.map((_, index) => index));
    expect([frames[0]?.type, frames.at(-1)?.type]).toEqual(["response.created", "response.completed"]);
    expect(frames.at(-1)?.response).toEqual((await bench.ask(`responses/${id}`)).body);
    expect(framesOf(await textIn(bench, await streamOf(bench, id)))).toEqual(frames);
    for (const after of [0, 3, frames.length - 2, frames.length - 1, frames.length + 10]) {
      const rest = framesOf(await textIn(bench, await streamOf(bench, id, `&starting_after=${after}`)));
      expect(rest).toEqual(frames.slice(after + 1));
    }
    for (const after of ["-2", "x", "1.5"])
      expect((await streamOf(bench, id, `&starting_after=${after}`)).status).toBe(400);
  });

  it("is not read again while its reader waits for its next event, however large it is", async () => {
    const { script, goOn } = waiting();
    const seen = { chars: 0, looks: 0 };
    const count = (documents: readonly KeptDocument[]): readonly KeptDocument[] => {
      for (const { content } of documents) seen.chars += content.length;
      return documents;
    };
    const bench = keeping([script], { key: { granted: 10 ** 8 } }, (store) => ({
      read: async (keyId, ids) => count(await store.read(keyId, ids)),
      list: async (keyId, parentId, page) => (seen.looks++, count(await store.list(keyId, parentId, page))),
    }));
    const { id } = (await bench.create({ ...BACKGROUND, instructions: "x".repeat(4 * MIB) })).body;
    await bench.clock.advance(2_000);
    const text = (await streamOf(bench, id)).text();
    const looked = async (times: number): Promise<void> => {
      seen.looks = 0;
      for (let steps = 0; seen.looks < times && steps < 1_000; steps++) await bench.clock.advance(100);
      expect(seen.looks).toBeGreaterThanOrEqual(times);
    };
    // The first two events hold the response.
    await looked(4);
    seen.chars = 0;
    await looked(5);
    expect(seen.chars / MIB).toBeLessThan(4);
    goOn();
    expect(textOf(framesOf(await textIn(bench, { text: () => text } as Response)))).toBe("word more");
  });

  it("is streamed to its first client with the same events", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script]);
    const body = JSON.stringify({ model: "any", ...BACKGROUND, stream: true });
    const response = await bench.send({ path: "/v1/responses", body });
    goOn();
    const frames = framesOf(await textIn(bench, response));
    const id = frames[0]?.response?.id ?? "";
    expect(frames.at(-1)).toMatchObject({ type: "response.completed", response: { id, background: true } });
    expect(framesOf(await textIn(bench, await streamOf(bench, id)))).toEqual(frames);
  });

  it("writes its text once, however long it takes", async () => {
    let written = 0;
    const words = Array.from({ length: 60 }, () => Promise.withResolvers<void>());
    const script: readonly Step[] = words.flatMap(({ promise }) => [promise, "w".repeat(1_000)]);
    const bench = keeping([[...script, counted(60_000)]], {}, (store) => ({
      create(keyId, documents) {
        for (const { content } of documents) written += content.length;
        return store.create(keyId, documents);
      },
      update(keyId, update) {
        written += update.content.length;
        return store.update(keyId, update);
      },
    }));
    const { id } = (await bench.create({ ...BACKGROUND, max_output_tokens: 100_000 })).body;
    for (const { resolve } of words) {
      resolve();
      await bench.clock.advance(1_000);
    }
    expect(await statusOf(bench, id)).toBe("completed");
    // The deltas, the three events with the whole text, the last event, the response, and its output, which is found without it.
    expect(written).toBeLessThan(8 * 60_000);
  });

  it("can be continued once it has ended, and not before", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script, [WORD]]);
    const { id } = (await bench.create(BACKGROUND)).body;
    expect(await bench.create({ input: "b", previous_response_id: id })).toMatchObject({
      status: 400,
      body: { error: { param: "previous_response_id" } },
    });
    goOn();
    await bench.clock.advance(0);
    expect((await bench.create({ input: "b", previous_response_id: id })).status).toBe(200);
    expect(bench.said()).toEqual([`user: ${PROMPT}`, "assistant: word more", "user: b"]);
  });

  it("is made once for repeated calls, which get the same id", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script], { replays: (clock) => memoryReplayStore({ clock }) });
    const headers = { "idempotency-key": "retry-1" };
    const body = JSON.stringify({ model: "any", ...BACKGROUND });
    const first = await bench.create({}, { body, headers });
    const second = await bench.create({}, { body, headers });
    goOn();
    await bench.clock.advance(0);
    const third = await bench.create({}, { body, headers });
    expect([second.body, third.body]).toEqual([first.body, first.body]);
    expect(bench.asked).toHaveLength(1);
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("is refused where it is not to be kept", async () => {
    const bench = keeping();
    expect(await bench.create({ ...BACKGROUND, store: false })).toMatchObject({
      status: 400,
      body: { error: { param: "background" } },
    });
    expect(bench.asked).toEqual([]);
  });

  it("adds its items to its conversation once it has ended", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script]);
    const conversation = (await bench.ask("conversations", { method: "POST", body: "{}" })).body.id;
    await bench.create({ ...BACKGROUND, conversation });
    expect((await bench.ask(`conversations/${conversation}/items`)).body.data).toEqual([]);
    goOn();
    await bench.clock.advance(0);
    const items = (await bench.ask(`conversations/${conversation}/items?order=asc`)).body.data;
    expect(items.map((item) => item["role"])).toEqual(["user", "assistant"]);
  });
});

describe("a cancelled response", () => {
  it("stops its backend within seconds, is charged for what has come, and stays cancelled", async () => {
    const backend = obedient();
    const outcomes: unknown[] = [];
    const onCall: OnCall = ({ outcome, units }) => void (units > 0 && outcomes.push(outcome));
    const bench = keeping([], { backend, onCall });
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(3_000);
    const cancelled = await bench.ask(`responses/${id}/cancel`, { method: "POST" });
    expect([cancelled.status, cancelled.body]).toMatchObject([200, { id, status: "cancelled", background: true }]);
    await bench.clock.advance(2_000);
    expect(backend.seen.ended).toBe(true);
    expect(await statusOf(bench, id)).toBe("cancelled");
    expect([bench.report(), outcomes]).toMatchObject([{ used: INPUT + 4, ...AT_REST }, ["client-closed"]]);
    expect((await bench.ask(`responses/${id}/cancel`, { method: "POST" })).body["status"]).toBe("cancelled");
    expect(textOf(framesOf(await textIn(bench, await streamOf(bench, id))))).toBe(WORD);
    expect((await bench.create({ input: "b", previous_response_id: id })).status).toBe(400);
    expect(bench.failures).toEqual([]);
  });

  it("costs its key nothing, which may have no quota left but what the response holds", async () => {
    const { create, ask, store, clock } = keeping([[WORD, never]], { key: { granted: 10 ** 9 } });
    const { id } = (await create({ ...BACKGROUND, instructions: "x".repeat(1_200_000) })).body;
    await clock.advance(0);
    const atMost = (await store.balance("one"))?.available ?? 0;
    await store.reserve({ id: "h", keyId: "one", atLeast: 1, atMost, leaseMs: 60_000 });
    const { status, body } = await ask(`responses/${id}/cancel`, { method: "POST" });
    expect([status, body["status"]]).toEqual([200, "cancelled"]);
  });

  it("ends its streams with the cancelled response, also before its process has noticed", async () => {
    const bench = keeping([], { backend: obedient() });
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.ask(`responses/${id}/cancel`, { method: "POST" });
    const frames = framesOf(await textIn(bench, await streamOf(bench, id)));
    expect(frames.at(-1)).toMatchObject({ type: "response.failed", response: { id, status: "cancelled" } });
    await bench.clock.advance(2_000);
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it("is one that has not ended: an ended one stays as it is", async () => {
    const bench = keeping([[WORD, counted(7)]]);
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(0);
    expect((await bench.ask(`responses/${id}/cancel`, { method: "POST" })).body["status"]).toBe("completed");
  });

  it("stays cancelled, whatever ids a caller gives to items, and its lease is no response", async () => {
    const backend = obedient();
    const bench = keeping([], { backend });
    const { id } = (await bench.create(BACKGROUND)).body;
    const items = ["lease", "input", "events-0"].map((name) => ({ role: "user", content: "a", id: `${id}/${name}` }));
    const post = (path: string, body: object) => bench.ask(path, { method: "POST", body: JSON.stringify(body) });
    expect(await post("conversations", { items })).toMatchObject({ status: 200 });
    for (const path of [`responses/${id}%2Flease`, `responses/${id}%2Flease/input_items`])
      expect(await bench.ask(path)).toMatchObject({ status: 404 });
    await post(`responses/${id}/cancel`, {});
    await bench.clock.advance(2_000);
    expect(backend.seen.ended).toBe(true);
    expect(await statusOf(bench, id)).toBe("cancelled");
    const referred = { items: [{ type: "item_reference", id: `${id}/lease` }] };
    expect(await post("conversations", referred)).toMatchObject({ status: 200 });
  });

  it("of another key is not found, and goes on", async () => {
    const { script, goOn } = waiting();
    const bench = keeping([script]);
    const { id } = (await bench.create(BACKGROUND)).body;
    for (const [method, path] of [
      ["POST", `responses/${id}/cancel`],
      ["GET", `responses/${id}?stream=true`],
      ["DELETE", `responses/${id}`],
    ] as const)
      expect((await bench.ask(path, { method, ...OTHER })).status).toBe(404);
    goOn();
    await bench.clock.advance(0);
    expect(await statusOf(bench, id)).toBe("completed");
  });

  it("may be deleted instead: its backend stops too, and nothing of it comes back", async () => {
    const backend = obedient();
    const bench = keeping([], { backend });
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(1_000);
    expect((await bench.ask(`responses/${id}`, { method: "DELETE" })).status).toBe(200);
    await bench.clock.advance(2_000);
    expect(backend.seen.ended).toBe(true);
    expect(bench.kept.documents).toBe(0);
    expect(bench.report()).toMatchObject(AT_REST);
  });
});

async function asked(gateway: Gateway, path: string, body?: object): Promise<{ id: string; status: string }> {
  const headers = { authorization: "Bearer sk-one", "content-type": "application/json" };
  const init = { headers, method: body ? "POST" : "GET", ...(body && { body: JSON.stringify(body) }) };
  return (await (await gateway.fetch(new Request(`http://host/v1/${path}`, init))).json()) as never;
}

describe("a response in the background that does not end well", () => {
  it("has failed when its backend fails, before or after its first word", async () => {
    for (const script of [[new Error("No.")], [WORD, new Error("No.")]]) {
      const bench = keeping([script]);
      const { id } = (await bench.create(BACKGROUND)).body;
      await bench.clock.advance(0);
      const { body } = await bench.ask(`responses/${id}`);
      expect(body).toMatchObject({ status: "failed", error: { message: "The model backend failed." } });
      expect(JSON.stringify(body)).not.toContain("No.");
      const frames = framesOf(await textIn(bench, await streamOf(bench, id)));
      expect(frames.at(-1)).toMatchObject({ type: "response.failed", response: { id, status: "failed" } });
      expect(bench.report()).toMatchObject(AT_REST);
    }
  });

  it("streamed, tells its first client the error, and has failed", async () => {
    const bench = keeping([[new Error("No.")]]);
    const body = JSON.stringify({ model: "any", ...BACKGROUND, stream: true });
    const response = await bench.send({ path: "/v1/responses", body });
    const id = `resp_${response.headers.get("request-id")?.slice(4)}`;
    await response.text();
    expect(await statusOf(bench, id)).toBe("failed");
    expect(bench.report()).toMatchObject(AT_REST);
  });

  it("has failed at its deadline, and is charged for what has come", async () => {
    const backend = obedient();
    const bench = keeping([], { backend, limits: { deadlineMs: 60_000 } });
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(59_000);
    expect(await statusOf(bench, id)).toBe("in_progress");
    await bench.clock.advance(1_000);
    expect(await statusOf(bench, id)).toBe("failed");
    expect(backend.seen.ended).toBe(true);
    expect(bench.report()).toMatchObject({ used: INPUT + 4, ...AT_REST });
  });

  it("is waited for by a gateway that closes, or has failed when that takes too long", async () => {
    for (const isQuick of [true, false]) {
      const { script, goOn } = waiting();
      const bench = keeping([script]);
      const { id } = (await bench.create(BACKGROUND)).body;
      const closing = bench.gateway.close({ deadlineMs: 10_000 });
      if (isQuick) goOn();
      await bench.clock.advance(10_000);
      await closing;
      const [document] = await bench.kept.read("one", [id]);
      expect(JSON.parse(document?.content.split("\n")[1] ?? "")).toMatchObject({
        status: isQuick ? "completed" : "failed",
      });
      expect(bench.report()).toMatchObject(AT_REST);
    }
  });

  it("has failed for its readers when its process has died", async () => {
    const bench = keeping([[WORD, never]]);
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(1_000);
    // What a dead process leaves: a document that is being made, with a lease that nobody renews.
    const left = await bench.kept.read("one", [id, `${id}/lease`]);
    const pieces = await bench.kept.list("one", id, { limit: 100, order: "asc" });
    const dead = keeping();
    const documents = [...left.filter(({ parentId }) => parentId === undefined), ...pieces];
    await dead.kept.create(
      "one",
      documents.map((document) => ({ ...document, retainMs: document.id.endsWith("/lease") ? 30_000 : 1_000_000 })),
    );
    await dead.clock.advance(29_000);
    expect(await statusOf(dead, id)).toBe("in_progress");
    await dead.clock.advance(3_000);
    const frames = framesOf(await textIn(dead, await streamOf(dead, id)));
    expect(textOf(frames)).toBe(WORD);
    expect(frames.at(-1)).toMatchObject({ type: "response.failed", sequence_number: frames.length - 1 });
    const { body } = await dead.ask(`responses/${id}`);
    expect(body).toMatchObject({ status: "failed", error: { code: "server_error" } });
    expect((await dead.ask(`responses/${id}/cancel`, { method: "POST" })).body).toEqual(body);
  });

  it("is judged by the clock of its store, whatever the clock of the process that is asked", async () => {
    const store = memoryResponseStore({ clock: manualClock() });
    const gatewayAt = (now: number): Gateway =>
      createGateway({
        backend: speaking(WORD, never),
        quotas: memoryQuotaStore([{ apiKey: "sk-one", id: "one" }]),
        responseStore: store,
        clock: manualClock(now),
      });
    const now = Date.UTC(2026, 0, 1);
    const { id } = await asked(gatewayAt(now), "responses", { model: "any", ...BACKGROUND });
    for (const skewMs of [-YEAR_MS, -40_000, 40_000, YEAR_MS])
      expect(await asked(gatewayAt(now + skewMs), `responses/${id}`)).toMatchObject({ status: "in_progress" });
  });

  it("is corrected by its result, and its process goes on, though its lease was lost", async () => {
    for (const isLate of [true, false]) {
      const { script, goOn } = waiting();
      const bench = keeping([script]);
      const { id } = (await bench.create(BACKGROUND)).body;
      await bench.kept.delete("one", `${id}/lease`);
      expect(await statusOf(bench, id)).toBe("failed");
      await bench.clock.advance(isLate ? 0 : 2_000);
      expect(await statusOf(bench, id)).toBe(isLate ? "failed" : "in_progress");
      goOn();
      await bench.clock.advance(0);
      expect(await statusOf(bench, id)).toBe("completed");
    }
  });

  it("is refused when the store is down as it begins, and nothing is asked or charged", async () => {
    const bench = keeping([[WORD]], {}, () => ({ create: () => Promise.reject(new Error("Away.")) }));
    expect((await bench.create(BACKGROUND)).status).toBe(503);
    expect(bench.asked).toEqual([]);
    expect(bench.report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("is whole though the store is down for a while", async () => {
    const { script, goOn } = waiting();
    let isDown = false;
    const bench = keeping([script], {}, (store) => ({
      create: (keyId, documents) => (isDown ? away() : store.create(keyId, documents)),
      update: (keyId, update) => (isDown ? away() : store.update(keyId, update)),
      read: (keyId, ids) => (isDown ? away() : store.read(keyId, ids)),
    }));
    const { id } = (await bench.create(BACKGROUND)).body;
    isDown = true;
    await bench.clock.advance(20_000);
    expect(bench.failures.length).toBeGreaterThan(0);
    isDown = false;
    await bench.clock.advance(2_000);
    goOn();
    await bench.clock.advance(0);
    expect(await statusOf(bench, id)).toBe("completed");
    expect(textOf(framesOf(await textIn(bench, await streamOf(bench, id))))).toBe("word more");
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
  });

  it("tells its later readers of a store that fails while they read, whatever they have read", async () => {
    const { script, goOn } = waiting();
    let isDown = false;
    const bench = keeping([script], {}, (store) => ({
      list: (keyId, parentId, page) => (isDown ? away() : store.list(keyId, parentId, page)),
    }));
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(2_000);
    const readers = await Promise.all(
      ["", "&starting_after=1", "&starting_after=900"].map((query) => streamOf(bench, id, query)),
    );
    isDown = true;
    for (const reader of readers) {
      const frames = framesOf(await textIn(bench, reader));
      expect(frames.at(-1)).toMatchObject({ type: "error", code: "store_unavailable" });
    }
    goOn();
  });

  it("is whole though the store has written what it says it has not", async () => {
    const { script, goOn } = waiting();
    let lies = true;
    const bench = keeping([script], {}, (store) => ({
      async create(keyId, documents) {
        await store.create(keyId, documents);
        if (lies && documents[0]?.id.includes("/events")) return away();
        return true;
      },
    }));
    const { id } = (await bench.create(BACKGROUND)).body;
    await bench.clock.advance(2_000);
    expect(bench.failures.length).toBeGreaterThan(0);
    lies = false;
    goOn();
    await bench.clock.advance(0);
    const frames = framesOf(await textIn(bench, await streamOf(bench, id)));
    expect(frames.map((frame) => frame.sequence_number)).toEqual([...frames.keys()]);
    expect(textOf(frames)).toBe("word more");
  });

  it("has failed when the store was down at its end, is charged once, and is not asked for ever", async () => {
    const { script, goOn } = waiting();
    let isDown = false;
    const bench = keeping([script], {}, (store) => ({
      update: (keyId, update) => (isDown ? never : store.update(keyId, update)),
      create: (keyId, documents) => (isDown ? never : store.create(keyId, documents)),
    }));
    const { id } = (await bench.create(BACKGROUND)).body;
    isDown = true;
    goOn();
    await bench.clock.advance(60_000);
    isDown = false;
    expect(bench.report()).toMatchObject({ used: INPUT + 7, ...AT_REST });
    expect(await statusOf(bench, id)).toBe("failed");
  });
});
