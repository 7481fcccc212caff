/** Random neutral requests and answers, of every shape that the messages format can say. */

import fc from "fast-check";
import type {
  ChatEvent,
  ChatMessage,
  ChatRequest,
  JsonObject,
  MediaSource,
  Part,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../src/index.ts";
import { record } from "./arbitraries.openai.ts";

/** Text as people write it: never empty, with astral characters, line breaks and escapes. */
const text: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
  fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" }),
  fc.constantFrom("\u2028 line \u2029 and \u0085", "a\r\nb\n\nc", "event: x\ndata: y\n\n", "😀", '"\\'),
);
const name: fc.Arbitrary<string> = fc.stringMatching(/^[a-z][a-z_]{0,9}$/);
const json: fc.Arbitrary<JsonObject> = fc
  .dictionary(text, fc.oneof({ weight: 3, arbitrary: fc.jsonValue({ maxDepth: 0 }) }, fc.jsonValue({ maxDepth: 2 })), {
    maxKeys: 3,
  })
  // Through JSON once, as every request comes: no -0, and no keys that objects treat apart.
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
/** Addresses as people write them; for those of fast-check's own, a table of all of Unicode is made first, which takes a second. */
export const webUrl: fc.Arbitrary<string> = fc
  .tuple(
    fc.constantFrom("http", "https"),
    fc.domain(),
    fc.stringMatching(/^(?:\/(?:[\w.~!$&'()*+,;=:@-]|%20|%C3%A9|%E2%82%AC|%F0%9F%90%8D){0,6}){0,3}$/),
  )
  .map(([scheme, domain, path]) => `${scheme}://${domain}${path}`);
const base64: fc.Arbitrary<string> = fc.base64String({ minLength: 4, maxLength: 16 });
const cache = fc.option(
  fc.record({ cache: fc.oneof(fc.constant({}), fc.record({ ttl: fc.constantFrom("5m", "1h") })) }),
  { nil: {} },
);

const textPart = fc
  .tuple(text, cache)
  .map(([value, hint]): Part & { type: "text" } => ({ type: "text", text: value, ...hint }));
const imageSource: fc.Arbitrary<MediaSource> = fc.oneof(
  fc.record({
    type: fc.constant("base64" as const),
    mediaType: fc.constantFrom("image/jpeg", "image/png", "image/gif", "image/webp"),
    data: base64,
  }),
  fc.record({ type: fc.constant("url" as const), url: webUrl }),
  fc.record({ type: fc.constant("file" as const), id: name }),
);
const imagePart = fc
  .tuple(imageSource, cache)
  .map(([source, hint]): Part & { type: "media" } => ({ type: "media", kind: "image", source, ...hint }));
const documentPart = fc
  .tuple(
    record(
      {
        type: fc.constant("document" as const),
        source: fc.oneof(
          fc.record({ type: fc.constant("base64" as const), mediaType: fc.constant("application/pdf"), data: base64 }),
          fc.record({ type: fc.constant("text" as const), text }),
          fc.record({
            type: fc.constant("parts" as const),
            parts: fc.array(fc.oneof(textPart, imagePart), { maxLength: 3 }),
          }),
          fc.record({ type: fc.constant("url" as const), url: webUrl }),
          fc.record({ type: fc.constant("file" as const), id: name }),
        ),
      },
      { title: text, context: text, citations: fc.boolean() },
    ),
    cache,
  )
  .map(([document, hint]): Part & { type: "document" } => ({ ...document, ...hint }));
const providerPart: fc.Arbitrary<Part & { type: "provider" }> = json.map((value) => ({
  type: "provider",
  format: "messages",
  value: { ...value, type: "search_result" },
}));
const toolCall = (id: string): fc.Arbitrary<Part> =>
  fc.tuple(name, json, cache).map(([tool, input, hint]) => ({ type: "tool-call", id, name: tool, input, ...hint }));
const toolResult = (callId: string): fc.Arbitrary<ToolResultPart> =>
  fc
    .tuple(
      record(
        {
          type: fc.constant("tool-result" as const),
          callId: fc.constant(callId),
          parts: fc.array(fc.oneof(textPart, imagePart, documentPart, providerPart), { maxLength: 3 }),
        },
        { isError: fc.boolean() },
      ),
      cache,
    )
    .map(([result, hint]) => ({ ...result, ...hint }));
const reasoning: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ type: fc.constant("reasoning" as const), text, signature: base64 }),
  fc.record({ type: fc.constant("redacted-reasoning" as const), data: base64 }),
);

const atLeastOne = <T>(item: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(item, { minLength: 1, maxLength: 4 });

/** A conversation whose turns alternate, and whose tool results answer the calls before them. */
const messages: fc.Arbitrary<ChatMessage[]> = fc.integer({ min: 1, max: 5 }).chain((turns) =>
  fc.tuple(
    ...Array.from({ length: turns }, (_, turn): fc.Arbitrary<ChatMessage> => {
      if (turn % 2 === 1) {
        const parts = fc.tuple(
          toolCall(`call_${turn}`),
          fc.array(fc.oneof(textPart, reasoning, providerPart), { maxLength: 3 }),
        );
        return parts.map(([call, others]) => ({ role: "assistant", parts: [...others, call] }));
      }
      const parts = atLeastOne(fc.oneof(textPart, imagePart, documentPart, providerPart));
      if (turn === 0) return parts.map((asked) => ({ role: "user", parts: asked }));
      return fc
        .tuple(toolResult(`call_${turn - 1}`), parts)
        .map(([result, asked]) => ({ role: "user", parts: [result, ...asked] }));
    }),
  ),
);

/** The format has no tool for code in general. */
type NamedTool = Exclude<Tool, { type: "code-execution" }>;

const tools: fc.Arbitrary<NamedTool[]> = fc.uniqueArray(
  fc.oneof(
    fc
      .tuple(record({ type: fc.constant("function" as const), name, inputSchema: json }, { description: text }), cache)
      .map(([tool, hint]): NamedTool => ({ ...tool, ...hint })),
    fc.constant<NamedTool>({
      type: "provider",
      format: "messages",
      name: "bash",
      definition: { type: "bash_20241022", name: "bash" },
    }),
  ),
  { selector: (tool) => tool.name, maxLength: 4 },
);

const toolChoice = (available: readonly NamedTool[]): fc.Arbitrary<ToolChoice> => {
  const names = available.flatMap((tool) => tool.name ?? []);
  return fc.oneof(
    fc.constant<ToolChoice>({ type: "none" }),
    fc.record({ type: fc.constant("auto" as const), parallel: fc.boolean() }),
    ...(names.length > 0
      ? [
          fc.record({ type: fc.constant("required" as const), parallel: fc.boolean() }),
          fc.record({ type: fc.constant("tool" as const), name: fc.constantFrom(...names), parallel: fc.boolean() }),
        ]
      : []),
  );
};

/** Every request that the messages format can say, without `native`. */
export const chatRequest: fc.Arbitrary<ChatRequest> = tools.chain((available) =>
  record(
    {
      model: text,
      messages,
      system: fc.array(textPart, { maxLength: 2 }),
      tools: fc.constant(available),
      maxOutputTokens: fc.integer({ min: 5_000, max: 100_000 }),
      stopSequences: fc.array(text, { maxLength: 3 }),
      stream: fc.boolean(),
    },
    {
      toolChoice: toolChoice(available),
      temperature: fc.double({ min: 0.01, max: 1, noNaN: true }),
      topP: fc.double({ min: 0.01, max: 0.99, noNaN: true }),
      topK: fc.integer({ min: 1, max: 1000 }),
      reasoning: fc.oneof(
        fc.record({ type: fc.constant("enabled" as const), budgetTokens: fc.integer({ min: 1024, max: 4_999 }) }),
        fc.record({ type: fc.constantFrom("adaptive" as const, "disabled" as const) }),
      ),
      responseFormat: fc.record({ type: fc.constant("json" as const), schema: json }),
      endUser: text,
    },
  ),
);

/** Pieces of a text, in order, some of them empty. */
const inPieces = (whole: string): fc.Arbitrary<string[]> =>
  fc.array(fc.nat({ max: whole.length }), { maxLength: 4 }).map((cuts) => {
    const ends = [...cuts.toSorted((a, b) => a - b), whole.length];
    return ends.map((end, index) => whole.slice(index === 0 ? 0 : ends[index - 1], end));
  });

const toolStream = (id: string): fc.Arbitrary<ChatEvent[]> =>
  fc.tuple(name, json, fc.boolean()).chain(([tool, input, ends]) =>
    fc.oneof(
      fc.constant<ChatEvent[]>([{ type: "tool-call", id, name: tool, input }]),
      inPieces(JSON.stringify(input)).map((pieces): ChatEvent[] => [
        { type: "tool-call-start", id, name: tool },
        ...pieces.map((piece): ChatEvent => ({ type: "tool-call-delta", id, json: piece })),
        ...(ends ? [{ type: "tool-call-end", id } as const] : []),
      ]),
    ),
  );

const spoken: fc.Arbitrary<ChatEvent[]> = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant("text-delta" as const), text: fc.oneof(text, fc.constant("")) }),
    fc.record({ type: fc.constant("reasoning-delta" as const), text }),
    fc.record({ type: fc.constant("reasoning-signature" as const), signature: base64 }),
    fc.record({ type: fc.constant("redacted-reasoning" as const), data: base64 }),
    fc.record({ type: fc.constant("usage" as const), usage: fc.record({ outputTokens: fc.nat() }) }),
  ),
  { maxLength: 8 },
);

const finish: fc.Arbitrary<ChatEvent[]> = fc.oneof(
  fc.constant<ChatEvent[]>([]),
  fc
    .record({
      reason: fc.constantFrom("stop", "stop-sequence", "length", "tool-calls", "content-filter"),
      usage: fc.record({
        // More than an upstream may add to a small request would be doubted.
        inputTokens: fc.nat({ max: 60_000 }).map((n) => n + 9),
        outputTokens: fc.nat(),
        cacheReadTokens: fc.nat({ max: 9 }),
      }),
    })
    .map(({ reason, usage }): ChatEvent[] => [
      { type: "finish", reason, usage, ...(reason === "stop-sequence" && { stopSequence: "END" }) },
    ]),
);

/** Any interleaving of text, reasoning and parallel tool calls, each in its own order. */
export const answerEvents: fc.Arbitrary<ChatEvent[]> = fc
  .tuple(
    spoken,
    toolStream("call_a"),
    toolStream("call_b"),
    finish,
    fc.array(fc.nat({ max: 2 }), { maxLength: 30 }),
    fc.boolean(),
  )
  .map(([said, a, b, end, order, starts]) => {
    const sources = [[...said], [...a], [...b]];
    const mixed = order.flatMap((source) => sources[source]?.shift() ?? []);
    const start: ChatEvent[] = starts ? [{ type: "start", usage: { inputTokens: 7 } }] : [];
    const content = [...start, ...mixed, ...sources.flat()];
    // A backend that speaks as an upstream does has broken off where it ends without a finish.
    const isFormal = content.some(({ type }) => type === "start" || type === "usage");
    return [...content, ...(isFormal && end.length === 0 ? [{ type: "finish", reason: "stop" } as const] : end)];
  });

/** Events in any order at all: calls that never began, ended twice, arguments that are no JSON. */
export const hostileEvents: fc.Arbitrary<ChatEvent[]> = fc.array(
  fc.oneof(
    spoken.map((events) => events[0] ?? ({ type: "text-delta", text: "x" } as const)),
    fc.record({ type: fc.constant("tool-call-start" as const), id: fc.constantFrom("a", "b"), name }),
    fc.record({
      type: fc.constant("tool-call-delta" as const),
      id: fc.constantFrom("a", "b"),
      json: fc.constantFrom("{}", '{"a":', "1}", "[1]", ""),
    }),
    fc.record({ type: fc.constant("tool-call-end" as const), id: fc.constantFrom("a", "b") }),
    fc.record({ type: fc.constant("tool-call" as const), id: fc.constantFrom("a", "b"), name, input: json }),
    fc.constant<ChatEvent>({ type: "finish", reason: "stop" }),
    fc.constant<ChatEvent>({ type: "start", id: "late" }),
  ),
  { maxLength: 12 },
);
