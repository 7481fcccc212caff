/**
 * The signatures in a conversation for an upstream of this format. Removes the signatures of other makers, and adds the official placeholder
 * where a model demands a signature and the history has none. Works on bodies as callers sent them, in both spellings of the field names.
 */

import type { NativeRequest } from "../../kinds/chat/request.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { FORMAT } from "./schema.wire.ts";

/** The placeholder that Google documents for a call whose signature is not known, such as a call by another provider's model. */
const PLACEHOLDER = "skip_thought_signature_validator";

/** The placeholders that Google documents. A client may send either: they are no signatures. */
const PLACEHOLDERS: ReadonlySet<unknown> = new Set([PLACEHOLDER, "context_engineering_is_the_way_to_go"]);

export const isPlaceholder = (signature: unknown): boolean => PLACEHOLDERS.has(signature);

/** Models that accept calls without a signature: all before Gemini 3. */
const UNVALIDATED = /(?:^|\/)(?:gemini-[12](?:\.\d+)?-|gemma)/;

/** Tells whether a model may refuse a call without a signature. An unknown model may. */
export const demandsSignatures = (model: string): boolean => !UNVALIDATED.test(model);

/** A part of the conversation, in one of the spellings. */
type AnyPart = JsonObject;

const callIn = (part: AnyPart): unknown => part["functionCall"] ?? part["function_call"];
const responseIn = (part: AnyPart): unknown => part["functionResponse"] ?? part["function_response"];
const signatureIn = (part: AnyPart): unknown => part["thoughtSignature"] ?? part["thought_signature"];

/** Returns the part with another signature, or without one. Keeps the caller's spelling. */
function signed(part: AnyPart, signature: string | undefined): AnyPart {
  const { thoughtSignature: _, thought_signature: snake, ...others } = part;
  if (signature === undefined) return others;
  const isSnake = snake !== undefined || "function_call" in part;
  return { ...others, [isSnake ? "thought_signature" : "thoughtSignature"]: signature };
}

const partsOf = (content: unknown): readonly unknown[] => {
  const parts = isJsonObject(content) ? content["parts"] : undefined;
  return Array.isArray(parts) ? parts : parts == null ? [] : [parts];
};

const isModels = (content: unknown): content is JsonObject => isJsonObject(content) && content["role"] === "model";

/** Replaces the parts of a content. */
const withParts = (content: unknown, parts: readonly unknown[]): unknown => ({ ...(content as JsonObject), parts });

/**
 * Adds the placeholder to the first call of each step of the current turn, unless the call has a signature. Google checks only these: the
 * current turn begins behind the last content of the user that is no function response, and the later calls of one step have no signature.
 * Returns the same list if nothing is missing.
 */
export function withPlaceholders<Content>(contents: readonly Content[]): readonly Content[] {
  const start = contents.findLastIndex(
    (content) => !isModels(content) && !partsOf(content).some((part) => isJsonObject(part) && responseIn(part) != null),
  );
  let copy: Content[] | undefined;
  let isChecked = false;
  for (let index = start + 1; index < contents.length; index++) {
    const content = contents[index];
    // Consecutive contents of the model are one step: a client may keep each chunk of a stream as a content.
    if (!isModels(content)) isChecked = false;
    else if (!isChecked) {
      const parts = partsOf(content);
      const at = parts.findIndex((part) => isJsonObject(part) && callIn(part) != null);
      const call = parts[at];
      if (!isJsonObject(call)) continue;
      isChecked = true;
      if (signatureIn(call)) continue;
      // The cast is safe: only the parts differ.
      (copy ??= [...contents])[index] = withParts(content, parts.with(at, signed(call, PLACEHOLDER))) as Content &
        JsonObject;
    }
  }
  return copy ?? contents;
}

/**
 * Prepares the conversation of a body for an upstream of this format. A body without a foreign seal, without an empty signature, and
 * without a call that needs the placeholder is returned as the same object.
 *
 * @param foreignReasoning What happens to reasoning by another maker. With `pass`, all wrapped signatures stay.
 * @param fields Gets the fields that lose something.
 * @param remembered The signatures of earlier calls, by the ids of the calls.
 */
export function withOwnSeals(
  body: JsonObject,
  model: string,
  foreignReasoning: NonNullable<CodecOptions["foreignReasoning"]>,
  fields: ConvertedFields,
  remembered?: NativeRequest["remembered"],
): JsonObject {
  const held = body["contents"];
  const contents: readonly unknown[] = Array.isArray(held) ? held : [held];
  const isPassed = foreignReasoning === "pass";
  const cleaned = contents.some((content) =>
    partsOf(content).some((part) => isUnclean(part) && !(isPassed && isSealed(part))),
  )
    ? new Cleaning(foreignReasoning, fields).contents(contents)
    : contents;
  const restored = remembered ? cleaned.map((content) => withRemembered(content, remembered)) : cleaned;
  const sealed = demandsSignatures(model) ? withPlaceholders(restored) : restored;
  // The cast is safe: the parts come from the body itself.
  return sealed === contents ? body : { ...body, contents: sealed as JsonValue };
}

/** Puts the signatures of calls back that the client has not sent. */
function withRemembered(content: unknown, remembered: NonNullable<NativeRequest["remembered"]>): unknown {
  const parts = partsOf(content);
  const restored = parts.map((part) => {
    const call = isJsonObject(part) ? callIn(part) : undefined;
    if (!isJsonObject(part) || !isJsonObject(call) || (signatureIn(part) && !isPlaceholder(signatureIn(part))))
      return part;
    const { id } = call;
    const { signature, maker = FORMAT } = (typeof id === "string" && remembered.get(id)) || {};
    return signature && maker === FORMAT ? signed(part, signature) : part;
  });
  return restored.every((part, index) => part === parts[index]) ? content : withParts(content, restored);
}

/** Tells whether a part has a wrapped signature. */
function isSealed(part: unknown): boolean {
  const signature = isJsonObject(part) ? signatureIn(part) : undefined;
  return typeof signature === "string" && unwrapSeal(signature) !== undefined;
}

/** Tells whether a part has a wrapped or an empty signature, or is a thought without content. */
function isUnclean(part: unknown): boolean {
  if (!isJsonObject(part)) return false;
  const signature = signatureIn(part);
  if (typeof signature !== "string") return isEmptyThought(part);
  return signature === "" || unwrapSeal(signature) !== undefined;
}

const isThought = (part: AnyPart): boolean => part["thought"] === true;
const isEmptyThought = (part: AnyPart): boolean => isThought(part) && isEmptyText(part);
/** Tells whether a part has no content, or only an empty text. */
const isEmptyText = (part: AnyPart): boolean =>
  Object.entries(part).every(([key, value]) => key === "thought" || (key === "text" && value === "") || value == null);

/** Cleans one conversation, from its first content to its last. */
class Cleaning {
  readonly #foreignReasoning: CodecOptions["foreignReasoning"];
  readonly #fields: ConvertedFields;
  /** The thoughts without a signature since the last other part. The next signature is theirs too: streams send it in a part of its own. */
  #unsigned: AnyPart[] = [];
  /** The parts of other makers' reasoning, and the parts that take their place. */
  readonly #replaced: Map<unknown, AnyPart | undefined> = new Map();

  constructor(foreignReasoning: CodecOptions["foreignReasoning"], fields: ConvertedFields) {
    this.#foreignReasoning = foreignReasoning;
    this.#fields = fields;
  }

  contents(contents: readonly unknown[]): unknown[] {
    for (const content of contents) {
      if (!isModels(content)) this.#unsigned = [];
      for (const part of partsOf(content)) if (isJsonObject(part)) this.#read(part);
    }
    return contents.flatMap((content) => {
      const parts = partsOf(content);
      if (!parts.some((part) => this.#replaced.has(part))) return [content];
      const kept = parts.flatMap((part) => (this.#replaced.has(part) ? (this.#replaced.get(part) ?? []) : [part]));
      // The format does not allow a content without parts.
      return kept.length > 0 ? [withParts(content, kept)] : [];
    });
  }

  /** Decides on a part. Parts that stay as they are get no entry. */
  #read(part: AnyPart): void {
    const text = signatureIn(part);
    const seal = typeof text === "string" ? unwrapSeal(text) : undefined;
    // The next signature is not of the thoughts before this part.
    if (seal && this.#foreignReasoning === "pass") {
      this.#unsigned = [];
      return;
    }
    const isForeign = seal !== undefined && (seal.maker !== FORMAT || seal.kind === "redacted");
    if (isForeign && isThought(part)) {
      this.#fields.add("messages.reasoning.foreign");
      for (const thought of [...this.#unsigned, part]) this.#replaced.set(thought, this.#asText(thought));
    } else if (seal || text === "") {
      if (isForeign) this.#fields.add("messages.signature.foreign");
      const bare = signed(part, (!isForeign && seal?.value) || undefined);
      this.#replaced.set(part, isEmptyText(bare) ? undefined : bare);
    } else if (isEmptyText(part)) this.#replaced.set(part, undefined);
    if (isThought(part) && !text) this.#unsigned.push(part);
    else this.#unsigned = [];
  }

  #asText({ text }: AnyPart): AnyPart | undefined {
    return this.#foreignReasoning === "text" && typeof text === "string" && text !== "" ? { text } : undefined;
  }
}
