/** The answers of Converse as valibot schemas. Most fields may be missing or null, and unknown fields are allowed. */

import * as v from "valibot";
import { unsupported, unsupportedFinder, type UnsupportedFinder, whole } from "../../formats/shared/schema.ts";
import { array, choice, object } from "../../http/validation.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";

const mayBeText = v.nullish(v.string());
const mayBeNumber = v.nullish(v.number());
const jsonObject = v.custom<JsonObject>(isJsonObject);
/** A field that is not validated, because it is not read, or repeats what another field says. */
const anything = v.optional(v.unknown());

export const Usage = object({
  inputTokens: mayBeNumber,
  outputTokens: mayBeNumber,
  totalTokens: anything,
  cacheReadInputTokens: mayBeNumber,
  cacheWriteInputTokens: mayBeNumber,
  cacheReadInputTokenCount: anything,
  cacheWriteInputTokenCount: anything,
  cacheDetails: v.nullish(array(object({ ttl: mayBeText, inputTokens: mayBeNumber }))),
  serverToolUsage: unsupported(v.nullish(jsonObject)),
});
export type Usage = v.InferOutput<typeof Usage>;

const ServiceTier = v.nullish(object({ type: mayBeText }));

/** The fields of the model's own answer that the relay asks for. */
const ModelFields = v.nullish(
  object({ stop_sequence: mayBeText, delta: v.nullish(object({ stop_sequence: mayBeText })) }),
);
export type ModelFields = v.InferOutput<typeof ModelFields>;

/** A citation. The neutral model has no position in the source. */
const Citation = object({
  source: mayBeText,
  title: mayBeText,
  // Most formats have no quote.
  sourceContent: unsupported(v.nullish(array(object({ text: mayBeText })))),
  location: v.nullish(object({ web: v.nullish(object({ url: mayBeText })) })),
});
export type Citation = v.InferOutput<typeof Citation>;

const ImageSource = v.nullish(object({ bytes: mayBeText }));

/** The content blocks with events of their own, by their members. */
const BLOCKS = {
  text: object({ text: v.string() }),
  toolUse: object({
    toolUse: object({ toolUseId: v.string(), name: v.string(), input: v.nullish(jsonObject), type: anything }),
  }),
  reasoningContent: object({
    reasoningContent: object({
      reasoningText: v.nullish(object({ text: mayBeText, signature: mayBeText })),
      redactedContent: mayBeText,
    }),
  }),
  citationsContent: object({
    citationsContent: object({
      content: v.nullish(array(object({ text: mayBeText }))),
      citations: v.nullish(array(Citation)),
    }),
  }),
  image: object({ image: object({ format: v.string(), source: ImageSource }) }),
} as const;
type BlockName = keyof typeof BLOCKS;

/** A block of any other kind, which is passed on unchanged. */
const OtherBlock = whole(object({}));

const nameIn = (input: unknown): BlockName | undefined =>
  isJsonObject(input) ? (Object.keys(BLOCKS) as BlockName[]).find((name) => input[name] != null) : undefined;

/** Tells whether a call is one of a tool that Bedrock runs. */
export const isOfServer = ({ type }: { readonly type?: unknown }): boolean => type === "server_tool_use";

const AnswerBlock = choice([...Object.values(BLOCKS), OtherBlock], (input) => {
  const name = nameIn(input);
  if (name === undefined) return OtherBlock;
  const { toolUse } = input as JsonObject;
  return isJsonObject(toolUse) && isOfServer(toolUse) ? OtherBlock : BLOCKS[name];
});
type Member<Name extends BlockName> = v.InferOutput<(typeof BLOCKS)[Name]>;

/** A content block of a complete answer: an object with one of these members, or with another. */
export type AnswerBlock = Partial<
  Member<"text"> & Member<"toolUse"> & Member<"reasoningContent"> & Member<"citationsContent"> & Member<"image">
>;

export const ConverseAnswer = object({
  output: object({ message: object({ role: anything, content: array(AnswerBlock) }) }),
  stopReason: mayBeText,
  usage: v.nullish(Usage),
  additionalModelResponseFields: ModelFields,
  serviceTier: ServiceTier,
});
export type ConverseAnswer = v.InferOutput<typeof ConverseAnswer>;

const index = v.number();

/** Padding, which hides the lengths of texts from those who see the sizes of packets. */
const padded = { p: anything };

const KnownDelta = object({
  text: mayBeText,
  toolUse: v.nullish(object({ input: mayBeText })),
  reasoningContent: v.nullish(object({ text: mayBeText, signature: mayBeText, redactedContent: mayBeText })),
  citation: v.nullish(Citation),
  image: v.nullish(object({ source: ImageSource })),
  toolResult: v.nullish(array(jsonObject)),
});

export const EVENTS = {
  messageStart: object({ role: anything, ...padded }),
  contentBlockStart: object({
    contentBlockIndex: index,
    start: v.nullish(
      object({
        toolUse: v.nullish(object({ toolUseId: v.string(), name: v.string(), type: anything })),
        toolResult: v.nullish(whole(object({}))),
        image: v.nullish(object({ format: v.string() })),
      }),
    ),
    ...padded,
  }),
  contentBlockDelta: object({ contentBlockIndex: index, delta: KnownDelta, ...padded }),
  contentBlockStop: object({ contentBlockIndex: index, ...padded }),
  messageStop: object({ stopReason: mayBeText, additionalModelResponseFields: ModelFields, ...padded }),
  metadata: object({ usage: v.nullish(Usage), serviceTier: ServiceTier, ...padded }),
} as const;
export type EventName = keyof typeof EVENTS;
export type Event<Name extends EventName> = v.InferOutput<(typeof EVENTS)[Name]>;

export const unsupportedInAnswer: UnsupportedFinder = unsupportedFinder(ConverseAnswer);

const FINDERS = Object.fromEntries(
  Object.entries(EVENTS).map(([name, schema]) => [name, unsupportedFinder(schema)]),
) as Readonly<Record<EventName, UnsupportedFinder>>;

export const unsupportedInEvent = (name: EventName): UnsupportedFinder => FINDERS[name];
