/** How objects come in either spelling: walks that bring them to camelCase, and paths told back as the caller spelled them. */

import type * as v from "valibot";
import { GatewayError } from "../../errors.ts";
import type { FieldPath } from "../../http/validation.ts";
import { shapeOf } from "../../http/validation.shape.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { fieldName } from "./schema.base.ts";

/** Brings a value to camelCase. What needs no change is returned as it is. */
export type Walk = (value: unknown, path: (string | number)[]) => unknown;
type Fields = Readonly<Record<string, Walk>>;

const walks = new WeakMap<v.GenericSchema, Walk>();

/**
 * The walk that brings a value to camelCase which is to be held to a schema. The objects of the schema are the format's own;
 * what it only carries, and objects that it names no field of, are the user's and never looked into. Where a list or an object
 * may stand, the object is put into a list. Throws `invalid_request` for a field in both spellings.
 */
export function spellingWalk(schema: v.GenericSchema): Walk {
  let walk = walks.get(schema);
  if (!walk) walks.set(schema, (walk = walkOf(schema)));
  return walk;
}

function walkOf(schema: v.GenericSchema): Walk {
  const { wrapped, item, value, entries, options, getter, type } = shapeOf(schema);
  if (wrapped) return spellingWalk(wrapped);
  if (item) return list(spellingWalk(item));
  if (entries) return own(entries);
  if (type === "record" && value) return mapOf(spellingWalk(value));
  // A schema within itself is walked only where a value has one.
  if (getter) return (inner, path) => spellingWalk(getter(inner))(inner, path);
  return type === "union" && options ? ofUnion(options) : leaf;
}

function ofUnion(options: readonly v.GenericSchema[]): Walk {
  const many = options.find((option) => shapeOf(option).item);
  const one = options.find((option) => shapeOf(option).entries);
  if (many && one) return listOrOne(spellingWalk(many), spellingWalk(one));
  return options.map(spellingWalk).find((walk) => walk !== leaf) ?? leaf;
}

/** A value, or the user's own data. */
const leaf: Walk = (value) => value;

function list(item: Walk): Walk {
  if (item === leaf) return leaf;
  return (value, path) => {
    if (!Array.isArray(value)) return value;
    let copy: unknown[] | undefined;
    for (const [index, element] of value.entries()) {
      path.push(index);
      const walked = item(element, path);
      path.pop();
      if (walked !== element) (copy ??= [...value])[index] = walked;
    }
    return copy ?? value;
  };
}

/** A list that is also sent as its only element. */
const listOrOne =
  (many: Walk, one: Walk): Walk =>
  (value, path) =>
    isJsonObject(value) ? [one(value, path)] : many(value, path);

/** An object whose keys are the user's and whose values are the format's. */
const mapOf =
  (item: Walk): Walk =>
  (value, path) => {
    if (!isJsonObject(value)) return value;
    const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
      path.push(key);
      const walked = item(inner, path);
      path.pop();
      return [key, walked];
    });
    return entries.some(([key, inner]) => inner !== value[key]) ? Object.fromEntries(entries) : value;
  };

interface Spelling {
  /** In camelCase. */
  readonly name: string;
  readonly snake: string;
  readonly walk: Walk;
}

/** An object of the format's own, or one of the user's where no field is known. */
function own(fields: Readonly<Record<string, v.GenericSchema>>): Walk {
  const walked = Object.entries(fields).map(([name, schema]) => [name, spellingWalk(schema)] as const);
  if (walked.length === 0) return leaf;
  const spellings = spellingsOf(Object.fromEntries(walked));
  return (value, path) => {
    if (!isJsonObject(value)) return value;
    let copy: [string, unknown][] | undefined;
    for (const [index, key] of Object.keys(value).entries()) {
      const { name, inner, surplus } = field(value, key, spellings.get(key), path);
      // A body that is in camelCase already is not copied.
      if (surplus || name !== key || inner !== value[key]) copy ??= Object.entries(value).slice(0, index);
      if (!surplus) copy?.push([name, inner]);
    }
    return copy ? Object.fromEntries(copy) : value;
  };
}

interface Field {
  readonly name: string;
  readonly inner: unknown;
  /** Null, which is as good as absent, beside the same field in the other spelling. */
  readonly surplus: boolean;
}

function field(object: JsonObject, key: string, spelling: Spelling | undefined, path: (string | number)[]): Field {
  if (!spelling) return { name: key, inner: object[key], surplus: false };
  const { name, snake, walk } = spelling;
  const twin = name === snake ? undefined : object[key === name ? snake : name];
  if (object[key] != null && twin != null) throw givenTwice(path, spelling);
  path.push(key);
  const inner = walk(object[key], path);
  path.pop();
  return { name, inner, surplus: inner == null && twin != null };
}

const spellingsOf = (fields: Fields): ReadonlyMap<string, Spelling> =>
  new Map(
    Object.entries(fields).flatMap(([name, walk]) => {
      const spelling: Spelling = { name, snake: snakeCase(name), walk };
      return [name, spelling.snake].map((key) => [key, spelling] as const);
    }),
  );

export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function givenTwice(path: FieldPath, { name, snake }: Spelling): GatewayError {
  const twice = [...path, snake];
  return new GatewayError("invalid_request", `${fieldName(twice)}: is given twice, as ${snake} and as ${name}`, {
    path: twice,
  });
}

/** A path into the camelCase body as the caller spelled it. */
export function asSpelled(raw: unknown, path: FieldPath): FieldPath {
  const spelled: (string | number)[] = [];
  let value: unknown = raw;
  let snake = false;
  for (const key of path) {
    // A single element that stood for its list.
    if (typeof key === "number" && !Array.isArray(value)) continue;
    const name: string | number = typeof key === "string" ? nameIn(value, key, snake) : key;
    snake ||= name !== key;
    spelled.push(name);
    value = valueIn(value, name);
  }
  return spelled;
}

const valueIn = (value: unknown, key: string | number): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Readonly<Record<string | number, unknown>>)[key]
    : undefined;

/** A field that is missing is named in the spelling of those around it. */
function nameIn(value: unknown, name: string, snake: boolean): string {
  if (isJsonObject(value) && Object.hasOwn(value, name)) return name;
  const other = snakeCase(name);
  return snake || valueIn(value, other) != null ? other : name;
}
