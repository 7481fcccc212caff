/** How objects come in either spelling: walks that bring them to camelCase, and paths told back as the caller spelled them. */

import { GatewayError } from "../../errors.ts";
import type { FieldPath } from "../../http/validation.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { fieldName } from "./schema.base.ts";

/** Brings a value to camelCase. What needs no change is returned as it is. */
export type Walk = (value: unknown, path: (string | number)[]) => unknown;
export type Fields = Readonly<Record<string, Walk>>;

/** A value, or the user's own data. */
export const leaf: Walk = (value) => value;

export const list =
  (item: Walk): Walk =>
  (value, path) => {
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

/** A list that is also sent as its only element. */
export function listOrOne(item: Walk): Walk {
  const walk = list(item);
  return (value, path) => (isJsonObject(value) ? [item(value, path)] : walk(value, path));
}

/** An object whose keys are the user's and whose values are the format's. */
export const mapOf =
  (item: () => Walk): Walk =>
  (value, path) => {
    if (!isJsonObject(value)) return value;
    const entries = Object.entries(value).map(([key, inner]): [string, unknown] => {
      path.push(key);
      const walked = item()(inner, path);
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

/** An object of the format's own. */
export function own(fields: () => Fields): Walk {
  let spellings: ReadonlyMap<string, Spelling> | undefined;
  return (value, path) => {
    if (!isJsonObject(value)) return value;
    spellings ??= spellingsOf(fields());
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
