/** A request passes to an upstream of its own format as its text, and means there what the request that is written anew means. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CallRecord, type ChatRequest, createGateway, memoryQuotaStore } from "../../../src/index.ts";
import type { JsonObject } from "../../../src/model/json.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { answerOf } from "../../bench/agent/answers.ts";
import { agentRequest, CHAT_FORMATS, type ChatFormat, pathOf } from "../../bench/agent/requests.ts";
import { chatRequest } from "../../properties/arbitraries.ts";
import { chatRequest as completionRequest } from "../../properties/chat-completions.arbitraries.request.ts";
import { chatRequest as contentRequest } from "../../properties/generate-content.arbitraries.request.ts";
import { chatRequest as responsesRequest } from "../../properties/responses.arbitraries.request.ts";
import { CODECS } from "../../properties/upstream-answers.ts";

const REQUESTS: Readonly<Record<ChatFormat, fc.Arbitrary<ChatRequest>>> = {
  messages: chatRequest,
  "chat-completions": completionRequest,
  "generate-content": contentRequest,
  responses: responsesRequest,
};

const KEY = "sk-caller";
const FRAMES = 6;

interface Passed {
  readonly sent: string | undefined;
  readonly answer: string;
  readonly status: number;
  readonly record: Partial<CallRecord>;
  readonly balance: unknown;
}

/** Asks a relay to an upstream of the caller's format. */
async function passed(format: ChatFormat, text: string, isStreamed: boolean, roomBytes = 2 ** 30): Promise<Passed> {
  let sent: string | undefined;
  const { complete, frames } = answerOf(format, FRAMES);
  const backend = relay({
    format,
    baseUrl: `https://upstream.test/${format === "generate-content" ? "v1beta" : "v1"}`,
    models: { asked: "named-otherwise", [MODEL]: MODEL },
    fetch: async (_url, { body }) => {
      sent = await new Response(body ?? null).text();
      return isStreamed
        ? new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } })
        : Response.json(complete);
    },
  });
  const quotas = memoryQuotaStore([{ apiKey: KEY, id: "key", granted: 2_000_000 }]);
  let record: Partial<CallRecord> = {};
  const onCall = ({
    requestId: _id,
    beganAt: _began,
    endMs: _end,
    firstEventMs: _first,
    attempts,
    ...told
  }: CallRecord): void => {
    record = { ...told, attempts: attempts.map((attempt) => ({ ...attempt, beganAt: 0, endMs: 0, firstEventMs: 0 })) };
  };
  const gateway = createGateway({
    backend,
    quotas,
    onCall,
    onFailure: () => {},
    limits: { maxBodyBytesInFlight: roomBytes, maxBodyBytesPerKey: roomBytes },
    messages: { ranges: "vendor", imageSources: "vendor" },
  });
  const path = pathOf(format, { kilobytes: 1, isStreamed, frames: FRAMES }).replace(/models\/[^:]+/, "models/asked");
  const headers = {
    "content-type": "application/json",
    authorization: `Bearer ${KEY}`,
    "x-goog-api-key": KEY,
    "anthropic-version": "2023-06-01",
  };
  const response = await gateway.fetch(
    new Request(`https://gateway.test${path}`, { method: "POST", headers, body: text }),
  );
  // Ids and times are each answer's own.
  const answer = (await response.text()).replaceAll(
    /(?:msg|resp|req)_[0-9a-f]{32}\w*|"(?:created|created_at|completed_at)":\d+/g,
    "",
  );
  await gateway.close();
  return { sent, answer, status: response.status, record, balance: await quotas.balance("key") };
}

const MODEL = "named-by-itself";

describe.each(CHAT_FORMATS)("a request of %s", (format) => {
  it("of an agent passes as its text, with another model's name", async () => {
    const text = agentRequest(format, { kilobytes: 10, isStreamed: false, frames: FRAMES });
    const spaced = text
      .replace("{", '{ "unknown" : [1.0, 1E2, 12345678901234567890, "\\u00e9"] ,')
      .replace(/"bench-[^"]*"/, '"asked"');
    const { sent = "", status } = await passed(format, spaced, false);
    expect(status).toBe(200);
    expect(sent).toContain('{ "unknown" : [1.0, 1E2, 12345678901234567890, "\\u00e9"] ,');
    expect(sent).not.toContain('"asked"');
    const { model: _model, stream: _stream, stream_options: _options, ...own } = JSON.parse(spaced) as JsonObject;
    expect(JSON.parse(sent)).toMatchObject(own);
  });

  it("means the same as one that is written anew: to the upstream, the caller, the record and the quota", async () => {
    let answered = 0;
    const passes = async (request: ChatRequest, model: string, isStreamed: boolean): Promise<void> => {
      const { body } = CODECS[format].encodeRequest({ ...request, model, stream: isStreamed });
      const text = JSON.stringify(format === "generate-content" ? body : { ...body, model }, null, 1);
      // A text with a name twice does not pass, because another parser may read the first.
      const twice = `{${JSON.stringify(Object.keys(body)[0])}:null,${text.slice(1)}`;
      const [one, other] = [await passed(format, text, isStreamed), await passed(format, twice, isStreamed)];
      expect({ ...one, sent: valueOf(one.sent) }).toEqual({ ...other, sent: valueOf(other.sent) });
      if (one.sent === undefined) return;
      answered++;
      // A text with a backslash in a name does not pass, because V8 may have read another name.
      expect(text.includes("\\\\") ? "\n" : one.sent).toContain("\n");
      expect(other.sent).toBe(JSON.stringify(valueOf(other.sent)));
    };
    const models = fc.constantFrom("asked", MODEL);
    await fc.assert(fc.asyncProperty(REQUESTS[format], models, fc.boolean(), passes), { numRuns: 40 });
    expect(answered).toBeGreaterThan(20);
  });
});

it("a request passes as its text only where the text has room beside everything else", async () => {
  const call = { name: "count", arguments: JSON.stringify({ numbers: Array(4_000).fill(1) }) };
  const messages = [
    { role: "user", content: "x".repeat(1_000_000) },
    { role: "assistant", tool_calls: [{ id: "call", type: "function", function: call }] },
    { role: "tool", tool_call_id: "call", content: "4000" },
  ];
  const text = JSON.stringify({ model: "asked", messages }, null, 1);
  const [one, other] = [2_200_000, 4_000_000].map((bytes) => passed("chat-completions", text, false, bytes));
  expect(await one).toMatchObject({ status: 200, sent: expect.not.stringContaining("\n") as string });
  expect(await other).toMatchObject({ status: 200, sent: expect.stringContaining("\n") as string });
});

const valueOf = (sent: string | undefined): unknown => (sent === undefined ? undefined : JSON.parse(sent));
