/** The commands of `polygate` that need a store: their environment, their options and their syntax. */

import type { parseArgs } from "node:util";
import { unitsInWords } from "../model/money.ts";
import { oneLine } from "../options.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { CALL_OUTCOMES, USAGE_COLUMNS } from "../stores/calls.ts";
import { type KeyReport, MOST_LISTED } from "../stores/durable.ts";
import { notedCurrency } from "../stores/noted-currency.ts";
import { UsageError } from "../stores/open/connection.ts";
import type { ListName } from "./answers.ts";
import { SPREADSHEETS } from "./columns.ts";
import { DATABASES, SERVERS, type TemplatePackage } from "./init.ts";
import type { KeyAdmin } from "./key-admin.ts";
import { type AmountChange, doubtInWords, isLimitedWithout, unlimitedWithout } from "./much.ts";
import { latestCall, type OpenedStore } from "./open-store.ts";

/** The environment of a command: its variables, its input and its output. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
  /** Prints a note that is no part of the answer. Default: no notes. */
  readonly warn?: (line: string) => void;
  /** The width of the terminal, in characters. Undefined for an output that is none. */
  readonly columns?: number | undefined;
  /** The name of the user in the system, for the log of changes. Undefined for a user without a name. */
  readonly user?: string | undefined;
  /** Reads a file, or the standard input when no file is named. */
  readonly read: (file?: string) => Promise<string>;
  /** Asks a question at the terminal, and resolves with the answer. Undefined when the input is not a terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** The package of this command. */
  readonly home: TemplatePackage;
  /** The servers that the command starts. They run until the process is told to end. */
  readonly servers: Servers;
}

/**
 * The host and the port of a server, the address of its store, and true for lines of JSON. The environment or defaults replace missing flags.
 */
export interface ServerFlags {
  readonly host?: string;
  readonly port?: number;
  readonly store?: string;
  readonly json?: boolean;
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
  timeout: { type: "string" },
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
  "dry-run": { type: "boolean" },
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
  target: { type: "string" },
  user: { type: "string" },
  action: { type: "string" },
} as const;

export type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>["values"];

/** Words about some options. */
export type Words = Readonly<Partial<Record<keyof Values, string>>>;

/** The help of each option. The `words` of a command replace it where the option means something else. */
export const OPTION_HELP: Readonly<Record<keyof Values, readonly [usage: string, about: string]>> = {
  store: ["--store ADDRESS", "sqlite:FILE, postgres://…, mysql://… or redis://…"],
  prefix: ["--prefix TEXT", "what the names of tables or Redis keys begin with"],
  timeout: [
    "--timeout SPAN",
    "how long to wait for an answer of the database, 60s by default; 1h for keys migrate and keys verify",
  ],
  json: ["--json", "prints answers and errors as JSON"],
  help: ["-h, --help", "this help; after a command, its options and examples"],
  version: ["-v, --version", "the version of polygate"],
  id: ["--id ID", "its id, random by default"],
  name: ["--name NAME", "the name that its owner sees"],
  granted: ["--granted AMOUNT", "its quota; unlimited by default"],
  models: ["--models A,B", "the models that it may use; * for every model"],
  expires: [
    "--expires DATE",
    "when the key ends: at the start of a day in UTC, such as 2030-01-31, at a time, or after a span, such as 90d; or never",
  ],
  metadata: ["--metadata NAME=TEXT", "a note on the key; may be repeated"],
  overlap: ["--overlap SPAN", "how long older secrets stay valid, 24h by default"],
  state: ["--state STATE", "only keys that are active, paused, expired or revoked"],
  after: ["--after ID", "only what the list has after this id"],
  limit: ["--limit N", `the most rows: 1 to ${MOST_LISTED}, 100 by default`],
  "dry-run": ["--dry-run", "says what would be done with each line, and changes nothing"],
  update: ["--update", "changes keys that are known already; their quota and secrets stay"],
  "older-than": ["--older-than SPAN", "the age, such as 30d"],
  budget: ["--budget ID", "the budget that it draws on, beside its quota"],
  amount: ["--amount AMOUNT", "the amount of each period, or of the whole budget"],
  period: ["--period PERIOD", "day, week or month; without it, the budget never begins anew"],
  "time-zone": ["--time-zone ZONE", "of its periods, such as Europe/Berlin; by default that of its parent, or UTC"],
  rollover: ["--rollover", "takes what a period leaves unused into the next one"],
  parent: ["--parent ID", "the budget that it draws on"],
  server: ["--server KIND", `${SERVERS.join(", ")}; ${SERVERS[0]} by default`],
  database: ["--database KIND", `${DATABASES.join(", ")}; ${DATABASES[0]} by default`],
  yes: ["-y, --yes", "makes a change that is often a mistake without a question"],
  force: ["--force", "replaces files that exist"],
  currency: ["--currency CODE", 'reads and shows amounts as money, such as usd; "" for units, which are millionths'],
  by: ["--by A,B", `what keeps the sums apart: ${USAGE_COLUMNS.join(", ")}; key by default`],
  month: ["--month MONTH", "the days of a month, such as 2026-11, this or last"],
  since: ["--since DAY", "the first day, such as 2026-11-01, or a span, such as 7d; 30d by default, without --until"],
  until: ["--until DAY", "the last day"],
  key: ["--key KEY", "only calls of this key, by its id or its name"],
  group: ["--group NAME", "only calls of keys of this group"],
  model: ["--model NAME", "only calls of this model"],
  upstream: ["--upstream NAME", "only calls that this upstream was asked for last"],
  charged: ["--charged", "leaves out the rows without a charge; the sum counts their calls"],
  outcome: ["--outcome A,B", `only calls that ended so: ${CALL_OUTCOMES.join(", ")}`],
  code: [
    "--code CODE",
    "only calls with this error code, as recorded (quota_exhausted) or as read (insufficient_quota)",
  ],
  csv: ["--csv", "prints the rows as CSV"],
  spreadsheet: ["--spreadsheet NAME", `prints CSV for a spreadsheet to open: ${SPREADSHEETS.join(" or ")}`],
  host: ["--host ADDRESS", "the address to listen on; HOST, or 127.0.0.1 by default"],
  port: ["--port N", "the port, 0 for any free one; PORT, or 3000 by default"],
  target: ["--target ID", "only changes of the key or the budget of this id"],
  user: ["--user NAME", "only changes by this user, by the whole name"],
  action: ["--action NAME", "only changes of this kind, such as keys.update or budgets.top-up"],
};

/** The text to write in place of an empty one. */
export const INSTEAD_OF_EMPTY: Words = {
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
  /** The help of options that mean something else here than in other commands. */
  readonly words?: Words;
  /** Environment variables that this command reads, or the gateway that it writes, with their help. */
  readonly variables?: Readonly<Record<string, string>>;
  /** True for a command whose statements read or change whole tables, and may take long. */
  readonly isLong?: boolean;
  /** True for a command that neither reads nor shows amounts: its help leaves out the currency. */
  readonly hasNoAmounts?: boolean;
  /** The name of the list that the command returns. Default: the command returns no list. */
  readonly list?: ListName;
  /** For options that people expect here: what to do instead. */
  readonly elsewhere?: Words;
}

export interface Command extends Syntax {
  /**
   * Checks the arguments and reads the input before a store is opened, and returns the function that runs the command. The function
   * returns the answer, unless it prints lines by itself. Throws a UsageError for a wrong value.
   */
  read(operands: readonly string[], values: Values, terminal: Terminal): Work | Promise<Work>;
}

/**
 * Asks at a terminal whether a change is meant, unless `--yes` says so. Throws a CommandError for any answer but yes, and without a terminal,
 * where it counts as a wrong command line.
 *
 * @param words What the change does, in a sentence.
 * @param details What a program needs to know beside these words.
 */
export async function assertMeant(
  words: string,
  { yes = false, json = false }: Values,
  { ask }: Pick<Terminal, "ask">,
  details: object = {},
): Promise<void> {
  if (yes) return;
  if (!ask || json) {
    const cause = new UsageError(`${words} Nothing was changed. If this is meant, add --yes.`);
    throw new CommandError(cause.message, { code: "confirmation_required", ...details }, { cause });
  }
  const answer = await ask(`${words} Is it meant? (y/N) `);
  if (!/^\s*y(?:es)?\s*$/i.test(answer)) throw new CommandError("Nothing was changed.");
}

/**
 * Asks, as `assertMeant` does, before a key loses the last limit that it has. Resolves with the condition under which there was nothing to ask;
 * with undefined after a yes.
 */
export async function assertStaysLimited(
  taken: "quota" | "budget",
  key: KeyReport | undefined,
  values: Values,
  terminal: Pick<Terminal, "ask">,
): Promise<((key: ApiKey) => boolean) | undefined> {
  const words = key && unlimitedWithout(taken, { ...key, id: oneLine(key.id), hasQuota: !key.unlimited });
  if (words !== undefined) await assertMeant(words, values, terminal);
  return words === undefined && !values.yes ? isLimitedWithout(taken) : undefined;
}

/**
 * Asks, as `assertMeant` does, before a doubtful change of an amount.
 *
 * @param change What the amount changes. Undefined for an amount whose currency alone may be a mistake.
 * @param possible Rejects for a change that the store would refuse: nobody is asked about such a change.
 */
export async function assertAmount(
  change: AmountChange | undefined,
  values: Values,
  terminal: Pick<Terminal, "ask">,
  { currencyDoubt }: Pick<Opened, "currencyDoubt">,
  possible: () => Promise<unknown>,
): Promise<void> {
  const { currency } = values;
  const amount = (units: number): string => unitsInWords(units, currency);
  const doubts = [currencyDoubt, change && doubtInWords(change, { amount, currency })].filter(
    (words) => words !== undefined,
  );
  if (doubts.length > 0) await possible();
  for (const words of doubts) await assertMeant(words, values, terminal);
}

/** Says how an amount of a key or a budget was changed, for the first line of the answer. */
export function doneInWords(
  isAdded: boolean,
  units: number,
  { id, granted, available }: Pick<KeyReport, "id" | "granted" | "available">,
  currency: string | undefined,
): string {
  // No amount of an unlimited key can be changed.
  const [amount = "", all = "", rest = ""] = [units, granted ?? 0, available ?? 0].map((some) =>
    unitsInWords(some, currency),
  );
  return `${isAdded ? "Added" : "Took"} ${amount} ${isAdded ? "to" : "from"} ${oneLine(id)}. Granted: ${all}. Available: ${rest}.`;
}

/** A store that a command works on. */
export interface Opened extends OpenedStore {
  /** Says what an amount in the given currency means after those in another one. Undefined for a command line that needs no such question. */
  readonly currencyDoubt?: string | undefined;
  /** True for an empty currency, which says that all amounts are units. */
  readonly countsUnits: boolean;
}

/**
 * Returns the currency in which a file has its amounts, as units: that of the command, or of calls or amounts before. Undefined for units that
 * are no money, or not known to be any.
 */
export async function currencyOfUnits(
  { currency }: Pick<Values, "currency">,
  { calls, audit, countsUnits }: Opened,
): Promise<string | undefined> {
  if (countsUnits || currency !== undefined) return countsUnits ? undefined : currency;
  // Calls that were recorded without a currency are counted in units.
  const latest = (await latestCall(calls)) ?? { currency: await notedCurrency(audit) };
  return latest.currency;
}

type Work = (keys: KeyAdmin, opened: Opened) => Promise<object | void>;
