/** The calls that run: `liveCalls` tells what each has done so far, and `stopCall` ends one, which is charged for what it has used. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { type CallRecord, memoryReplayStore, type ModelBackend } from "../../src/index.ts";
import { INPUT, never, opened, PROMPT, readUntil, requestOf, type Setup, speaking, WORD } from "./bench.ts";

/** Says a word, and then nothing any more. */
const endless = speaking(WORD, never);

function recording(setup: Setup = {}) {
  const records: CallRecord[] = [];
  return { ...opened({ backend: endless, onCall: (record) => records.push(record), ...setup }), records };
}

describe("liveCalls", () => {
  it("tells what a call has done so far, and no secret", async () => {
    const backend: ModelBackend = {
      async *chat(request, call) {
        call.observeUpstream?.({
          name: "first",
          format: "messages",
          model: request.model,
          modelListed: false,
          stream: true,
        });
        yield* endless.chat?.(request, call) ?? [];
      },
    };
    const { gateway, clock, send } = opened({ backend, key: { granted: 1000, name: "Team One" } });
    const beganAt = clock.now();
    const response = await send({ body: { stream: true, model: "my-sk-one" } });
    const reader = await readUntil(WORD, response);
    expect(gateway.liveCalls()).toEqual([
      {
        requestId: response.headers.get("request-id"),
        key: { id: "one", name: "Team One", budget: undefined, metadata: undefined },
        format: "messages",
        method: "POST",
        route: "/v1/messages",
        modelAsked: "my-[redacted]",
        stream: true,
        webSocket: false,
        upstream: "first",
        usage: expect.objectContaining({ inputTokens: INPUT, outputTokens: WORD.length }),
        images: undefined,
        beganAt,
      },
    ]);
    expect(JSON.stringify(gateway.liveCalls())).not.toContain(PROMPT);
    await reader.cancel();
    await clock.advance(0);
    expect(gateway.liveCalls()).toEqual([]);
  });

  it("has a call whose key is not known yet, the oldest first", async () => {
    const { gateway, clock, send } = recording();
    const body = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array([0x20])) });
    void send({ body });
    await clock.advance(5);
    void send();
    await clock.advance(0);
    expect(gateway.liveCalls()).toMatchObject([
      { modelAsked: undefined, usage: undefined, beganAt: clock.now() - 5 },
      { key: { id: "one" }, modelAsked: "any", stream: false, beganAt: clock.now() },
    ]);
    expect(gateway.liveCalls({ limit: 1 })).toMatchObject([{ beganAt: clock.now() - 5 }]);
    expect(gateway.liveCallCount()).toBe(2);
    void gateway.close({ deadlineMs: 0 });
    await clock.advance(0);
    expect(gateway.liveCalls()).toEqual([]);
    expect(gateway.liveCallCount()).toBe(0);
  });

  it("refuses a wrong limit", () => {
    const { gateway } = recording();
    expect(() => gateway.liveCalls({ limit: 0 })).toThrow("liveCalls: limit must be a positive integer, not 0");
    expect(() => gateway.liveCalls({ most: 1 } as object)).toThrow("most does not exist");
  });
});

describe("stopCall", () => {
  it.each([
    ["a stream", true, 200],
    ["a call without an answer yet", false, 403],
  ])("stops %s, which is charged for what it has used", async (_what, stream, status) => {
    const { gateway, clock, records, report, send } = recording();
    const response = send({ body: { stream } });
    await clock.advance(0);
    const [live] = gateway.liveCalls();
    expect(gateway.stopCall(live?.requestId ?? "")).toBe(true);
    expect(await (await response).text()).toContain("An operator has stopped the call.");
    await clock.advance(0);
    expect(records).toMatchObject([
      { requestId: live?.requestId, outcome: "stopped", status, errorCode: "call_stopped", units: INPUT + WORD.length },
    ]);
    expect(report()).toMatchObject({ used: INPUT + WORD.length, held: 0, timers: 0 });
    expect(gateway.stopCall(live?.requestId ?? "")).toBe(false);
  });

  it("leaves all other calls alone", async () => {
    const { gateway, clock, send } = recording();
    void send({ body: { stream: true } });
    await clock.advance(0);
    expect(["", "req_", "toString", "one"].map((id) => gateway.stopCall(id))).toEqual([false, false, false, false]);
    expect(gateway.liveCalls()).toHaveLength(1);
    void gateway.close({ deadlineMs: 0 });
    await clock.advance(0);
  });

  it.each([
    ["a stream", true],
    ["a complete answer", false],
  ])("does not say that it has stopped %s that only waits for its settlement", async (_what, stream) => {
    const settling = Promise.withResolvers<void>();
    const { gateway, clock, records, send } = recording({
      backend: speaking(WORD),
      around: (store) => ({ settle: async (...settled) => settling.promise.then(() => store.settle(...settled)) }),
    });
    const response = send({ body: { stream } });
    await clock.advance(0);
    const [live] = gateway.liveCalls();
    expect(gateway.stopCall(live?.requestId ?? "")).toBe(false);
    settling.resolve();
    expect(await (await response).text()).toContain(WORD);
    await clock.advance(0);
    expect(records).toMatchObject([{ requestId: live?.requestId, outcome: "completed", errorCode: undefined }]);
  });

  it("stops a call that goes on without its client, and records so", async () => {
    const { gateway, clock, records, report, send } = recording({
      replays: (time) => memoryReplayStore({ clock: time }),
    });
    const client = new AbortController();
    await send({ body: { stream: true }, headers: { "idempotency-key": "1" }, signal: client.signal });
    client.abort();
    await clock.advance(0);
    const [live] = gateway.liveCalls();
    expect([live?.requestId, "none"].map((id = "") => gateway.stopCall(id))).toEqual([true, false]);
    await clock.advance(0);
    expect(records).toMatchObject([{ outcome: "stopped", errorCode: "call_stopped", units: INPUT + WORD.length }]);
    expect(report()).toMatchObject({ held: 0, timers: 0 });
  });

  it("lets a call cut itself in a runtime where nobody else may", async () => {
    const { gateway, clock, records } = recording();
    const work: Promise<unknown>[] = [];
    await gateway.answer(requestOf(true), { waitUntil: (one) => void work.push(one) });
    const [live] = gateway.liveCalls();
    expect(gateway.stopCall(live?.requestId ?? "")).toBe(true);
    await clock.advance(0);
    expect(records).toMatchObject([{ outcome: "stopped" }]);
    await Promise.all(work);
  });

  it("is not followed by a retry of the official client", async () => {
    let calls = 0;
    const { gateway } = recording({
      backend: {
        async *chat() {
          calls++;
          setImmediate(() => gateway.stopCall(gateway.liveCalls()[0]?.requestId ?? ""));
          yield await never;
        },
      },
    });
    const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new Anthropic({ apiKey: "sk-one", baseURL, maxRetries: 2 });
    const asked = client.messages.create({ model: "any", max_tokens: 5, messages: [{ role: "user", content: "Hi" }] });
    await expect(asked).rejects.toMatchObject({ status: 403, error: { error: { code: "call_stopped" } } });
    expect(calls).toBe(1);
    server.close();
    server.closeAllConnections();
  });
});
