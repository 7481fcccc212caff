/**
 * The models that a caller's own body names beside the requested one. An upstream of the caller's format gets the body as it came, and may
 * answer with one of these models, or run one of them for a tool: OpenRouter's `models`, LiteLLM's `fallbacks`, a tool with a `model`.
 */

import { type FieldPath, invalidField } from "../errors.ts";
import type { NativeRequest } from "../model/chat-request.ts";
import { derived, listedIn, remembered } from "../model/derived.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../model/json.ts";
import type { Usage } from "../model/usage.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { UpstreamModel } from "../ports/model-backend.ts";
import type { Price } from "./chat/price.ts";
import type { ImagePrice } from "./image/price.ts";

/** A field of a body that lets an upstream answer with another model than the requested one. */
interface OtherModel {
  readonly path: FieldPath;
  /** The name of the model; undefined where the field leaves the choice to the upstream, such as `route`. */
  readonly name: string | undefined;
}

/** Names of fields, in snake case, that name a model. */
const NAMES = /(?:^|_)(?:models?|fallbacks?|deployments?)(?:_(?:names?|ids?|list|slugs?|alias(?:es)?))?$/;

/** Fields that let an upstream choose the model: by a rule of its own, or by settings that it has stored. */
const CHOICES = /^(?:route|preset|agent_id|auto_mode|routing_config|model_selection_config|router_settings\w*)$/;

/** Fields of a body whose contents the model reads. Their entries may hold tools. */
const CONTENT: ReadonlySet<string> = new Set([
  "messages",
  "contents",
  "input",
  "system",
  "system_instruction",
  "instructions",
  "prompt",
  "metadata",
  "labels",
]);

/** Fields at any depth with contents, JSON Schemas or examples, whose keys are the caller's own. */
const OWN_KEYS: ReadonlySet<string> = new Set([
  "content",
  "headers",
  "properties",
  "response",
  "schema",
  "json_schema",
  "input_schema",
  "output_schema",
  "response_schema",
  "response_json_schema",
  "parameters_json_schema",
  "input_examples",
  "guided_json",
  "variables",
]);

const NO_BODY = {};

/** The most further models that a body may name: each is priced several times before the call. */
const MOST_NAMED = 256;

/**
 * Lists the fields of a body, in their order. The requested model itself, which the gateway writes, is not among them. Throws
 * `invalid_request` for too many.
 */
export function otherModelsIn(native: NativeRequest | undefined): readonly OtherModel[] {
  const found: OtherModel[] = [];
  addFields(native?.body ?? NO_BODY, [], true, found);
  const tooMany = found[MOST_NAMED];
  if (tooMany) throw invalidField(tooMany.path, `A request may name at most ${MOST_NAMED} further models.`);
  return found;
}

function addFields(object: object, path: FieldPath, isBody: boolean, found: OtherModel[]): void {
  for (const [field, value] of Object.entries(object)) {
    if (value == null || (isBody && field === "model")) continue;
    const at = [...path, field];
    const names = namesIn(field);
    const isNamed = (pattern: RegExp): boolean => names.some((name) => pattern.test(name));
    if (isBody && CONTENT.has(names[0] ?? "")) addTools(value, at, found);
    // The upstream chooses the fallback.
    else if (isBody && field === "fallbacks" && value === "default") found.push({ path: at, name: undefined });
    else if (isBody && field === "requests") addEach(value, at, true, found);
    else if (OWN_KEYS.has(names[0] ?? "") || isSchema(names[0], object)) continue;
    else if (isNamed(NAMES)) addNames(value, at, found);
    else if (isNamed(CHOICES)) found.push({ path: at, name: undefined });
    else addEach(value, at, false, found);
  }
}

function addEach(value: unknown, path: FieldPath, isBody: boolean, found: OtherModel[]): void {
  if (isJsonObject(value)) return addFields(value, path, isBody, found);
  if (!Array.isArray(value)) return;
  const known = isBody ? undefined : listedIn(value);
  for (const [index, one] of value.entries())
    if (!known || hasFields(one, known[index])) addEach(one, [...path, index], isBody, found);
}

/** Tells whether a tool, or another element of a list, has such fields. An agent sends the same tools with each call. */
const hasFields = derived((value: unknown): boolean => {
  const found: OtherModel[] = [];
  addEach(value, [], false, found);
  return found.length > 0;
});

/** Adds the fields of tools that stand in contents, such as an item that brings further tools, or a block of a turn that adds one. */
function addTools(value: unknown, path: FieldPath, found: OtherModel[]): void {
  if (!Array.isArray(value)) return;
  for (const [index, one] of value.entries()) {
    if (!isJsonObject(one)) continue;
    if (one["tools"] != null) addEach(one["tools"], [...path, index, "tools"], false, found);
    for (const [at, tool] of addedTools(one)) addEach(tool, [...path, index, "content", at, "tool"], false, found);
  }
}

/** Returns the tools that the blocks of a turn add, with the positions of the blocks. */
function addedTools({ content }: JsonObject): readonly (readonly [at: number, tool: JsonObject])[] {
  if (!Array.isArray(content) || !content.some(isAddition)) return NO_TOOLS;
  return content.flatMap((block, at) => {
    const tool = isAddition(block) ? block["tool"] : undefined;
    return isJsonObject(tool) ? [[at, tool] as const] : [];
  });
}

const isAddition = (block: JsonValue): block is JsonObject => isJsonObject(block) && block["type"] === "tool_addition";

const NO_TOOLS: readonly never[] = [];

/** Returns the tools of a body of a chat: those of the request, and those that a turn adds. */
export const toolsIn = (native: NativeRequest | undefined): readonly JsonObject[] =>
  native ? toolsOf(native) : NO_TOOLS;

const toolsOf = /* @__PURE__ */ remembered(({ body }: NativeRequest): readonly JsonObject[] => {
  const { tools, messages } = body;
  const found: unknown[] = Array.isArray(tools) ? [...tools] : [];
  for (const turn of Array.isArray(messages) ? messages : NO_TOOLS)
    if (isJsonObject(turn)) for (const [, tool] of addedTools(turn)) found.push(tool["definition"]);
  return found.filter(isJsonObject);
});

/** The fields beside the name of a fallback of messages: they set the parameters of its attempt. */
const SETTINGS: ReadonlySet<string> = new Set(["max_tokens", "thinking", "output_config", "speed"]);

/** Adds each text. A list of fallbacks may have objects with a name, or the name as a key. */
function addNames(value: unknown, path: FieldPath, found: OtherModel[]): void {
  if (typeof value === "string") found.push({ path, name: value });
  else if (value === true) found.push({ path, name: undefined });
  else if (typeof value === "object" && value !== null)
    for (const [key, one] of Object.entries(value))
      if (!("model" in value && SETTINGS.has(key)))
        addNames(one, [...path, Array.isArray(value) ? Number(key) : key], found);
}

/** Returns the names in a field's name, in snake case. A field of a form may be `tools[0][model]`. */
const namesIn = (field: string): string[] =>
  field
    .replaceAll(/([a-z\d])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[[\].]+/)
    .map((name) => name.replaceAll("-", "_"));

/** Tells whether `parameters` are the schema of a function, and not the settings of a tool that the upstream runs. */
const isSchema = (
  field: string | undefined,
  { type, name }: { readonly type?: unknown; readonly name?: unknown },
): boolean => field === "parameters" && (type === "function" || (type === undefined && typeof name === "string"));

/** A model that may answer in place of the requested one, and the field of the body that names the model. */
interface AnsweringModel {
  readonly name: string;
  readonly field: string;
}

/**
 * Returns the models that may answer in place of the requested one. A tool's model answers no request. A call needs them for its hold, its
 * output limit and its charge.
 */
const answering = (native: NativeRequest | undefined): readonly AnsweringModel[] => (native ? answeringIn(native) : []);

const answeringIn = /* @__PURE__ */ remembered((native: NativeRequest): readonly AnsweringModel[] =>
  otherModelsIn(native).flatMap(({ path, name }) =>
    name === undefined || path.some(isTool) ? [] : { name, field: `native.${path[0]}` },
  ),
);

/** Tells whether the upstream has not got a field of the request. */
type LeavesOut = (field: string) => boolean;

const leavesOutNothing: LeavesOut = () => false;

const isTool = (field: string | number): boolean => field === "tools" || field === "tool";

/**
 * Returns the price of a request whose body names further models: the price of the model that has answered, or the dearest where none is
 * known. The price of a model that has none throws.
 *
 * @param leavesOut Tells which fields the upstream has not got: a model that such a field names cannot answer. Default: none.
 * @param answered Returns the upstream's name of the model that has answered.
 */
export function priceAmong(
  price: Price,
  native: NativeRequest | undefined,
  leavesOut: LeavesOut = leavesOutNothing,
  answered: () => string | undefined = () => undefined,
): Price {
  const named = answering(native);
  if (named.length === 0) return price;
  return (usage, model, kind, upstream) => {
    const others = named.flatMap(({ name, field }) => (leavesOut(field) ? [] : name));
    const own = (): number => price(usage, model, kind, upstream);
    const known = answered();
    if (known !== undefined && known === (upstream?.model ?? model)) return own();
    const costs = others.map((other) => priceOfOther(price, usage, other, kind, upstream));
    return others.includes(known ?? "") ? (costs[others.indexOf(known ?? "")] ?? own()) : Math.max(own(), ...costs);
  };
}

/** Returns the price of another model of the same upstream. */
export const priceOfOther = (
  price: Price,
  usage: Usage,
  model: string,
  kind: ModelKind,
  upstream: UpstreamModel | undefined,
): number => price(usage, model, kind, upstreamOf(upstream, model));

/** As `priceAmong`, for an image: the dearest model. */
export function imagePriceAmong(
  price: ImagePrice,
  native: NativeRequest | undefined,
  leavesOut: LeavesOut = leavesOutNothing,
): ImagePrice {
  const named = answering(native);
  if (named.length === 0) return price;
  return (image) => {
    const others = named.flatMap(({ name, field }) => (leavesOut(field) ? [] : name));
    return Math.max(
      price(image),
      ...others.map((model) => price({ ...image, model, upstream: upstreamOf(image.upstream, model) })),
    );
  };
}

const upstreamOf = (upstream: UpstreamModel | undefined, model: string): UpstreamModel | undefined =>
  upstream && { ...upstream, model };
