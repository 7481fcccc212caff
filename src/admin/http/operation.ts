/** An operation of the admin's HTTP interface: its type, the schemas that several share, and its refusals. */

import * as v from "valibot";
import { given } from "../../model/json.ts";
import { currencyCode, moneyOf, unitsInWords } from "../../model/money.ts";
import { abandon, oneLine } from "../../options.ts";
import type { GatewayHealth } from "../../pipeline/health.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import { type Clock, readSoon } from "../../ports/clock.ts";
import type { LiveCall } from "../../ports/observer.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import type { BudgetReport } from "../../stores/budgets.ts";
import { type BudgetDirectory, type KeyDirectory, type KeyReport, MOST_LISTED } from "../../stores/durable.ts";
import { NO_SUCH_BUDGET, NO_SUCH_KEY, unknownIdIn } from "../../stores/ledger.ts";
import { notedCurrency } from "../../stores/noted-currency.ts";
import { type CallAdmin, ofOtherCurrency } from "../call-admin.ts";
import { type Spreadsheet, SPREADSHEETS } from "../columns.ts";
import { type KeyAdmin, keyAdmin } from "../key-admin.ts";
import { hasSecret, LIKE_SECRET, mayBeSecret, withoutSecretNames } from "../masked.ts";
import {
  type AmountChange,
  CONFIRM_BY_HEADER,
  doubtInWords,
  isLittle,
  littleInWords,
  type UnitsField,
} from "../much.ts";
import { idsInWords, idsLike, idsMeant, type ListNamed } from "../names.ts";
import { readPage } from "../pages.ts";
import type { Lane } from "./lane.ts";
import { refused } from "./refusal.ts";

/** The part of a gateway that the admin shows. */
export interface AdminGateway {
  health(): Promise<GatewayHealth>;
  /** The currency of the prices: that of amounts while no call is recorded. */
  readonly currency?: string | undefined;
  /** Lists the calls that run, at most `limit`, and all by default. Without this and the next two functions, the admin shows and stops no calls. */
  liveCalls?(options?: { readonly limit?: number }): readonly LiveCall[];
  /** Counts the calls that run. */
  liveCallCount?(): number;
  /** Stops a call, and returns false when it does not run. */
  stopCall?(requestId: string): boolean;
  /** Says in a sentence what is wrong with a key, such as its rate tier; undefined for nothing. The admin makes no key with a fault. */
  keyFault?(key: ApiKey): string | undefined;
  /** Says in sentences which models it does not have; undefined for none. Keys with such models are made, and the answer has a note. */
  modelFault?(models: readonly string[]): Promise<string | undefined>;
  /** Lists the models and the rate tiers that keys can name. Each is undefined when the gateway does not know it. */
  keyChoices?(): Promise<{
    readonly models: readonly string[] | undefined;
    readonly tiers: readonly string[] | undefined;
  }>;
}

/** The parts of the host that the operations work on. */
export interface Desk {
  readonly keys: KeyAdmin;
  readonly store: KeyDirectory & Partial<BudgetDirectory>;
  readonly audit: AuditLog;
  readonly gateway: AdminGateway | undefined;
  readonly calls: CallAdmin | undefined;
  readonly clock: Clock;
}

/** A request after its checks. */
export interface Asked<Body = unknown, Query = unknown> {
  readonly user: AdminUser;
  /** The id in the path, decoded. Empty for a path without one. */
  readonly id: string;
  readonly body: Body;
  readonly query: Query;
  /** The `If-Match` of the request: the tag of the resource that the user has seen. */
  readonly ifMatch: string | undefined;
  /** The state that the edit is held to, of an edit that would change nothing. */
  readonly condition?: (state: object) => boolean;
  /** True when the client has confirmed a change that may be a mistake, with the header `confirm: true`. */
  readonly isConfirmed: boolean;
  /** The media types that the client prefers, as it has written them. */
  readonly accept: string | undefined;
}

/** An answer before it is written. */
export interface Told {
  readonly body?: object;
  /** The body as JSON text. */
  readonly json?: string;
  /** The answer as a CSV file, in place of a body. */
  readonly csv?: { readonly text: string; readonly fileName: string; readonly note?: string };
  /** The tag of the resource, for the next `If-Match`. */
  readonly tag?: string;
  /** The id of what was made, or whose secret was removed, for the log of changes. */
  readonly made?: string;
}

/** A part of the admin that only some hosts have. */
export type AdminPart = "budgets" | "health" | "live" | "calls";

/** An operation of the admin. */
export interface Operation {
  /** The name in the OpenAPI document, which generated clients give to a function. */
  readonly operationId: string;
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** The path below the mount; `:id` is an id. */
  readonly path: string;
  /** A sentence for the OpenAPI document. */
  readonly about: string;
  /** The name in the audit log. Absent for an operation that changes nothing. */
  readonly action?: string;
  readonly body?: v.GenericSchema;
  readonly query?: v.GenericSchema;
  /** The schema of the answer, for the OpenAPI document. */
  readonly answer: v.GenericSchema;
  /** The status of an answer that is no error. Default: 200. */
  readonly status?: 201;
  /** True when the answer has a tag. */
  readonly tagged?: boolean;
  /** Returns the tag of a state, for the `If-Match` of an edit. Absent for an operation that takes no tag. */
  readonly tagOf?: (seen: KeyReport & BudgetReport) => string;
  /** True when the operation asks for a confirmation of what may be a mistake. */
  readonly confirmed?: boolean;
  /** The part of the host that the operation needs. */
  readonly needs?: AdminPart;
  /** True when the answer may be CSV. */
  readonly asCsv?: boolean;
  run(desk: Desk, asked: Asked<never, never>): Promise<Told>;
}

/** Somebody who may use the admin, as the host knows them. */
export interface AdminUser {
  /** Stands in the log of changes: 1 to 200 characters. */
  readonly name: string;
  /** True for a user who may look, and change nothing. Default: false. */
  readonly readOnly?: boolean;
}

/** Gives the schemas' types to the work of an operation. */
export const operation = <
  Body extends v.GenericSchema = v.GenericSchema,
  Query extends v.GenericSchema = v.GenericSchema,
>(
  it: Omit<Operation, "body" | "query" | "run"> & {
    readonly body?: Body;
    readonly query?: Query;
    run(desk: Desk, asked: Asked<v.InferOutput<Body>, v.InferOutput<Query>>): Promise<Told>;
  },
): Operation => it;

const UNIX_MS = "Unix time in milliseconds.";

export const TEXT: v.StringSchema<undefined> = v.string();
export const COUNT: v.GenericSchema<number> = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
export const UNITS: v.GenericSchema<number> = v.pipe(COUNT, v.description("Units."));
export const TIME: v.GenericSchema<number> = v.pipe(COUNT, v.description(UNIX_MS));
/** Units that are added or taken. With 0, nothing would change. */
export const SOME_UNITS: v.GenericSchema<number> = v.pipe(
  v.number(),
  v.safeInteger(),
  v.minValue(1),
  v.description("Units."),
);
export const ID: v.GenericSchema<string> = v.pipe(v.string(), v.minLength(1));
/** Every part of an address that is `.` or `..` goes away, also percent-encoded: nobody could change or stop a key of this id. */
export const NEW_ID: v.GenericSchema<string> = v.pipe(
  ID,
  v.regex(/^(?!\.{1,2}$)/, "cannot be . or .., which no address can hold"),
  v.check((id) => !hasSecret(id), LIKE_SECRET),
);

/** Words the error for fields that people expect in a body: what to do instead. */
export function elsewhere(hints: Readonly<Record<string, string>>) {
  const byName = new Map(Object.entries(hints));
  return ({ message, path }: v.StrictObjectIssue): string => byName.get(String(path?.at(-1)?.key)) ?? message;
}

/** An integer in a query, which is text. */
export const ofQuery = (description: string): v.GenericSchema<string, number> =>
  v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.description(description), v.transform(Number));

/** The number of entries in an answer, from 1. */
export const sizeOfQuery = (most: number): v.GenericSchema<string, number> =>
  v.pipe(ofQuery(`From 1 to ${most.toLocaleString("en")}.`), v.minValue(1), v.maxValue(most));

export const TIME_OF_QUERY: v.GenericSchema<string, number> = ofQuery(UNIX_MS);
export const SIZE: v.GenericSchema<string, number> = sizeOfQuery(MOST_LISTED);
export const LIMIT: v.OptionalSchema<typeof SIZE, "100"> = v.optional(SIZE, "100");
export const PAGE: { readonly after: v.ExactOptionalSchema<typeof TEXT, undefined>; readonly limit: typeof LIMIT } = {
  after: v.exactOptional(TEXT),
  limit: LIMIT,
};

/** The code of a currency, which is read in capitals. */
const CURRENCY: v.GenericSchema<string, string> = v.pipe(
  v.string(),
  v.check((text) => currencyCode(text) !== undefined, "must be a code of three letters, such as usd"),
  v.toUpperCase(),
);

/** The choices of an answer that may be CSV. */
export const FILE: {
  readonly format: v.ExactOptionalSchema<v.PicklistSchema<readonly ["json", "csv"], undefined>, undefined>;
  readonly spreadsheet: v.ExactOptionalSchema<v.PicklistSchema<typeof SPREADSHEETS, undefined>, undefined>;
  readonly currency: v.ExactOptionalSchema<typeof CURRENCY, undefined>;
} = {
  format: v.exactOptional(v.picklist(["json", "csv"])),
  spreadsheet: v.exactOptional(v.picklist(SPREADSHEETS)),
  currency: v.exactOptional(CURRENCY),
};

/** True for a query with the format CSV or a spreadsheet, and for one without a format whose client accepts CSV. */
export function wantsCsv(
  { format, spreadsheet }: { readonly format?: "json" | "csv"; readonly spreadsheet?: Spreadsheet },
  accept = "",
): boolean {
  if (format === "json" && spreadsheet) throw refused(400, "Choose format=json, or a spreadsheet.");
  return format === undefined ? spreadsheet !== undefined || /\btext\/csv\b/i.test(accept) : format === "csv";
}

/** A page, and the value of `after` for the next one: null on the last page. */
export const pageOf = <Item extends v.GenericSchema>(
  item: Item,
): v.ObjectSchema<
  { readonly data: v.ArraySchema<Item, undefined>; readonly next: v.NullableSchema<typeof TEXT, undefined> },
  undefined
> => v.object({ data: v.array(item), next: v.nullable(TEXT) });

/** Says which parts of the admin a host has. */
export const partsOf = ({ store, gateway, calls }: Desk): Readonly<Record<AdminPart, boolean>> => ({
  budgets: store.addBudget !== undefined,
  health: gateway !== undefined,
  live: (["liveCalls", "liveCallCount", "stopCall"] as const).every((verb) => gateway?.[verb] !== undefined),
  calls: calls !== undefined,
});

/** Makes the parts that the operations work on. */
export function deskOf(given: Desk["store"], parts: Omit<Desk, "store" | "keys">): Desk {
  const store = withoutSecretNames(given);
  return { ...parts, store, keys: keyAdmin(store) };
}

/** The verbs of a gateway that answer at once. A promise of a host's own gateway counts as an answer nowhere, and may reject. */
const AT_ONCE: ReadonlySet<unknown> = new Set<keyof AdminGateway>([
  "liveCalls",
  "liveCallCount",
  "stopCall",
  "keyFault",
]);

/** The desk of one request, which notes whether a change may have been made. */
export interface WatchedRequest {
  readonly desk: Desk;
  mayBeMade: boolean;
  /** True once the client has been told that the time is over: what has not begun begins no more. */
  isOver: boolean;
  /** Throws if the request changes nothing, and its client no longer waits for the answer. */
  assertAwaited(): void;
}

/** The verbs of stores that change nothing. */
const READS: ReadonlySet<unknown> = new Set<keyof Desk["store"]>([
  "report",
  "list",
  "budgetReport",
  "listBudgets",
  "budgetPeriods",
]);

/**
 * Returns a desk whose store and gateway note when a change begins. A store that rejects with a RangeError has changed nothing.
 *
 * @param reader The signal of a request that changes nothing: once its client has gone, or its time is over, nothing more is read for it.
 */
export function watched(desk: Desk, reader?: AbortSignal): WatchedRequest {
  const begin = (isChange: boolean, verb: () => unknown): unknown => {
    if (isChange && request.isOver) throw new Error("The time of the request was over before its change began.");
    request.assertAwaited();
    const before = request.mayBeMade;
    const failed = (error: unknown): never => {
      if (isChange) request.mayBeMade = before || !(error instanceof RangeError);
      throw error;
    };
    try {
      const result = verb();
      if (typeof Object(result).then !== "function") return result;
      if (isChange) request.mayBeMade = true;
      return Promise.resolve(result).catch(failed);
    } catch (error) {
      return failed(error);
    }
  };
  // A proxy of a frozen object could not return other functions. The cast is safe: the proxy has the fields of its target.
  const watch = <Target extends object>(target: Target, isChange: (name: unknown) => boolean): Target =>
    new Proxy(Object.create(target) as Target, {
      get(_object, name) {
        const verb: unknown = Reflect.get(target, name);
        if (typeof verb !== "function") return verb;
        return (...args: readonly unknown[]) =>
          begin(isChange(name), () => {
            const result: unknown = Reflect.apply(verb, target, args);
            if (!AT_ONCE.has(name) || typeof Object(result).then !== "function") return result;
            abandon(result);
            throw new TypeError(`gateway.${String(name)} must answer at once, not with a promise.`);
          });
      },
    });
  const { store, gateway } = desk;
  const watchedDesk = deskOf(
    watch(store, (name) => !READS.has(name)),
    {
      ...desk,
      audit: watch(desk.audit, () => false),
      calls: desk.calls && watch(desk.calls, () => false),
      gateway: gateway && watch(gateway, (name) => name === "stopCall"),
    },
  );
  const request: WatchedRequest = {
    desk: watchedDesk,
    mayBeMade: false,
    isOver: false,
    assertAwaited() {
      if (reader && (request.isOver || reader.aborted)) throw refused(400, "Nobody waits for this answer.");
    },
  };
  return request;
}

/**
 * Refuses a change that may be a mistake with 428, unless its client confirms it.
 *
 * @param question What the change does, in a sentence. Undefined for a change that needs no question.
 */
export function assertMeant({ isConfirmed }: Pick<Asked, "isConfirmed">, question: string | undefined): void {
  if (question !== undefined && !isConfirmed)
    throw refused(428, `${question} ${CONFIRM_BY_HEADER}`, { reason: `A confirmation was asked for: ${question}` });
}

/** Writes units for a sentence: as units, and as money if the currency is known. */
export const unitsAndMoney = (units: number, currency: string | undefined): string =>
  `${unitsInWords(units, undefined)}${currency === undefined ? "" : ` (${moneyOf(units, currency)})`}`;

/**
 * Refuses an amount that may be a mistake, as `assertMeant` does: a doubtful change, or so few units that they were meant as money.
 *
 * @param body The body of the request. Nothing is asked unless it has units in the field.
 * @param change What the amount changes. Undefined for units that are taken.
 * @param possible Rejects for a change that the store would refuse: such a change is refused before anything is asked.
 */
export async function assertAmount<Field extends UnitsField>(
  desk: Desk,
  asked: Pick<Asked, "isConfirmed">,
  field: Field,
  body: { readonly [Name in Field]?: number | null },
  change: AmountChange | undefined,
  possible: () => Promise<unknown>,
): Promise<void> {
  const written = body[field];
  if (asked.isConfirmed || typeof written !== "number") return;
  const currency = await currencyOf(desk);
  const amount = (units: number): string => unitsAndMoney(units, currency);
  const doubt = change && doubtInWords(change, { amount, currency });
  const isMistake = currency !== undefined && isLittle(written, field, currency);
  const words = doubt ?? (isMistake ? littleInWords(written, currency) : undefined);
  if (words !== undefined) await possible();
  assertMeant(asked, words);
}

/** The longest wait for the currency of the latest call, in milliseconds: the page asks for it before it shows anything. */
const CURRENCY_MS = 1_000;

/** Returns the currency of the latest recorded call, or else of the prices, or else of the amounts that commands have given. */
export async function currencyOf({ audit, calls, clock, gateway }: Desk): Promise<string | undefined> {
  const [call] = (calls && (await readSoon(calls.list({ limit: 1 }), CURRENCY_MS, clock))) ?? [];
  // Calls that were recorded without a currency are counted in units.
  const { currency } = call ?? gateway ?? { currency: await readSoon(notedCurrency(audit), CURRENCY_MS, clock) };
  return currency;
}

/**
 * Refuses a currency that is not that of the latest call, as the command line does with --json: neither JSON nor CSV has a place for a note, and
 * the money would be wrong.
 */
export async function assertSameCurrency({ calls }: Desk, given: string | undefined): Promise<void> {
  if (given === undefined) return;
  const [latest] = (await calls?.list({ limit: 1 })) ?? [];
  if (latest?.currency === undefined || latest.currency === given) return;
  throw refused(400, `${ofOtherCurrency(latest, given)} ${hintOfCurrency(latest.currency)}`);
}

/** Says how to ask for amounts in the currency of the record. */
export const hintOfCurrency = (currency: string = ""): string =>
  `For amounts in ${currency}, write currency=${currency.toLowerCase()}.`;

/** Reads a page of a list that goes on behind the id of its last row. */
export async function paged<Row extends object>(
  read: (from: string | undefined, limit: number) => Promise<readonly Row[]>,
  idOf: (row: Row) => string,
  { after, before = after, limit }: { readonly after?: string; readonly before?: string; readonly limit: number },
): Promise<{ readonly data: readonly Row[]; readonly next: string | null }> {
  const { rows, next } = await readPage(read, idOf, limit, before);
  return { data: rows, next: next === before ? null : next };
}

/** Lists ids and names alone, of keys that may be long. */
const namesIn =
  (list: ListNamed): ListNamed =>
  async ({ after: first, limit: all }) => {
    const { rows } = await readPage(
      async (after: string | undefined, limit) =>
        (await list({ ...given({ after }), limit })).map(({ id, name }) => ({ id, name })),
      idIn,
      all,
      first,
    );
    return rows;
  };

/** Refuses an id that is taken with 409. Looks for the id only after the store has refused it: somebody may take it at any time. */
export async function unlessTaken<Made>(making: Promise<Made>, find: () => Promise<unknown>): Promise<Made> {
  try {
    return await making;
  } catch (error) {
    const found = error instanceof RangeError && (await find());
    if (found) throw refused(409, (found as { removed?: true }).removed ? error.message : "This id is taken.");
    throw error;
  }
}

/** Says what to do about a secret that was taken for an id. */
const A_SECRET =
  'This is the secret of a key, not an id. If others may have it, POST /secrets/remove and "polygate keys remove-secret" remove it.';

/** The most keys or budgets that an unknown id is compared with: a request that is refused must cost little. */
const MOST_COMPARED = 2_000;

/** Adds to the sentence about an unknown key or budget the ids that were probably meant: people know names. A full lane adds none. */
export async function withIdsMeant({ keys, store }: Desk, message: string, lane: Lane): Promise<string> {
  for (const [beginning, list] of [
    [NO_SUCH_KEY, namesIn((page) => keys.list(page))],
    [NO_SUCH_BUDGET, async (page) => (await store.listBudgets?.(page)) ?? []],
  ] as const satisfies readonly (readonly [string, ListNamed])[]) {
    const text = unknownIdIn(message, beginning);
    if (text !== undefined && mayBeSecret(text)) return `${message} ${A_SECRET}`;
    const meant =
      text === undefined ? undefined : await lane.run(() => idsMeant(text, list, MOST_COMPARED)).catch(() => undefined);
    const { ids = [] } = meant ?? {};
    if (ids.length > 0) return `${message} Did you mean ${ids.map(oneLine).join(" or ")}?`;
  }
  return message;
}

export const idIn = ({ id }: { readonly id: string }): string => id;

/**
 * Refuses calls or keys of an id that nobody has: an empty answer would say that nothing has happened. The ids of recorded calls are known,
 * also when another store has their keys.
 */
export async function assertKnown(
  desk: Desk,
  filter: { readonly key?: string; readonly budget?: string; readonly ownBudget?: string },
): Promise<void> {
  const { keys, store } = desk;
  const listBudgets: ListNamed = async (page) => (await store.listBudgets?.(page)) ?? [];
  const hasKey = async (id: string): Promise<boolean> => (await store.report(id)) !== undefined;
  // A store without budgets knows nothing of their ids.
  const hasBudget = async (id: string): Promise<boolean> =>
    !store.budgetReport || (await store.budgetReport(id)) !== undefined;
  for (const [name, noun, has, list] of [
    ["key", "key", hasKey, namesIn((page) => keys.list(page))],
    ["budget", "budget", hasBudget, listBudgets],
    ["ownBudget", "budget", hasBudget, listBudgets],
  ] as const satisfies readonly (readonly [string, string, typeof hasKey, ListNamed])[]) {
    const id = filter[name];
    // An empty text stands for calls without any.
    if (!id || (await has(id))) continue;
    if (((await desk.calls?.usage({ [name]: id }))?.total.calls ?? 0) > 0) continue;
    const isSecret = mayBeSecret(id);
    const ids = isSecret ? [] : await idsLike(id, list, MOST_COMPARED);
    const hint = isSecret ? ` ${A_SECRET}` : ids.length > 0 ? ` Did you mean ${idsInWords(ids)}?` : "";
    throw refused(404, `No ${noun} has the id ${id}.${hint}`);
  }
}
