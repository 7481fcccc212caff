/** Checks a chat backend's events before they are counted: a host's backend may be written without types. */

import { GatewayError } from "../../errors.ts";
import { assertJsonBounds, JsonLimitError, type JsonLimits } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import { isCount } from "../meter.ts";
import type { ChatEvent, FinishReason, NativeEvent } from "./event.ts";

/** The fields that an event must have: `texts` are strings, `object` is an object or array. */
interface EventFields {
  readonly texts?: readonly string[];
  /** Strings that may be absent. */
  readonly optional?: readonly string[];
  readonly object?: string;
}

const FIELDS: ReadonlyMap<string, EventFields> = new Map(
  Object.entries({
    start: { optional: ["id", "model", "maker"] },
    "text-delta": { texts: ["text"], optional: ["signature", "maker", "block"] },
    "reasoning-delta": { texts: ["text"], optional: ["block"] },
    "refusal-delta": { texts: ["text"] },
    "reasoning-signature": { texts: ["signature"], optional: ["maker"] },
    "redacted-reasoning": { texts: ["data"], optional: ["maker"] },
    "tool-call": { texts: ["id", "name"], optional: ["signature", "maker"], object: "input" },
    "tool-call-start": { texts: ["id", "name"], optional: ["signature", "maker"] },
    "tool-call-delta": { texts: ["id", "json"] },
    "tool-call-end": { texts: ["id"], optional: ["signature", "maker"] },
    media: { texts: ["mediaType", "data"], optional: ["signature", "maker"] },
    code: { texts: ["language", "code"], optional: ["id", "signature", "maker"] },
    "code-result": { texts: ["outcome"], optional: ["output", "id", "signature", "maker"] },
    provider: { texts: ["format"], object: "value" },
    annotation: { object: "annotation" },
    "prompt-feedback": {},
    usage: {},
    finish: { optional: ["stopSequence"] },
    native: { texts: ["format"], optional: ["body"], object: "events" },
  } satisfies Record<ChatEvent["type"], EventFields>),
);

/**
 * Throws `backend_failed` for an event of an unknown type, with missing fields, or with JSON beyond the limits of a body, which may be
 * cyclic or too deep to be written. Runs before the event is counted or written.
 */
export function assertChatEvent(event: ChatEvent, limits: JsonLimits): void {
  // Handle plain text first, because most events are plain text. The table would make counting a fifth slower.
  if (event.type === "text-delta" && typeof event.text === "string" && !("signature" in event || "block" in event))
    return;
  const fields = FIELDS.get(event.type);
  if (fields && hasFields(event, fields) && (event.type !== "native" || isNative(event))) {
    if (fields.object !== undefined && event.type !== "native")
      assertJson((event as Readonly<Record<string, unknown>>)[fields.object], limits);
    return;
  }
  throw new GatewayError("backend_failed", "The model backend yielded an event that is none.", {
    port: "model-backend",
    cause: new TypeError(`A field of an event of type ${JSON.stringify(event.type)} is missing, or of the wrong type.`),
  });
}

function assertJson(value: unknown, limits: JsonLimits): void {
  try {
    assertJsonBounds(value, limits);
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const message = `The model backend gave JSON that ${error.message}.`;
    throw new GatewayError("backend_failed", message, { port: "model-backend" });
  }
}

function hasFields(event: object, { texts = [], optional = [], object }: EventFields): boolean {
  // Check every field: a host's backend may have set any value.
  const values = event as Readonly<Record<string, unknown>>;
  for (const name of texts) if (typeof values[name] !== "string") return false;
  for (const name of optional) if (values[name] !== undefined && typeof values[name] !== "string") return false;
  return object === undefined || (typeof values[object] === "object" && values[object] !== null);
}

function isNative({ events, frames, body }: NativeEvent): boolean {
  if (!Array.isArray(events)) return false;
  if (body !== undefined) return true;
  if (!Array.isArray(frames)) return false;
  for (const frame of frames as readonly ({ data?: unknown } | null | undefined)[])
    if (typeof frame?.data !== "string") return false;
  return true;
}

export const FINISH_REASONS: ReadonlySet<string> = new Set(
  Object.keys({
    stop: true,
    "stop-sequence": true,
    length: true,
    "tool-calls": true,
    "content-filter": true,
    recitation: true,
    language: true,
    pause: true,
    refusal: true,
    "context-window": true,
    blocklist: true,
    "prohibited-content": true,
    "personal-data": true,
    "unsafe-image": true,
    "malformed-tool-call": true,
    other: true,
  } satisfies Record<FinishReason, true>),
);

/** The fields of a usage that are a single count. */
const COUNTS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "toolUseTokens",
] as const satisfies readonly (keyof Usage)[];

/** Returns the name of the first count that is no count of tokens; undefined if all counts are valid. */
export function wrongCount(usage: Partial<Usage>): string | undefined {
  const { details, cacheWritesByTtl, serverToolUses } = usage;
  for (const name of COUNTS) if (usage[name] !== undefined && !isCount(usage[name])) return name;
  for (const counts of [cacheWritesByTtl, serverToolUses])
    for (const name in counts) if (counts[name] !== undefined && !isCount(counts[name])) return name;
  const kinds = details ? Object.values(details).flat() : [];
  return kinds.every(({ tokens }) => isCount(tokens)) ? undefined : "details";
}
