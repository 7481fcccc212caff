/** Holds that every field, enum value and error of spec 2.8, 2.9 and 7.3 stands in some recorded case. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ERROR_ROWS, REQUEST_OBJECTS, RESPONSE_OBJECTS, SPELLINGS, type SpecObject } from "./spec-fields.ts";

const RECORDINGS = join(import.meta.dirname, "..", "..", "recordings", "generate-content");

const files = await readdir(RECORDINGS);
const texts = async (ending: string, which: (file: string) => boolean): Promise<string[]> =>
  Promise.all(
    files
      .filter((file) => file.endsWith(ending) && which(file))
      .map((file) => readFile(join(RECORDINGS, file), "utf8")),
  );
const refused = (file: string): boolean => file.startsWith("error-");
const answered = (file: string): boolean => !refused(file);
const parse = (text: string): unknown => JSON.parse(text) as unknown;

const requests = (await texts(".request.json", answered)).map(parse);
const responses = (await texts(".response.json", answered)).map(parse);
const errors = (await texts(".response.json", refused)).map(parse);
const chunks = (await texts(".events.txt", answered))
  .flatMap((text) => text.split("\n").filter((line) => line !== ""))
  .map((line) => parse(line.slice("data: ".length)));

type Node = Readonly<Record<string, unknown>>;

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null;
const snake = (key: string): string => key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const get = (node: Node, key: string): unknown => node[key] ?? node[snake(key)];

/** All that stands at a place, `*` being any key and `**` any way down, in either spelling. */
function reach(value: unknown, [key, ...rest]: readonly string[]): unknown[] {
  if (key === undefined) return [value];
  if (!isNode(value)) return [];
  if (key === "**")
    return [...reach(value, rest), ...Object.values(value).flatMap((inner) => reach(inner, [key, ...rest]))];
  const inner = key === "*" ? Object.values(value) : [get(value, key)];
  return inner.filter((found) => found !== undefined).flatMap((found) => reach(found, rest));
}

const keysOf = (place: string): string[] => place.split(".").filter((key) => key !== "");

function missing(bodies: readonly unknown[], { at, fields, values = {} }: SpecObject): string[] {
  const found = at
    .split(" ")
    .flatMap((place) => bodies.flatMap((body) => reach(body, keysOf(place))))
    .filter(isNode);
  const absent = fields.filter((field) => !found.some((node) => get(node, field) !== undefined));
  const unused = Object.entries(values).flatMap(([field, allowed]) => {
    const used = new Set(found.flatMap((node) => reach(node, [field])));
    return allowed.filter((value) => !used.has(value)).map((value) => `${field}: ${value}`);
  });
  return [...absent, ...unused];
}

describe("the recorded cases hold all of", () => {
  it.each(Object.entries(REQUEST_OBJECTS))("the request's %s", (_name, object) => {
    expect(missing(requests, object)).toEqual([]);
  });

  it.each(Object.entries(RESPONSE_OBJECTS))("the answer's %s", (_name, object) => {
    expect(missing(responses, object)).toEqual([]);
  });

  it.each(Object.entries(RESPONSE_OBJECTS))("a stream's %s", (_name, object) => {
    expect(missing(chunks, object)).toEqual([]);
  });

  it.each(SPELLINGS)("both spellings: %s and %s", (...spellings) => {
    const written = JSON.stringify(requests);
    for (const spelling of spellings) expect(written).toContain(`"${spelling}":`);
  });

  it.each(ERROR_ROWS)("the errors: %i %s", (code, status) => {
    expect(errors).toContainEqual({ error: { code, status, message: expect.any(String), details: expect.any(Array) } });
  });
});

describe("what holds that", () => {
  it("finds a field, a value and a way down that are missing", () => {
    const bodies = [{ a: [{ b_c: "X" }] }];
    expect(missing(bodies, { at: "a.*", fields: ["bC", "d"], values: { bC: ["X", "Y"] } })).toEqual(["d", "bC: Y"]);
    expect(missing(bodies, { at: "**", fields: ["bC"] })).toEqual([]);
    expect(missing(bodies, { at: "e", fields: ["bC"] })).toEqual(["bC"]);
  });
});
