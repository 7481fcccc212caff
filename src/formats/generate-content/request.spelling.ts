/** Accepts field names in camelCase and in snake_case: converts bodies to camelCase, and errors back to the caller's spelling. */

import type * as v from "valibot";
import { changedError, type FieldPath, GatewayError } from "../../errors.ts";
import { shapeOf } from "../../http/validation.ts";
import { isJsonObject } from "../../model/json.ts";
import { fieldName, withoutPrefix } from "./errors.ts";

/** Returns a value with its field names in camelCase. A value that does not change is returned as the same object. */
type SpellingWalk = (value: unknown, path: (string | number)[]) => unknown;

const walks = new WeakMap<v.GenericSchema, SpellingWalk>();

/**
 * Returns the function that prepares a value for the schema's check. It converts field names to camelCase, and puts a single element
 * into a list if the schema wants a list. An object for which the schema names no fields stays as it is, because the caller chose its
 * keys. The function throws `invalid_request` if a field is given in both spellings.
 */
export function spellingWalk(schema: v.GenericSchema): SpellingWalk {
  let walk = walks.get(schema);
  if (!walk) walks.set(schema, (walk = walkOf(schema)));
  return walk;
}

function walkOf(schema: v.GenericSchema): SpellingWalk {
  const { wrapped, item, value, entries, options, getter, type } = shapeOf(schema);
  if (wrapped) return spellingWalk(wrapped);
  if (item) return walkOfList(spellingWalk(item));
  if (entries) return walkOfObject(entries);
  if (type === "record" && value) return walkOfRecord(spellingWalk(value));
  // A schema may contain itself, so make the function for the inner schema only when a value is that deep.
  if (getter) return (inner, path) => spellingWalk(getter(inner))(inner, path);
  return type === "union" && options ? walkOfUnion(options) : leave;
}

const leave: SpellingWalk = (value) => value;

function walkOfUnion(options: readonly v.GenericSchema[]): SpellingWalk {
  const list = options.find((option) => shapeOf(option).item);
  const element = options.find((option) => shapeOf(option).entries);
  if (!list || !element) return options.map(spellingWalk).find((walk) => walk !== leave) ?? leave;
  const [walkList, walkElement] = [spellingWalk(list), spellingWalk(element)];
  return (value, path) => (isJsonObject(value) ? [walkElement(value, path)] : walkList(value, path));
}

function walkOfList(walk: SpellingWalk): SpellingWalk {
  if (walk === leave) return leave;
  return (value, path) => {
    if (!Array.isArray(value)) return value;
    let copy: unknown[] | undefined;
    for (let index = 0; index < value.length; index++) {
      const element: unknown = value[index];
      path.push(index);
      const walked = walk(element, path);
      path.pop();
      if (walked !== element) (copy ??= [...value])[index] = walked;
    }
    return copy ?? value;
  };
}

/** Makes the walk over an object whose keys the caller chose and whose values have fields of the format. */
const walkOfRecord =
  (walk: SpellingWalk): SpellingWalk =>
  (value, path) => {
    if (!isJsonObject(value)) return value;
    const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
      path.push(key);
      const walked = walk(inner, path);
      path.pop();
      return [key, walked];
    });
    return entries.some(([key, inner]) => inner !== value[key]) ? Object.fromEntries(entries) : value;
  };

/** A field of the format, for one of its two spellings. */
interface SpelledField {
  /** In camelCase. */
  readonly name: string;
  /** The other spelling; undefined if both spellings are equal. */
  readonly twin: string | undefined;
  readonly walk: SpellingWalk;
}

function walkOfObject(entries: Readonly<Record<string, v.GenericSchema>>): SpellingWalk {
  const fields = new Map<string, SpelledField>();
  for (const [name, schema] of Object.entries(entries)) {
    const [snake, walk] = [snakeCase(name), spellingWalk(schema)];
    fields.set(name, { name, twin: snake === name ? undefined : snake, walk });
    if (snake !== name) fields.set(snake, { name, twin: name, walk });
  }
  if (fields.size === 0) return leave;
  return (value, path) => {
    if (!isJsonObject(value)) return value;
    let copy: [string, unknown][] | undefined;
    const keys = Object.keys(value);
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] as string;
      const given = value[key];
      const field = fields.get(key);
      if (!field) {
        copy?.push([key, given]);
        continue;
      }
      const { name, twin, walk } = field;
      if (twin !== undefined && value[twin] != null) {
        if (given != null) throw givenTwice(path, name);
        // Drop a null if the other spelling has the value.
        copy ??= Object.entries(value).slice(0, index);
        continue;
      }
      path.push(key);
      const walked = walk(given, path);
      path.pop();
      // Copy the object only at its first change.
      if (name !== key || walked !== given) copy ??= Object.entries(value).slice(0, index);
      copy?.push([name, walked]);
    }
    return copy ? Object.fromEntries(copy) : value;
  };
}

export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function givenTwice(around: FieldPath, name: string): GatewayError {
  const snake = snakeCase(name);
  const path = [...around, snake];
  return new GatewayError("invalid_request", `${fieldName(path)}: is given twice, as ${snake} and as ${name}`, {
    path,
  });
}

/** Returns an error about the camelCase body with the field names as the caller spelled them in `raw`. */
export function inCallersSpelling(error: GatewayError, raw: unknown, body: unknown): GatewayError {
  const { path: camelPath = [] } = error;
  if (camelPath.length === 0) return error;
  const path = pathIn(raw, camelPath);
  let message = withoutPrefix(withoutPrefix(error.message, `${camelPath.join(".")}: `), `${fieldName(camelPath)}: `);
  if (body !== raw)
    message = respelled(
      message,
      raw,
      path.some((key) => !camelPath.includes(key)),
    );
  return changedError(error, `${fieldName(path)}: ${message}`, { path });
}

/** Converts a path in the camelCase body to the path in the body that the caller sent. */
function pathIn(raw: unknown, camelPath: FieldPath): FieldPath {
  const path: (string | number)[] = [];
  let value: unknown = raw;
  let isSnake = false;
  for (const key of camelPath) {
    // The caller sent a single element without its list, so the path has no index.
    if (typeof key === "number" && !Array.isArray(value)) continue;
    const name: string | number = typeof key === "string" ? nameIn(value, key, isSnake) : key;
    isSnake ||= name !== key;
    path.push(name);
    value = valueIn(value, name);
  }
  return path;
}

const valueIn = (value: unknown, key: string | number): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Readonly<Record<string | number, unknown>>)[key]
    : undefined;

/** Returns a field's name as the caller spelled it. A missing field gets snake_case if a field around it has snake_case. */
function nameIn(value: unknown, name: string, isSnake: boolean): string {
  if (isJsonObject(value) && Object.hasOwn(value, name)) return name;
  const snake = snakeCase(name);
  return isSnake || valueIn(value, snake) != null ? snake : name;
}

/**
 * Writes each field name of an error message in the caller's spelling. If the caller did not send the field, uses the spelling of the
 * wrong field. Leaves quoted text as it is.
 */
function respelled(message: string, raw: unknown, isSnake: boolean): string {
  const names = /"[^"]*"|\b[a-z]+(?:[A-Z][a-z]*)+\b/g;
  if (!names.test(message)) return message;
  const keys = keysOf(raw);
  return message.replace(names, (word) =>
    !word.startsWith('"') && !keys.has(word) && (isSnake || keys.has(snakeCase(word))) ? snakeCase(word) : word,
  );
}

/** The largest number of objects and lists, and of keys in each, that are searched for the caller's spelling. */
const MAX_SEARCHED = 1_000;

function keysOf(body: unknown): Set<string> {
  const keys = new Set<string>();
  const open: unknown[] = [body];
  // The loop also visits the values that are added to `open` on the way.
  for (const value of open) {
    if (typeof value !== "object" || value === null) continue;
    for (const [key, inner] of Object.entries(value).slice(0, MAX_SEARCHED)) {
      if (!Array.isArray(value)) keys.add(key);
      if (open.length < MAX_SEARCHED && typeof inner === "object") open.push(inner);
    }
  }
  return keys;
}
