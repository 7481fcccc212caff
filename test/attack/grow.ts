/** Attacks by size: every list, map and string of every request schema grows until the gateway refuses it, or the body is at its limit. */

import type * as v from "valibot";
import { ChatCompletionsRequest } from "../../src/formats/chat-completions/schema.ts";
import { EmbeddingsRequest } from "../../src/formats/embeddings/schema.ts";
import { BatchEmbedContentsRequest, EmbedContentRequest } from "../../src/formats/generate-content/schema.embed.ts";
import { CountTokensRequest, GenerateContentRequest } from "../../src/formats/generate-content/schema.ts";
import { ImageFields } from "../../src/formats/images/schema.ts";
import { messagesRequest } from "../../src/formats/messages/schema.ts";
import { NewConversation, ResponsesRequest } from "../../src/formats/responses/schema.ts";
import { isValid, type Shape, shapeOf } from "../../src/http/validation.ts";
import { DEFAULT_LIMITS, type GatewayEndpoint } from "../../src/index.ts";
import { CHAT_COMPLETIONS, GENERATE_CONTENT, MESSAGES, RESPONSES } from "../properties/wire-fields.requests.ts";
import { Random } from "../trial/random.ts";
import { CONTENTS_TO_EMBED, CONVERSATIONS, EMBEDDINGS } from "./fixtures.ts";
import { ALL, type Attack, type Run, aloneMs } from "./frame.ts";
import { judgeMistake, keyed, RICH, Stage, answering } from "./stage.ts";

export const grow: Attack = {
  name: "grow",
  does: "Grows every list, map and string of every request schema until the gateway refuses the request",
  counts: { full: ALL, short: ALL },
  open(run) {
    const stage = new Stage({ backend: answering, withoutReplays: true });
    for (const route of unknownRoutes(stage.gateway.endpoints)) run.find("A route has no schema to grow", route);
    const all = targets
      .filter(({ isAlike }) => !(isAlike && run.plan.isShort))
      .flatMap((target) => growthsOf(target, run.plan.isShort));
    // Shuffle, so that fewer attempts are a random sample of all.
    const random = new Random(run.plan.seed);
    const attempts = all
      .map((growth) => ({ growth, order: random.next() }))
      .toSorted((one, other) => one.order - other.order)
      .map(({ growth }) => growth);
    return {
      count: attempts.length,
      async attempt(_random, index) {
        const attempt = attempts[index];
        if (attempt) await grown(run, stage, attempt);
      },
      close: () => stage.assertAtRest(run),
    };
  },
};

/** A route, its schema, and bodies with many of its fields. */
interface Target {
  readonly path: string;
  readonly schema: v.GenericSchema;
  readonly bodies: readonly object[];
  /** True when another target has the same schema. The tests leave this target out. */
  readonly isAlike?: true;
}

const messages = messagesRequest({ vendorRanges: false, vendorSources: false });
const counted = GENERATE_CONTENT.map((generateContentRequest) => ({
  generateContentRequest: { model: "models/model-a", ...generateContentRequest },
}));

const targets: readonly Target[] = [
  { path: "/v1/messages", schema: messages, bodies: MESSAGES },
  { path: "/v1/messages/count_tokens", schema: messages, bodies: MESSAGES.slice(0, 1), isAlike: true },
  { path: "/v1beta/models/model-a:generateContent", schema: GenerateContentRequest, bodies: GENERATE_CONTENT },
  { path: "/v1beta/models/model-a:countTokens", schema: CountTokensRequest, bodies: counted, isAlike: true },
  { path: "/v1/chat/completions", schema: ChatCompletionsRequest, bodies: CHAT_COMPLETIONS },
  { path: "/v1/responses", schema: ResponsesRequest, bodies: RESPONSES },
  { path: "/v1/responses/input_tokens", schema: ResponsesRequest, bodies: RESPONSES, isAlike: true },
  { path: "/v1/conversations", schema: NewConversation, bodies: CONVERSATIONS.slice(0, 1) },
  { path: "/v1/images/generations", schema: ImageFields, bodies: [{ prompt: "A red hat" }] },
  { path: "/v1/embeddings", schema: EmbeddingsRequest, bodies: EMBEDDINGS },
  { path: "/v1beta/models/model-a:embedContent", schema: EmbedContentRequest, bodies: CONTENTS_TO_EMBED.slice(0, 3) },
  {
    path: "/v1beta/models/model-a:batchEmbedContents",
    schema: BatchEmbedContentsRequest,
    bodies: [{ requests: CONTENTS_TO_EMBED.slice(0, 2) }],
  },
];

/**
 * The routes to leave out: `mutate` grows forms, the other addresses of a model lead to the same endpoints, and those of a response or a
 * conversation take parts of the same bodies.
 */
const GROWN_ELSEWHERE =
  /^\/v1\/images\/(?:edits|variations)$|^\/v1(?:beta)?\/(?:tunedModels|models)\/|^\/v1\/(?:responses|conversations)\/\*\*$/;

function unknownRoutes(endpoints: readonly GatewayEndpoint[]): string[] {
  return endpoints
    .filter(({ method, path }) => method === "POST" && !GROWN_ELSEWHERE.test(path))
    .map(({ path }) => path)
    .filter((path) => !targets.some((target) => target.path === path));
}

type Key = string | number;

/** A position in a body: a list, a map, a string, or a value that the gateway only carries. */
interface Place {
  readonly at: readonly Key[];
  /** The keys of the schema on the way, without indexes of lists. */
  readonly name: string;
  readonly schema: v.GenericSchema;
  readonly value: unknown;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isSchema = (option: unknown): option is v.GenericSchema => isObject(option) && option["kind"] === "schema";

/** The depth at which the walk of a recursive schema ends. */
const MAX_DEPTH = 14;

/**
 * Lists the positions of a body that its schema names, and those inside values that the gateway only carries. Absent fields and other
 * allowed kinds of a value get sample values, so that every schema is attacked.
 */
class Places {
  readonly #sampled = new Set<v.GenericSchema>();
  /** The schemas around the current position. A recursive schema is walked once. */
  readonly #around = new Set<v.GenericSchema>();

  *of(schema: v.GenericSchema, value: unknown, at: readonly Key[] = [], name: string = ""): Generator<Place> {
    yield { at, name, schema, value };
    yield* this.#below(schema, value, at, name);
  }

  *#below(schema: v.GenericSchema, value: unknown, at: readonly Key[], name: string): Generator<Place> {
    if (at.length > MAX_DEPTH || (schema !== ANYTHING && this.#around.has(schema))) return;
    this.#around.add(schema);
    yield* this.#within(schema, value, at, name);
    this.#around.delete(schema);
  }

  *#within(schema: v.GenericSchema, value: unknown, at: readonly Key[], name: string): Generator<Place> {
    const shape = shapeOf(schema);
    if (shape.wrapped) return yield* this.#below(shape.wrapped, value, at, name);
    if (shape.getter) return yield* this.#below(shape.getter(value), value, at, name);
    const options = (shape.options ?? []).filter(isSchema);
    if (options.length > 0) {
      const chosen = options.find((option) => isValid(option, value)) ?? options[0];
      if (chosen) yield* this.#below(chosen, value, at, name);
      for (const option of options)
        if (option !== chosen) yield* this.#sample(option, at, `${name}|${shapeOf(option).type}`);
      return;
    }
    if (Array.isArray(value))
      for (const [index, item] of value.entries())
        yield* this.of(shape.item ?? ANYTHING, item, [...at, index], `${name}[]`);
    else if (isObject(value)) yield* this.#fields(shape, value, at, name);
  }

  *#fields(
    { entries = {}, value: inner = ANYTHING }: Shape,
    value: object,
    at: readonly Key[],
    name: string,
  ): Generator<Place> {
    for (const [key, field] of Object.entries(value) as [string, unknown][])
      yield* this.of(entries[key] ?? inner, field, [...at, key], `${name}.${key}`);
    for (const [key, schema] of Object.entries(entries))
      if (!(key in value)) yield* this.#sample(schema, [...at, key], `${name}.${key}`);
  }

  *#sample(schema: v.GenericSchema, at: readonly Key[], name: string): Generator<Place> {
    const value = sampleOf(schema);
    yield { at, name, schema, value };
    // Walk a schema with many positions only once.
    if (this.#sampled.has(schema)) return;
    this.#sampled.add(schema);
    yield* this.#below(schema, value, at, name);
  }
}

const ANYTHING = { kind: "schema", type: "unknown" } as unknown as v.GenericSchema;

const TEXTS = [
  "a",
  "AAAA",
  "image/png",
  "https://a.example/1",
  "data:image/png;base64,AAAA",
  "web_search_20250305",
  "1s",
];
const NUMBERS = [1, 2, 0, 0.5, 1_024, 2_000];

/** Returns a small value that a schema accepts, or undefined. */
function sampleOf(schema: v.GenericSchema, depth = 0): unknown {
  const shape = shapeOf(schema);
  if (depth > MAX_DEPTH) return undefined;
  if (shape.wrapped) return sampleOf(shape.wrapped, depth + 1);
  if (shape.getter) return sampleOf(shape.getter({}), depth + 1);
  switch (shape.type) {
    case "literal":
      return (schema as v.LiteralSchema<v.Literal, undefined>).literal;
    case "picklist":
      return (shape.options as readonly unknown[])[0];
    case "string":
      return TEXTS.find((text) => isValid(schema, text)) ?? "a";
    case "number":
      return NUMBERS.find((number) => isValid(schema, number)) ?? 1;
    case "boolean":
      return true;
    case "array":
      return shape.item ? [sampleOf(shape.item, depth + 1)] : [];
    case "record":
      return shape.value ? { a: sampleOf(shape.value, depth + 1) } : {};
    case "unknown":
      return { a: "a" };
    default: {
      const [option] = (shape.options ?? []).filter(isSchema);
      if (option) return sampleOf(option, depth + 1);
      const fields = Object.entries(shape.entries ?? {}).filter(([, inner]) => !isOptional(inner));
      return Object.fromEntries(fields.map(([key, inner]) => [key, sampleOf(inner, depth + 1)]));
    }
  }
}

const isOptional = (schema: v.GenericSchema): boolean => isValid(schema, undefined);

const KIB = 1_024;

/** A way to grow a value to about `size` bytes of JSON. */
interface Way {
  readonly name: string;
  readonly fits: (value: unknown) => boolean;
  readonly grow: (value: unknown, size: number) => unknown;
  /** True when the tests try it at every position that it fits. */
  readonly isAlwaysTried?: true;
}

const isText = (value: unknown): value is string => typeof value === "string";
const isOpen = (value: unknown): boolean => isObject(value);
const filled = (size: number, each: (index: number) => unknown, bytes: number): unknown[] =>
  Array.from({ length: Math.max(1, Math.floor(size / bytes)) }, (_, index) => each(index));
const lengthOf = (value: unknown): number => (JSON.stringify(value) ?? "").length + 1;
const keysOf = (size: number, value: unknown): object =>
  Object.fromEntries(filled(size, (index) => [`k${index}`, value], 10 + lengthOf(value)) as [string, unknown][]);

const nested = (depth: number, wrap: (inner: unknown) => unknown): unknown => {
  let value: unknown = {};
  for (let level = 0; level < depth; level++) value = wrap(value);
  return value;
};

/** Half the allowed depth of JSON, because fields are some levels deep themselves. */
const DEEP = DEFAULT_LIMITS.maxJsonDepth / 2 - 10;

const WAYS: readonly Way[] = [
  { name: "a long text", fits: isText, grow: (value, size) => String(value).padEnd(size, String(value) || "a") },
  { name: "a text of blanks", fits: isText, grow: (_value, size) => " ".repeat(size) },
  { name: "a text of backslashes", fits: isText, grow: (_value, size) => "\\".repeat(size / 2) },
  { name: "a text of separators", fits: isText, grow: (value, size) => `${String(value)}${";,/.:".repeat(size / 5)}` },
  {
    name: "a text that is deep JSON",
    fits: isText,
    // Deep enough to exhaust a stack with a small body.
    grow: (_value, size) => `{"a":${"[".repeat(size / 2 + 32 * KIB)}${"]".repeat(size / 2 + 32 * KIB)}}`,
    isAlwaysTried: true,
  },
  { name: "a text that is wide JSON", fits: isText, grow: (_value, size) => JSON.stringify(keysOf(size, {})) },
  {
    name: "a text that is a long list in JSON",
    fits: isText,
    grow: (_value, size) => `{"a":[${"{},".repeat(size / 3)}0]}`,
  },
  { name: "a long list", fits: Array.isArray, grow: (value, size) => repeated(value as unknown[], size) },
  { name: "a list of other items", fits: Array.isArray, grow: (value, size) => told(value as unknown[], size) },
  { name: "a list of nothings", fits: Array.isArray, grow: (_value, size) => filled(size, () => null, 5) },
  { name: "a map of many keys", fits: isOpen, grow: (value, size) => ({ ...(value as object), ...keysOf(size, 1) }) },
  { name: "a map of maps", fits: isOpen, grow: (value, size) => ({ ...(value as object), ...keysOf(size, {}) }) },
  {
    name: "a schema of many properties",
    fits: isOpen,
    grow: (value, size) => ({ ...(value as object), type: "object", properties: keysOf(size, { type: "string" }) }),
  },
  {
    name: "a schema that requires much",
    fits: isOpen,
    grow: (value, size) => {
      const properties = keysOf(size / 2, {});
      return { ...(value as object), type: "object", properties, required: Object.keys(properties) };
    },
  },
  {
    name: "a schema of many choices",
    fits: isOpen,
    grow: (value, size) => ({
      ...(value as object),
      anyOf: filled(size, (index) => ({ type: "string", enum: [`e${index}`] }), 40),
    }),
  },
  {
    name: "a schema of many words",
    fits: isOpen,
    grow: (value, size) => ({ ...(value as object), type: "string", enum: filled(size, (index) => `e${index}`, 10) }),
  },
  {
    name: "a schema that is deep and wide",
    fits: isOpen,
    grow: (value, size) => {
      const wide = keysOf(size / DEEP, { type: "string" });
      const deep = nested(DEEP, (inner) => ({ type: "object", properties: { ...wide, deeper: inner } }));
      return { ...(value as object), ...(deep as object) };
    },
  },
];

const repeated = (list: readonly unknown[], size: number): unknown[] =>
  Array.from({ length: Math.max(1, Math.floor(size / lengthOf(list))) }, () => list).flat();

/** Repeats the first item of a list. Each copy has its own texts, because some fields must be unique. */
function told(list: readonly unknown[], size: number): unknown[] {
  const [first] = list;
  const each = (index: number): unknown =>
    isText(first)
      ? `${first}${index}`
      : isObject(first)
        ? Object.fromEntries(
            Object.entries(first).map(([key, value]) => [key, NAMED.has(key) ? `${String(value)}${index}` : value]),
          )
        : first;
  return filled(size, each, lengthOf(first) + 6);
}

/** The fields that identify items of lists. */
const NAMED: ReadonlySet<string> = new Set(["id", "name", "tool_call_id", "tool_use_id"]);

interface Growth {
  readonly path: string;
  readonly body: object;
  readonly place: Place;
  readonly way: Way;
}

/** Returns true for a position inside a sample value, which no real body has. */
const isMade = ({ name }: Place): boolean => name.includes("|");

/** Combines every position of a route's bodies with every way that fits it, each position of the schema once. */
function growthsOf({ path, schema, bodies }: Target, isShort: boolean): Growth[] {
  const seen = new Set<string>();
  const growths: Growth[] = [];
  const places = new Places();
  const numbers = new Map<v.GenericSchema, number>();
  const all = bodies.flatMap((body) => Array.from(places.of(schema, body), (place) => ({ body, place })));
  // Positions of real bodies come first: a value made from a schema alone may be invalid there.
  for (const { body, place } of all.toSorted((one, other) => Number(isMade(one.place)) - Number(isMade(other.place)))) {
    const number = getOrInsert(numbers, place.schema, numbers.size);
    // In the tests, attack a schema under the same name at one of its positions, with each way in turn.
    const name = isShort ? `${String(place.at.at(-1))} ${number}` : place.name;
    const ways = WAYS.filter(({ fits }) => fits(place.value));
    const turn = growths.length % ways.length;
    if (isShort && seen.has(name)) continue;
    seen.add(name);
    for (const [index, way] of ways.entries()) {
      if (isShort ? index !== turn && !way.isAlwaysTried : seen.has(`${name} ${way.name}`)) continue;
      seen.add(`${name} ${way.name}`);
      growths.push({ path, body, place, way });
    }
  }
  return growths;
}

function getOrInsert<K, V>(map: Map<K, V>, key: K, value: V): V {
  if (!map.has(key)) map.set(key, value);
  return map.get(key) ?? value;
}

/** The sizes of a grown value in bytes. The tests use only sizes that parse in a moment. */
const SHORT_SIZES = [16 * KIB];
const SIZES = [16 * KIB, 256 * KIB, 2 * KIB * KIB, 12 * KIB * KIB, 31 * KIB * KIB];

async function grown(run: Run, stage: Stage, { path, body, place, way }: Growth): Promise<void> {
  for (const size of run.plan.isShort ? SHORT_SIZES : SIZES) {
    const text = JSON.stringify(withValue(body, place.at, way.grow(place.value, size)));
    const alone = aloneMs(() => JSON.parse(text));
    const about = `${path} ${place.name}: ${way.name} of ${size} bytes`;
    const sent = { path, headers: { ...keyed(RICH), "content-type": "application/json" }, body: text };
    const answered = await run.turning(`${path}${place.name}: ${way.name}`, () => stage.ask(sent), alone);
    if (!answered) return run.find("A grown body has no answer", about);
    judgeMistake(run, { ...answered, text: answered.text.slice(0, 2_000_000) }, about);
    if (answered.status >= 400) return;
  }
}

/** Returns the body with another value at a position. */
function withValue(body: unknown, [key, ...rest]: readonly Key[], value: unknown): unknown {
  if (key === undefined) return value;
  if (Array.isArray(body))
    return body.map((item: unknown, index) => (index === key ? withValue(item, rest, value) : item));
  const object = isObject(body) ? body : {};
  return { ...object, [key]: withValue(object[key], rest, value) };
}
