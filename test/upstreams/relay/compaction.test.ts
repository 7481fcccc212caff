/** Compactions by an upstream of Responses: passed on, made by the gateway where the upstream has none, and refused elsewhere. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { toNodeHandler } from "../../../adapters/node.ts";
import {
  type CallRecord,
  createGateway,
  type Failure,
  memoryQuotaStore,
  memoryResponseStore,
  type ModelBackend,
} from "../../../src/index.ts";
import { isJsonObject, type JsonObject } from "../../../src/model/json.ts";
import { relay, type RelayFormat, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";

interface Seen {
  readonly path: string;
  readonly body: JsonObject;
}

interface Upstream extends AsyncDisposable {
  readonly url: string;
  readonly seen: Seen[];
}

/** Serves Responses. The answer to a request for a compaction is `compaction`: a status, or a body. */
async function upstreamWith(compaction: number | object): Promise<Upstream> {
  const seen: Seen[] = [];
  const server = createServer((req, res) => {
    let text = "";
    req.on("data", (chunk: Buffer) => (text += chunk.toString()));
    req.once("end", () => {
      const body: unknown = JSON.parse(text);
      seen.push({ path: req.url ?? "", body: isJsonObject(body) ? body : {} });
      const isCompact = req.url === "/v1/responses/compact";
      const status = isCompact && typeof compaction === "number" ? compaction : 200;
      res.writeHead(status, { "content-type": "application/json" });
      const refused = { error: { message: "Not Found", type: "invalid_request_error", code: null } };
      res.end(JSON.stringify(status === 200 ? (isCompact ? compaction : ANSWER) : refused));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}

const ANSWER = {
  id: "resp_1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: "m",
  output: [
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "So far: a launch.", annotations: [] }],
    },
  ],
  usage: { input_tokens: 20, output_tokens: 6, total_tokens: 26 },
};

const COMPACTED = {
  id: "resp_cmp",
  object: "response.compaction",
  created_at: 5,
  output: [
    {
      id: "msg_9",
      type: "message",
      role: "user",
      status: "completed",
      content: [{ type: "input_text", text: "We launch." }],
    },
    { id: "cmp_9", type: "compaction", encrypted_content: "gAAAAABo-upstream" },
  ],
  usage: { input_tokens: 50, input_tokens_details: { cached_tokens: 10 }, output_tokens: 9, total_tokens: 59 },
  future_field: 1.0,
};

const SECRET = { compaction: { keys: [{ name: "a", secret: new Uint8Array(32).fill(3) }] } };

interface Stage extends AsyncDisposable {
  readonly client: OpenAI;
  readonly records: CallRecord[];
  readonly failures: Failure[];
}

async function stage(backend: ModelBackend): Promise<Stage> {
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 1_000_000 }]),
    responses: SECRET,
    responseStore: memoryResponseStore(),
    onCall: (record) => void records.push(record),
    onFailure: (failure) => void failures.push(failure),
  });
  const server = createServer(toNodeHandler(gateway));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return {
    client: new OpenAI({ apiKey: "sk-one", baseURL: url, maxRetries: 0 }),
    records,
    failures,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await gateway.close({ deadlineMs: 0 });
    },
  };
}

const passing = (baseUrl: string, more: Partial<RelayOptions<"responses">> = {}): ModelBackend =>
  relay({ format: "responses", baseUrl, compaction: "pass", ...more });

const LONG = "We plan the launch on Tuesday. ".repeat(30);
const input: OpenAI.Responses.ResponseInput = [
  { role: "user", content: LONG },
  { role: "assistant", content: "Understood." },
  { role: "user", content: "When?" },
];

describe("POST /v1/responses/compact before a relay that passes it on", () => {
  it("goes to the upstream with the whole conversation, comes back unchanged, and is charged by its usage", async () => {
    await using upstream = await upstreamWith(COMPACTED);
    await using on = await stage(passing(upstream.url));
    const first = await on.client.responses.create({ model: "m", input: "We launch." });
    const compacted = await on.client.responses.compact({
      model: "m",
      input: "On Tuesday.",
      previous_response_id: first.id,
      instructions: "Be brief.",
      prompt_cache_key: "k",
    });
    expect(compacted).toMatchObject(COMPACTED);
    const [, asked] = upstream.seen as [Seen, Seen];
    expect(asked.path).toBe("/v1/responses/compact");
    expect(Object.keys(asked.body).toSorted()).toEqual(["input", "instructions", "model", "prompt_cache_key"]);
    expect(JSON.stringify(asked.body["input"])).toMatch(/We launch\..*So far: a launch\..*On Tuesday\./);
    expect(on.records.map(({ units, certainty }) => [units, certainty])).toEqual([
      [26, "exact"],
      [59, "exact"],
    ]);
    expect(on.records[1]?.usage).toMatchObject({ inputTokens: 50, cacheReadTokens: 10, outputTokens: 9 });
  });

  it("gives a compaction that comes back to the upstream unchanged, and that no other format takes", async () => {
    await using upstream = await upstreamWith(COMPACTED);
    await using on = await stage(passing(upstream.url));
    const { output } = await on.client.responses.compact({ model: "m", input });
    const next = [...output, { role: "user", content: "And then?" }] as OpenAI.Responses.ResponseInput;
    await on.client.responses.create({ model: "m", input: next });
    expect(upstream.seen.at(-1)?.body["input"]).toContainEqual(COMPACTED.output[1]);
    for (const format of ["messages", "chat-completions", "generate-content"] as const satisfies RelayFormat[]) {
      await using other = await stage(relay({ format, baseUrl: "http://127.0.0.1:2" }));
      const refused = other.client.responses.create({ model: "m", input: next });
      await expect(refused).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining("messages.compaction"),
      });
    }
  });

  it.each([404, 405, 501])(
    "makes a summary where the upstream answers %i, and does not ask again at once",
    async (status) => {
      await using upstream = await upstreamWith(status);
      await using on = await stage(passing(upstream.url));
      for (let call = 0; call < 2; call++) {
        const { output, usage } = await on.client.responses.compact({ model: "m", input });
        expect(output.at(-1)).toMatchObject({ type: "compaction", encrypted_content: expect.stringMatching(/^pgc\./) });
        expect(usage.total_tokens).toBe(26);
      }
      expect(upstream.seen.map(({ path }) => path)).toEqual([
        "/v1/responses/compact",
        "/v1/responses",
        "/v1/responses",
      ]);
      expect(on.records.map(({ units }) => units)).toEqual([26, 26]);
    },
  );

  it.each([
    ["refuses it", 400],
    ["fails", 500],
  ])("asks for no summary where the upstream %s", async (_what, status) => {
    await using upstream = await upstreamWith(status);
    await using on = await stage(passing(upstream.url));
    await expect(on.client.responses.compact({ model: "m", input })).rejects.toMatchObject({ status });
    expect(upstream.seen).toHaveLength(1);
    expect(on.records.map(({ units }) => units)).toEqual([0]);
  });

  it("fails, and charges what was counted, where the answer is no compaction", async () => {
    await using upstream = await upstreamWith({ ...COMPACTED, output: [] });
    await using on = await stage(passing(upstream.url));
    await expect(on.client.responses.compact({ model: "m", input })).rejects.toMatchObject({ status: 500 });
    expect(on.records.map(({ units }) => units)).toEqual([59]);
  });

  it("is made by the gateway unless the host passes it on, and each upstream of a route does as it is told", async () => {
    await using upstream = await upstreamWith(COMPACTED);
    const own = relay({ format: "responses", baseUrl: upstream.url });
    await using on = await stage(route({ routes: { own, passed: passing(upstream.url) } }));
    for (const model of ["own", "passed"]) await on.client.responses.compact({ model, input });
    expect(upstream.seen.map(({ path }) => path)).toEqual(["/v1/responses", "/v1/responses/compact"]);
  });

  it("is refused by name for other formats", () => {
    const asked = { format: "messages", baseUrl: "http://127.0.0.1:2" } as const;
    expect(() => relay({ ...asked, compaction: "pass" })).toThrow(/compaction: upstreams of this format/);
    expect(() => relay({ ...asked, compaction: "never" as never })).toThrow(/compaction/);
  });
});

describe("context_management before upstreams of Responses", () => {
  const wish = { context_management: [{ type: "compaction", compact_threshold: 100 }] };

  it("passes to an upstream that compacts itself, where all upstreams of the model do", async () => {
    await using upstream = await upstreamWith(COMPACTED);
    const own = relay({ format: "responses", baseUrl: upstream.url });
    const mixed = { upstreams: [passing(upstream.url), own] };
    await using on = await stage(route({ routes: { passed: passing(upstream.url), mixed } }));
    for (const model of ["passed", "mixed"]) await on.client.responses.create({ model, input, ...wish });
    expect(upstream.seen.map(({ body }) => body["context_management"])).toEqual([
      wish.context_management,
      undefined,
      undefined,
    ]);
  });

  it("is done by the gateway otherwise: the upstream gets the summary in place of the earlier turns", async () => {
    await using upstream = await upstreamWith(COMPACTED);
    await using on = await stage(relay({ format: "responses", baseUrl: upstream.url }));
    const asked = { model: "m", input, prompt_cache_key: "k", ...wish };
    const answer = await on.client.responses.create(asked);
    expect(answer.output.map(({ type }) => type)).toEqual(["compaction", "message"]);
    const [summary, last] = upstream.seen as [Seen, Seen];
    expect(JSON.stringify(summary.body)).toContain("Write a summary");
    expect(last.body).toMatchObject({
      prompt_cache_key: "k",
      input: [
        { role: "user", content: [{ text: expect.stringContaining("So far: a launch.") }] },
        { role: "user", content: "When?" },
      ],
    });
    expect(answer.usage).toMatchObject({ input_tokens: 40, output_tokens: 12, total_tokens: 52 });
    expect(on.records.map(({ units }) => units)).toEqual([52]);
    const types: string[] = [];
    for await (const event of await on.client.responses.create({ ...asked, stream: true }))
      if (event.type === "response.output_item.done") types.push(event.item.type);
    expect(types).toEqual(["compaction", "message"]);
  });
});
