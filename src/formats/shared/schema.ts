/**
 * Schemas that several formats share, the search for the fields of a body that the neutral model cannot hold, and the limit on the JSON Schemas of
 * a body.
 */

import * as v from "valibot";
import { invalidField } from "../../errors.ts";
import { object, openWords, type Shape, shapeOf } from "../../http/validation.ts";
import { BASE64_FORMAT, isBase64 } from "../../media/base64.ts";
import { usualType } from "../../media/media-type.ts";
import type { MediaSource } from "../../model/chat-request.ts";
import type { EmbeddingTask } from "../../model/embedding.ts";
import {
  assertJsonBounds,
  type JsonObject,
  isJsonObject,
  type JsonBudget,
  JsonLimitError,
  type JsonLimits,
  parseJson,
  isLonger,
  valueAt,
} from "../../model/json.ts";

export const MAX_UNSUPPORTED = 32;
/** The length to which the name of a reported field is cut, in characters. */
const MAX_NAME_CHARS = 100;

/** Tells whether the neutral model cannot hold the value of a field. */
type IsUnsupported = (value: unknown) => boolean;

interface Mark extends v.BaseMetadata<unknown> {
  readonly type: "unsupported" | "whole";
  readonly isUnsupported: IsUnsupported;
}

const markOf = (schema: v.GenericSchema, type: Mark["type"]): Mark | undefined =>
  (schema as { readonly pipe?: readonly { readonly type: string }[] }).pipe?.find((item) => item.type === type) as
    | Mark
    | undefined;

const marked = <const Schema extends v.GenericSchema>(
  schema: Schema,
  type: Mark["type"],
  isUnsupported: IsUnsupported,
): Schema => v.pipe(schema, { kind: "metadata", type, reference: marked, isUnsupported } as Mark) as unknown as Schema;

/** Marks a field that the neutral model cannot hold. With `isUnsupported`, only the values for which it returns true are unsupported. */
export const unsupported = <const Schema extends v.GenericSchema>(
  schema: Schema,
  isUnsupported: (value: NonNullable<v.InferOutput<Schema>>) => boolean = () => true,
): Schema => marked(schema, "unsupported", isUnsupported as IsUnsupported);

/** Marks an object that the neutral model holds unchanged, with its unknown fields. */
export const whole = <const Schema extends v.GenericSchema>(schema: Schema): Schema =>
  marked(schema, "whole", () => false);

/**
 * Lists the paths of the fields that the neutral model cannot hold, such as `metadata` or `audio.format`. Each path is listed once, and
 * has no indices of lists.
 *
 * @param found The fields of earlier bodies, which are not listed again.
 */
export type UnsupportedFinder = (body: unknown, found?: Set<string>) => string[];

/** Makes a finder for bodies of a schema. The finder lists the marked fields, and the fields that the schema does not name. */
export function unsupportedFinder(schema: v.GenericSchema): UnsupportedFinder {
  let walk: Walk | undefined;
  return (body, found = new Set()) => {
    const before = found.size;
    (walk ??= walkOf(schema, ""))?.(body, found);
    return [...found].slice(before);
  };
}

/** Adds the unsupported fields of a value to `found`. */
type Walk = (value: unknown, found: Set<string>) => void;

/** Makes the function that searches a value of the schema; undefined if no such value can have an unsupported field. */
function walkOf(schema: v.GenericSchema, path: string): Walk | undefined {
  const { wrapped, item, entries, "~choose": choose } = shapeOf(schema);
  if (wrapped) return walkOf(wrapped, path);
  if (choose) {
    const walks = new Map<v.GenericSchema, Walk | undefined>();
    return (value, found) => {
      // The field may allow a text in place of the object: there is nothing to search in it.
      if (typeof value !== "object") return;
      const chosen = choose(value);
      if (!walks.has(chosen)) walks.set(chosen, walkOf(chosen, path));
      walks.get(chosen)?.(value, found);
    };
  }
  if (item) {
    const walk = walkOf(item, path);
    return (
      walk &&
      ((value, found) => {
        if (Array.isArray(value)) for (const element of value) walk(element, found);
      })
    );
  }
  // An object whose schema names no fields may hold any fields: all are supported.
  return entries && Object.keys(entries).length > 0 ? walkOfObject(schema, entries, path) : undefined;
}

interface Field {
  readonly isUnsupported: IsUnsupported | undefined;
  readonly walk: Walk | undefined;
}

/** A field whose value need not be searched. */
const SUPPORTED: Field = { isUnsupported: undefined, walk: undefined };

function walkOfObject(schema: v.GenericSchema, entries: NonNullable<Shape["entries"]>, path: string): Walk {
  const pathTo = (key: string): string => (path === "" ? "" : `${path}.`) + key.slice(0, MAX_NAME_CHARS);
  const fields = new Map<string, Field>();
  for (const [key, field] of Object.entries(entries)) {
    const isUnsupported = markOf(field, "unsupported")?.isUnsupported;
    const walk = walkOf(field, pathTo(key));
    fields.set(key, isUnsupported || walk ? { isUnsupported, walk } : SUPPORTED);
  }
  const isWhole = markOf(schema, "whole") !== undefined;
  return (value, found) => {
    if (!isJsonObject(value)) return;
    for (const key in value) {
      const field = fields.get(key);
      // Test this first: most fields of most bodies need no search.
      if (field === SUPPORTED) continue;
      const inner = value[key];
      const isLost = field ? inner != null && field.isUnsupported?.(inner) === true : !isWhole;
      if (!isLost) field?.walk?.(inner, found);
      else if (found.size < MAX_UNSUPPORTED && !isEmpty(inner)) found.add(pathTo(key));
    }
  };
}

/** Tells whether a value is null, or an empty list or object. To lose such a value changes nothing. */
const isEmpty = (value: unknown): boolean =>
  value == null || (typeof value === "object" && Object.keys(value).length === 0);

/** The errors of chat completions and images, as OpenAI's clients read them (section 7.4 of the specification). */
export const OpenAIError = v.object({
  error: v.object({
    message: v.string(),
    type: v.picklist([
      "invalid_request_error",
      "authentication_error",
      "permission_error",
      "rate_limit_error",
      "server_error",
    ]),
    param: v.nullable(v.string()),
    code: v.string(),
  }),
});

const FIELD = "value";

/** Makes the JSON Schema of an object with one of several texts in a field. Providers accept only objects as the schema of an answer. */
export const enumSchema = (values: readonly string[]): JsonObject => ({
  type: "object",
  properties: { [FIELD]: { type: "string", enum: [...values] } },
  required: [FIELD],
  additionalProperties: false,
});

/** Takes the text out of an answer that was requested with `enumSchema`. */
export class EnumeratedText {
  readonly #values: readonly string[];
  #received = "";
  #isPlain = false;

  constructor(values: readonly string[]) {
    this.#values = values;
  }

  /**
   * Adds a piece of the answer, and returns the text that can be forwarded. An answer that begins like one of the values is forwarded;
   * JSON is held back until `end`.
   */
  feed(text: string): string {
    if (this.#isPlain) return text;
    this.#received += text;
    this.#isPlain = this.#received !== "" && this.#values.some((value) => value.startsWith(this.#received));
    return this.#isPlain ? this.#received : "";
  }

  /** Returns the text that was held back: the value in the answer, or the whole answer if it has none of the values. */
  end(): string {
    if (this.#isPlain) return "";
    const answer = this.#received.trim();
    let json: unknown;
    try {
      json = parseJson(answer);
    } catch {
      // An answer that is not JSON is compared with the values as it is.
    }
    const candidates = [answer, json, isJsonObject(json) ? json[FIELD] : undefined];
    return this.#values.find((value) => candidates.includes(value)) ?? this.#received;
  }
}

export const text = v.pipe(v.string(), v.minLength(1, "must not be empty"));

/** Any JSON object. Its values need no check, because the body comes from `JSON.parse`. */
export const jsonObject = object({}) as v.GenericSchema as v.GenericSchema<JsonObject>;

/** A number between two bounds, both included. */
export const between = (least: number, most: number, message = `must be between ${least} and ${most}`) =>
  v.pipe(v.number(), v.minValue(least, message), v.maxValue(most, message));

/** Limits a text to a number of characters, counted as code points. */
export const atMost = <const Text extends v.GenericSchema<string>>(schema: Text, max: number) =>
  v.pipe(
    schema,
    v.check((value) => !isLonger(value, max), `must be at most ${max} characters long`),
    v.metadata({ maxLength: max }),
  );

export const base64 = v.pipe(
  v.string(),
  v.check(isBase64, "must be base64 (RFC 4648, padded, without white space)"),
  v.metadata(BASE64_FORMAT),
);

/** Tells whether a text is a `data:` URL with valid base64. */
function isDataUrl(url: string): boolean {
  const split = splitDataUrl(url);
  return split !== undefined && isBase64(split.data);
}

const isWebUrl = (url: string): boolean => /^https?:\/\//i.test(url) && URL.canParse(url);

export const webUrl = v.pipe(
  v.string(),
  v.check(isWebUrl, "must be an http or https URL"),
  v.metadata({ pattern: "^[hH][tT][tT][pP][sS]?://" }),
);

/** The address of a picture, or the picture itself as a `data:` URL. */
export const webOrDataUrl = v.pipe(
  v.string(),
  v.check(
    (url) => (url.startsWith("data:") ? isDataUrl(url) : isWebUrl(url)),
    "must be an http or https URL, or a data: URL of base64",
  ),
  v.metadata({ pattern: "^(?:data:|[hH][tT][tT][pP][sS]?://)" }),
);

/** A file itself, or its address, which OpenRouter takes in the same field. */
export const fileData = v.pipe(
  v.string(),
  v.check(
    (data) => isDataUrl(data) || isBase64(data) || isWebUrl(data),
    "must be a data: URL of base64, base64, or an http or https URL",
  ),
);

export const audioFormat = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9.+-]{1,32}$/, "must be the name of a format, such as wav or mp3"),
);

/** A tool's name. The official service allows 64 characters; local servers allow more, because agents put a server's name before it. */
const toolName = atMost(text, 128);

export const functionFields = { name: toolName, description: v.nullish(v.string()), parameters: v.nullish(jsonObject) };

/** The fields of a tool whose input is a text, which may have to follow a grammar. */
export const customFields = { name: toolName, description: v.nullish(v.string()), format: v.nullish(jsonObject) };

/** The levels of effort of OpenAI's formats, from least to most, with `none` for no reasoning. */
export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

export const FORMATS: ReadonlySet<string> = new Set(["text", "json_object", "json_schema"]);

/** The fields in which OpenRouter and xAI count the uses of tools, and the forms of their counts. The group is the name of the tool. */
export const TOOL_COUNTS = {
  server_tool_use: /^(.+)_requests$/,
  server_side_tool_usage_details: /^(.+)_calls$/,
} as const satisfies Readonly<Record<string, RegExp>>;

/** The words of Google's services for the uses of vectors. */
export const TASK_TYPE = {
  "retrieval-query": "RETRIEVAL_QUERY",
  "retrieval-document": "RETRIEVAL_DOCUMENT",
  "semantic-similarity": "SEMANTIC_SIMILARITY",
  classification: "CLASSIFICATION",
  clustering: "CLUSTERING",
  "question-answering": "QUESTION_ANSWERING",
  "fact-verification": "FACT_VERIFICATION",
  "code-retrieval-query": "CODE_RETRIEVAL_QUERY",
} as const satisfies Record<EmbeddingTask, string>;

const DETAILS = ["auto", "low", "high"] as const;
type Detail = (typeof DETAILS)[number];

const isDetail = (detail: string): detail is Detail => (DETAILS as readonly string[]).includes(detail);

export const imageDetail = unsupported(
  v.nullish(openWords(v.picklist(["auto", "low", "high", "original"]))),
  (detail) => !isDetail(detail),
);

/** Decodes the detail of a picture. `original` becomes `high`, the highest neutral detail. An unknown name is left out. */
export function detailIn(detail: string | null | undefined): { readonly detail?: Detail } {
  if (detail == null) return {};
  if (isDetail(detail)) return { detail };
  return detail === "original" ? { detail: "high" } : {};
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[\w.+-]+)*;base64,/;

/** The longest beginning of a `data:` URL, before its base64, in characters. */
const MAX_HEAD = 200;

/** Returns the media type and the base64 of a `data:` URL; undefined for any other text. Does not check the base64. */
export function splitDataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  const [head, mediaType] = DATA_URL.exec(url.slice(0, MAX_HEAD)) ?? [];
  if (head === undefined || mediaType === undefined) return undefined;
  return { mediaType: usualType(mediaType), data: url.slice(head.length) };
}

/**
 * Returns the source of a document that stands in `file_data`. Base64 without the beginning of a `data:` URL names no media type: the files
 * of these formats are PDFs.
 */
export function fileSource(data: string): Extract<MediaSource, { readonly type: "base64" | "url" }> {
  if (/^https?:\/\//i.test(data.slice(0, MAX_HEAD))) return { type: "url", url: data };
  return { type: "base64", ...(splitDataUrl(data) ?? { mediaType: "application/pdf", data }) };
}

export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`;

interface SchemaLimits {
  readonly maxSchemaValues: number;
  readonly maxSchemaChars: number;
}

/**
 * Throws `invalid_request` if the tools and schemas of a body together have more values than `maxSchemaValues`, or more characters than
 * `maxSchemaChars`. This check must run before any walk over a schema, because a schema costs more time to walk than other JSON.
 *
 * @param fields The paths of the fields that have tools and schemas, such as `tools`. The error names the first of them in the body.
 */
export function assertSchemaSize(
  body: unknown,
  fields: readonly string[],
  { json, limits }: { readonly json?: JsonBudget; readonly limits: JsonLimits & SchemaLimits },
): void {
  const { maxSchemaValues, maxSchemaChars } = limits;
  // If the whole body is within the limits, its schemas are too.
  if (json && json.values <= maxSchemaValues && json.chars <= maxSchemaChars) return;
  const present = fields.map((field) => field.split(".")).filter((path) => valueAt(body, path) != null);
  try {
    const held = present.map((path) => valueAt(body, path));
    const maxJsonDepth = limits.maxJsonDepth + 1;
    assertJsonBounds(held, { ...limits, maxJsonDepth, maxJsonValues: maxSchemaValues, maxJsonBytes: maxSchemaChars });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const [path = []] = present;
    throw invalidField(path, `${error.message}, with all tools and schemas of the request`);
  }
}
