/** Random neutral requests, of every shape that the generate-content format can say. */

import fc from "fast-check";
import type {
  ChatMessage,
  ChatRequest,
  DocumentPart,
  MediaPart,
  Part,
  ResponseFormat,
  SafetySetting,
  Speech,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../src/index.ts";
import { webUrl } from "./arbitraries.ts";
import { base64, name, number, record, some, text, userObject } from "./generate-content.arbitraries.ts";

const INT32 = { min: -(2 ** 31), max: 2 ** 31 - 1 };

const MEDIA_TYPES = {
  image: ["image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"],
  audio: ["audio/wav", "audio/mp3", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"],
  video: ["video/mp4", "video/mpeg", "video/mov", "video/avi", "video/webm", "video/wmv", "video/3gpp"],
} as const satisfies Record<MediaPart["kind"], readonly string[]>;

const seal = base64.map((signature) => ({ signature, maker: "generate-content" }));
const signed = fc.oneof(seal, fc.constant({}));
/** Marks of parts that are more than text: a text that is a thought is reasoning. */
const marked = fc
  .tuple(signed, fc.boolean())
  .map(([signature, thought]) => ({ ...signature, ...(thought && { thought }) }));

/** An empty text without a signature says nothing, and is not sent. */
const textPart: fc.Arbitrary<Part> = fc
  .oneof(fc.tuple(text, signed), fc.tuple(fc.constant(""), seal))
  .map(([value, marks]) => ({ type: "text", text: value, ...marks }));

const inline: fc.Arbitrary<MediaPart> = fc
  .constantFrom("image" as const, "audio" as const, "video" as const)
  .chain((kind) =>
    fc.tuple(fc.constantFrom(...MEDIA_TYPES[kind]), base64).map(([mediaType, data]): MediaPart => ({
      type: "media",
      kind,
      source: { type: "base64", mediaType, data },
    })),
  );
const picture: fc.Arbitrary<MediaPart> = fc
  .oneof(
    fc.record({ type: fc.constant("url" as const), url: webUrl }),
    fc.record({ type: fc.constant("file" as const), id: name }),
  )
  .map((source) => ({ type: "media", kind: "image", source }));
const document: fc.Arbitrary<DocumentPart> = base64.map((data) => ({
  type: "document",
  source: { type: "base64", mediaType: "application/pdf", data },
}));

const media: fc.Arbitrary<Part> = fc
  .tuple(fc.oneof(inline, picture, document), marked)
  .map(([part, marks]) => ({ ...part, ...marks }));

const code: fc.Arbitrary<Part> = fc
  .tuple(
    fc.oneof(
      record(
        {
          type: fc.constant("code" as const),
          language: fc.constantFrom("python" as const, "unspecified" as const),
          code: text,
        },
        { id: name },
      ),
      record(
        {
          type: fc.constant("code-result" as const),
          outcome: fc.constantFrom(
            "ok" as const,
            "failed" as const,
            "deadline-exceeded" as const,
            "unspecified" as const,
          ),
        },
        { id: name, output: fc.oneof(text, fc.constant("")) },
      ),
    ),
    marked,
  )
  .map(([part, marks]) => ({ ...part, ...marks }));

const reasoning: fc.Arbitrary<Part> = fc
  .tuple(text, signed)
  .map(([value, marks]) => ({ type: "reasoning", text: value, ...marks }));

const toolCall = (id: string): fc.Arbitrary<Part> =>
  fc
    .tuple(name, userObject, marked)
    .map(([tool, input, marks]) => ({ type: "tool-call", id, name: tool, input, ...marks }));

const toolResult = (callId: string): fc.Arbitrary<Part> =>
  fc
    .tuple(name, userObject, fc.array(fc.oneof(inline, document), { maxLength: 2 }), marked)
    .map(([tool, value, others, marks]): ToolResultPart => ({
      type: "tool-result",
      callId,
      name: tool,
      parts: [{ type: "json", value }, ...others],
      ...marks,
    }));

const atLeastOne = <T>(item: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(item, { minLength: 1, maxLength: 4 });

/** A conversation whose turns alternate; whichever side begins. Its calls are parallel now and then. */
const messages: fc.Arbitrary<ChatMessage[]> = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.boolean())
  .chain(([turns, first]) =>
    fc.tuple(
      ...Array.from({ length: turns }, (_, turn): fc.Arbitrary<ChatMessage> => {
        const ofModel = (turn % 2 === 0) === first;
        const ids = [0, 1].map((index) => `id_${ofModel ? turn : turn - 1}_${index}`);
        const call = fc.constantFrom(...ids).chain(ofModel ? toolCall : toolResult);
        const parts = ofModel ? [textPart, media, code, reasoning, call] : [textPart, media, code, call];
        return fc
          .uniqueArray(fc.oneof(...parts), {
            minLength: 1,
            maxLength: 4,
            comparator: (a, b) => a.type === "tool-call" && b.type === "tool-call" && a.id === b.id,
          })
          .map((all) => ({ role: ofModel ? "assistant" : "user", parts: all }));
      }),
    ),
  );

const tools: fc.Arbitrary<Tool[]> = fc.uniqueArray(
  fc.oneof(
    record({ type: fc.constant("function" as const), name, inputSchema: userObject }, { description: text }),
    fc.constant<Tool>({ type: "code-execution" }),
    fc.tuple(fc.constantFrom("googleSearch", "urlContext", "someday"), userObject).map(([tool, value]): Tool => ({
      type: "provider",
      format: "generate-content",
      definition: { [tool]: value },
    })),
  ),
  { selector: (tool) => (tool.type === "function" ? tool.name : JSON.stringify(tool)), maxLength: 4 },
);

const choiceAmong = (functions: readonly string[]): fc.Arbitrary<ToolChoice> => {
  const parallel = true;
  const names = fc.subarray([...functions], { minLength: Math.min(2, functions.length) });
  const free = fc.constantFrom<ToolChoice>({ type: "none" }, { type: "auto", parallel });
  const [first, second] = functions;
  if (first === undefined) return free;
  const forced = fc.oneof(
    fc.constant<ToolChoice>({ type: "required", parallel }),
    fc.constantFrom(...functions).map((tool): ToolChoice => ({ type: "tool", name: tool, parallel })),
    names.map((allowed): ToolChoice => ({ type: "auto", parallel, names: allowed })),
  );
  if (second === undefined) return fc.oneof(free, forced);
  return fc.oneof(
    free,
    forced,
    names.map((allowed): ToolChoice => ({ type: "required", parallel, names: allowed })),
  );
};

const voice = some({ voice: text });
const speech: fc.Arbitrary<Speech> = fc
  .tuple(
    some({ language: fc.constantFrom("en-US", "de-DE", "ar-XA", "zh-CN") }),
    fc.oneof(
      voice,
      fc.record({
        speakers: fc.array(
          fc.tuple(text, voice).map(([speaker, own]) => ({ speaker, ...own })),
          { maxLength: 2 },
        ),
      }),
    ),
  )
  .map(([language, who]) => ({ ...language, ...who }));

const responseFormat: fc.Arbitrary<ResponseFormat> = fc.oneof(
  record({ type: fc.constant("json" as const) }, { schema: userObject }),
  fc.record({ type: fc.constant("enum" as const), values: atLeastOne(text) }),
);

const safety: fc.Arbitrary<SafetySetting[]> = fc.uniqueArray(
  fc.record({
    category: fc.constantFrom("harassment", "hate-speech", "sexually-explicit", "dangerous-content", "civic-integrity"),
    threshold: fc.constantFrom("unspecified", "low", "medium", "high", "none", "off"),
  }),
  { selector: ({ category }) => category, minLength: 1 },
);

const budget = fc.oneof(
  fc.record({ type: fc.constant("adaptive" as const), visible: fc.boolean() }),
  fc.record({
    type: fc.constant("enabled" as const),
    budgetTokens: fc.integer({ min: 1, max: INT32.max }),
    visible: fc.boolean(),
  }),
  fc.constant({ type: "disabled" as const }),
);

/** Lowers the budget to what the output limit has room for, beside a fifth of it and at least 256 tokens for the answer. */
function withRoom(request: ChatRequest): ChatRequest {
  const { reasoning } = request;
  if (reasoning?.type !== "enabled") return request;
  const maxOutputTokens = Math.max(257, request.maxOutputTokens);
  const most = maxOutputTokens - Math.max(256, Math.ceil(maxOutputTokens / 5));
  return {
    ...request,
    maxOutputTokens,
    reasoning: { ...reasoning, budgetTokens: Math.min(most, reasoning.budgetTokens) },
  };
}

/** Every request that the generate-content format can say, without `native`. */
export const chatRequest: fc.Arbitrary<ChatRequest> = tools.chain((available) =>
  record(
    {
      model: text,
      messages,
      system: fc.array(
        text.map((value) => ({ type: "text" as const, text: value })),
        { maxLength: 2 },
      ),
      tools: fc.constant(available),
      maxOutputTokens: fc.integer({ min: 1, max: INT32.max }),
      stopSequences: fc.array(text, { maxLength: 5 }),
      stream: fc.boolean(),
    },
    {
      toolChoice: choiceAmong(available.flatMap((tool) => (tool.type === "function" ? tool.name : []))),
      temperature: number(0, 2),
      topP: number(0, 1),
      topK: fc.integer({ min: 1, max: INT32.max }),
      reasoning: budget,
      responseFormat,
      candidateCount: fc.integer({ min: 1, max: 8 }),
      seed: fc.integer(INT32),
      presencePenalty: number(-2, 2),
      frequencyPenalty: number(-2, 2),
      logprobs: fc.record({ top: fc.integer({ min: 0, max: 20 }) }),
      modalities: fc.uniqueArray(fc.constantFrom("text" as const, "image" as const, "audio" as const), {
        minLength: 1,
      }),
      speech,
      mediaResolution: fc.constantFrom("low" as const, "medium" as const, "high" as const),
      safety,
      cachedContent: name.map((id) => `cachedContents/${id}`),
      enhancedCivicAnswers: fc.boolean(),
      serviceTier: fc.constantFrom("standard", "flex", "priority"),
    },
  ).map(withRoom),
);
