/** The operations of the admin's HTTP interface: their routes, their schemas, and their work. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { HTTPError } from "h3";
import * as v from "valibot";
import { given } from "../../model/json.ts";
import { currencyCode } from "../../model/money.ts";
import { quoted } from "../../options.ts";
import type { GatewayHealth } from "../../pipeline/health.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import { type Clock, LATE, within } from "../../ports/clock.ts";
import type { LiveCall } from "../../ports/observer.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import type { BudgetReport } from "../../stores/budgets.ts";
import {
  CALL_OUTCOMES,
  daysOfMonth,
  MOST_ROWS,
  type RecordedCall,
  USAGE_COLUMNS,
  type UsageSums,
} from "../../stores/calls.ts";
import { type BudgetDirectory, type KeyDirectory, type KeyReport, MOST_LISTED } from "../../stores/durable.ts";
import { modelsOf, noSuchBudget } from "../../stores/ledger.ts";
import { type BudgetTold, budgetTold, listCsv, type PeriodTold } from "../answers.ts";
import {
  type LimitNow,
  limitsNow,
  type CallAdmin,
  type CallReason,
  inCurrency,
  nextSteps,
  reasonsOf,
  usageCsv,
} from "../call-admin.ts";
import { type Spreadsheet, SPREADSHEETS } from "../columns.ts";
import { codesMeant } from "../error-codes.ts";
import { KEY_STATES, type KeyAdmin, keyAdmin } from "../key-admin.ts";
import { idsInWords, idsLike, type ListNamed } from "../names.ts";

/** The part of a gateway that the admin shows. */
export interface AdminGateway {
  health(): Promise<GatewayHealth>;
  /** Lists the calls that run, at most `limit`. Without this and the next two functions, the admin shows and stops no calls. */
  liveCalls?(options?: { readonly limit?: number }): readonly LiveCall[];
  /** Counts the calls that run. */
  liveCallCount?(): number;
  /** Stops a call, and returns false when it does not run. */
  stopCall?(requestId: string): boolean;
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
  /** The media types that the client prefers, as it has written them. */
  readonly accept: string | undefined;
}

/** An answer before it is written. */
export interface Told {
  readonly body?: unknown;
  /** The answer as a CSV file, in place of a body. */
  readonly csv?: { readonly text: string; readonly fileName: string };
  /** The tag of the resource, for the next `If-Match`. */
  readonly tag?: string;
  /** The id of what was made. */
  readonly made?: string;
}

/** A part of the admin that only some hosts have. */
export type AdminPart = "budgets" | "health" | "live" | "calls";

/** An operation of the admin. */
export interface Operation {
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
  /** True when the operation takes the tag of what its user has seen. */
  readonly conditional?: boolean;
  /** Reads the fields of an edit as they are before it. The log of changes leaves out the fields that stay, for an edit with `If-Match`. */
  readonly seen?: (desk: Desk, id: string) => Promise<Readonly<Record<string, unknown>> | undefined>;
  /** The part of the host that the operation needs. */
  readonly needs?: AdminPart;
  /** True when the answer may be CSV. */
  readonly asCsv?: boolean;
  run(desk: Desk, asked: Asked<never, never>): Promise<Told>;
}

/** Gives the schemas' types to the work of an operation. */
const operation = <Body extends v.GenericSchema = v.GenericSchema, Query extends v.GenericSchema = v.GenericSchema>(
  it: Omit<Operation, "body" | "query" | "run"> & {
    readonly body?: Body;
    readonly query?: Query;
    run(desk: Desk, asked: Asked<v.InferOutput<Body>, v.InferOutput<Query>>): Promise<Told>;
  },
): Operation => it;

const TEXT = v.string();
const UNITS = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const SECONDS = v.pipe(v.number(), v.safeInteger());
const ID = v.pipe(v.string(), v.minLength(1));
/** Every part of an address that is `.` or `..` goes away, also percent-encoded: nobody could change or stop a key of this id. */
const NEW_ID = v.pipe(ID, v.regex(/^(?!\.{1,2}$)/, "cannot be . or .., which no address can hold"));

const NEW_KEY = v.strictObject({
  id: v.exactOptional(NEW_ID),
  name: v.exactOptional(TEXT),
  granted: v.exactOptional(UNITS),
  models: v.exactOptional(v.array(TEXT)),
  expiresAt: v.exactOptional(SECONDS),
  paused: v.exactOptional(v.boolean()),
  metadata: v.exactOptional(v.record(TEXT, TEXT)),
  budget: v.exactOptional(ID),
});

/** Words the error for fields that people expect in a body: what to do instead. */
function elsewhere(hints: Readonly<Record<string, string>>) {
  const byName = new Map(Object.entries(hints));
  return ({ message, path }: v.StrictObjectIssue): string => byName.get(String(path?.at(-1)?.key)) ?? message;
}

const KEY_CHANGES = v.strictObject(
  {
    name: v.exactOptional(TEXT),
    models: v.exactOptional(v.nullable(v.array(TEXT))),
    expiresAt: v.exactOptional(SECONDS),
    paused: v.exactOptional(v.boolean()),
    metadata: v.exactOptional(v.record(TEXT, v.nullable(TEXT))),
  },
  elsewhere({
    budget: "is set with PUT /keys/ID/budget",
    granted: "is changed with POST /keys/ID/grant and POST /keys/ID/lower",
  }),
);

const KEY = v.object({
  id: TEXT,
  name: TEXT,
  unlimited: v.boolean(),
  modelLimits: v.record(TEXT, v.boolean()),
  modelLimitsEnabled: v.boolean(),
  expiresAt: SECONDS,
  paused: v.exactOptional(v.boolean()),
  budget: v.exactOptional(TEXT),
  metadata: v.exactOptional(v.record(TEXT, TEXT)),
  granted: UNITS,
  used: UNITS,
  available: UNITS,
  held: UNITS,
  overdraft: UNITS,
  estimated: UNITS,
  secrets: UNITS,
  revoked: v.boolean(),
  spoilt: v.exactOptional(v.array(TEXT)),
});

/** A secret, which is shown once. */
const ISSUED = v.object({ id: TEXT, apiKey: v.nullable(TEXT) });

const PERIOD = v.picklist(["day", "week", "month"]);

const NEW_BUDGET = v.strictObject({
  id: NEW_ID,
  name: v.exactOptional(TEXT),
  amount: UNITS,
  period: v.exactOptional(PERIOD),
  timeZone: v.exactOptional(TEXT),
  rollover: v.exactOptional(v.boolean()),
  parent: v.exactOptional(ID),
});

const OF_ANOTHER =
  "cannot be changed; make another budget, move the keys to it with PUT /keys/ID/budget, and remove the old one";

const BUDGET_CHANGES = v.strictObject(
  { name: v.exactOptional(TEXT), amount: v.exactOptional(UNITS) },
  elsewhere({ period: OF_ANOTHER, timeZone: OF_ANOTHER, rollover: OF_ANOTHER, parent: OF_ANOTHER }),
);

const BUDGET = v.object({
  id: TEXT,
  name: TEXT,
  amount: UNITS,
  period: v.exactOptional(PERIOD),
  timeZone: v.exactOptional(TEXT),
  rollover: v.exactOptional(v.boolean()),
  parent: v.exactOptional(TEXT),
  startsAt: v.exactOptional(UNITS),
  endsAt: v.exactOptional(UNITS),
  granted: UNITS,
  used: UNITS,
  available: UNITS,
  held: UNITS,
  gap: v.exactOptional(UNITS),
  overdraft: UNITS,
  estimated: UNITS,
  spent: UNITS,
  percentSpent: UNITS,
});

const { amount: _amount, ...PERIOD_BOOKS } = BUDGET.entries;
const BUDGET_PERIOD = v.object({ ...PERIOD_BOOKS, ended: v.exactOptional(v.boolean()) });

const OF_QUERY = v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number));
const SIZE = v.pipe(OF_QUERY, v.minValue(1), v.maxValue(MOST_LISTED));
const LIMIT = v.optional(SIZE, "100");
const PAGE = { after: v.exactOptional(TEXT), limit: LIMIT };

/** The choices of an answer that may be CSV. */
const FILE = {
  format: v.exactOptional(v.picklist(["json", "csv"])),
  spreadsheet: v.exactOptional(v.picklist(SPREADSHEETS)),
  currency: v.exactOptional(TEXT),
};

/** True for a query with the format CSV or a spreadsheet, and for one without a format whose client accepts CSV. */
function wantsCsv(
  { format, spreadsheet }: { readonly format?: "json" | "csv"; readonly spreadsheet?: Spreadsheet },
  accept = "",
): boolean {
  if (format === "json" && spreadsheet) throw refused(400, "Choose format=json, or a spreadsheet.");
  return format === undefined ? spreadsheet !== undefined || /\btext\/csv\b/i.test(accept) : format === "csv";
}

/** A page, and the value of `after` for the next one: null on the last page. */
const pageOf = <Item extends v.GenericSchema>(item: Item) => v.object({ data: v.array(item), next: v.nullable(TEXT) });

/** Reads a filter by metadata: `team=a`, or several of them. */
const METADATA = v.pipe(
  v.union([v.string(), v.array(v.string())]),
  v.transform((written) => [written].flat()),
  v.check((entries) => entries.every((entry) => entry.includes("=")), "must be written as name=text"),
  v.transform((entries) => Object.fromEntries(entries.map(entryOf))),
);

const entryOf = (written: string): [name: string, text: string] => {
  const at = written.indexOf("=");
  return [written.slice(0, at), written.slice(at + 1)];
};

const SUMS = {
  calls: UNITS,
  refused: UNITS,
  failed: UNITS,
  inputTokens: UNITS,
  outputTokens: UNITS,
  cacheReadTokens: UNITS,
  cacheWriteTokens: UNITS,
  reasoningTokens: UNITS,
  images: UNITS,
  units: UNITS,
  estimated: UNITS,
} satisfies Record<keyof UsageSums, typeof UNITS>;

/** Reads a list of words: `key,day`, or several parameters. */
const WORDS = v.pipe(
  v.union([v.string(), v.array(v.string())]),
  v.transform((written) => [written].flat().flatMap((words) => words.split(","))),
);

/** The columns of a report. */
const BY = v.pipe(WORDS, v.array(v.picklist(USAGE_COLUMNS)));

const USAGE_QUERY = v.strictObject({
  by: v.exactOptional(BY),
  month: v.exactOptional(TEXT),
  since: v.exactOptional(TEXT),
  until: v.exactOptional(TEXT),
  key: v.exactOptional(TEXT),
  budget: v.exactOptional(TEXT),
  ownBudget: v.exactOptional(TEXT),
  group: v.exactOptional(TEXT),
  model: v.exactOptional(TEXT),
  upstream: v.exactOptional(TEXT),
  charged: v.exactOptional(
    v.pipe(
      v.picklist(["true", "false"]),
      v.transform((written) => written === "true"),
    ),
  ),
  limit: v.exactOptional(v.pipe(OF_QUERY, v.minValue(1), v.maxValue(MOST_ROWS))),
  offset: v.exactOptional(OF_QUERY),
  ...FILE,
});

/** Returns the days that a query asks for. */
function daysIn({ month, since, until }: v.InferOutput<typeof USAGE_QUERY>): { since?: string; until?: string } {
  if (month === undefined) return given({ since, until });
  if (since !== undefined || until !== undefined) throw refused(400, "Choose month, or since and until.");
  const days = daysOfMonth(month);
  if (!days) throw refused(400, `month must be a month, such as 2026-11, not ${quoted(month)}.`);
  return days;
}

const COUNT = v.pipe(v.number(), v.minValue(0));

const CALL = v.looseObject({
  requestId: TEXT,
  reasons: v.array(TEXT),
  next: v.array(
    v.object({
      sentence: TEXT,
      verb: v.exactOptional(v.picklist(["budgets top-up", "keys grant", "keys resume", "keys update"])),
      budget: v.exactOptional(TEXT),
      key: v.exactOptional(TEXT),
      units: v.exactOptional(UNITS),
    }),
  ),
  at: UNITS,
  day: TEXT,
  keyId: v.exactOptional(TEXT),
  keyName: v.exactOptional(TEXT),
  budgets: v.array(TEXT),
  group: v.exactOptional(TEXT),
  metadata: v.exactOptional(v.record(TEXT, TEXT)),
  format: TEXT,
  route: TEXT,
  modelAsked: v.exactOptional(TEXT),
  modelAnswered: v.exactOptional(TEXT),
  stream: v.boolean(),
  upstream: v.exactOptional(TEXT),
  attempts: v.array(v.looseObject({ upstream: TEXT, model: TEXT })),
  outcome: v.picklist(CALL_OUTCOMES),
  status: UNITS,
  errorCode: v.exactOptional(TEXT),
  errorField: v.exactOptional(TEXT),
  errorMessage: v.exactOptional(TEXT),
  affordedOutputTokens: v.exactOptional(UNITS),
  refusedBy: v.exactOptional(v.looseObject({ kind: TEXT })),
  currency: v.exactOptional(TEXT),
  firstEventMs: v.exactOptional(COUNT),
  endMs: COUNT,
  units: UNITS,
});

const LIVE = v.looseObject({
  requestId: TEXT,
  key: v.exactOptional(v.looseObject({ id: TEXT, name: TEXT })),
  format: TEXT,
  method: TEXT,
  route: TEXT,
  modelAsked: v.exactOptional(TEXT),
  stream: v.boolean(),
  webSocket: v.boolean(),
  upstream: v.exactOptional(TEXT),
  usage: v.exactOptional(v.looseObject({ inputTokens: UNITS, outputTokens: UNITS })),
  images: v.exactOptional(v.looseObject({ count: UNITS })),
  beganAt: UNITS,
});

/** Says which parts of the admin a host has. */
export const partsOf = ({ store, gateway, calls }: Desk): Readonly<Record<AdminPart, boolean>> => ({
  budgets: store.addBudget !== undefined,
  health: gateway !== undefined,
  live: (["liveCalls", "liveCallCount", "stopCall"] as const).every((verb) => gateway?.[verb] !== undefined),
  calls: calls !== undefined,
});

export const OPERATIONS: readonly Operation[] = [
  operation({
    method: "GET",
    path: "/me",
    about: "Returns the user, the parts of the admin that this host has, and the currency of the latest recorded call.",
    answer: v.object({
      name: TEXT,
      readOnly: v.boolean(),
      budgets: v.boolean(),
      health: v.boolean(),
      live: v.boolean(),
      calls: v.boolean(),
      currency: v.exactOptional(TEXT),
    }),
    async run(desk, { user: { name, readOnly = false } }) {
      // A database without tables for calls, or one that hangs, is no reason to fail.
      const reading = desk.calls?.list({ limit: 1 }).catch(() => []);
      const latest = reading && (await within(reading, CURRENCY_MS, desk.clock));
      const currency = latest === LATE ? undefined : latest?.[0]?.currency;
      return { body: { name, readOnly, ...partsOf(desk), ...given({ currency }) } };
    },
  }),
  operation({
    method: "GET",
    path: "/keys",
    about: "Lists keys in the order of their ids.",
    query: v.strictObject({
      ...PAGE,
      state: v.exactOptional(v.picklist(KEY_STATES)),
      budget: v.exactOptional(ID),
      metadata: v.exactOptional(METADATA),
    }),
    answer: pageOf(KEY),
    async run(desk, { query }) {
      const listed = await desk.keys.list(query);
      if (listed.length === 0) await assertKnown(desk, given({ budget: query.budget }));
      return paged(listed, query.limit, idIn);
    },
  }),
  operation({
    method: "POST",
    path: "/keys",
    about: "Makes a key. Its secret is in the answer, and is never shown again.",
    action: "keys.create",
    body: NEW_KEY,
    status: 201,
    answer: ISSUED,
    async run({ keys, store, clock }, { body }) {
      const { id = "" } = body;
      assertAhead(body.expiresAt, clock);
      const issued = await unlessTaken(keys.create(body), () => store.report(id));
      return { body: issued, made: issued.id };
    },
  }),
  operation({
    method: "GET",
    path: "/keys/:id",
    about: "Returns a key and its units.",
    answer: KEY,
    tagged: true,
    run: async ({ keys }, { id }) => keyTold(await keys.usage(id)),
  }),
  operation({
    method: "PATCH",
    conditional: true,
    path: "/keys/:id",
    about: "Changes a key. What is not named stays. `paused` stops a key, or lets it work again.",
    action: "keys.update",
    body: KEY_CHANGES,
    seen: keySeen,
    answer: KEY,
    tagged: true,
    async run(desk, { id, body, ifMatch }) {
      const { keys, clock } = desk;
      const expected = expects(ifMatch, tagOfKey);
      // An editor may send all fields of a key that has expired already.
      if (body.expiresAt !== undefined && body.expiresAt !== (await desk.store.report(id))?.expiresAt)
        assertAhead(body.expiresAt, clock);
      return expected.in(async () => keyTold(await keys.update(id, body, expected.holds)));
    },
  }),
  operation({
    method: "POST",
    path: "/keys/:id/rotate",
    about: "Gives a key a new secret. The older ones end after `overlapMs` milliseconds: a day by default.",
    action: "keys.rotate",
    body: v.strictObject({ overlapMs: v.exactOptional(UNITS) }),
    answer: v.object({ ...ISSUED.entries, olderEndAt: UNITS }),
    run: async ({ keys }, { id, body }) => ({ body: await keys.rotate(id, body) }),
  }),
  operation({
    method: "POST",
    path: "/keys/:id/secrets",
    about: "Gives a key one more secret. The others stay.",
    action: "keys.add-secret",
    body: v.strictObject({ expiresAt: v.exactOptional(SECONDS) }),
    status: 201,
    answer: ISSUED,
    async run({ keys, clock }, { id, body }) {
      assertAhead(body.expiresAt, clock);
      return { body: await keys.addSecret(id, body) };
    },
  }),
  operation({
    method: "POST",
    path: "/keys/:id/revoke",
    about: "Deletes all secrets of a key for good. Running calls are still charged.",
    action: "keys.revoke",
    answer: KEY,
    tagged: true,
    async run({ keys }, { id }) {
      await keys.revoke(id);
      return keyTold(await keys.usage(id));
    },
  }),
  ...(["grant", "lower"] as const).map((verb) =>
    operation({
      method: "POST",
      path: `/keys/:id/${verb}`,
      about: verb === "grant" ? "Adds units to a key's quota." : "Takes available units back from a key's quota.",
      action: `keys.${verb}`,
      body: v.strictObject({ units: UNITS }),
      answer: KEY,
      tagged: true,
      run: async ({ keys }, { id, body }) => keyTold(await keys[verb](id, body.units)),
    }),
  ),
  operation({
    method: "PUT",
    path: "/keys/:id/budget",
    about: "Lets a key draw on a budget, or on none.",
    action: "keys.assign-budget",
    needs: "budgets",
    body: v.strictObject({ budget: v.nullable(ID) }),
    answer: KEY,
    tagged: true,
    async run({ keys, store }, { id, body }) {
      await store.assignBudget?.(id, body.budget ?? undefined);
      return keyTold(await keys.usage(id));
    },
  }),
  operation({
    method: "POST",
    path: "/secrets/remove",
    about: "Deletes one secret. Its key stays. An unknown secret changes nothing.",
    action: "secrets.remove",
    body: v.strictObject({ apiKey: ID }),
    answer: v.object({ removed: v.boolean() }),
    async run({ keys }, { body }) {
      await keys.removeSecret(body.apiKey);
      return { body: { removed: true } };
    },
  }),
  operation({
    method: "GET",
    path: "/budgets",
    about: "Lists budgets in the order of their ids.",
    needs: "budgets",
    query: v.strictObject(PAGE),
    answer: pageOf(BUDGET),
    async run({ store }, { query }) {
      const reports = (await store.listBudgets?.(query)) ?? [];
      return paged(reports.map(budgetTold), query.limit, idIn);
    },
  }),
  operation({
    method: "POST",
    path: "/budgets",
    about: "Makes a budget, which several keys share.",
    action: "budgets.create",
    needs: "budgets",
    body: NEW_BUDGET,
    status: 201,
    answer: BUDGET,
    tagged: true,
    async run(desk, { body }) {
      const { store } = desk;
      await unlessTaken(Promise.resolve(store.addBudget?.(body)), async () => store.budgetReport?.(body.id));
      return { ...(await tellBudget(desk, body.id)), made: body.id };
    },
  }),
  operation({
    method: "GET",
    path: "/budgets/:id",
    about: "Returns a budget and the units of its current period.",
    needs: "budgets",
    answer: BUDGET,
    tagged: true,
    run: (desk, { id }) => tellBudget(desk, id),
  }),
  operation({
    method: "GET",
    path: "/budgets/:id/periods",
    about:
      "Lists the current period of a budget and those that have ended, the latest first: a page as JSON, or all as CSV.",
    needs: "budgets",
    asCsv: true,
    query: v.strictObject({ before: v.exactOptional(OF_QUERY), limit: v.exactOptional(SIZE), ...FILE }),
    answer: v.object({ data: v.array(BUDGET_PERIOD), next: v.nullable(UNITS) }),
    async run({ store }, { id, query, accept }) {
      const { before, currency, spreadsheet } = query;
      const isCsv = wantsCsv(query, accept);
      const { limit = isCsv ? MOST_LISTED : 100 } = query;
      const periods: PeriodTold[] = [];
      let next: number | null = null;
      do {
        const page: readonly PeriodTold[] = (
          (await store.budgetPeriods?.(id, given({ before: next ?? before, limit }))) ?? []
        ).map(budgetTold);
        periods.push(...page);
        next = page.length === limit ? (page.at(-1)?.startsAt ?? null) : null;
        // A file has every period, unless its client has named a limit.
        if (!isCsv || query.limit !== undefined) break;
      } while (next !== null && periods.length < MOST_ROWS);
      if (!isCsv) return { body: { data: periods, next } };
      const code = currency === undefined ? undefined : currencyCode(currency);
      if (currency !== undefined && code === undefined)
        throw refused(400, `currency must be a code of three letters, such as usd, not ${quoted(currency)}.`);
      const fileName = `periods-${id.replaceAll(/[^\w.-]/g, "_").slice(0, LONGEST_FILE_NAME)}.csv`;
      return { csv: { text: listCsv("periods", periods, code, spreadsheet), fileName } };
    },
  }),
  operation({
    method: "PATCH",
    conditional: true,
    path: "/budgets/:id",
    about: "Changes the name or the amount of a budget. What is not named stays; an amount may be below what is used.",
    action: "budgets.update",
    needs: "budgets",
    body: BUDGET_CHANGES,
    seen: async ({ store }, id) => ({ ...(await store.budgetReport?.(id)) }),
    answer: BUDGET,
    tagged: true,
    async run(desk, { id, body, ifMatch }) {
      const expected = expects(ifMatch, tagOfBudget);
      return expected.in(async () => {
        await desk.store.updateBudget?.(id, body, expected.holds);
        return tellBudget(desk, id);
      });
    },
  }),
  ...(["top-up", "lower"] as const).map((verb) =>
    operation({
      method: "POST",
      path: `/budgets/:id/${verb}`,
      about:
        verb === "top-up"
          ? "Adds units to the current period of a budget."
          : "Takes available units of the current period of a budget back.",
      action: `budgets.${verb}`,
      needs: "budgets",
      body: v.strictObject({ units: UNITS }),
      answer: BUDGET,
      tagged: true,
      async run(desk, { id, body }) {
        await desk.store[verb === "top-up" ? "topUpBudget" : "lowerBudget"]?.(id, body.units);
        return tellBudget(desk, id);
      },
    }),
  ),
  operation({
    method: "DELETE",
    path: "/budgets/:id",
    about: "Removes a budget that no key and no other budget draws on.",
    action: "budgets.remove",
    needs: "budgets",
    answer: v.object({ id: TEXT, removed: v.boolean() }),
    async run({ store }, { id }) {
      await store.removeBudget?.(id);
      return { body: { id, removed: true } };
    },
  }),
  operation({
    method: "GET",
    path: "/usage",
    about: "Returns sums of recorded calls: as JSON a page of rows, and the sums of all rows; or as CSV.",
    needs: "calls",
    asCsv: true,
    query: USAGE_QUERY,
    answer: v.object({
      by: v.array(v.picklist(USAGE_COLUMNS)),
      rows: v.array(v.looseObject(SUMS)),
      total: v.object(SUMS),
      recorded: v.exactOptional(v.object({ since: TEXT, until: TEXT })),
      currency: v.exactOptional(TEXT),
      next: v.nullable(UNITS),
    }),
    async run(desk, { query, accept }) {
      const { format: _format, currency, spreadsheet, month: _, ...rest } = query;
      const isCsv = wantsCsv(query, accept);
      const asked = { ...rest, ...daysIn(query) };
      const { limit = isCsv ? MOST_ROWS : 1_000, offset = 0 } = asked;
      const report = inCurrency(await recordedIn(desk).usage({ ...asked, limit }), currency);
      if (report.total.calls === 0) await assertKnown(desk, query);
      const isLast = report.rows.length < limit || asked.by === undefined;
      if (!isCsv) return { body: { ...report, next: isLast ? null : offset + limit } };
      if (!isLast && asked.limit === undefined)
        throw refused(400, `The report has ${MOST_ROWS} rows or more. Choose fewer days, or a limit and an offset.`);
      const { since, until } = asked;
      const last = until ?? new Date(desk.clock.now()).toISOString().slice(0, 10);
      const first = since ?? report.recorded?.since;
      const days = `${first !== undefined && first <= last ? first : "until"}-${last}`;
      const text = usageCsv(report, given({ spreadsheet }));
      return { csv: { text, fileName: `usage-${days}.csv` } };
    },
  }),
  operation({
    method: "GET",
    path: "/calls",
    about: "Lists recorded calls, the latest first, each with the reasons of its end, and with what helps next.",
    needs: "calls",
    query: v.strictObject({
      ...PAGE,
      key: v.exactOptional(TEXT),
      budget: v.exactOptional(TEXT),
      ownBudget: v.exactOptional(TEXT),
      group: v.exactOptional(TEXT),
      model: v.exactOptional(TEXT),
      upstream: v.exactOptional(TEXT),
      outcome: v.exactOptional(v.pipe(WORDS, v.array(v.picklist(CALL_OUTCOMES)))),
      errorCode: v.exactOptional(TEXT),
      sinceDay: v.exactOptional(TEXT),
      untilDay: v.exactOptional(TEXT),
      since: v.exactOptional(OF_QUERY),
      until: v.exactOptional(OF_QUERY),
    }),
    answer: v.object({ ...pageOf(CALL).entries, errorCodes: v.exactOptional(v.array(TEXT)) }),
    async run(desk, { query }) {
      const { errorCode: word, ...filter } = query;
      const errorCodes = word === undefined ? undefined : await codesMeant("errorCode", word);
      const listed = await recordedIn(desk).list(given({ ...filter, errorCode: errorCodes }));
      if (listed.length === 0) await assertKnown(desk, filter);
      // Many calls of a page are refused by the same limits.
      const limits = new Map<string, readonly LimitNow[] | undefined>();
      const told: ExplainedCall[] = [];
      for (const call of listed) {
        const { keyId, budgets, refusedBy, errorCode } = call;
        const by = JSON.stringify([keyId, budgets, refusedBy?.budget, refusedBy?.kind, errorCode]);
        if (!limits.has(by)) limits.set(by, await limitsNow(call, desk.store));
        told.push(callTold(call, limits.get(by)));
      }
      return paged(told, query.limit, ({ requestId }) => requestId, given({ errorCodes }));
    },
  }),
  operation({
    method: "GET",
    path: "/calls/:id",
    about: "Returns a recorded call by its request id, with the reasons of its end, and with what helps next.",
    needs: "calls",
    answer: CALL,
    async run(desk, { id }) {
      const call = await recordedIn(desk).find(id);
      if (!call) throw refused(404, `No call of the request id ${id} is recorded.`);
      return { body: callTold(call, await limitsNow(call, desk.store)) };
    },
  }),
  operation({
    method: "GET",
    path: "/live",
    about: "Lists the calls that run in this process, the oldest first, with the time of the answer.",
    needs: "live",
    query: v.strictObject({ limit: LIMIT }),
    answer: v.object({ at: UNITS, total: UNITS, data: v.array(LIVE) }),
    async run({ gateway, clock }, { query }) {
      const { limit } = query;
      return { body: { at: clock.now(), total: gateway?.liveCallCount?.(), data: gateway?.liveCalls?.({ limit }) } };
    },
  }),
  operation({
    method: "POST",
    path: "/live/:id/stop",
    about: "Stops a call that runs in this process. It is charged for what it has used.",
    action: "live.stop",
    needs: "live",
    answer: v.object({ requestId: TEXT, stopped: v.boolean() }),
    async run({ gateway }, { id }) {
      if (!gateway?.stopCall?.(id))
        throw refused(404, `No call of the request id ${id} runs in this process, or it has just ended.`);
      return { body: { requestId: id, stopped: true } };
    },
  }),
  operation({
    method: "GET",
    path: "/health",
    about: "Returns the gateway's health, with the state of its stores and upstreams.",
    needs: "health",
    answer: v.looseObject({ ready: v.boolean() }),
    run: async ({ gateway }) => ({ body: await gateway?.health() }),
  }),
  operation({
    method: "GET",
    path: "/audit",
    about: "Lists the changes, the newest first.",
    query: v.strictObject({ before: v.exactOptional(ID), limit: LIMIT }),
    answer: pageOf(v.looseObject({ id: TEXT, at: UNITS, user: TEXT, action: TEXT })),
    run: async ({ audit }, { query }) => paged(await audit.list(query), query.limit, idIn),
  }),
];

/** The longest wait for the currency of the latest call, in milliseconds: the page asks for it before it shows anything. */
const CURRENCY_MS = 1_000;
/** The most characters of an id in the name of a file. Some file systems take no name of more than 143 characters. */
const LONGEST_FILE_NAME = 120;

/** Returns the fields of a key that an edit may name. */
async function keySeen({ store }: Desk, id: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  const key = await store.report(id);
  return key && { paused: false, metadata: {}, ...key, models: modelsOf(key) ?? null };
}

/** Refuses a time that is over. */
function assertAhead(expiresAt = 0, clock: Clock): void {
  if (expiresAt > 0 && expiresAt * 1_000 <= clock.now())
    throw refused(400, `expiresAt: must be in the future, or 0 for never, not ${expiresAt}. To stop a key, pause it.`);
}

/** Makes the parts that the operations work on. */
export const deskOf = (store: Desk["store"], parts: Omit<Desk, "store" | "keys">): Desk => ({
  ...parts,
  store,
  keys: keyAdmin(store),
});

/** An error with the reason that the user gets. */
export const refused = (status: 400 | 404 | 409 | 412, message: string): HTTPError =>
  new HTTPError({ status, message });

function paged<Row>(data: readonly Row[], limit: number, idIn: (row: Row) => string, more: object = {}): Told {
  const last = data.at(-1);
  return { body: { data, next: last === undefined || data.length < limit ? null : idIn(last), ...more } };
}

/** Refuses an id that is taken with 409. Looks for the id only after the store has refused it: somebody may take it at any time. */
async function unlessTaken<Made>(making: Promise<Made>, find: () => Promise<unknown>): Promise<Made> {
  try {
    return await making;
  } catch (error) {
    if (error instanceof RangeError && (await find())) throw refused(409, "This id is taken.");
    throw error;
  }
}

const idIn = ({ id }: { readonly id: string }): string => id;

/** The calls of the host, in operations that need them. */
function recordedIn({ calls }: Desk): CallAdmin {
  if (!calls) throw new Error("The admin has no calls.");
  return calls;
}

/**
 * Refuses calls or keys of an id that nobody has: an empty answer would say that nothing has happened. The ids of recorded calls are known, also when
 * another store has their keys.
 */
async function assertKnown(
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
    ["key", "key", hasKey, (page) => keys.list(page)],
    ["budget", "budget", hasBudget, listBudgets],
    ["ownBudget", "budget", hasBudget, listBudgets],
  ] as const satisfies readonly (readonly [string, string, typeof hasKey, ListNamed])[]) {
    const id = filter[name];
    // An empty text stands for calls without any.
    if (!id || (await has(id))) continue;
    if (((await desk.calls?.usage({ [name]: id }))?.total.calls ?? 0) > 0) continue;
    const ids = await idsLike(id, list);
    const hint = ids.length > 0 ? ` Did you mean ${idsInWords(ids)}?` : "";
    throw refused(404, `No ${noun} has the id ${id}.${hint}`);
  }
}

/** A budget and a period as the API answers them, for the page. */
export type { BudgetTold, PeriodTold };

/** A call with sentences that say why it has ended so, and with what helps its caller. */
export interface ExplainedCall extends RecordedCall, Pick<CallReason, "reasons" | "next"> {}

const callTold = (call: RecordedCall, now: readonly LimitNow[] | undefined): ExplainedCall => ({
  ...call,
  reasons: reasonsOf(call),
  next: nextSteps(call, undefined, now),
});

const keyTold = (key: KeyReport): Told => ({ body: key, tag: tagOfKey(key) });

async function tellBudget({ store }: Desk, id: string): Promise<Told> {
  const report = await store.budgetReport?.(id);
  if (!report) throw noSuchBudget(id);
  return { body: budgetTold(report), tag: tagOfBudget(report) };
}

/** Returns the tag of what an editor can change: the units that calls use do not count. */
function tagOfKey({
  name,
  modelLimits,
  modelLimitsEnabled,
  expiresAt,
  paused = false,
  budget,
  metadata = {},
}: ApiKey): string {
  const models = modelLimitsEnabled ? Object.keys(modelLimits).toSorted() : null;
  return tagOf([
    name,
    models,
    expiresAt,
    paused,
    budget ?? null,
    Object.keys(metadata)
      .toSorted()
      .map((entry) => [entry, metadata[entry]]),
  ]);
}

const tagOfBudget = ({ name, amount }: BudgetReport): string => tagOf([name, amount]);

const tagOf = (fields: unknown): string => `"${bytesToHex(sha256(utf8ToBytes(JSON.stringify(fields)))).slice(0, 32)}"`;

/** Returns the tags of a header, as the admin has sent them: proxies that compress an answer mark its tag as weak, or with a suffix. */
const tagsIn = (ifMatch: string): readonly string[] =>
  ifMatch.split(/, */).map((tag) =>
    tag
      .trim()
      .replace(/^W\//, "")
      .replace(/-(?:gzip|br|zstd)"$/, '"'),
  );

/** Holds a change to the state that its user has seen. */
function expects<Seen>(
  ifMatch: string | undefined,
  tagOfSeen: (seen: Seen) => string,
): { readonly holds: (seen: Seen) => boolean; readonly in: (change: () => Promise<Told>) => Promise<Told> } {
  let isStale = false;
  return {
    holds: (seen) => {
      isStale = ifMatch !== undefined && ifMatch !== "*" && !tagsIn(ifMatch).includes(tagOfSeen(seen));
      return !isStale;
    },
    in: async (change) => {
      try {
        return await change();
      } catch (error) {
        throw isStale ? refused(412, (error as Error).message) : error;
      }
    },
  };
}

/** Somebody who may use the admin, as the host knows them. */
export interface AdminUser {
  /** Stands in the log of changes: 1 to 200 characters. */
  readonly name: string;
  /** True for a user who may look, and change nothing. Default: false. */
  readonly readOnly?: boolean;
}
