/** Nothing public is without its place in the docs: entries, names, options, limits and codes; and nothing in the docs is gone. */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_AI_SDK_TIMEOUTS } from "../../src/backends/ai-sdk/index.ts";
import { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../src/backends/relay/index.ts";
import { DEFAULT_BREAKER, DEFAULT_RETRY } from "../../src/backends/route/index.ts";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { entries, ROOT } from "./entries.ts";
import { markedTables, namesIn, pages, rowsOf } from "./pages.ts";

/** What TypeDoc says of a name, as far as it is looked at. */
interface Reflection {
  readonly name: string;
  /** `1 << n` by what it is: https://typedoc.org/api/enums/Models.ReflectionKind.html. */
  readonly kind: number;
  readonly children?: readonly Reflection[];
  readonly signatures?: readonly Reflection[];
  readonly type?: { readonly declaration?: Reflection };
  readonly comment?: { readonly summary: readonly unknown[] };
}

const INTERFACE = 256;
/** A name that another entry has as well. */
const REFERENCE = 4_194_304;

let folder: string;
let modules: ReadonlyMap<string, readonly Reflection[]>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-reference-"));
  const json = join(folder, "reference.json");
  const made = promisify(execFile)(process.execPath, [`${ROOT}test/docs/typedoc.ts`, join(folder, "pages"), json]);
  // What it warns of, such as a link in a comment that leads nowhere, is an error.
  await made.catch(({ stdout, stderr }: { stdout: string; stderr: string }) => {
    throw new Error(`The reference cannot be made.\n${stdout}${stderr}`);
  });
  const { children } = JSON.parse(await readFile(json, "utf8")) as { children: readonly Reflection[] };
  modules = new Map(children.map(({ name, children: names = [] }) => [name, names]));
}, 240_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const all = (): Reflection[] => [...modules.values()].flat().filter(({ kind }) => kind !== REFERENCE);

const fieldsOf = ({ children = [] }: Reflection): string[] => children.map(({ name }) => name);

const names = pages.find(({ path }) => path === "docs/names.md")?.text ?? "";

describe("the public names", () => {
  it.each([...entries().keys()])("%s: docs/names.md has each of them, and no other", (entry) => {
    const section = names.split(/^## /m).find((text) => text.startsWith(`${entry}\n`)) ?? "";
    const [table = ""] = /^\|(?:.*\n)+?(?=\n|$(?!\n))/m.exec(section) ?? [];
    const listed = rowsOf(table).flatMap(([cell]) => namesIn(cell));
    const own = modules.get(entry)?.filter(({ kind }) => kind !== REFERENCE) ?? [];
    expect(listed.toSorted()).toEqual(own.map(({ name }) => name).toSorted());
  });

  it("each entry is told of beside that list", () => {
    const others = pages.filter(({ path }) => path !== "docs/names.md").map(({ text }) => text);
    const missing = [...entries().keys()].filter((entry) => !others.some((text) => text.includes(`\`${entry}\``)));
    expect(missing).toEqual([]);
  });

  it("each function and constant is told of beside that list", () => {
    const others = pages.filter(({ path }) => path !== "docs/names.md").map(({ text }) => text);
    const values = all().filter(({ name, kind }) => kind === 32 || kind === 64 || name === "GatewayError");
    const missing = values.filter(({ name }) => !others.some((text) => new RegExp(`\\b${name}\\b`).test(text)));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });

  it("each has a doc comment", () => {
    const bare = all().filter(
      ({ comment, signatures, type }) =>
        !comment &&
        !signatures?.some((one) => one.comment) &&
        !type?.declaration?.signatures?.some((one) => one.comment),
    );
    expect(bare.map(({ name }) => name)).toEqual([]);
  });
});

describe("options", () => {
  const tables = new Map(
    Array.from(markedTables("options: (\\w+)"), ([name, rows]) => [name, rows.flatMap(([cell]) => namesIn(cell))]),
  );
  /** Records that hosts read, beside the options that they write. */
  const RECORDS = ["CallContext", "CallRecord", "Failure", "ModelInfo", "Mounted", "ImageProfile", "OperationProfile"];
  const isOption = ({ name, kind }: Reflection): boolean =>
    kind === INTERFACE && (/(?:Options|Limits|Timeouts)$/.test(name) || tables.has(name) || RECORDS.includes(name));

  it("each of them has its row in a table", () => {
    const missing = all()
      .filter(isOption)
      .filter((one) => {
        // Options that others extend, or that are some of others, are told of there.
        const written = tables.has(one.name) ? [tables.get(one.name) ?? []] : [...tables.values()];
        return !written.some((fields) => fieldsOf(one).every((field) => fields.includes(field)));
      });
    expect(missing.map((one) => [one.name, ...fieldsOf(one)])).toEqual([]);
  });

  it("no table has a row for what is gone", () => {
    const known = new Map(all().map((one) => [one.name, fieldsOf(one)]));
    const gone = Array.from(tables, ([name, fields]) => [
      name,
      ...fields.filter((field) => !known.get(name)?.includes(field)),
    ]).filter((row) => row.length > 1);
    expect(gone).toEqual([]);
  });

  it.each<[string, object]>([
    ["Limits", DEFAULT_LIMITS],
    ["AiSdkTimeouts", DEFAULT_AI_SDK_TIMEOUTS],
    ["RelayLimits", DEFAULT_RELAY_LIMITS],
    ["RelayTimeouts", DEFAULT_RELAY_TIMEOUTS],
    ["RetryOptions", DEFAULT_RETRY],
    ["BreakerOptions", DEFAULT_BREAKER],
  ])("the defaults of %s are those of the code", (name, defaults) => {
    const rows = markedTables("options: (\\w+)").get(name) ?? [];
    expect(Object.fromEntries(rows.map(([cell, value = ""]) => [namesIn(cell)[0], amountOf(value)]))).toEqual(defaults);
  });
});

it("tells of every code of an error", () => {
  const rows = [...markedTables("(codes)").values()].flat();
  expect(rows.flatMap(([cell]) => namesIn(cell)).toSorted()).toEqual(GATEWAY_ERROR_CODES.toSorted());
});

const UNITS: Readonly<Record<string, number>> = {
  KiB: 1024,
  MiB: 1024 ** 2,
  Mi: 1024 ** 2,
  second: 1_000,
  minute: 60_000,
};
const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** An amount as people write it: `32 MiB`, `10 minutes`, `1,000,000`, `2²⁸`. */
function amountOf(text: string): number {
  const [, digits = "", powers = "", unit] = /^([\d.,]+)([⁰-⁹¹²³]*)(?: (Ki?B|Mi?B?|second|minute))?/.exec(text) ?? [];
  const exponent = powers === "" ? 1 : Number(Array.from(powers, (power) => POWERS.indexOf(power)).join(""));
  return Number(digits.replaceAll(",", "")) ** exponent * (unit === undefined ? 1 : (UNITS[unit] ?? Number.NaN));
}
