/**
 * Fits JSON Schemas to the providers that hold answers and arguments to a schema: each takes only a part of JSON Schema, and refuses a request
 * with the rest. Also words the instruction for models that are held to no schema.
 */

import type { ResponseFormat } from "../../model/chat-request.ts";
import { remembered } from "../../model/derived.ts";
import { type JsonObject, isJsonObject } from "../../model/json.ts";
import type { ConvertedFields } from "./conversions.ts";
import { enumSchema } from "./schema.ts";

/** The deepest schema that is fitted. A model is asked in words for the JSON of a deeper one. */
const MAX_DEPTH = 64;

/** The most properties that may be missing in an answer: with more, Anthropic cannot compile the schema. */
const MAX_OPTIONAL = 10;

/** Matches the words that Anthropic takes with any value. */
const TAKEN = /^(?:title|description|default|type)$/;
/** Matches the words that tell about a schema as a document, and are left out. */
const ABOUT = /^\$(?:schema|id|comment)$/;
const STRING_FORMAT = /^(?:date-time|time|date|duration|email|hostname|uri|ipv4|ipv6|uuid)$/;

/** Matches the address of a definition. Escaped names are not read. */
const LOCAL = /^#\/(?:\$defs|definitions)\/[^/~%]+$/;

const isPrimitive = (value: unknown): boolean => value === null || typeof value !== "object";

const isDefinitions = (word: string): boolean => word === "$defs" || word === "definitions";

const isFilled = (value: unknown): boolean => isJsonObject(value) && Object.keys(value).length > 0;

/** Thrown for a schema that a model of Anthropic cannot be held to without losing data. */
class NotHeldError extends Error {}

/** Writes a schema in the words that Anthropic takes. Other words go into the description, where the model reads them. */
class Fitting {
  isSame = true;
  #optional = 0;
  /** The definitions that each definition names, by their addresses. The schema itself has the address `#`. */
  readonly #named: Map<string, Set<string>> = new Map();

  fit(schema: JsonObject): JsonObject {
    const fitted = this.#node(schema, "#", 0);
    this.#refuseCycles();
    if (this.#optional > MAX_OPTIONAL) throw new NotHeldError();
    return fitted;
  }

  /** @param place The address of the definition that the node belongs to. */
  #node(schema: unknown, place: string, depth: number): JsonObject {
    if (!isJsonObject(schema) || depth > MAX_DEPTH) throw new NotHeldError();
    if ("$ref" in schema) return this.#reference(schema, place, depth);
    const fitted: JsonObject = {};
    const others: JsonObject = {};
    const inner = (value: unknown): JsonObject => this.#node(value, place, depth + 1);
    for (const [word, value] of Object.entries(schema)) {
      const list = Array.isArray(value) ? value : undefined;
      const object = isJsonObject(value) ? value : undefined;
      if (TAKEN.test(word) || (word === "required" && list)) fitted[word] = value;
      else if (isDefinitions(word)) fitted[word] = this.#definitions(value, word, depth);
      else if (word === "const" && isPrimitive(value)) fitted[word] = value;
      else if (word === "enum" && list?.every(isPrimitive)) fitted[word] = value;
      // Anthropic takes no reference among schemas that must all hold.
      else if (word === "allOf" && list?.some((one) => isJsonObject(one) && "$ref" in one)) throw new NotHeldError();
      else if ((word === "anyOf" || word === "allOf") && list) fitted[word] = list.map(inner);
      else if (word === "oneOf" && list && !("anyOf" in schema)) {
        fitted["anyOf"] = list.map(inner);
        this.isSame = false;
      } else if (word === "properties" && object) fitted[word] = mapValues(object, inner);
      else if (word === "items" && object) fitted[word] = inner(object);
      else if (word === "minItems" && (value === 0 || value === 1)) fitted[word] = value;
      else if (word === "format" && typeof value === "string" && STRING_FORMAT.test(value)) fitted[word] = value;
      else if (word !== "additionalProperties" && word !== "patternProperties" && !ABOUT.test(word))
        others[word] = value;
    }
    this.#type(schema, fitted);
    if (Object.keys(others).length === 0) return fitted;
    this.isSame = false;
    const { description } = fitted;
    const told = JSON.stringify(others);
    return { ...fitted, description: typeof description === "string" ? `${description}\n\n${told}` : told };
  }

  #definitions(value: unknown, word: string, depth: number): JsonObject {
    if (!isJsonObject(value)) throw new NotHeldError();
    return mapValues(value, (definition, name) => this.#node(definition, `#/${word}/${name}`, depth + 1));
  }

  /** Returns a reference without its neighbours, which Anthropic does not take. */
  #reference(schema: JsonObject, place: string, depth: number): JsonObject {
    const { $ref } = schema;
    if (typeof $ref !== "string" || !LOCAL.test($ref)) throw new NotHeldError();
    const named = this.#named.get(place) ?? new Set();
    this.#named.set(place, named.add($ref));
    const fitted: JsonObject = { $ref };
    for (const [word, value] of Object.entries(schema))
      if (isDefinitions(word)) fitted[word] = this.#definitions(value, word, depth);
      else if (word !== "$ref" && !ABOUT.test(word)) this.isSame = false;
    return fitted;
  }

  /** Adds a missing type that the other words tell, and closes an object. Refuses a node that allows any JSON. */
  #type({ additionalProperties, patternProperties }: JsonObject, fitted: JsonObject): void {
    if (fitted["type"] === undefined && !["enum", "const", "anyOf", "allOf"].some((word) => word in fitted)) {
      if (!("properties" in fitted) && !("items" in fitted)) throw new NotHeldError();
      fitted["type"] = "properties" in fitted ? "object" : "array";
      this.isSame = false;
    }
    const isObject = [fitted["type"]].flat().includes("object") || "properties" in fitted;
    if (!isObject) return;
    const { properties } = fitted;
    const isOpen = additionalProperties !== undefined && additionalProperties !== false;
    // The model could only answer `{}` for a closed object without properties.
    if (isOpen || isFilled(patternProperties) || (additionalProperties === undefined && !isFilled(properties)))
      throw new NotHeldError();
    if (additionalProperties === undefined) this.isSame = false;
    fitted["additionalProperties"] = false;
    this.#optional += missable(fitted);
  }

  /** Refuses definitions that lead to themselves. */
  #refuseCycles(): void {
    const finished = new Set<string>();
    const open = new Set<string>();
    const visit = (place: string): void => {
      if (finished.has(place)) return;
      if (open.has(place) || open.size > MAX_DEPTH) throw new NotHeldError();
      open.add(place);
      for (const next of this.#named.get(place) ?? []) visit(next);
      open.delete(place);
      finished.add(place);
    };
    for (const place of this.#named.keys()) visit(place);
  }
}

/** Returns the number of the properties that an object does not demand. */
function missable(schema: JsonObject): number {
  const { properties } = schema;
  const demanded = namesIn(schema);
  return Object.keys(isJsonObject(properties) ? properties : {}).filter((name) => !demanded.has(name)).length;
}

const mapValues = (object: JsonObject, map: (value: unknown, name: string) => JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value, name)]));

/** A schema as Anthropic takes it. `isSame` is true when nothing of the schema has changed. */
interface HeldSchema {
  readonly schema: JsonObject;
  readonly isSame: boolean;
}

// The same tools come with each call of an agent, so the results for a schema are remembered.

/**
 * Returns the schema that a model of Anthropic can be held to. Undefined for a schema that allows any JSON or unknown names, that leads to
 * itself, or that is too large.
 */
export const heldSchema: (schema: JsonObject) => HeldSchema | undefined = /* @__PURE__ */ remembered(
  (schema: JsonObject) => {
    const fitting = new Fitting();
    try {
      const fitted = fitting.fit(schema);
      return { schema: fitted, isSame: fitting.isSame };
    } catch (error) {
      if (error instanceof NotHeldError) return undefined;
      throw error;
    }
  },
);

/** Tells whether Anthropic takes `strict` beside a schema of arguments. */
export const isHeld = (schema: JsonObject): boolean => heldSchema(schema)?.isSame === true;

/** Matches the words that OpenAI refuses beside `strict`. */
const LAX =
  /^(?:allOf|contains|dependencies|dependent\w+|else|if|(?:max|min)Properties|not|oneOf|patternProperties|prefixItems|propertyNames|then|unevaluated\w+|uniqueItems)$/;

/** Tells whether OpenAI takes `strict` beside a schema of arguments: each object is closed, and demands all its properties. */
export const isStrict: (schema: JsonObject) => boolean = /* @__PURE__ */ remembered(
  (schema: JsonObject) => schema["type"] === "object" && !("anyOf" in schema) && isStrictNode(schema, 0),
);

function isStrictNode(schema: unknown, depth: number): boolean {
  if (!isJsonObject(schema) || depth > MAX_DEPTH) return false;
  const { type, properties, additionalProperties } = schema;
  const isObject = [type].flat().includes("object") || properties !== undefined;
  if (isObject && (additionalProperties !== false || missable(schema) > 0)) return false;
  return Object.entries(schema).every(([word, value]) => {
    if (LAX.test(word)) return false;
    const inner =
      (word === "properties" || isDefinitions(word)) && isJsonObject(value)
        ? Object.values(value)
        : word === "items"
          ? [value]
          : [];
    const nodes = word === "anyOf" && Array.isArray(value) ? value : inner;
    return nodes.every((node) => isStrictNode(node, depth + 1));
  });
}

const UNIONS = ["anyOf", "oneOf", "allOf"] as const;

/**
 * Returns the schema of a tool's arguments with an object at its root, which providers demand. The properties of a union at the root are
 * joined, which adds `tools.function.schema`.
 */
export function argumentsSchema(schema: JsonObject, fields: ConvertedFields): JsonObject {
  const isPlain = schema["$ref"] === undefined && UNIONS.every((word) => schema[word] === undefined);
  if (isPlain) return schema["type"] === "object" ? schema : { ...schema, type: "object" };
  const { isUnion, root } = joined(schema);
  if (isUnion) fields.add("tools.function.schema");
  return root;
}

const joined = /* @__PURE__ */ remembered(
  (schema: JsonObject): { readonly isUnion: boolean; readonly root: JsonObject } => {
    const { $ref: _reference, anyOf, oneOf, allOf, ...root } = { ...resolved(schema, schema), ...schema };
    /** The different schemas of each property, by their JSON. */
    const properties = new Map<string, Map<string, JsonObject[string]>>();
    const demanded = new Set<string>();
    const add = (node: JsonObject): void => {
      for (const [name, property] of Object.entries(isJsonObject(node["properties"]) ? node["properties"] : {})) {
        const known = properties.get(name) ?? new Map<string, JsonObject[string]>();
        properties.set(name, known.set(JSON.stringify(property), property));
      }
    };
    add(root);
    for (const name of namesIn(root)) demanded.add(name);
    for (const [branches, demands] of [
      [anyOf, "all"],
      [oneOf, "all"],
      [allOf, "one"],
    ] as const) {
      if (!Array.isArray(branches)) continue;
      const counts = new Map<string, number>();
      for (const branch of branches) {
        const node = isJsonObject(branch) ? resolved(branch, schema) : {};
        add(node);
        for (const name of namesIn(node)) counts.set(name, (counts.get(name) ?? 0) + 1);
      }
      // Alternatives demand what all of them demand.
      for (const [name, count] of counts) if (demands === "one" || count === branches.length) demanded.add(name);
    }
    const named = Array.from(properties, ([name, known]) => {
      const [first, ...others] = known.values();
      return [name, others.length === 0 ? first : { anyOf: [first, ...others] }] as const;
    });
    return {
      isUnion: [anyOf, oneOf, allOf].some((branches) => branches !== undefined),
      root: {
        ...root,
        type: "object",
        ...(named.length > 0 && { properties: Object.fromEntries(named) as JsonObject }),
        ...(demanded.size > 0 && { required: [...demanded] }),
      },
    };
  },
);

const namesIn = ({ required }: JsonObject): ReadonlySet<string> =>
  new Set(Array.isArray(required) ? required.filter((name) => typeof name === "string") : []);

/** Returns the definition that a node names, or the node itself. */
function resolved(node: JsonObject, root: JsonObject): JsonObject {
  let found = node;
  for (let step = 0; step < MAX_DEPTH; step++) {
    const { $ref } = found;
    if (typeof $ref !== "string" || !LOCAL.test($ref)) return found;
    const [, word = "", name = ""] = $ref.split("/");
    const definitions = root[word];
    const next = isJsonObject(definitions) && Object.hasOwn(definitions, name) ? definitions[name] : undefined;
    if (!isJsonObject(next)) return found;
    found = next;
  }
  return {};
}

/** Returns the schema of an answer's form; undefined for any JSON. */
export const schemaOf = (format: ResponseFormat): JsonObject | undefined =>
  format.type === "enum" ? enumSchema(format.values) : format.schema;

/** Words the form of an answer for a model that is held to no schema. */
export function instructionFor(format: ResponseFormat): string {
  const schema = schemaOf(format);
  return schema === undefined
    ? "Answer with one JSON object, and with nothing else: no Markdown, and no words around it."
    : `Answer with JSON that matches the following JSON Schema, and with nothing else: no Markdown, and no words around it.\n${JSON.stringify(schema)}`;
}
