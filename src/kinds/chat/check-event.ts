/** Checks a chat backend's events before they are counted: a host's backend may be written without types. */

import { backendFailed } from "../../errors.ts";
import type { ChatEvent, FinishReason, NativeEvent } from "../../model/chat-event.ts";
import { CHAT } from "../../model/chat-request.ts";
import { assertJsonBounds, JsonLimitError, type JsonLimits } from "../../model/json.ts";
import { MAX_STEPS, TOKEN_COUNTS, type Usage } from "../../model/usage.ts";
import type { Shapes } from "../../options.ts";
import { countFault, wrongBackend, type EventShapes, isCount, NO_EVENT, wrongEvent } from "../meter.ts";

type Of<Type extends ChatEvent["type"]> = Shapes<Omit<Extract<ChatEvent, { type: Type }>, "type">>;

const CANDIDATE = { candidate: "number?" } as const;
const SIGNED = { ...CANDIDATE, signature: "string?", maker: "string?" } as const;

const SHAPES: EventShapes = {
  start: { id: "string?", model: "string?", upstreamModel: "string?", maker: "string?", usage: "object?" },
  "text-delta": { text: "string", block: "string?", ...SIGNED },
  "reasoning-delta": { text: "string", block: "string?", ...CANDIDATE },
  "refusal-delta": { text: "string", ...CANDIDATE },
  "reasoning-signature": { signature: "string", maker: "string?", ...CANDIDATE },
  "redacted-reasoning": { data: "string", maker: "string?", ...CANDIDATE },
  "tool-call": { id: "string", name: "string", input: "object", ...SIGNED },
  "tool-call-start": { id: "string", name: "string", ...SIGNED },
  "tool-call-delta": { id: "string", json: "string", ...CANDIDATE },
  "tool-call-end": { id: "string", ...SIGNED },
  media: { mediaType: "string", data: "string", thought: "any?", ...SIGNED },
  code: { language: "string", code: "string", id: "string?", ...SIGNED },
  "code-result": { outcome: "string", output: "string?", id: "string?", ...SIGNED },
  provider: { format: "string", value: "object", ...CANDIDATE },
  annotation: { annotation: "object", ...CANDIDATE },
  "prompt-feedback": { ratings: "any", blockReason: "any?" },
  usage: { usage: "object", model: "string?" },
  finish: { reason: "string", stopSequence: "string?", usage: "object?", ...CANDIDATE },
  native: { format: "string", events: "list", frames: "any?", body: "string?", unsupported: "any?" },
} satisfies { readonly [Type in ChatEvent["type"]]: Of<Type> };

const NATIVE_FIELDS =
  "chat: the event native: events must be a list, and frames a list of objects with data, a text, where there is no body.";

/** The names of the fields to check, by what they must be; `lists` stands for objects, too. */
interface EventFields {
  readonly texts: readonly string[];
  readonly optionalTexts: readonly string[];
  readonly objects: readonly string[];
  readonly optionalObjects: readonly string[];
}

const FIELDS: ReadonlyMap<string, EventFields> = new Map(
  Object.entries(SHAPES).map(([type, shapes]) => {
    const are = (...wanted: readonly unknown[]): string[] =>
      Object.keys(shapes).filter((name) => wanted.includes(shapes[name]));
    const [texts, optionalTexts] = [are("string"), are("string?")];
    return [type, { texts, optionalTexts, objects: are("object", "list"), optionalObjects: are("object?") }] as const;
  }),
);

/**
 * Throws `backend_failed` for an event of an unknown type, with missing fields, or with JSON beyond the limits of a body, which may be
 * cyclic or too deep to be written. Runs before the event is counted or written.
 */
export function assertChatEvent(event: ChatEvent, limits: JsonLimits): void {
  // Handle plain text first, because most events are plain text. The table would make counting a fifth slower.
  if (event?.type === "text-delta" && typeof event.text === "string" && !("signature" in event || "block" in event))
    return;
  const fields = FIELDS.get(event?.type);
  if (!fields || !hasFields(event, fields)) throw wrongEvent(CHAT, event, SHAPES, "a text, or ");
  if (event.type === "native" && !isNative(event)) throw wrongBackend(NO_EVENT, NATIVE_FIELDS);
  const [object] = fields.objects;
  if (object !== undefined && event.type !== "native" && event.type !== "usage")
    assertJson((event as object as Readonly<Record<string, unknown>>)[object], limits);
}

function assertJson(value: unknown, limits: JsonLimits): void {
  try {
    assertJsonBounds(value, limits);
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const message = `The model backend gave JSON that ${error.message}.`;
    throw backendFailed(message);
  }
}

function hasFields(event: object, fields: EventFields): boolean {
  // Check every field: a host's backend may have set any value.
  const values = event as Readonly<Record<string, unknown>>;
  for (const name of fields.texts) if (typeof values[name] !== "string") return false;
  for (const name of fields.optionalTexts)
    if (values[name] !== undefined && typeof values[name] !== "string") return false;
  for (const name of fields.objects) if (typeof values[name] !== "object" || values[name] === null) return false;
  for (const name of fields.optionalObjects)
    if (values[name] !== undefined && typeof values[name] !== "object") return false;
  return true;
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

const USAGE_FIELDS: ReadonlySet<string> = new Set([
  ...TOKEN_COUNTS,
  "cacheWritesByTtl",
  "serverToolUses",
  "serviceTier",
  "speed",
  "inferenceGeo",
  "details",
  "steps",
] satisfies (keyof Usage)[]);

/**
 * Returns the fault of the first field that is no count of tokens; undefined if all counts are valid. Unknown fields may stand beside the
 * fields of a usage. A usage of unknown fields alone, such as those of a wire format, has no count.
 */
export function wrongUsage(usage: Partial<Usage>): string | undefined {
  const names = Object.keys(usage);
  return names.some((name) => USAGE_FIELDS.has(name)) ? wrongCount(usage) : names[0];
}

/** Returns the fault of the first count that is no count of tokens; undefined if all counts are valid. */
function wrongCount({ steps, ...usage }: Partial<Usage>): string | undefined {
  const { details, cacheWritesByTtl, serverToolUses } = usage;
  for (const name of TOKEN_COUNTS)
    if (usage[name] !== undefined && !isCount(usage[name])) return countFault(name, usage[name]);
  for (const counts of [cacheWritesByTtl, serverToolUses])
    for (const name in counts)
      if (counts[name] !== undefined && !isCount(counts[name])) return countFault(name, counts[name]);
  const kinds = details ? Object.values(details).flat() : [];
  const wrong = kinds.find(({ tokens }) => !isCount(tokens));
  if (wrong) return countFault("details", wrong.tokens);
  return steps == null || areSteps(steps) ? undefined : "steps";
}

/** Checks the steps of a usage. A step has no steps of its own. */
const areSteps = (steps: unknown): boolean =>
  Array.isArray(steps) &&
  steps.length <= MAX_STEPS &&
  (steps as readonly (Partial<Usage> & { readonly model?: unknown })[]).every(
    (step) =>
      typeof step === "object" &&
      step !== null &&
      step.steps === undefined &&
      (step.model === undefined || typeof step.model === "string") &&
      wrongCount(step) === undefined,
  );
