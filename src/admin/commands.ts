/** The commands of `polygate` that need a store: their options, what they read and what they do. */

import type { parseArgs } from "node:util";
import { given } from "../model/json.ts";
import { amountOf } from "../model/money.ts";
import { nearest, oneLine } from "../options.ts";
import { type BudgetOptions, type BudgetPeriod, type BudgetPeriodReport, calendarOf } from "../stores/budgets.ts";
import {
  CALL_OUTCOMES,
  type CallFilter,
  type CallReader,
  daysOfMonth,
  isDay,
  MOST_ROWS,
  type RecordedDays,
  USAGE_COLUMNS,
  type UsageColumn,
  type UsageQuery,
  type UsageReport,
  type UsageRow,
  type UsageSums,
} from "../stores/calls.ts";
import { type BudgetPage, MOST_LISTED, unlimitedKey } from "../stores/durable.ts";
import { type KeyChanges, noSuchBudget } from "../stores/ledger.ts";
import { hasFurtherEntries } from "../stores/metadata.ts";
import { UsageError } from "../stores/open/connection.ts";
import { unitsOf } from "./amounts.ts";
import type { KeyMade, ListName } from "./answers.ts";
import { argument, limitsNow, linesOf, nextSteps, reasonsOf, usageColumns, usageCsv } from "./call-admin.ts";
import { callsCsv, callsText } from "./call-list.ts";
import {
  amountColumn,
  type Column,
  type FittedTable,
  longestOf,
  PLAIN_COLUMNS,
  type Spreadsheet,
  SPREADSHEETS,
  tableFor,
  tableOf,
  tableRowsOf,
  timeIn,
} from "./columns.ts";
import { codesMeant } from "./error-codes.ts";
import { DATABASES, SERVERS, type TemplatePackage } from "./init.ts";
import { KEY_STATES, type KeyAdmin, type KeyFilter, type NewKeyOptions } from "./key-admin.ts";
import { exportedLine, importLines, readLines } from "./key-lines.ts";
import { idNear, idsInWords, idsLike, type ListNamed } from "./names.ts";
import type { OpenedStore } from "./open-store.ts";

/** The environment of a command: its variables, its input and its output. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
  /** Prints a note that is no part of the answer. Default: no notes. */
  readonly warn?: (line: string) => void;
  /** The width of the terminal, in characters. Undefined for an output that is none. */
  readonly columns?: number | undefined;
  /** Reads a file, or the standard input when no file is named. */
  readonly read: (file?: string) => Promise<string>;
  /** Asks a question at the terminal, and resolves with the answer. Undefined when the input is not a terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** The package of this command. */
  readonly home: TemplatePackage;
  /** The servers that the command starts. They run until the process is told to end. */
  readonly servers: Servers;
}

/** The host and the port of a server, and the address of its store. The environment or defaults replace missing flags. */
export interface ServerFlags {
  readonly host?: string;
  readonly port?: number;
  readonly store?: string;
}

/** Functions that start a server. They resolve when it listens, and reject with the reason when it cannot. */
export interface Servers {
  demo(flags: ServerFlags): Promise<void>;
  serve(file: string, flags: ServerFlags): Promise<void>;
}

/** The error of a command that has failed, with what a program needs to know of it. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly details: object;

  constructor(message: string, details: object = {}, options?: ErrorOptions) {
    super(message, options);
    this.details = details;
  }
}

export const OPTIONS = {
  store: { type: "string" },
  prefix: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "v" },
  id: { type: "string" },
  name: { type: "string" },
  granted: { type: "string" },
  models: { type: "string" },
  expires: { type: "string" },
  metadata: { type: "string", multiple: true },
  overlap: { type: "string" },
  state: { type: "string" },
  after: { type: "string" },
  limit: { type: "string" },
  update: { type: "boolean" },
  "older-than": { type: "string" },
  budget: { type: "string" },
  amount: { type: "string" },
  period: { type: "string" },
  "time-zone": { type: "string" },
  rollover: { type: "boolean" },
  parent: { type: "string" },
  server: { type: "string" },
  database: { type: "string" },
  yes: { type: "boolean", short: "y" },
  force: { type: "boolean" },
  currency: { type: "string" },
  by: { type: "string" },
  month: { type: "string" },
  since: { type: "string" },
  until: { type: "string" },
  key: { type: "string" },
  group: { type: "string" },
  model: { type: "string" },
  upstream: { type: "string" },
  charged: { type: "boolean" },
  outcome: { type: "string" },
  code: { type: "string" },
  csv: { type: "boolean" },
  spreadsheet: { type: "string" },
  host: { type: "string" },
  port: { type: "string" },
} as const;

export type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>["values"];

/** The help of each option. */
export const OPTION_HELP: Readonly<Record<keyof Values, readonly [usage: string, about: string]>> = {
  store: ["--store ADDRESS", "sqlite:FILE, postgres://…, mysql://… or redis://…"],
  prefix: ["--prefix TEXT", "what the names of tables or Redis keys begin with"],
  json: ["--json", "prints answers and errors as JSON"],
  help: ["-h, --help", "this help; after a command, its options and examples"],
  version: ["-v, --version", "the version of polygate"],
  id: ["--id ID", "its id, random by default"],
  name: ["--name NAME", "the name that its owner sees"],
  granted: ["--granted UNITS", "its quota; unlimited by default"],
  models: ["--models A,B", "the models that it may use; * for every model"],
  expires: ["--expires DATE", "when it ends, such as 2030-01-31; or never"],
  metadata: ["--metadata NAME=TEXT", "a note on the key; may be repeated"],
  overlap: ["--overlap SPAN", "how long older secrets stay valid, 24h by default"],
  state: ["--state STATE", "only keys that are active, paused, expired or revoked"],
  after: ["--after ID", "only what the list has after this id"],
  limit: [
    "--limit N",
    `the most rows: 1 to ${MOST_LISTED}, 100 by default; in periods of each budget, and all by default`,
  ],
  update: ["--update", "changes keys that are known already; their quota and secrets stay"],
  "older-than": ["--older-than SPAN", "the age, such as 30d"],
  budget: [
    "--budget ID",
    "the budget that it draws on, beside its quota; in usage, with its child budgets. Reading commands take its name, too",
  ],
  amount: ["--amount UNITS", "the units of each period, or of the whole budget"],
  period: ["--period PERIOD", "day, week or month; without it, the budget never begins anew"],
  "time-zone": [
    "--time-zone ZONE",
    "of a period, such as Europe/Berlin (by default that of its parent, or UTC); or of the times in calls and why",
  ],
  rollover: ["--rollover", "takes the unused units of a period into the next one"],
  parent: ["--parent ID", "the budget that it draws on"],
  server: ["--server KIND", `${SERVERS.join(", ")}; ${SERVERS[0]} by default`],
  database: ["--database KIND", `${DATABASES.join(", ")}; ${DATABASES[0]} by default`],
  yes: ["-y, --yes", "takes the defaults, and asks nothing"],
  force: ["--force", "replaces files that exist"],
  currency: ["--currency CODE", "reads and shows amounts as money, such as usd; a unit is a millionth"],
  by: ["--by A,B", `what keeps the sums apart: ${USAGE_COLUMNS.join(", ")}; key by default`],
  month: ["--month MONTH", "the days of a month, such as 2026-11; in periods, those that began in it"],
  since: ["--since DAY", "the first day, such as 2026-11-01; or a span, such as 30d (the default of usage)"],
  until: ["--until DAY", "the last day"],
  key: ["--key KEY", "only calls of this key, by its id or its name"],
  group: ["--group NAME", "only calls of keys of this group"],
  model: ["--model NAME", "only calls of this model"],
  upstream: ["--upstream NAME", "only calls that this upstream was asked for last"],
  charged: ["--charged", "leaves out the rows without a charge; the sum counts their calls"],
  outcome: ["--outcome OUTCOME", `only calls that ended so: ${CALL_OUTCOMES.join(", ")}`],
  code: [
    "--code CODE",
    "only calls with this error code, as recorded (quota_exhausted) or as read (insufficient_quota)",
  ],
  csv: ["--csv", "prints the rows as CSV"],
  spreadsheet: ["--spreadsheet NAME", `prints CSV for a spreadsheet to open: ${SPREADSHEETS.join(" or ")}`],
  host: ["--host ADDRESS", "the address to listen on; HOST, or 127.0.0.1 by default"],
  port: ["--port N", "the port, 0 for any free one; PORT, or 3000 by default"],
};

/** What to write in place of an empty text. */
export const INSTEAD_OF_EMPTY: Readonly<Partial<Record<keyof Values, string>>> = {
  models: " '*' means every model, and \"polygate keys pause ID\" stops a key.",
  expires: " never means a key without an end.",
};

/** The syntax of a command. */
export interface Syntax {
  readonly about: string;
  /** The commands of its examples, without `polygate` and the group. */
  readonly examples: readonly string[];
  /** The names of the arguments after the command. A name in brackets is optional. */
  readonly operands?: readonly string[];
  /** The options that the command takes beside those of every command. */
  readonly options?: readonly (keyof Values)[];
  /** The name of the list that the command returns. Default: the command returns no list. */
  readonly list?: ListName;
  /** For options that people expect here: what to do instead. */
  readonly elsewhere?: Readonly<Partial<Record<keyof Values, string>>>;
}

export interface Command extends Syntax {
  /**
   * Checks the arguments and reads the input before a store is opened, and returns the function that runs the command. The function
   * returns the answer, unless it prints lines by itself. Throws a UsageError for a wrong value.
   */
  read(operands: readonly string[], values: Values, terminal: Terminal): Work | Promise<Work>;
}

type Work = (keys: KeyAdmin, opened: OpenedStore) => Promise<object | void>;

/** Returns a command that pauses a key, or lets it work again, and shows it. */
const pausing = (paused: boolean, about: string, example: string): Command => ({
  about,
  examples: [example],
  operands: ["ID"],
  read([id = ""]) {
    return (keys) => keys.update(id, { paused });
  },
});

/** Says which command changes the budget on which a key without a quota of its own draws. */
async function budgetInstead(
  error: unknown,
  id: string,
  store: OpenedStore["store"],
  nextStep: (budget: string) => string,
): Promise<never> {
  const { budget } = (error instanceof RangeError && (await store.report(id))) || {};
  if (budget === undefined || (error as Error).message !== unlimitedKey(id).message) throw error;
  throw new CommandError(
    `The API key ${oneLine(id)} has no quota of its own: it draws on the budget ${oneLine(budget)}. polygate budgets ${nextStep(argument(budget))}`,
  );
}

export const KEY_COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    about: "makes a key, and shows its secret once",
    examples: [
      'create --id team-a --name "Team A" --granted 1000000',
      "create --models small-1,large-1 --expires 2030-01-31 --metadata team=a --metadata plan=gold",
    ],
    options: ["id", "name", "granted", "models", "expires", "metadata", "budget"],
    read(_operands, { id, granted, budget, currency, ...values }) {
      const { models, metadata, ...rights } = changesOf(values);
      assertAhead(rights.expiresAt, values.expires);
      const key: NewKeyOptions = {
        ...rights,
        ...(models && { models }),
        ...(metadata && { metadata: textsOf(metadata) }),
        ...given({ id, budget }),
        ...(granted !== undefined && { granted: unitsOf("--granted", granted, currency) }),
      };
      // Ask the store for nothing more: if that failed, the secret would be lost.
      return async (keys): Promise<KeyMade> => ({
        ...(await keys.create(key)),
        unlimited: granted === undefined && budget === undefined,
        granted: key.granted ?? null,
        ...given({ budget, expiresAt: key.expiresAt || undefined }),
        models: key.models ?? "*",
      });
    },
  },
  update: {
    about: "changes a key; what is not named stays",
    examples: [
      'update team-a --name "Team A" --models small-1,large-1',
      "update team-a --models '*' --expires never --metadata plan=gold --metadata old-note=",
    ],
    operands: ["ID"],
    options: ["name", "models", "expires", "metadata"],
    elsewhere: {
      budget: '"budgets assign KEY ID" moves a key to another budget, and "budgets unassign KEY" to none.',
      granted: '"keys grant ID UNITS" adds to a quota, and "keys lower ID UNITS" takes from it.',
    },
    read([id = ""], values) {
      const changes = changesOf(values);
      if (Object.keys(changes).length === 0)
        throw new UsageError("update needs --name, --models, --expires or --metadata.");
      return (keys) => keys.update(id, changes);
    },
  },
  rotate: {
    about: "makes a new secret; the older ones end after the overlap",
    examples: ["rotate team-a --overlap 2h", "rotate team-a --overlap 0s"],
    operands: ["ID"],
    options: ["overlap"],
    read([id = ""], { overlap }) {
      const rotation = overlap === undefined ? {} : { overlapMs: spanOf("--overlap", overlap) };
      return (keys) => keys.rotate(id, rotation);
    },
  },
  "add-secret": {
    about: "makes one more secret; the others stay",
    examples: ["add-secret team-a", "add-secret team-a --expires 2030-01-31"],
    operands: ["ID"],
    options: ["expires"],
    read([id = ""], { expires }) {
      const secret = expires === undefined ? {} : { expiresAt: secondsOf(expires) };
      assertAhead(secret.expiresAt, expires);
      return (keys) => keys.addSecret(id, secret);
    },
  },
  "remove-secret": {
    about: "removes the secret that it reads from its input",
    examples: ["remove-secret < leaked-secret.txt"],
    async read(_operands, _values, { read }) {
      const secret = (await read()).trim();
      if (/^(sk-)?$/.test(secret)) throw new UsageError("remove-secret needs a secret on its standard input.");
      return async (keys, { store }) => {
        const key = await store.find(secret.replace(/^sk-/, ""));
        if (!key) throw new Error("No key has this secret.");
        await keys.removeSecret(secret);
        return { id: key.id, removed: true };
      };
    },
  },
  pause: pausing(true, "stops a key for a while; its secrets, quota and expiry stay", "pause team-a"),
  resume: pausing(false, "lets a paused key work again", "resume team-a"),
  revoke: {
    about: "removes all secrets of a key for good",
    examples: ["revoke team-a"],
    operands: ["ID"],
    read([id = ""]) {
      return async (keys) => {
        await keys.revoke(id);
        return { id, revoked: true };
      };
    },
  },
  grant: {
    about: "adds units to its quota",
    examples: ["grant team-a 500000"],
    operands: ["ID", "UNITS"],
    read([id = "", text = ""], { currency }) {
      const units = unitsOf("UNITS", text, currency);
      return (keys, { store }) =>
        keys
          .grant(id, units)
          .catch((error: unknown) =>
            budgetInstead(error, id, store, (budget) => `top-up ${budget} UNITS adds to that.`),
          );
    },
  },
  lower: {
    about: "takes available units back from its quota",
    examples: ["lower team-a 200000"],
    operands: ["ID", "UNITS"],
    read([id = "", text = ""], { currency }) {
      const units = unitsOf("UNITS", text, currency);
      return (keys, { store }) =>
        keys
          .lower(id, units)
          .catch((error: unknown) =>
            budgetInstead(error, id, store, (budget) => `update ${budget} --amount UNITS changes that.`),
          );
    },
  },
  usage: {
    about: "what a key has used and has left",
    examples: ["usage team-a", "usage team-a --json"],
    operands: ["ID"],
    read([text = ""], _values, { warn }) {
      return async (keys, { store }) => keys.usage(await idMeant("key", { keys, store }, text, warn));
    },
  },
  list: {
    about: "lists keys in the order of their ids",
    examples: [
      "list --limit 1000",
      "list --budget team-a --state active",
      "list --state expired --metadata team=a --csv > keys.csv",
    ],
    list: "keys",
    options: ["state", "budget", "metadata", "after", "limit", "csv", "spreadsheet"],
    read(_operands, values, terminal) {
      const [filter, page] = [filterOf(values), pageOf(values)];
      return async (keys, { store }) => {
        const chosen = await meant(filter, { keys, store }, terminal.warn);
        return listed((one) => keys.list({ ...chosen, ...one }), page, values, terminal);
      };
    },
  },
  export: {
    about: "prints keys without their secrets as JSON lines, for import",
    examples: ["export > keys.jsonl", "export --state active --metadata team=a"],
    options: ["state", "budget", "metadata"],
    read(_operands, values, { print, warn }) {
      const given = filterOf(values);
      return async (keys, { store }) => {
        const filter = await meant(given, { keys, store }, warn);
        const spoilt: string[] = [];
        for (let page = await keys.list({ ...filter, limit: MOST_LISTED }); page.length > 0;) {
          for (const key of page) {
            if (key.spoilt) spoilt.push(key.id);
            // An import would make a revoked key usable again.
            else if (!key.revoked || filter.state === "revoked") print(exportedLine(key));
          }
          page = await keys.list({ ...filter, limit: MOST_LISTED, after: page.at(-1)?.id ?? "" });
        }
        if (spoilt.length > 0)
          throw new CommandError(`These keys are spoilt, and not exported: ${spoilt.map(oneLine).join(", ")}`, {
            spoilt,
          });
      };
    },
  },
  import: {
    about: "makes a key of each JSON line of a file or of its input",
    examples: ["import keys.jsonl > secrets.jsonl", `import --update < keys.jsonl`],
    operands: ["[FILE]"],
    options: ["update"],
    async read([file], { update = false }, { read, print }) {
      const lines = readLines(await read(file));
      return async (keys, { store }) => {
        const failed = await importLines(lines, { keys, store, update, print });
        if (failed > 0) throw new CommandError(`${failed} of ${lines.length} keys were not imported.`, { failed });
      };
    },
  },
  sweep: {
    about: "charges holds whose leases have run out",
    examples: ["sweep"],
    read() {
      return async (_keys, { store }) => ({ swept: await store.sweep() });
    },
  },
  prune: {
    about: "forgets holds that were resolved long ago",
    examples: ["prune --older-than 30d"],
    options: ["older-than"],
    read(_operands, { "older-than": span }) {
      if (span === undefined) throw new UsageError("prune needs --older-than, such as 30d.");
      const olderThanMs = spanOf("--older-than", span);
      return async (_keys, { store }) => ({ pruned: await store.prune({ olderThanMs }) });
    },
  },
  verify: {
    about: "compares balances with the journal (SQL)",
    examples: ["verify"],
    read() {
      return async (_keys, { verify }) => {
        if (!verify) throw new UsageError("Only the stores over SQL keep a journal.");
        const differences = await verify();
        if (differences.length > 0) throw new CommandError(differences.map(sentenceOf).join("\n"), { differences });
        return { differences: 0 };
      };
    },
  },
  migrate: {
    about: "makes or updates the tables (SQL)",
    examples: ["migrate --store sqlite:quota.db"],
    read() {
      return async (_keys, { migrate }) => {
        if (!migrate) throw new UsageError("Only the stores over SQL have tables.");
        await migrate();
        return { migrated: true };
      };
    },
  },
};

/** What to do where a budget cannot change. */
const OTHER_BUDGET =
  'cannot be changed. Make another budget with "budgets create", move each key of "keys list --budget ID" with "budgets assign", and remove the old one.';

/** Returns a budget after a change of its units, and notes when nothing is available. */
async function changedBudget(
  { store }: Pick<OpenedStore, "store">,
  { id, units, currency }: { readonly id: string; readonly units: number; readonly currency: string | undefined },
  { warn }: Pick<Terminal, "warn">,
): Promise<object> {
  const report = await store.budgetReport(id);
  if (!report) throw noSuchBudget(id);
  if (units > 0 && report.available === 0) {
    const { gap = 0 } = report;
    const first = gap > 0 ? ` The next top-ups first fill a gap of ${amountOf(gap, currency)}.` : "";
    warn?.(`Nothing is available yet: the budget has used what it was given.${first}`);
  }
  return report;
}

export const BUDGET_COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    about: "makes a budget, which several keys share",
    examples: [
      "create company --amount 5000000 --period month --time-zone Europe/Berlin",
      "create team-a --amount 300000 --period week --rollover --parent company",
    ],
    operands: ["ID"],
    options: ["name", "amount", "period", "time-zone", "rollover", "parent"],
    read([id = ""], values) {
      const budget = newBudgetOf(id, values);
      return async (_keys, { store }) => {
        await store.addBudget(budget);
        return store.budgetReport(id);
      };
    },
  },
  update: {
    about: "changes the name, or the amount, also below what is used",
    examples: ['update team-a --name "Team A"', "update team-a --amount 250000"],
    operands: ["ID"],
    options: ["name", "amount"],
    elsewhere: {
      period: `The period of a budget ${OTHER_BUDGET}`,
      "time-zone": `The time zone of a budget ${OTHER_BUDGET}`,
      rollover: `The rollover of a budget ${OTHER_BUDGET}`,
      parent: `The parent of a budget ${OTHER_BUDGET}`,
    },
    read([id = ""], { name, amount, currency }, terminal) {
      const units = amount === undefined ? undefined : unitsOf("--amount", amount, currency);
      if (name === undefined && units === undefined) throw new UsageError("update needs --name or --amount.");
      return async (_keys, { store }) => {
        await store.updateBudget(id, given({ name, amount: units }));
        return changedBudget({ store }, { id, units: units ?? 0, currency }, terminal);
      };
    },
  },
  "top-up": {
    about: "adds units to the current period",
    examples: ["top-up team-a 50000"],
    operands: ["ID", "UNITS"],
    read([id = "", text = ""], { currency }, terminal) {
      const units = unitsOf("UNITS", text, currency);
      return async (_keys, { store }) => {
        await store.topUpBudget(id, units);
        return changedBudget({ store }, { id, units, currency }, terminal);
      };
    },
  },
  assign: {
    about: "lets a key draw on a budget",
    examples: ["assign bob team-a"],
    operands: ["KEY", "ID"],
    read([keyId = "", id = ""]) {
      return async (keys, { store }) => {
        await store.assignBudget(keyId, id);
        return keys.usage(keyId);
      };
    },
  },
  unassign: {
    about: "lets a key draw on no budget",
    examples: ["unassign bob"],
    operands: ["KEY"],
    read([keyId = ""]) {
      return async (keys, { store }) => {
        await store.assignBudget(keyId, undefined);
        return keys.usage(keyId);
      };
    },
  },
  remove: {
    about: "removes a budget that no key and no other budget draws on",
    examples: ["remove team-a"],
    operands: ["ID"],
    read([id = ""]) {
      return async (_keys, { store }) => {
        await store.removeBudget(id);
        return { id, removed: true };
      };
    },
  },
  usage: {
    about: "shows what a budget has used and has left",
    examples: ["usage team-a", 'usage "Team A"'],
    operands: ["ID"],
    read([text = ""], _values, { warn }) {
      return async (keys, { store }) => {
        const id = await idOfBudget({ keys, store }, text, warn);
        return (await store.budgetReport(id)) ?? {};
      };
    },
  },
  periods: {
    about: "lists this period of a budget, or of all, and those that have ended",
    examples: [
      'periods "Team A" --limit 12',
      "periods --month 2026-10 --currency usd --spreadsheet excel > october.csv",
    ],
    operands: ["[ID]"],
    list: "periods",
    options: ["month", "limit", "csv", "spreadsheet"],
    read([text], values, { warn }) {
      csvOf(values);
      const { month } = values;
      const { limit } = pageOf(values);
      if (month !== undefined) daysOf({ month }, undefined);
      return async (keys, { store }) => {
        const ids =
          text === undefined
            ? (await everyPage((page) => store.listBudgets(page))).map(({ id }) => id)
            : [await idOfBudget({ keys, store }, text, warn)];
        const periods: BudgetPeriodReport[] = [];
        for (const id of ids) periods.push(...(await periodsOf(store, id, month)).slice(0, limit));
        if (periods.length === 0 && month !== undefined)
          warn?.(`No period that began in ${month} is kept: nothing was charged in it.`);
        return periods;
      };
    },
  },
  list: {
    about: "lists budgets in the order of their ids",
    examples: ["list --limit 1000", "list --currency usd --spreadsheet excel > budgets.csv"],
    list: "budgets",
    options: ["after", "limit", "csv", "spreadsheet"],
    read(_operands, values, terminal) {
      const page = pageOf(values);
      return async (_keys, { store }) => listed((one) => store.listBudgets(one), page, values, terminal);
    },
  },
};

/** Lists all periods of a budget, the latest first, or those that began in a month in the time zone of the budget. */
async function periodsOf(
  store: OpenedStore["store"],
  id: string,
  month: string | undefined,
): Promise<readonly BudgetPeriodReport[]> {
  const periods: BudgetPeriodReport[] = [];
  // No time zone is more than a day away from UTC.
  let before = month === undefined ? undefined : Math.max(0, Date.parse(`${month}-28`) + 5 * (UNITS_MS["d"] ?? 0));
  for (;;) {
    const page = await store.budgetPeriods(id, given({ before, limit: MOST_LISTED }));
    periods.push(...page);
    before = page.at(-1)?.startsAt;
    // The periods of a month stand on the first page.
    if (month !== undefined || before === undefined || page.length < MOST_LISTED) break;
  }
  return periods.filter(
    ({ startsAt, timeZone = "UTC" }) =>
      month === undefined || (startsAt !== undefined && timeIn(timeZone, startsAt).startsWith(month)),
  );
}

/** Reads all pages of a list. */
async function everyPage<Row extends { readonly id: string }>(
  list: (page: BudgetPage) => Promise<readonly Row[]>,
  first: BudgetPage = {},
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (let page = await list({ ...first, limit: MOST_LISTED }); page.length > 0;) {
    rows.push(...page);
    page = await list({ limit: MOST_LISTED, after: page.at(-1)?.id ?? "" });
  }
  return rows;
}

/** Returns a page of a list for people, and all rows for CSV: a report for others is whole. */
async function listed<Row extends { readonly id: string }>(
  list: (page: BudgetPage) => Promise<readonly Row[]>,
  page: BudgetPage,
  values: Values,
  terminal: Pick<Terminal, "warn">,
): Promise<readonly Row[]> {
  if (csvOf(values).csv && page.limit === undefined) return everyPage(list, page);
  return noted(await list(page), page, values, terminal);
}

/** The commands without a group. */
export const CALL_COMMANDS: Readonly<Record<string, Command>> = {
  usage: {
    about: "sums of recorded calls (SQL)",
    examples: [
      "usage --by key,model --since 2026-11-01",
      "usage --by budget,model --month 2026-10 --csv > 2026-10.csv",
      "usage --by budget --month 2026-10 --charged --spreadsheet excel-europe > 2026-10.csv",
      "usage --by day --budget team-a --since 90d",
    ],
    options: [
      ...(["by", "month", "since", "until", "key", "budget", "group", "model", "upstream"] as const),
      ...(["charged", "csv", "spreadsheet"] as const),
    ],
    read(_operands, values, { print, warn = () => {}, columns }) {
      const { json = false, currency, key, budget, group, model, upstream, charged } = values;
      const { csv, spreadsheet } = csvOf(values);
      const chosen = {
        by: columnsOf(values.by ?? "key"),
        ...daysOf(values, "30d"),
        ...given({ budget, group, model, upstream, charged }),
        limit: MOST_ROWS,
      };
      return async (keys, { store, calls }) => {
        const reader = readerIn(calls);
        const query = await meant({ ...chosen, ...given({ key }) }, { keys, store }, warn);
        const report = await reader.usage(query);
        if (report.rows.length === MOST_ROWS)
          throw new CommandError(`The report has ${MOST_ROWS} rows or more. Choose fewer days, or fewer columns.`);
        if (json) return report;
        const note = report.total.calls === 0 ? await noteOfNone(reader, query, report.recorded) : undefined;
        if (csv) {
          print(linesOfCsv(usageCsv(report, given({ currency, spreadsheet }))));
          if (note !== undefined) warn(note);
        } else if (note !== undefined) print(note);
        else printTable(usageText(report, currency, columns ?? PLAIN_COLUMNS), print, warn);
        return undefined;
      };
    },
  },
  calls: {
    about: "lists recorded calls, the latest first (SQL)",
    examples: [
      "calls --key team-a --outcome refused",
      "calls --code quota_exhausted --since 7d --limit 1000 --csv > calls.csv",
    ],
    options: [
      ...(["key", "budget", "group", "model", "upstream", "outcome", "code"] as const),
      ...(["since", "until", "after", "limit", "csv", "spreadsheet", "time-zone"] as const),
    ],
    async read(_operands, values, { env, print, warn = () => {}, columns = PLAIN_COLUMNS }) {
      const zone = zoneOf(values, env);
      const { json = false, currency, key, budget, group, model, upstream, code } = values;
      const { csv, spreadsheet } = csvOf(values);
      const { since: sinceDay, until: untilDay } = daysOf(values, undefined);
      const outcome = wordOf("--outcome", values.outcome, CALL_OUTCOMES);
      const { limit = 100, after } = pageOf(values);
      const errorCode = code === undefined ? undefined : await codesOf(code, warn);
      const filter = { budget, group, model, upstream, outcome, errorCode, sinceDay, untilDay, after, limit };
      return async (keys, { store, calls }) => {
        const reader = readerIn(calls);
        const chosen: CallFilter = given(await meant({ ...filter, key }, { keys, store }, warn));
        const { key: id } = chosen;
        const listed = await reader.list(chosen);
        if (json) return listed.map((call) => ({ ...call, reasons: reasonsOf(call, currency) }));
        if (csv) print(linesOfCsv(callsCsv(listed, { currency, spreadsheet, zone })));
        else if (listed.length === 0) {
          const isUnknown = id !== undefined && !(await store.report(id));
          if (isUnknown) {
            const near = await idNear(id, (page) => keys.list(page));
            const hint = near === undefined ? "" : ` Did you mean ${oneLine(near)}?`;
            print(`No key has the id or the name ${oneLine(id)}, and no such call is recorded.${hint}`);
          } else print(await noteOfNoCalls(reader, chosen));
        } else printTable(callsText(listed, currency, columns, zone), print, warn);
        noted(
          listed.map(({ requestId }) => ({ id: requestId })),
          { limit },
          values,
          { warn },
        );
        return undefined;
      };
    },
  },
  why: {
    about: "says why a call ended, by its request id or at least 8 digits of it (SQL)",
    examples: ["why req_3e2ac2d520f46a591a5c8db1c2638c1c", "why req_3e2ac2d5"],
    operands: ["REQUEST_ID"],
    options: ["time-zone"],
    read([text = ""], values, { env, print }) {
      const { json = false, currency } = values;
      const zone = zoneOf(values, env);
      // People paste the whole message of a client, which has the id in it.
      const [id = text] = /\breq_[\w-]+/.exec(text) ?? [];
      return async (keys, { store, calls }) => {
        const reader = readerIn(calls);
        const call = (await reader.find(text)) ?? (await reader.find(id));
        if (!call && /^req_[\da-f]{0,7}$/.test(id))
          throw new CommandError(`${id} is too short. Give at least 8 digits of the id.`);
        if (!call)
          throw new CommandError(`No call of the request id ${id} is recorded. ${await hintOfNoCall(keys, id)}`);
        const next = nextSteps(call, currency, await limitsNow(call, store));
        const reason = { reasons: reasonsOf(call, currency), next, call };
        if (json) return reason;
        for (const line of linesOf(reason, currency)) print(zone === undefined ? line : timesIn(zone, line));
        return undefined;
      };
    },
  },
};

/** Reads the time zone of the times that a command shows. Undefined for UTC. */
function zoneOf({ "time-zone": given }: Values, env: Terminal["env"]): string | undefined {
  const zone = given ?? env["POLYGATE_TIME_ZONE"];
  if (zone === undefined || zone === "") return undefined;
  assertTimeZone(zone, given === undefined ? "POLYGATE_TIME_ZONE" : undefined);
  return zone;
}

/** Writes the times of a sentence as the clocks of a time zone show them. What the caller was told stays word for word. */
const timesIn = (zone: string, line: string): string =>
  line.startsWith("The caller was told: ")
    ? line
    : line.replaceAll(
        /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g,
        (time) => `${timeIn(zone, Date.parse(time))} ${zone}`,
      );

/** Reads the code of an error, and notes the codes that stand for it in the record. */
async function codesOf(text: string, warn: (line: string) => void): Promise<readonly string[]> {
  try {
    const codes = await codesMeant("--code", text);
    if (!codes.some((code) => code === text)) warn(`${text} is recorded as ${oneOf(codes)}.`);
    return codes;
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

/** Returns CSV without its last line break, which `print` adds, and with the line breaks of a terminal. */
export const linesOfCsv = (csv: string): string => csv.trimEnd().replaceAll("\r\n", "\n");

/**
 * Prints a table, and notes the columns that it leaves out.
 *
 * @param whole The options with which the command prints all columns.
 */
export function printTable(
  { text, leftOut }: FittedTable,
  print: (line: string) => void,
  warn: (line: string) => void,
  whole: string = "--csv and --json have",
): void {
  if (text !== "") print(text);
  if (leftOut.length > 0) warn(`Left out for the width: ${leftOut.join(", ")}. ${whole} them.`);
}

/** Reads in which form the rows are printed. A spreadsheet reads CSV. */
export function csvOf({ csv: isCsv = false, json = false, spreadsheet: text }: Values): {
  readonly csv: boolean;
  readonly spreadsheet: Spreadsheet | undefined;
} {
  const spreadsheet = wordOf("--spreadsheet", text, SPREADSHEETS);
  const csv = isCsv || spreadsheet !== undefined;
  if (csv && json) throw new UsageError("Choose --csv or --json.");
  return { csv, spreadsheet };
}

/** Says what to ask for when no call has a request id. People often have only the name of a key. */
async function hintOfNoCall(keys: KeyAdmin, text: string): Promise<string> {
  const [key, ...others] = await idsLike(text, (page) => keys.list(page));
  if (key !== undefined && others.length === 0)
    return `"polygate calls --key ${argument(key)}" lists the calls of the key ${oneLine(key)}.`;
  if (!text.startsWith("req_"))
    return 'A request id begins with req_ as a rule: "polygate calls" lists the calls with theirs.';
  return "Calls are written a second after their end, and deleted after some days (keepDays).";
}

/** Where a command looks for keys and budgets. */
interface Places {
  readonly keys: KeyAdmin;
  readonly store: OpenedStore["store"];
}

const listOf = (noun: "key" | "budget", { keys, store }: Places): ListNamed =>
  noun === "key" ? (page) => keys.list(page) : (page) => store.listBudgets(page);

/**
 * Returns the id of the key or the budget that a user means by its id, its name or a part of it, and notes an id that the text is neither.
 * Returns any other text as it is: calls of keys in other tables are found by the id alone.
 */
async function idMeant(
  noun: "key" | "budget",
  places: Places,
  text: string,
  warn: (line: string) => void = () => {},
): Promise<string> {
  const { store } = places;
  if (await (noun === "key" ? store.report(text) : store.budgetReport(text))) return text;
  const ids = await idsLike(text, listOf(noun, places));
  const [id = text, ...others] = ids;
  if (others.length > 0)
    throw new UsageError(
      `Several ${noun}s have the name ${oneLine(text)}, or have it in their names. Name one of their ids: ${idsInWords(ids.map(oneLine))}.`,
    );
  if (id !== text) warn(`${oneLine(text)} is the ${noun} ${oneLine(id)}.`);
  return id;
}

/** Returns the id of the budget that a user means. Throws a RangeError for a budget that does not exist: nothing would look like no use. */
async function idOfBudget(places: Places, text: string, warn: Terminal["warn"]): Promise<string> {
  const id = await idMeant("budget", places, text, warn);
  if (!(await places.store.budgetReport(id))) throw noSuchBudget(id);
  return id;
}

/** Returns the filters of a command with the ids of the key and the budget that the user means. */
async function meant<Filter extends { readonly key?: string | undefined; readonly budget?: string | undefined }>(
  { key, budget, ...filter }: Filter,
  places: Places,
  warn: Terminal["warn"],
) {
  return {
    ...filter,
    ...(budget !== undefined && { budget: await idOfBudget(places, budget, warn) }),
    ...(key !== undefined && { key: await idMeant("key", places, key, warn) }),
  };
}

/**
 * Formats a report for people, with the sum of all rows at its end. Leaves out columns in which every row is zero or empty, and the units
 * beside their amount.
 *
 * @param width The most characters of a line. Parts of other figures are left out for it, and then names are cut.
 */
function usageText(report: UsageReport, given: string | undefined, width: number): FittedTable {
  const { by, rows, total, currency = given } = report;
  const [first] = by;
  const named = (name: string, sums: UsageSums): UsageRow[] =>
    first === undefined ? [] : [{ ...sums, [first]: name }];
  const rest = restOf(report);
  const ends = [...(rest ? named("(no charge)", rest) : []), ...named("all", total)];
  const all = [...rows, ...ends];
  const columns = usageColumns(report, given).flatMap((column): Column<UsageRow>[] => {
    const { name } = column;
    if (name === "currency" || (name === "units" && currency !== undefined)) return [];
    const shown = name === "units" ? { ...column, heading: "spent" } : column;
    const isNews = (row: UsageRow): boolean => {
      const cell = column.cell(row);
      if (typeof cell === "object") return !("units" in cell) || cell.units !== 0;
      // A name that is the id says nothing more.
      return cell !== 0 && (cell ?? "") !== "" && cell !== row[NAMED_BY[name] ?? "calls"];
    };
    const ofMoney = name === "estimated" && currency !== undefined;
    const told = ofMoney ? amountColumn<UsageRow>(shown, currency, ({ estimated }) => estimated) : shown;
    return [name === "calls" ? told : { ...told, isNews }];
  });
  const whole = tableOf(tableRowsOf(columns, all));
  if (longestOf(whole) <= width) return { text: whole, leftOut: [] };
  const kept = columns.filter(({ name }) => !Object.hasOwn(NAMED_BY, name));
  const spare = ["estimated", "reasoningTokens", "cacheWriteTokens", "cacheReadTokens", "images"];
  const { text, leftOut } = tableFor(kept, namesForIds(all), width, spare);
  const hasNames = tableRowsOf(columns, all).some((row) => "KEY NAME" in row || "BUDGET NAME" in row);
  return { text, leftOut: [...(hasNames ? ["ids beside names"] : []), ...leftOut] };
}

/** The columns of ids, by those of their names. */
const NAMED_BY: Readonly<Record<string, "key" | "budget">> = { keyName: "key", budgetName: "budget" };

/** Returns rows with names in place of ids. A name that several have does not tell them apart, so their ids stay. */
function namesForIds(rows: readonly UsageRow[]): readonly UsageRow[] {
  const unique = (name: "keyName" | "budgetName", id: "key" | "budget") => {
    const rowsOf = Map.groupBy(rows, (row) => row[name]);
    return (row: UsageRow) =>
      (new Set(rowsOf.get(row[name])?.map((other) => other[id])).size === 1 && row[name]) || row[id];
  };
  const [key, budget] = [unique("keyName", "key"), unique("budgetName", "budget")];
  return rows.map((row) => ({ ...row, ...given({ key: key(row), budget: budget(row) }) }));
}

/** Returns the sums of the calls that no row counts, because they cost nothing; undefined without any. */
function restOf({ rows, total, by }: UsageReport): UsageSums | undefined {
  const rest = Object.entries(total).map(([name, sum]) => {
    const shown = rows.reduce((counted, row) => counted + row[name as keyof UsageSums], 0);
    return [name, (sum as number) - shown] as const;
  });
  // The cast is safe: the names are those of the total.
  return by.length > 0 && rest.some(([, sum]) => sum !== 0)
    ? (Object.fromEntries(rest) as unknown as UsageSums)
    : undefined;
}

/** The options of a report that choose calls by a name in their columns. */
const NAMED = ["key", "group", "model", "upstream"] as const;

/** Asks for the word that was probably meant. */
function nearestHint(text: string, words: readonly string[]): string {
  const meant = nearest(text, words);
  return meant === undefined ? "" : ` Did you mean ${oneLine(meant)}?`;
}

/** Returns the text of an option if it is one of some words, and undefined without a text. Throws a UsageError for any other text. */
export function wordOf<Word extends string>(
  name: string,
  text: string | undefined,
  words: readonly Word[],
): Word | undefined {
  const word = words.find((known) => known === text);
  if (text === undefined || word !== undefined) return word;
  throw new UsageError(`${name} must be ${oneOf(words)}, not ${text}.${nearestHint(text, words)}`);
}

/** Joins alternatives: `a, b or c`. */
const oneOf = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;

/** Says why a report counts no calls. */
async function noteOfNone(calls: CallReader, query: UsageQuery, recorded: RecordedDays | undefined): Promise<string> {
  if (!recorded) return "No calls are recorded yet.";
  const { since, until } = query;
  const kept = `Calls are recorded from ${recorded.since} to ${recorded.until}.`;
  const days = daysInWords(since, until);
  if ((since ?? "") > recorded.until || (until !== undefined && until < recorded.since))
    return `No calls are recorded${days}. ${kept}`;
  for (const column of NAMED) {
    const name = query[column];
    if (name === undefined) continue;
    const { rows } = await calls.usage({ by: [column], ...given({ since, until }) });
    const names = rows.flatMap((row) => row[column] || []);
    if (names.includes(name)) continue;
    return `No call of the ${column} ${oneLine(name)} is recorded${days}.${nearestHint(name, names)}`;
  }
  return `No such call is recorded${days}. ${kept}`;
}

function daysInWords(since: string | undefined, until: string | undefined): string {
  if (since === undefined) return until === undefined ? "" : ` until ${until}`;
  if (until === undefined) return ` since ${since}`;
  return since === until ? ` on ${since}` : ` from ${since} to ${until}`;
}

/** Says why a list of calls is empty: no call was counted, or none ended so, or the calls are deleted already. */
async function noteOfNoCalls(
  reader: CallReader,
  { sinceDay, untilDay, outcome: _outcome, errorCode: _code, after: _after, limit: _limit, ...chosen }: CallFilter,
): Promise<string> {
  const query: UsageQuery = given({ ...chosen, since: sinceDay, until: untilDay });
  const { total, recorded } = await reader.usage(query);
  if (total.calls === 0) return noteOfNone(reader, query, recorded);
  const count = total.calls === 1 ? "a call" : `${total.calls} calls`;
  return `No such call is recorded. Calls are deleted after some days (keepDays); without --outcome and --code, polygate usage counts ${count}.`;
}

function readerIn(calls: OpenedStore["calls"]): CallReader {
  if (!calls) throw new UsageError("Only the stores over SQL keep a record of calls.");
  return calls;
}

/** The hint for what users call their columns, such as a team, a customer, or another entry of the metadata. */
const FOR_OTHERS =
  " For a team, a customer or an entry of the metadata, write --by budget or --by group. The group is the entry group of a key's metadata, or what groupOf of the recorder returns.";

/** An empty text names no column, for a single row with the sum of all calls. */
function columnsOf(text: string): readonly UsageColumn[] {
  const names = text === "" ? [] : text.split(",").map((name) => name.trim());
  return names.map((name) => {
    const column = USAGE_COLUMNS.find((known) => known === name);
    if (column) return column;
    throw new UsageError(
      `--by must name some of ${USAGE_COLUMNS.join(", ")}, not ${name || "nothing"}.${nearestHint(name, USAGE_COLUMNS) || FOR_OTHERS}`,
    );
  });
}

/**
 * Reads the first and the last day of a report.
 *
 * @param usual The first day by default. Undefined for all days that are kept.
 */
function daysOf({ month, since, until }: Values, usual: string | undefined): Pick<UsageQuery, "since" | "until"> {
  if (month !== undefined) {
    if (since !== undefined || until !== undefined) throw new UsageError("Choose --month, or --since and --until.");
    const days = daysOfMonth(month);
    if (!days) throw new UsageError(`--month must be a month, such as 2026-11, not ${month}.`);
    return days;
  }
  const start = since ?? usual;
  const first = start === undefined ? undefined : dayOf("--since", start);
  if (until === undefined) return given({ since: first });
  const last = dayOf("--until", until);
  if (first !== undefined && first > last)
    throw new UsageError(`--since must not be after --until, but ${first} is after ${last}.`);
  return given({ since: first, until: last });
}

/** Reads a day, or a span of time before today. */
function dayOf(name: string, text: string): string {
  if (isDay(text)) return text;
  const [, days] = /^(\d{1,5})d$/.exec(text) ?? [];
  if (days === undefined) {
    const hint = isDay(`${text}-01`) ? ` For a whole month, write --month ${text}.` : "";
    throw new UsageError(`${name} must be a day, such as 2026-11-01, or a span, such as 30d, not ${text}.${hint}`);
  }
  return new Date(Date.now() - Number(days) * (UNITS_MS["d"] ?? 0)).toISOString().slice(0, 10);
}

const pageOf = ({ after, limit }: Values): BudgetPage =>
  given({ after, limit: limit === undefined ? undefined : countOf(limit) });

/** Returns a page. Notes that more may follow, because a list that is cut looks like a whole one. */
function noted<Row extends { readonly id: string }>(
  rows: readonly Row[],
  { limit = 100 }: BudgetPage,
  { json = false }: Values,
  { warn }: Pick<Terminal, "warn">,
): readonly Row[] {
  const last = rows.at(-1);
  if (last && rows.length === limit && !json)
    warn?.(
      `The first ${limit} are shown. More may follow: add --after ${oneLine(last.id)}, or --limit ${MOST_LISTED}.`,
    );
  return rows;
}

function countOf(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count < 1 || count > MOST_LISTED)
    throw new UsageError(`--limit must be an integer from 1 to ${MOST_LISTED}, not ${text}.`);
  return count;
}

const PERIODS: readonly BudgetPeriod[] = ["day", "week", "month"];

function newBudgetOf(id: string, values: Values): BudgetOptions {
  const { name, amount, rollover, parent, currency, "time-zone": timeZone } = values;
  if (amount === undefined) throw new UsageError("budgets create needs --amount.");
  const period = wordOf("--period", values.period, PERIODS);
  if (!period && (timeZone !== undefined || rollover !== undefined))
    throw new UsageError(`${rollover === undefined ? "--time-zone" : "--rollover"} needs --period.`);
  if (timeZone !== undefined) assertTimeZone(timeZone);
  return {
    id,
    amount: unitsOf("--amount", amount, currency),
    ...given({ name, period, timeZone, rollover, parent }),
  };
}

/** Throws a UsageError for an unknown time zone. */
function assertTimeZone(zone: string, name = "--time-zone"): void {
  try {
    calendarOf(zone);
  } catch {
    const hint = nearestHint(zone, Intl.supportedValuesOf("timeZone")) || " Write a name such as Europe/Berlin.";
    throw new UsageError(`${name}: ${zone} is no time zone.${hint}`);
  }
}

function changesOf({ name, models, expires, metadata }: Values): KeyChanges {
  return {
    ...(name !== undefined && { name }),
    ...(models !== undefined && { models: models === "*" ? null : modelsIn(models) }),
    ...(expires !== undefined && { expiresAt: secondsOf(expires) }),
    ...(metadata && { metadata: Object.fromEntries(metadata.map(entryOf)) }),
  };
}

/** Reads a list of models. */
function modelsIn(text: string): readonly string[] {
  const models = text.split(",").map((model) => model.trim());
  // No model has a space in its name, and a star stands for all models only when it is alone.
  if (models.some((model) => /\s/.test(model) || (model === "*" && models.length > 1)))
    throw new UsageError(
      `--models must be names with commas between them, such as small-1,large-1, or * alone, not ${text}.`,
    );
  const names = models.filter((model) => model !== "");
  if (names.length === 0)
    throw new UsageError(`--models must name a model, not ${text}.${INSTEAD_OF_EMPTY.models ?? ""}`);
  return names;
}

/** Parses `NAME=TEXT`. An empty text deletes the entry. Throws for several entries in one: they would be stored as a single text. */
function entryOf(text: string): [name: string, value: string | null] {
  const [, name, value = ""] = /^([a-z\d][\w.:-]{0,63})=(.*)$/is.exec(text) ?? [];
  if (name === undefined) throw new UsageError(`--metadata must be a name and a text, such as team=a, not ${text}.`);
  if (hasFurtherEntries(value)) {
    const entries = text.split(/,\s*/).map((entry) => `--metadata ${entry.split("=").map(argument).join("=")}`);
    throw new UsageError(`--metadata takes one entry at a time: write ${entries.join(" ")}.`);
  }
  return [name, value || null];
}

const textsOf = (metadata: Readonly<Record<string, string | null>>): Record<string, string> =>
  Object.fromEntries(Object.entries(metadata).flatMap(([name, value]) => (value === null ? [] : [[name, value]])));

function filterOf({ state: text, budget, metadata }: Values): KeyFilter {
  const state = wordOf("--state", text, KEY_STATES);
  return given({ state, budget, metadata: metadata && textsOf(Object.fromEntries(metadata.map(entryOf))) });
}

/** A day, also with a time. Other texts are not parsed: JavaScript takes 01.02.2030 for the 2nd of January, and 1 for a year. */
const DATE = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?$/i;

function secondsOf(text: string): number {
  if (text === "never") return 0;
  const [, day = ""] = DATE.exec(text) ?? [];
  const time = isDay(day) ? Date.parse(text) : NaN;
  if (Number.isNaN(time)) throw new UsageError(`--expires must be a date, such as 2030-01-31, or never, not ${text}.`);
  return Math.floor(time / 1_000);
}

/** Throws a UsageError for a new key or secret that would be expired from the beginning. */
function assertAhead(expiresAt = 0, text = ""): void {
  if (expiresAt !== 0 && expiresAt * 1_000 <= Date.now())
    throw new UsageError(`--expires must be in the future, and ${text} is over.`);
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function spanOf(name: string, text: string): number {
  const [, count, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new UsageError(`${name} must be a span of time, such as 30m, 24h or 7d, not ${text}.`);
  return Number(count) * (UNITS_MS[unit] ?? 0);
}

const sentenceOf = (difference: object): string =>
  Object.entries(difference)
    .map(([name, value]) => `${name} ${oneLine(String(value))}`)
    .join(", ");
