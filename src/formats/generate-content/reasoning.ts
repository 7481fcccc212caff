/**
 * Reasoning in generate-content requests: the thinking config in both directions, as each model lets a request control its thinking, and the
 * signatures in a conversation. Signatures of other makers are removed, and the official placeholder is added where a model demands a signature
 * and the history has none. The signatures stand in bodies as callers sent them, in both spellings of the field names.
 */

import { budgetOf, budgetWithin, effortOf } from "../../kinds/chat/reasoning.ts";
import type {
  ChatRequest,
  NativeRequest,
  Reasoning,
  ReasoningControl,
  ReasoningEffort,
} from "../../model/chat-request.ts";
import { given, isJsonObject, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { CodecOptions } from "../format.ts";
import type { ConvertedField, ConvertedFields } from "../shared/conversions.ts";
import { unwrapSeal } from "../shared/seal.ts";
import { FORMAT } from "./routes.ts";
import type { ThinkingConfig } from "./schema.config.ts";
import { readWord, THINKING_LEVEL } from "./schema.wire.ts";

type Level = "minimal" | "low" | "medium" | "high";
const LEVELS: readonly Level[] = ["minimal", "low", "medium", "high"];

/** The thinking of a family of models, as Google documents it. */
interface ThinkingModel {
  readonly name: RegExp;
  readonly control: ReasoningControl;
  /** The levels that the models know, from least to most. */
  readonly levels?: readonly Level[];
  /** The smallest and the largest budget, in tokens. A budget of 0 turns the thinking off, unless `isAlwaysOn` is set. */
  readonly budgets?: readonly [min: number, max: number];
  readonly isAlwaysOn?: true;
}

/** The first entry whose name matches is the model's. */
const MODELS: readonly ThinkingModel[] = [
  { name: /(?:^|\/)gemini-(?:1|2\.0|2\.5-.*(?:image|tts))/, control: "none" },
  { name: /(?:^|\/)gemma-[123]/, control: "none" },
  { name: /(?:^|\/)gemini-2\.5-pro/, control: "budget", budgets: [128, 32_768], isAlwaysOn: true },
  { name: /(?:^|\/)gemini-2\.5-flash-lite/, control: "budget", budgets: [512, 24_576] },
  { name: /(?:^|\/)gemini-2\.5-/, control: "budget", budgets: [1, 24_576] },
  { name: /(?:^|\/)gemini-3-pro/, control: "effort", levels: ["low", "high"] },
  { name: /(?:^|\/)gemini-3\.\d+-pro/, control: "effort", levels: ["low", "medium", "high"] },
  { name: /(?:^|\/)gemini-3/, control: "effort" },
];

const readLevel = (level: string | null | undefined): ReasoningEffort | undefined =>
  readWord(THINKING_LEVEL, level?.toUpperCase());

/** Tells whether the neutral request cannot hold the config's level. */
export const isUnsupportedLevel = ({ thinkingLevel, thinkingBudget }: ThinkingConfig): boolean =>
  thinkingLevel != null && ((thinkingBudget ?? -1) >= 0 || !readLevel(thinkingLevel));

/** Decodes the thinking config. Thoughts are visible only if the caller asks for them. */
export function decodeThinking({
  includeThoughts,
  thinkingBudget,
  thinkingLevel,
}: ThinkingConfig): Reasoning | undefined {
  if (thinkingBudget === 0) return { type: "disabled" };
  if (includeThoughts == null && thinkingBudget == null && thinkingLevel == null) return undefined;
  const visible = includeThoughts ?? false;
  if (thinkingBudget != null && thinkingBudget > 0) return { type: "enabled", budgetTokens: thinkingBudget, visible };
  return { type: "adaptive", ...given({ effort: readLevel(thinkingLevel) }), visible };
}

/** The thinking config for a model, and the field of the reasoning that it does not say exactly. */
interface EncodedThinking {
  readonly config?: ThinkingConfig;
  readonly field?: ConvertedField;
}

const modelNamed = (model: string): ThinkingModel | undefined => MODELS.find(({ name }) => name.test(model));

/** Returns how a request controls a model's thinking: as the host says, or as is known. Unknown models are sent what the caller asked for. */
export const controlOf = (model: string, { reasoning }: CodecOptions): ReasoningControl =>
  reasoning?.(model) ?? modelNamed(model)?.control ?? "any";

/** The model and the output limit of a request. */
type Limited = Pick<ChatRequest, "model" | "maxOutputTokens">;

/** Encodes the reasoning for a model. */
export function encodeThinking(reasoning: Reasoning, request: Limited, control: ReasoningControl): EncodedThinking {
  switch (control) {
    case "none":
      return reasoning.type === "disabled" ? {} : { field: "reasoning" };
    case "budget":
      return inTokens(reasoning, request);
    case "effort":
      return inLevels(reasoning, modelNamed(request.model)?.levels ?? LEVELS);
    case "any": {
      const isLevel = reasoning.type === "adaptive" && reasoning.effort !== undefined;
      return isLevel ? inLevels(reasoning, LEVELS) : inTokens(reasoning, request);
    }
  }
}

function inTokens(reasoning: Reasoning, request: Limited): EncodedThinking {
  const { budgets: [min, max] = [1, Infinity], isAlwaysOn } = modelNamed(request.model) ?? {};
  if (reasoning.type === "disabled")
    return isAlwaysOn
      ? { config: { thinkingBudget: min }, field: "reasoning.budgetTokens" }
      : { config: { thinkingBudget: 0 } };
  const includeThoughts = reasoning.visible ?? true;
  // A budget of -1 leaves the amount to the model.
  if (reasoning.type === "adaptive" && reasoning.effort === undefined)
    return { config: { includeThoughts, thinkingBudget: -1 } };
  const wanted = reasoning.type === "enabled" ? reasoning.budgetTokens : budgetOf(reasoning.effort);
  const thinkingBudget = budgetInLimit(Math.max(min, Math.min(max, wanted)), request);
  if (thinkingBudget === 0) return { config: { thinkingBudget }, field: "reasoning" };
  const config = { includeThoughts, thinkingBudget };
  if (reasoning.type === "adaptive") return { config, field: "reasoning.effort" };
  return thinkingBudget === wanted ? { config } : { config, field: "reasoning.budgetTokens" };
}

/**
 * Returns a positive budget, or as much of it as leaves room for the answer in the output limit. Returns 0, which turns the thinking off,
 * where this is less than the model accepts.
 */
export function budgetInLimit(budget: number, { model, maxOutputTokens }: Limited): number {
  const { budgets: [min] = [1], isAlwaysOn } = modelNamed(model) ?? {};
  const within = budgetWithin(budget, maxOutputTokens);
  if (within === budget || within >= min) return within;
  return isAlwaysOn ? Math.min(budget, min) : 0;
}

function inLevels(reasoning: Reasoning, levels: readonly Level[]): EncodedThinking {
  // No model turns its thinking off by a level. The least is nearest to that.
  if (reasoning.type === "disabled")
    return { config: { thinkingLevel: levelNear("minimal", levels) }, field: "reasoning.effort" };
  const includeThoughts = reasoning.visible ?? true;
  if (reasoning.type === "enabled") {
    const thinkingLevel = levelNear(effortOf(reasoning.budgetTokens), levels);
    return { config: { includeThoughts, thinkingLevel }, field: "reasoning.budgetTokens" };
  }
  const { effort } = reasoning;
  if (effort === undefined) return { config: { includeThoughts } };
  const config = { includeThoughts, thinkingLevel: levelNear(effort, levels) };
  return levels.some((level) => level === effort) ? { config } : { config, field: "reasoning.effort" };
}

/** Returns the word for the smallest level that is at least as high as an effort; for the highest level if there is none. */
function levelNear(effort: ReasoningEffort, levels: readonly Level[]): string {
  const rank = LEVELS.indexOf(effort as Level);
  const near = rank < 0 ? undefined : levels.find((level) => LEVELS.indexOf(level) >= rank);
  return THINKING_LEVEL[near ?? "high"];
}

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
