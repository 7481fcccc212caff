/** The answers of upstreams: only what the gateway reads is checked, and only its type. */

import * as v from "valibot";
import { array, choice, object } from "../../http/validation.ts";
import { isJsonObject } from "../../model/json.ts";
import { unsupported, type UnsupportedFinder, unsupportedFinder, whole } from "../shared/schema.ts";

const maybeText = v.nullish(v.string());
const maybeCount = v.nullish(v.pipe(v.number(), v.integer(), v.minValue(0)));
/** A field of the envelope. The gateway writes its own for callers of other formats. */
const envelope = v.optional(v.unknown());

const Logprob = object({ token: v.string(), logprob: v.number(), bytes: envelope });
const Logprobs = v.nullish(array(object({ ...Logprob.entries, top_logprobs: v.nullish(array(Logprob)) })));
export type LooseLogprobs = v.InferOutput<typeof Logprobs>;

const ANNOTATIONS: ReadonlySet<unknown> = new Set(["url_citation"]);
const Annotation = object({
  type: maybeText,
  url: maybeText,
  title: maybeText,
  start_index: maybeCount,
  end_index: maybeCount,
});

/** An object of a type that the gateway does not read. */
const Other = object({ type: maybeText });

/** Holds the objects of known types, or without a type, to a schema, and no other. */
const ofTypes = <const Schema extends v.GenericSchema>(schema: Schema, types: ReadonlySet<unknown>): Schema =>
  choice([schema, Other], (input) =>
    isJsonObject(input) && typeof input["type"] === "string" && !types.has(input["type"]) ? Other : schema,
  ) as v.GenericSchema as Schema;

const PARTS: ReadonlySet<unknown> = new Set(["output_text", "text", "refusal", "summary_text", "reasoning_text"]);

export const isKnownPart = ({ type }: { readonly type?: unknown }): boolean => type == null || PARTS.has(type);

/** A part of a message, of a summary or of reasoning. */
const Part = ofTypes(
  object({
    type: maybeText,
    text: maybeText,
    refusal: maybeText,
    annotations: v.nullish(array(ofTypes(Annotation, ANNOTATIONS))),
    logprobs: Logprobs,
  }),
  PARTS,
);

/** An item that the gateway reads. An answer in another format has its own ids and states. */
const KnownItem = object({
  type: v.string(),
  id: maybeText,
  status: envelope,
  role: envelope,
  call_id: maybeText,
  name: maybeText,
  namespace: maybeText,
  arguments: maybeText,
  input: v.optional(v.unknown()),
  content: v.nullish(array(Part)),
  summary: v.nullish(array(object({ type: maybeText, text: maybeText }))),
  encrypted_content: maybeText,
  code: maybeText,
  container_id: envelope,
  outputs: v.nullish(array(object({ type: maybeText, logs: maybeText, url: unsupported(maybeText) }))),
  result: v.optional(v.unknown()),
  quality: unsupported(envelope),
  output_format: maybeText,
});
export type LooseItem = v.InferOutput<typeof KnownItem>;

/** The items of tools that the provider runs itself. The neutral model holds them unchanged, and `ranTool` reads them. */
const HostedItem = whole(object({ type: v.string(), id: maybeText }));

const KNOWN: ReadonlySet<unknown> = new Set([
  "message",
  "reasoning",
  "function_call",
  "custom_tool_call",
  "code_interpreter_call",
  "image_generation_call",
]);

/** The states of an item whose tool has not finished its work. The provider charges no use for them. */
const UNDONE: ReadonlySet<unknown> = new Set(["in_progress", "searching", "interpreting", "incomplete", "failed"]);

/**
 * Returns the tool that has run for an item, and that its provider charges by use; undefined for any other item. A tool that is charged by the
 * container in which it runs code names the container.
 */
export function ranTool(item: LooseItem): { readonly name: string; readonly container?: string } | undefined {
  const { type, status, action, container_id, environment, result }: Readonly<Record<string, unknown>> = item;
  switch (type) {
    case "web_search_call":
      // A page that is opened, or in which a text is looked for, costs nothing.
      if (UNDONE.has(status) || (isJsonObject(action) && (action["type"] ?? "search") !== "search")) return undefined;
      return { name: "web_search" };
    case "file_search_call":
      return UNDONE.has(status) ? undefined : { name: "file_search" };
    case "image_generation_call":
      return typeof result === "string" && result !== "" ? { name: "image_generation" } : undefined;
    case "code_interpreter_call":
      return { name: "code_interpreter", ...(typeof container_id === "string" && { container: container_id }) };
    case "shell_call": {
      // A shell of the caller's has no container.
      const container = isJsonObject(environment) ? environment["container_id"] : undefined;
      return typeof container === "string" ? { name: "code_interpreter", container } : undefined;
    }
    default:
      return undefined;
  }
}

const Item: v.GenericSchema<unknown, LooseItem> = choice([KnownItem, HostedItem], (input) =>
  isJsonObject(input) && KNOWN.has(input["type"]) ? KnownItem : HostedItem,
);

export const LooseUsage = object({
  input_tokens: maybeCount,
  output_tokens: maybeCount,
  total_tokens: envelope,
  input_tokens_details: v.nullish(object({ cached_tokens: maybeCount, cache_write_tokens: maybeCount })),
  output_tokens_details: v.nullish(object({ reasoning_tokens: maybeCount })),
  // The uses of the tools that OpenRouter and xAI run.
  server_tool_use: envelope,
  server_side_tool_usage_details: envelope,
});
export type LooseUsage = v.InferOutput<typeof LooseUsage>;

/** The tokens of the pictures that OpenAI's tool has drawn. */
export const DrawnUsage = object({
  ...LooseUsage.entries,
  cached_tokens: maybeCount,
  cached_tokens_details: v.nullish(object({ cached_image_tokens: maybeCount })),
});

/** The counts of a response. */
export const Bill = object({ usage: v.nullish(LooseUsage), tool_usage: envelope, tools: envelope });
export type Bill = v.InferOutput<typeof Bill>;

/** A complete response, or the response in an event of a stream. */
export const LooseResponse = object({
  id: maybeText,
  model: maybeText,
  status: maybeText,
  error: v.optional(v.unknown()),
  incomplete_details: v.nullish(object({ reason: maybeText })),
  output: v.nullish(array(Item)),
  usage: v.nullish(LooseUsage),
  // The uses of the tools that OpenAI runs.
  tool_usage: envelope,
  tools: envelope,
  service_tier: maybeText,
});
export type LooseResponse = v.InferOutput<typeof LooseResponse>;

const READ =
  /^response\.(?:created|queued|in_progress|completed|incomplete|failed|done|output_item\.(?:added|done)|(?:output_text|refusal|reasoning_summary_text|reasoning_text|function_call_arguments)\.delta)$/;
export const isRead = (type: string): boolean => READ.test(type);

const ReadEvent = object({
  type: v.string(),
  response: v.nullish(LooseResponse),
  item: v.nullish(Item),
  item_id: maybeText,
  output_index: maybeCount,
  content_index: maybeCount,
  summary_index: maybeCount,
  delta: v.optional(v.unknown()),
  logprobs: v.optional(v.unknown()),
});

const OtherEvent = object({ type: v.string() }) as v.GenericSchema as typeof ReadEvent;
export type LooseEvent = v.InferOutput<typeof ReadEvent>;

export const LooseEvent: v.GenericSchema<unknown, LooseEvent> = choice([ReadEvent, OtherEvent], (input) =>
  isJsonObject(input) && typeof input["type"] === "string" && !isRead(input["type"]) ? OtherEvent : ReadEvent,
);

/** Finds the fields of a message's parts that the neutral model cannot hold. */
export const unsupportedInAnswer: UnsupportedFinder = unsupportedFinder(object({ output: v.nullish(array(Item)) }));
