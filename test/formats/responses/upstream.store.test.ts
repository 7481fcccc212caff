/** The store of an upstream belongs to the host's account: no id in it goes there, and what the upstream says of it reaches no caller. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createGateway, type GatewayOptions, memoryQuotaStore, memoryResponseStore } from "../../../src/index.ts";
import { relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";

const FOLDER = join(import.meta.dirname, "../../recordings/upstream/responses");
const COMPLETE = readFileSync(join(FOLDER, "thinking-tools.json"), "utf8");
const STREAM = readFileSync(join(FOLDER, "thinking-tools.txt"), "utf8");

type Body = Record<string, unknown>;

/** A gateway before an upstream that always gives the same answer. */
function staged(options: Partial<GatewayOptions> = {}, more: Partial<RelayOptions> = {}) {
  const sent: Body[] = [];
  const backend = relay({
    format: "responses",
    baseUrl: "http://up.test/v1",
    async fetch(_url, init) {
      const body = JSON.parse(init?.body as string) as Body;
      sent.push(body);
      return body["stream"] === true
        ? new Response(STREAM, { headers: { "content-type": "text/event-stream" } })
        : new Response(COMPLETE, { headers: { "content-type": "application/json" } });
    },
    ...more,
  });
  const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
  const gateway = createGateway({ backend, quotas, onFailure: () => {}, ...options });
  const ask = async (body: Body): Promise<{ status: number; text: string; dropped: string | null }> => {
    const response = await gateway.fetch(
      new Request("http://gateway.test/v1/responses", {
        method: "POST",
        headers: { authorization: "Bearer sk-test", "content-type": "application/json" },
        body: JSON.stringify({ model: "m", ...body }),
      }),
    );
    const dropped = response.headers.get("polygate-dropped");
    return { status: response.status, text: await response.text(), dropped };
  };
  return { ask, sent };
}

const kept = () => staged({ responseStore: memoryResponseStore() });
const read = (text: string): Body => JSON.parse(text) as Body;

/** The responses in the events of a stream. */
const responsesIn = (text: string): Body[] =>
  Array.from(text.matchAll(/^data: (.*)$/gm), ([, data = ""]) => read(data)).flatMap(({ response }) =>
    response === undefined ? [] : [response as Body],
  );

const outputs = [
  { type: "function_call_output", call_id: "call_a", output: "rain" },
  { type: "function_call_output", call_id: "call_b", output: "sun" },
];

describe("an upstream of Responses", () => {
  it("is told to store nothing, and to encrypt its reasoning", async () => {
    const { ask, sent } = staged();
    await ask({ input: "Hi", store: true, include: ["web_search_call.action.sources"], x_new: 1.5 });
    expect(sent[0]).toMatchObject({
      store: false,
      include: ["web_search_call.action.sources", "reasoning.encrypted_content"],
      x_new: 1.5,
    });
    await ask({ input: "Hi", model: "gpt-4.1" });
    expect(sent[1]).not.toHaveProperty("include");
    const none = staged({}, { reasoning: () => "none" });
    await none.ask({ input: "Hi" });
    expect(none.sent[0]).not.toHaveProperty("include");
  });

  it("gets no options of the background, in which the gateway itself makes responses", async () => {
    const { ask, sent } = kept();
    const options = { background: true, background_options: { completion_window: "2h" } };
    const { dropped } = await ask({ input: "Hi", background_options: options.background_options });
    expect(dropped).toContain("native.background_options");
    expect((await ask({ input: "Hi", ...options })).status).toBe(200);
    await expect.poll(() => sent.length).toBe(2);
    for (const body of sent) for (const name of Object.keys(options)) expect(body).not.toHaveProperty(name);
  });

  it("gets the items of a chain, and no id of it", async () => {
    const { ask, sent } = kept();
    const { text } = await ask({ input: "Hi" });
    const { id } = read(text);
    const { status } = await ask({ input: outputs, previous_response_id: id });
    expect(status).toBe(200);
    const body = JSON.stringify(sent[1]);
    for (const secret of [id, "previous_response_id", '"id":', "resp_", "msg_"]) expect(body).not.toContain(secret);
    const { input = [] } = sent[1] as { input?: Body[] };
    expect(input.map(({ type }) => type)).toEqual([
      "message",
      "reasoning",
      "function_call",
      "function_call",
      "function_call_output",
      "function_call_output",
    ]);
    expect(input[1]).toMatchObject({ encrypted_content: "gAAAAABmade-up==" });
  });

  it("gets no conversation", async () => {
    const { ask, sent } = kept();
    expect((await ask({ input: "Hi", conversation: "conv_of_the_host" })).status).toBe(404);
    expect((await ask({ input: "Hi", previous_response_id: "resp_of_the_host" })).status).toBe(404);
    expect((await ask({ input: [{ type: "item_reference", id: "msg_of_the_host" }] })).status).toBe(404);
    expect(sent).toEqual([]);
  });

  it("gets no picture of its own store", async () => {
    const { ask, sent } = staged();
    const { status, text } = await ask({ input: [{ type: "image_generation_call", id: "ig_of_the_host" }] });
    expect(status).toBe(404);
    expect(text).toContain("is not in this service's store");
    expect(sent).toEqual([]);
  });

  it("keeps the ids of items that others name", async () => {
    const { ask, sent } = staged();
    const asked = { type: "mcp_approval_request", id: "mcpr_1", server_label: "s", name: "f", arguments: "{}" };
    const approved = { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true };
    await ask({ input: [{ role: "user", content: "Hi", id: "msg_1" }, asked, approved] });
    expect(sent[0]?.["input"]).toEqual([{ role: "user", content: "Hi" }, asked, approved]);
  });

  it("gets the reasoning back that its client has dropped", async () => {
    const { ask, sent } = staged();
    const { text } = await ask({ input: "Hi", store: false });
    const { output } = read(text) as { output: Body[] };
    const calls = output.filter(({ type }) => type === "function_call");
    await ask({ input: [{ role: "user", content: "Hi" }, ...calls, ...outputs] });
    const { input = [] } = sent[1] as { input?: Body[] };
    expect(input.map(({ type }) => type)).toEqual([
      undefined,
      "reasoning",
      "function_call",
      "function_call",
      "function_call_output",
      "function_call_output",
    ]);
    expect(input[1]).toMatchObject({ encrypted_content: "gAAAAABmade-up==" });
  });

  it("gets no reasoning that it has not encrypted, and the caller is told", async () => {
    const { ask, sent } = staged();
    const bare = { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] };
    const { dropped } = await ask({ input: [{ role: "user", content: "Hi" }, bare] });
    expect(sent[0]?.["input"]).toEqual([{ role: "user", content: "Hi" }]);
    expect(dropped).toBe("messages.reasoning.unsealed");
    const asText = staged({}, { foreignReasoning: "text" });
    await asText.ask({ input: [{ role: "user", content: "Hi" }, bare] });
    expect(asText.sent[0]?.["input"]).toEqual([
      { role: "user", content: "Hi" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hm." }] },
    ]);
  });
});

/** Returns a complete answer as its upstream wrote it. */
const restored = (text: string): string =>
  text
    .replace(/"id": ?"resp_[0-9a-f]{32}"/g, (found) => found.replace(/resp_\w+/, "resp_9"))
    .replace(/("store": ?)true/g, "$1false")
    .replace(/("previous_response_id": ?)"resp_\w+"/g, "$1null");

describe("a caller", () => {
  it("gets the id, the store and the chain of the gateway, and all else to the letter", async () => {
    const { ask } = kept();
    const first = await ask({ input: "Hi" });
    const { id, store } = read(first.text);
    expect(id).toMatch(/^resp_[0-9a-f]{32}$/);
    expect(store).toBe(true);
    const second = await ask({ input: outputs, previous_response_id: id });
    expect(read(second.text)).toMatchObject({ store: true, previous_response_id: id });
    expect(restored(first.text)).toBe(COMPLETE);
    expect(restored(second.text)).toBe(COMPLETE);
  });

  it("gets the same in a stream", async () => {
    const { ask } = kept();
    const { id } = read((await ask({ input: "Hi" })).text);
    const { text } = await ask({ input: outputs, previous_response_id: id, stream: true });
    const responses = responsesIn(text);
    expect(responses.length).toBeGreaterThan(2);
    expect(new Set(responses.map((response) => response["id"])).size).toBe(1);
    for (const response of responses) {
      expect(response["id"]).toMatch(/^resp_[0-9a-f]{32}$/);
      expect(response).toMatchObject({ store: true, previous_response_id: id });
    }
    const restored = text
      .replaceAll(String(responses[0]?.["id"]), "resp_9")
      .replaceAll(`"previous_response_id":"${String(id)}"`, '"previous_response_id":null')
      .replaceAll('"store":true', '"store":false');
    expect(restored).toBe(STREAM);
  });

  it("who wants nothing stored is told that nothing is, and which response it continues", async () => {
    const { ask } = kept();
    const { id } = read((await ask({ input: "Hi" })).text);
    for (const stream of [false, true]) {
      const { text } = await ask({ input: outputs, previous_response_id: id, store: false, stream });
      for (const response of stream ? responsesIn(text) : [read(text)])
        expect(response).toMatchObject({ id: "resp_9", store: false, previous_response_id: id });
    }
  });

  it("without a store gets the upstream's answer to the letter", async () => {
    const { ask } = staged();
    expect((await ask({ input: "Hi" })).text).toBe(COMPLETE);
    expect((await ask({ input: "Hi", stream: true })).text).toBe(STREAM);
  });

  it("gets no conversation and no id of the upstream, however the upstream writes them", async () => {
    const own = '"\\u0069d": "resp_upstream", "conversation": {"id": "conv_upstream"}, "status":';
    const complete = COMPLETE.replace(/"status":/, own);
    const stream = STREAM.replaceAll(/(?<="response":\{[^{}]*)"status":/g, own);
    const { ask } = staged(
      { responseStore: memoryResponseStore() },
      {
        fetch: async (_url, init) =>
          (init as { body: string }).body.includes('"stream":true')
            ? new Response(stream, { headers: { "content-type": "text/event-stream" } })
            : new Response(complete, { headers: { "content-type": "application/json" } }),
      },
    );
    for (const isStreamed of [false, true]) {
      const { text } = await ask({ input: "Hi", stream: isStreamed });
      expect(text).toContain('"conversation": null');
      expect(text).not.toContain("_upstream");
    }
  });

  it("gets the results of custom tools again without a status, which they have only where they are shown", async () => {
    const { ask, sent } = kept();
    const call = { type: "custom_tool_call", call_id: "call_c", name: "tell", input: "x" };
    const result = { type: "custom_tool_call_output", call_id: "call_c", output: "y" };
    const { id } = read((await ask({ input: [call, result] })).text);
    await ask({ previous_response_id: id, input: outputs });
    expect(sent[1]?.["input"]).toContainEqual(result);
  });

  it("gets the same of an upstream that does not name its events", async () => {
    const unnamed = STREAM.replaceAll(/^event: .*\n/gm, "");
    const fetch = async (): Promise<Response> =>
      new Response(unnamed, { headers: { "content-type": "text/event-stream" } });
    const { ask } = staged({ responseStore: memoryResponseStore() }, { fetch });
    const responses = responsesIn((await ask({ input: "Hi", stream: true })).text);
    expect(responses.length).toBeGreaterThan(2);
    for (const response of responses)
      expect(response).toMatchObject({ id: expect.stringMatching(/^resp_[0-9a-f]{32}$/), store: true });
  });

  it("is told that a response is not kept when its upstream breaks off", async () => {
    const { ask } = staged(
      { responseStore: memoryResponseStore() },
      {
        fetch: async () =>
          new Response(STREAM.slice(0, STREAM.lastIndexOf("event:")), {
            headers: { "content-type": "text/event-stream" },
          }),
      },
    );
    const { text } = await ask({ input: "Hi", stream: true });
    const error = { code: "server_error", message: "The model backend's answer broke off." };
    expect(responsesIn(text).at(-1)).toMatchObject({ status: "failed", store: false, error });
  });

  it("is not told that an upstream stores what it was told not to", async () => {
    const { ask } = staged(
      {},
      {
        fetch: async () =>
          new Response(COMPLETE.replace(/"store": ?false/, '"store": true'), {
            headers: { "content-type": "application/json" },
          }),
      },
    );
    expect((await ask({ input: "Hi" })).text).toBe(COMPLETE.replace(/"store": ?false/, '"store": false'));
  });
});
