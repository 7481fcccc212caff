/** Makes one operation of several that share a path and a method: formats whose callers are told apart by their headers. */

import type { ApiResponse, MediaType, Operation, Parameter } from "./types.ts";

/** What either operation takes and gives. */
export const merged = (one: Operation, other: Operation): Operation => ({
  ...one,
  description: [one.description, other.description].filter((text) => text !== undefined).join("\n\n"),
  tags: [...one.tags, ...other.tags],
  security: uniqueBy([...one.security, ...other.security], (scheme) => Object.keys(scheme).join(" ")),
  parameters: uniqueBy(
    [...one.parameters, ...other.parameters],
    (parameter: Parameter) => `${parameter.in} ${parameter.name}`,
  ),
  responses: mapped(one.responses, other.responses, mergedResponse),
});

const mergedResponse = (one: ApiResponse, other: ApiResponse): ApiResponse => ({
  description: uniqueBy([one.description, other.description], String).join(" / "),
  headers: { ...one.headers, ...other.headers },
  content: mapped(one.content ?? {}, other.content ?? {}, mergedContent),
});

const mergedContent = (one: MediaType, other: MediaType): MediaType => ({
  schema: { anyOf: [...alternatives(one), ...alternatives(other)] },
  examples: { ...one.examples, ...renamed(other.examples ?? {}, one.examples ?? {}) },
});

const alternatives = ({ schema }: MediaType): readonly unknown[] =>
  (schema["anyOf"] as unknown[] | undefined) ?? [schema];

/** Entries under names that are not taken. */
const renamed = <Value>(entries: Readonly<Record<string, Value>>, taken: object): Record<string, Value> =>
  Object.fromEntries(Object.entries(entries).map(([name, value]) => [freeName(name, taken), value]));

function freeName(name: string, taken: object): string {
  let free = name;
  for (let count = 2; Object.hasOwn(taken, free); count++) free = `${name}-${count}`;
  return free;
}

/** The entries of both; those that both have, merged. */
const mapped = <Value>(
  one: Readonly<Record<string, Value>>,
  other: Readonly<Record<string, Value>>,
  merge: (one: Value, other: Value) => Value,
): Record<string, Value> => ({
  ...one,
  ...Object.fromEntries(
    Object.entries(other).map(([key, value]) => {
      const first = one[key];
      return [key, first === undefined ? value : merge(first, value)];
    }),
  ),
});

const uniqueBy = <Item>(items: readonly Item[], key: (item: Item) => string): Item[] =>
  [...new Map(items.toReversed().map((item) => [key(item), item])).values()].toReversed();
