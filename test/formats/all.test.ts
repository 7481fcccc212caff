/** Each format of the package has all that belongs to a format, under its name. */

import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FORMATS, SERVED, UPSTREAMS } from "../../src/formats/all.ts";
import type { FormatModule, UpstreamFormat } from "../../src/formats/module.ts";
import { entries, ROOT } from "../docs/entries.ts";

const names = FORMATS.map(({ name }) => name);

it("the formats are the entries of the package", () => {
  const published = [...entries()].flatMap(([name, source]) =>
    name.startsWith("polygate/formats/") ? [[name.slice("polygate/formats/".length), source]] : [],
  );
  expect(Object.fromEntries(published)).toEqual(
    Object.fromEntries(names.map((name) => [name, `src/formats/${name}/module.ts`])),
  );
});

it("the formats are asked in the order of their list", () => {
  expect(Object.keys(SERVED)).toEqual(names);
  const ranks = FORMATS.map((format) => format.serve().rank);
  expect(ranks).toEqual(ranks.toSorted((one = 0, other = 0) => one - other));
  expect(new Set(ranks).size).toBe(FORMATS.length);
});

describe.each(names)("%s", (name) => {
  it.each([`docs/${name}.md`, `test/formats/${name}`, `src/formats/${name}/openapi.ts`])("has %s", (path) => {
    expect(existsSync(ROOT + path)).toBe(true);
  });

  it("has one name on both sides, and the same sides in each list", () => {
    const format: FormatModule | undefined = FORMATS.find((one) => one.name === name);
    expect([format?.serve().name, format?.upstream?.name ?? name]).toEqual([name, name]);
    const listed: Readonly<Record<string, UpstreamFormat | undefined>> = UPSTREAMS;
    const { options, upstream } = format ?? {};
    expect(SERVED[name]).toMatchObject({ ...(options && { options }) });
    expect(SERVED[name].serve().name).toBe(name);
    expect(listed[name]).toEqual(upstream);
  });

  it("is on the page of the small gateway", () => {
    expect(readFileSync(`${ROOT}docs/mounting.md`, "utf8")).toContain(`polygate/formats/${name}`);
  });
});
