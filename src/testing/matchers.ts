/** Checks of the records and charges of a test gateway: as matchers of Vitest, Jest and Bun, and as functions for any other runner. */

import { AssertionError } from "node:assert/strict";
import { inspect, isDeepStrictEqual } from "node:util";
import type { CallRecord, Failure } from "../index.ts";
import { shown, unknownName } from "../options.ts";
import { isClosed, type TestGateway } from "./test-gateway.ts";

/**
 * The fields of a call's record that a test names, at any depth; a list has as many elements as that of the record. A value may be an
 * asymmetric matcher of the runner, such as `expect.any(Number)`.
 */
export interface ExpectedRecord extends Expected<CallRecord> {}

type Expected<Value> = Value extends object
  ? { readonly [Field in keyof Value]?: Expected<Value[Field]> | Asymmetric }
  : Value;

/** A matcher of a runner, such as `expect.any(Number)`. */
interface Asymmetric {
  asymmetricMatch(actual: unknown): boolean;
  /** Returns the matcher as a text, such as `Any<Number>`. */
  toAsymmetricMatcher?(): string;
}

/** The matchers as TypeScript sees them on `expect(gateway)`: the docs show how each runner learns of them. */
export interface PolygateMatchers {
  /** Waits until all calls are recorded. Passes when they cost exactly so many quota units together. */
  toHaveCharged(units: number): Promise<void>;
  /** Waits until all calls are recorded. Passes when one of the records has these fields. */
  toHaveRecorded(expected: ExpectedRecord): Promise<void>;
}

/** The result of a matcher. */
export interface MatcherResult {
  readonly pass: boolean;
  readonly message: () => string;
  /** The values that differ, for an editor or a runner that shows their difference. */
  readonly actual?: unknown;
  readonly expected?: unknown;
}

type Received = Pick<TestGateway, "records" | "settled" | "failures">;

/**
 * Matchers for `expect.extend` of Vitest, Jest and Bun. They wait, so `await` them.
 *
 * @example
 * expect.extend(polygateMatchers);
 * await expect(gateway).toHaveRecorded({ status: 200, modelAsked: "small" });
 */
export const polygateMatchers: {
  readonly toHaveCharged: (gateway: unknown, units: number) => Promise<MatcherResult>;
  readonly toHaveRecorded: (gateway: unknown, expected: ExpectedRecord) => Promise<MatcherResult>;
} = {
  toHaveCharged: (gateway, units) => hinted("toHaveCharged", gateway, charged("toHaveCharged", gateway, units)),
  toHaveRecorded: (gateway, expected) =>
    hinted("toHaveRecorded", gateway, recorded("toHaveRecorded", gateway, expected)),
};

/** Adds to the message that the matcher must be awaited, if its test has closed the gateway meanwhile. */
async function hinted(name: string, gateway: unknown, checking: Promise<MatcherResult>): Promise<MatcherResult> {
  const { records } = (gateway ?? {}) as Partial<Received>;
  const wasOpen = Array.isArray(records) && !isClosed(records);
  const result = await checking;
  if (!wasOpen || !isClosed(records)) return result;
  const message = (): string =>
    `${result.message()}\nThe gateway was closed meanwhile. Write await: await expect(gateway).${name}(…).`;
  return { ...result, message };
}

/**
 * Waits until all calls are recorded, and checks their cost.
 *
 * @param units The cost of all calls together, in quota units.
 * @throws AssertionError, which lists the cost of each call.
 */
export async function assertCharged(gateway: TestGateway, units: number): Promise<void> {
  fail(await charged("assertCharged", gateway, units));
}

/**
 * Waits until all calls are recorded. Then checks that a record has the expected fields.
 *
 * @throws AssertionError, which names the fields in which the nearest record differs.
 */
export async function assertRecorded(gateway: TestGateway, expected: ExpectedRecord): Promise<void> {
  fail(await recorded("assertRecorded", gateway, expected));
}

function fail({ pass, message, actual, expected }: MatcherResult): void {
  if (!pass) throw new AssertionError({ message: message(), actual, expected, stackStartFn: fail });
}

async function charged(name: string, gateway: unknown, units: number): Promise<MatcherResult> {
  if (!Number.isFinite(units)) throw new TypeError(`${name}: expects quota units, not ${shown(units)}.`);
  const { records, failures } = await callsOf(name, gateway);
  const sum = records.reduce((total, record) => total + record.units, 0);
  const list = records.map((record) => `\n  ${titleOf(record)}: ${record.units} (${record.certainty})`).join("");
  const why = failuresOf(records, failures);
  return {
    pass: sum === units,
    actual: sum,
    expected: units,
    message: () =>
      sum === units
        ? `Expected another charge than ${units} units.${list}`
        : `Expected a charge of ${units} units, but it is ${sum}${list === "" ? ": no call was recorded." : `:${list}${why}`}`,
  };
}

async function recorded(name: string, gateway: unknown, expected: unknown): Promise<MatcherResult> {
  if (typeof expected !== "object" || expected === null)
    throw new TypeError(`${name}: expects an object with fields of a record, not ${shown(expected)}.`);
  const { records, failures } = await callsOf(name, gateway);
  const known = Object.keys(records[0] ?? expected);
  for (const field of Object.keys(expected))
    if (!known.includes(field)) throw new TypeError(`${name}: ${unknownName(field, known)}.`);
  const all = records.map((record) => ({ record, differences: [...differencesOf(record, expected, "")] }));
  const [nearest] = all.toSorted((one, other) => one.differences.length - other.differences.length);
  const pass = nearest?.differences.length === 0;
  const record: Readonly<Record<string, unknown>> = { ...nearest?.record };
  return {
    pass,
    // The nearest record, with the fields that are expected.
    actual: nearest && Object.fromEntries(Object.keys(expected).map((field) => [field, record[field]])),
    expected,
    message() {
      const wanted = display(expected);
      if (!nearest) return `Expected a record with ${wanted}, but no call was recorded.`;
      if (pass) return `Expected no record with ${wanted}, but there is one of ${titleOf(nearest.record)}.`;
      const which = records.length === 1 ? "the only record" : `the nearest of ${records.length} records`;
      return `Expected a record with ${wanted}, but ${which}, of ${titleOf(nearest.record)}, differs:${nearest.differences.join("")}${failuresOf([nearest.record], failures)}`;
    },
  };
}

async function callsOf(name: string, gateway: unknown): Promise<Omit<Received, "settled">> {
  const { settled, records, failures = [] } = (gateway ?? {}) as Partial<Received>;
  if (typeof settled !== "function" || !Array.isArray(records))
    throw new TypeError(`${name}: expects a gateway of testGateway(), not ${shown(gateway)}.`);
  await settled();
  return { records, failures };
}

/** The most different failures in a message, and the most characters of each. */
const MOST_FAILURES = 5;
const LONGEST_FAILURE = 500;

/** Returns lines with the failures of some calls, which often say why a record is another than expected. Empty without failures. */
function failuresOf(records: readonly CallRecord[], failures: readonly Failure[]): string {
  const ids = new Set(records.map(({ requestId }) => requestId));
  const own = failures.filter(({ requestId }) => ids.has(requestId));
  const reasons = [...new Set(own.map(({ error }) => `\n  ${reasonOf(error).slice(0, LONGEST_FAILURE)}`))];
  if (reasons.length === 0) return "";
  const others = reasons.length - MOST_FAILURES;
  return `\ngateway.failures has:${reasons.slice(0, MOST_FAILURES).join("")}${others > 0 ? `\n  and ${others} others` : ""}`;
}

/** Returns the message of an error, with those of its causes. */
function reasonOf({ message, cause }: Error): string {
  if (cause === undefined) return message;
  return `${message} ${cause instanceof Error ? reasonOf(cause) : display(cause)}`;
}

const titleOf = ({ method, route, modelAsked }: CallRecord): string =>
  `${method} ${route}${modelAsked === undefined ? "" : ` by ${modelAsked}`}`;

/** Yields a line for each expected field that a value does not have. */
function* differencesOf(actual: unknown, expected: unknown, path: string): Generator<string> {
  if (isAsymmetric(expected)) {
    if (!expected.asymmetricMatch(actual)) yield lineOf(path, actual, expected);
  } else if (isFields(expected) && isFields(actual)) {
    for (const [field, value] of Object.entries(expected))
      yield* differencesOf(actual[field], value, path === "" ? field : `${path}.${field}`);
  } else if (Array.isArray(expected) && Array.isArray(actual) && expected.length === actual.length) {
    for (const [at, value] of expected.entries()) yield* differencesOf(actual[at], value, `${path}[${at}]`);
  } else if (!isDeepStrictEqual(actual, expected)) yield lineOf(path, actual, expected);
}

const isAsymmetric = (value: unknown): value is Asymmetric =>
  typeof (value as Partial<Asymmetric> | null | undefined)?.asymmetricMatch === "function";

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const lineOf = (path: string, actual: unknown, expected: unknown): string =>
  `\n  ${path}: ${display(actual)} instead of ${display(expected)}`;

const display = (value: unknown): string => inspect(readable(value), { depth: 4 });

/** Replaces matchers by objects that show their names. */
function readable(value: unknown): unknown {
  if (isAsymmetric(value)) return { [inspect.custom]: () => value.toAsymmetricMatcher?.() ?? "a matcher" };
  if (!isFields(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([field, one]) => [field, readable(one)]));
}
