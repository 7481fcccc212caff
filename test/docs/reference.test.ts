/**
 * Compares the public names with the docs. Each name has a doc comment, each entry, function, option, default and error code stands on
 * a page, and no page lists an option that is gone.
 */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { DEFAULT_AI_SDK_LIMITS, DEFAULT_AI_SDK_TIMEOUTS } from "../../src/upstreams/ai-sdk/index.ts";
import { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../src/upstreams/relay/index.ts";
import { DEFAULT_BREAKER, DEFAULT_RETRY } from "../../src/upstreams/route/index.ts";
import { entries, ROOT } from "./entries.ts";
import { markedTables, namesIn, pages } from "./pages.ts";

/** TypeDoc's description of a name, as far as these tests read it. */
interface Reflection {
  readonly name: string;
  /** A bit of https://typedoc.org/api/enums/Models.ReflectionKind.html. */
  readonly kind: number;
  readonly children?: readonly Reflection[];
  readonly signatures?: readonly Reflection[];
  readonly type?: { readonly declaration?: Reflection };
  readonly comment?: { readonly summary: readonly unknown[] };
}

const INTERFACE = 256;
/** A name that another entry exports as well. */
const REFERENCE = 4_194_304;

let folder: string;
let modules: ReadonlyMap<string, readonly Reflection[]>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-reference-"));
  const json = join(folder, "reference.json");
  const made = promisify(execFile)(process.execPath, [`${ROOT}test/docs/typedoc.ts`, join(folder, "pages"), json]);
  // TypeDoc's warnings, such as a dead link in a comment, are errors here.
  await made.catch(({ stdout, stderr }: { stdout: string; stderr: string }) => {
    throw new Error(`The reference cannot be made.\n${stdout}${stderr}`);
  });
  const { children } = JSON.parse(await readFile(json, "utf8")) as { children: readonly Reflection[] };
  modules = new Map(children.map(({ name, children: names = [] }) => [name, names]));
}, 240_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const all = (): Reflection[] => [...modules.values()].flat().filter(({ kind }) => kind !== REFERENCE);

const fieldsOf = ({ children = [] }: Reflection): string[] => children.map(({ name }) => name);

describe("the public names", () => {
  it("the pages name each entry", () => {
    const missing = [...entries().keys()].filter((entry) => !pages.some(({ text }) => text.includes(`\`${entry}\``)));
    expect(missing).toEqual([]);
  });

  it("the pages name each function and constant", () => {
    const values = all().filter(({ name, kind }) => kind === 32 || kind === 64 || name === "GatewayError");
    expect(values.length).toBeGreaterThan(40);
    const missing = values.filter(({ name }) => !pages.some(({ text }) => new RegExp(`\\b${name}\\b`).test(text)));
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
  /** Records that hosts read; the tables hold these beside the options that hosts write. */
  const RECORDS = ["CallContext", "CallRecord", "Failure", "ModelInfo", "Mounted", "ImageProfile", "OperationProfile"];
  const isOption = ({ name, kind }: Reflection): boolean =>
    kind === INTERFACE && (/(?:Options|Limits|Timeouts)$/.test(name) || tables.has(name) || RECORDS.includes(name));

  it("each of them has its row in a table", () => {
    const missing = all()
      .filter(isOption)
      .filter((one) => {
        // A table may list these options as a part of others.
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
    ["AiSdkLimits", DEFAULT_AI_SDK_LIMITS],
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
  hour: 3_600_000,
};
const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Reads an amount as people write it: `32 MiB`, `10 minutes`, `1,000,000`, `2²⁸`. */
function amountOf(text: string): number {
  const [, digits = "", powers = "", unit] =
    /^([\d.,]+)([⁰-⁹¹²³]*)(?: (Ki?B|Mi?B?|second|minute|hour))?/.exec(text) ?? [];
  const exponent = powers === "" ? 1 : Number(Array.from(powers, (power) => POWERS.indexOf(power)).join(""));
  return Number(digits.replaceAll(",", "")) ** exponent * (unit === undefined ? 1 : (UNITS[unit] ?? Number.NaN));
}
