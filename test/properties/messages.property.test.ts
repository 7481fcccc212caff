/** Laws of the messages format: requests survive the wire and back, and no events make a stream that breaks a client. */

import Anthropic from "@anthropic-ai/sdk";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRequest, encodeRequest } from "../../src/formats/messages/request.ts";
import { messagesRequest } from "../../src/formats/messages/schema.ts";
import { argumentsSchema } from "../../src/formats/shared/held-schema.ts";
import { assertValid } from "../../src/http/validation.ts";
import {
  type ChatEvent,
  type ChatMessage,
  type ChatRequest,
  createGateway,
  type Gateway,
  memoryQuotaStore,
  type Part,
} from "../../src/index.ts";
import { answerEvents, chatRequest, hostileEvents } from "./arbitraries.ts";
import { formIn, turns } from "./codecs.lossy.ts";

const schema = messagesRequest({ vendorRanges: false, vendorSources: true });

describe("messages requests", () => {
  it("decode(encode(x)) = x, through JSON and validation", () => {
    fc.assert(
      fc.property(chatRequest, (request) => {
        const wire: unknown = JSON.parse(JSON.stringify(encodeRequest(request)));
        assertValid(schema, wire);
        const { native, ...decoded } = decodeRequest(wire, { betas: [] });
        // The format refuses a choice without tools.
        const { toolChoice: _, ...others } = request;
        expect(decoded).toEqual(arriving(request.tools.length > 0 ? request : others));
        expect(native?.body).toEqual(wire);
      }),
      { numRuns: 100 },
    );
  });
});

/** A request as an upstream of the format gets it: without blank texts, with a prefill that the official service accepts. */
function arriving({ responseFormat, ...request }: ChatRequest): ChatRequest {
  const last = request.messages.at(-1);
  const parts = (message: ChatMessage): Part[] => message.parts.flatMap((part) => arrivingPart(part, message === last));
  const system = request.system.filter(({ text }) => text.trim() !== "");
  const messages = turns(
    request.messages.map((message) => ({ ...message, parts: parts(message) })),
    (part) => part,
  ).map((message, index, all) =>
    last?.role === "assistant" && index === all.length - 1 ? { ...message, parts: trimmed(message.parts) } : message,
  );
  return {
    ...request,
    system,
    messages,
    tools: request.tools.map((tool) =>
      tool.type === "function" ? { ...tool, inputSchema: argumentsSchema(tool.inputSchema, new Set()) } : tool,
    ),
    stopSequences: request.stopSequences.filter((stop) => stop.trim() !== ""),
    ...(responseFormat && formIn({ system }, messages, responseFormat)),
  };
}

function arrivingPart(part: Part, isLast: boolean): Part[] {
  if (part.type === "text") return part.text.trim() === "" ? [] : [part];
  if (part.type === "tool-result")
    return [{ ...part, parts: part.parts.filter((inner) => inner.type !== "text" || inner.text.trim() !== "") }];
  if (part.type !== "reasoning" && part.type !== "redacted-reasoning") return [part];
  return isLast ? [] : [{ ...part, maker: "messages" }];
}

function trimmed(parts: readonly Part[]): readonly Part[] {
  const last = parts.at(-1);
  return last?.type === "text" ? [...parts.slice(0, -1), { ...last, text: last.text.trimEnd() }] : parts;
}

/** A gateway whose backend yields these events. */
const scripted = (events: readonly ChatEvent[]): Gateway =>
  createGateway({
    backend: {
      async *chat() {
        yield* events;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    onFailure: () => {},
  });

const client = (gateway: Gateway): Anthropic =>
  new Anthropic({
    apiKey: "sk-test",
    baseURL: "http://gateway.test",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
  });

const body = { model: "m", max_tokens: 1000, messages: [{ role: "user" as const, content: "hi" }] };

const LETTERS: Readonly<Record<string, string>> = {
  message_start: "S",
  content_block_start: "b",
  content_block_delta: "d",
  content_block_stop: "e",
  message_delta: "m",
  message_stop: "Z",
  error: "!",
};

describe("messages streams", () => {
  it("any interleaving of events collects, in the official client, to the answer that is not streamed", async () => {
    await fc.assert(
      fc.asyncProperty(answerEvents, async (begun) => {
        // An answer that begins with a start must end with a finish.
        const events: ChatEvent[] = [...begun, { type: "finish", reason: "stop" }];
        const anthropic = client(scripted(events));
        const { id: _a, _request_id: _b, ...complete } = await anthropic.messages.create(body);
        const { id: _c, parsed_output: _d, ...streamed } = await anthropic.messages.stream(body).finalMessage();
        expect(streamed).toEqual(complete);
      }),
      { numRuns: 50 },
    );
  });

  it("whatever a backend yields, the frames keep the order of the format", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(hostileEvents, answerEvents), async (events) => {
        const response = await scripted(events).fetch(
          new Request("http://gateway.test/v1/messages", {
            method: "POST",
            headers: { "x-api-key": "sk-test", "compat-version": "1", "content-type": "application/json" },
            body: JSON.stringify({ ...body, stream: true }),
          }),
        );
        const frames: { type: string; index?: number }[] = [];
        const parser = createParser({ onEvent: ({ data }) => void frames.push(JSON.parse(data)) });
        parser.feed(await response.text());
        if (response.status !== 200) return;
        expect(frames.map(({ type }) => LETTERS[type] ?? "?").join("")).toMatch(/^S(bd*e)*(mZ|(bd*)?!)$/);
        const starts = frames.filter(({ type }) => type === "content_block_start").map(({ index }) => index);
        expect(starts).toEqual(starts.map((_, position) => position));
      }),
      { numRuns: 80 },
    );
  });
});
