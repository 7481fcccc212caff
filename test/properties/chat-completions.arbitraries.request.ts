/** Every request that the chat-completions format can say, without `native`. */

import fc from "fast-check";
import type { ChatRequest, Part, Tool } from "../../src/index.ts";
import {
  audioPart,
  base64,
  conversation,
  effort,
  json,
  kind,
  name,
  number,
  record,
  refusal,
  text,
  textPart,
  toolChoice,
} from "./arbitraries.openai.ts";
import { webUrl } from "./arbitraries.ts";

const imagePart = record(
  {
    type: kind("media"),
    kind: kind("image"),
    source: fc.oneof(
      fc.record({ type: kind("base64"), mediaType: fc.constantFrom("image/png", "image/jpeg"), data: base64 }),
      fc.record({ type: kind("url"), url: webUrl }),
    ),
  },
  { detail: fc.constantFrom("low" as const, "high" as const, "auto" as const) },
);
const documentPart = record(
  {
    type: kind("document"),
    source: fc.oneof(
      fc.record({ type: kind("base64"), mediaType: fc.constantFrom("application/pdf", "text/csv"), data: base64 }),
      fc.record({ type: kind("file"), id: name }),
    ),
  },
  { title: text },
);

const user: fc.Arbitrary<Part[]> = fc.array(fc.oneof(textPart, imagePart, audioPart, documentPart), {
  minLength: 1,
  maxLength: 3,
});
const results = (ids: readonly string[]): fc.Arbitrary<Part[]> =>
  fc.tuple(
    ...ids.map((callId) =>
      fc.record({
        type: kind("tool-result"),
        callId: fc.constant(callId),
        parts: fc.array(textPart, { maxLength: 2 }),
      }),
    ),
  );

const call = (id: string): fc.Arbitrary<Part> =>
  fc.record({ type: kind("tool-call"), id: fc.constant(id), name, input: json });

const messages = conversation(
  user,
  (ids) =>
    fc
      .tuple(fc.array(fc.oneof(textPart, refusal), { maxLength: 2 }), ...ids.map(call))
      .map(([said, ...calls]) => [...said, ...calls]),
  results,
);

type NamedTool = Exclude<Tool, { type: "code-execution" }>;

const tools: fc.Arbitrary<NamedTool[]> = fc.uniqueArray(
  record({ type: kind("function"), name, inputSchema: json }, { description: text, strict: fc.boolean() }),
  { selector: (tool) => tool.name, maxLength: 4 },
);

export const chatRequest: fc.Arbitrary<ChatRequest> = tools.chain((available) =>
  record(
    {
      // The names of known models change what is sent.
      model: text.map((name) => `m${name}`),
      messages,
      system: fc.array(textPart, { maxLength: 2 }),
      tools: fc.constant(available),
      maxOutputTokens: fc.integer({ min: 1, max: 100_000 }),
      stopSequences: fc.array(text, { maxLength: 4 }),
      stream: fc.boolean(),
    },
    {
      ...(available.length > 0 && { toolChoice: toolChoice(available.flatMap((tool) => tool.name ?? [])) }),
      temperature: number(0, 2),
      topP: number(0, 1),
      presencePenalty: number(-2, 2),
      frequencyPenalty: number(-2, 2),
      seed: fc.maxSafeInteger(),
      candidateCount: fc.integer({ min: 1, max: 128 }),
      logprobs: fc.record({ top: fc.integer({ min: 0, max: 20 }) }),
      responseFormat: fc.oneof(
        fc.constant({ type: "json" as const }),
        record({ type: kind("json"), name }, { schema: json, strict: fc.boolean() }),
      ),
      reasoning: fc.oneof(
        fc.constant({ type: "disabled" as const }),
        fc.record({
          type: kind("adaptive"),
          effort,
        }),
      ),
      serviceTier: text,
      endUser: text,
    },
  ).chain((request) =>
    fc.constantFrom(
      request,
      { ...request, modalities: ["text" as const] },
      { ...request, modalities: ["text" as const, "audio" as const], speech: { voice: "alloy" } },
    ),
  ),
);
