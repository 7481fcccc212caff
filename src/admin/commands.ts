/** The commands of `polygate keys` and `polygate budgets`: their options, functions and output. */

import { parseArgs } from "node:util";
import type { BudgetOptions, BudgetPeriod, BudgetReport } from "../stores/budgets.ts";
import { type KeyPage, type KeyReport, MOST_LISTED } from "../stores/durable.ts";
import { MOST_UNITS, noSuchBudget } from "../stores/ledger.ts";
import { type KeyAdmin, keyAdmin, type NewKeyOptions } from "./key-admin.ts";
import { type OpenedStore, openStore, UsageError } from "./open-store.ts";

/** The environment variables of a command, and the function that prints its output. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
}

export const USAGE = `polygate keys <command> --store <address>

  create [--id ID] [--name NAME] [--granted UNITS] [--models A,B] [--expires DATE]
         [--budget ID]
  rotate ID [--overlap 24h]     a new secret; the old ones end after the overlap
  revoke ID                     no secret finds the key any more
  grant ID UNITS                adds to its quota
  usage ID                      what it has used and has left
  list [--after ID] [--limit N]
  sweep                         charges holds whose leases have run out
  prune --older-than 30d        forgets resolved holds
  verify                        compares balances with the journal (SQL)
  migrate                       makes or updates the tables (SQL)

polygate budgets <command> --store <address>

  create ID --amount UNITS [--name NAME] [--period day|week|month]
         [--time-zone ZONE] [--rollover] [--parent ID]
  amount ID UNITS               changes the amount, also below what is used
  top-up ID UNITS               adds to the current period
  assign KEY ID                 lets a key draw on a budget
  unassign KEY                  lets a key draw on no budget
  usage ID                      what it has used and has left
  list [--after ID] [--limit N]

  --store   sqlite:FILE, postgres://…, mysql://… or redis://…
            POLYGATE_STORE in the environment keeps a password out of the list of processes.
  --prefix  what the names of tables or Redis keys begin with
  --json    prints JSON`;

const OPTIONS = {
  store: { type: "string" },
  prefix: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
  id: { type: "string" },
  name: { type: "string" },
  granted: { type: "string" },
  models: { type: "string" },
  expires: { type: "string" },
  overlap: { type: "string" },
  after: { type: "string" },
  limit: { type: "string" },
  "older-than": { type: "string" },
  budget: { type: "string" },
  amount: { type: "string" },
  period: { type: "string" },
  "time-zone": { type: "string" },
  rollover: { type: "boolean" },
  parent: { type: "string" },
} as const;

type Parsed = ReturnType<typeof parse>;
type Values = Parsed["values"];

interface Command {
  /** The names of the required arguments after the command. */
  readonly operands?: readonly string[];
  /** The options that the command takes beside those of every command. */
  readonly options?: readonly (keyof Values)[];
  /**
   * Checks the arguments before a store is opened, and returns the function that runs the command. Throws a UsageError for a wrong
   * value.
   */
  read(operands: readonly string[], values: Values): (keys: KeyAdmin, opened: OpenedStore) => Promise<unknown>;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    options: ["id", "name", "granted", "models", "expires", "budget"],
    read(_operands, values) {
      const key = newKeyFrom(values);
      return (keys) => keys.create(key);
    },
  },
  rotate: {
    operands: ["ID"],
    options: ["overlap"],
    read([id = ""], { overlap }) {
      const rotation = overlap === undefined ? {} : { overlapMs: spanOf("--overlap", overlap) };
      return (keys) => keys.rotate(id, rotation);
    },
  },
  revoke: {
    operands: ["ID"],
    read([id = ""]) {
      return async (keys) => {
        await keys.revoke(id);
        return { id, revoked: true };
      };
    },
  },
  grant: {
    operands: ["ID", "UNITS"],
    read([id = "", text = ""]) {
      const units = integerOf("UNITS", text);
      return (keys) => keys.grant(id, units);
    },
  },
  usage: {
    operands: ["ID"],
    read([id = ""]) {
      return (keys) => keys.usage(id);
    },
  },
  list: {
    options: ["after", "limit"],
    read(_operands, values) {
      const page = pageFrom(values);
      return (keys) => keys.list(page);
    },
  },
  sweep: {
    read() {
      return async (_keys, { store }) => ({ swept: await store.sweep() });
    },
  },
  prune: {
    options: ["older-than"],
    read(_operands, { "older-than": span }) {
      if (span === undefined) throw new UsageError("prune needs --older-than, such as 30d.");
      const olderThanMs = spanOf("--older-than", span);
      return async (_keys, { store }) => ({ pruned: await store.prune({ olderThanMs }) });
    },
  },
  verify: {
    read() {
      return async (_keys, { verify }) => {
        if (!verify) throw new UsageError("Only the stores over SQL keep a journal.");
        const differences = await verify();
        if (differences.length > 0) throw new Error(differences.map(sentenceOf).join("\n"));
        return { differences: 0 };
      };
    },
  },
  migrate: {
    read() {
      return async (_keys, { migrate }) => {
        if (!migrate) throw new UsageError("Only the stores over SQL have tables.");
        await migrate();
        return { migrated: true };
      };
    },
  },
};

const BUDGET_COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    operands: ["ID"],
    options: ["name", "amount", "period", "time-zone", "rollover", "parent"],
    read([id = ""], values) {
      const budget = newBudgetFrom(id, values);
      return async (_keys, { store }) => {
        await store.addBudget(budget);
        return store.budgetReport(id);
      };
    },
  },
  amount: budgetChange((store, id, units) => store.setBudgetAmount(id, units)),
  "top-up": budgetChange((store, id, units) => store.topUpBudget(id, units)),
  assign: {
    operands: ["KEY", "ID"],
    read([keyId = "", id = ""]) {
      return async (keys, { store }) => {
        await store.assignBudget(keyId, id);
        return keys.usage(keyId);
      };
    },
  },
  unassign: {
    operands: ["KEY"],
    read([keyId = ""]) {
      return async (keys, { store }) => {
        await store.assignBudget(keyId, undefined);
        return keys.usage(keyId);
      };
    },
  },
  usage: {
    operands: ["ID"],
    read([id = ""]) {
      return async (_keys, { store }) => {
        const report = await store.budgetReport(id);
        if (!report) throw noSuchBudget(id);
        return report;
      };
    },
  },
  list: {
    options: ["after", "limit"],
    read(_operands, values) {
      const page = pageFrom(values);
      return (_keys, { store }) => store.listBudgets(page);
    },
  },
};

const GROUPS: Readonly<Record<string, Readonly<Record<string, Command>>>> = {
  keys: COMMANDS,
  budgets: BUDGET_COMMANDS,
};

const COMMON: readonly (keyof Values)[] = ["store", "prefix", "json", "help"];

/** Runs a command line, given without the program's name. Rejects with a UsageError when the command line is wrong. */
export async function runCommand(args: readonly string[], { env, print }: Terminal): Promise<void> {
  const { values, positionals } = parse(args);
  const [group, name = "", ...operands] = positionals;
  if (values.help || group === undefined) return print(USAGE);
  const commands = Object.hasOwn(GROUPS, group) ? GROUPS[group] : undefined;
  const command = commands && Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) throw new UsageError(`There is no command "${[group, name].join(" ").trim()}".\n\n${USAGE}`);
  assertTaken(`${group} ${name}`, command, operands, values);
  const work = command.read(operands, values);
  const address = values.store ?? env["POLYGATE_STORE"];
  if (address === undefined) throw new UsageError("Say in --store or POLYGATE_STORE where the keys are.");
  const opened = await openStore(address, { prefix: values.prefix, create: group === "keys" && name === "migrate" });
  try {
    const answer = await work(keyAdmin(opened.store), opened);
    print(values.json ? JSON.stringify(answer, undefined, 2) : textOf(answer));
  } finally {
    await opened.close();
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** Throws a UsageError for operands and options that the command does not take. If they were ignored, a mistake would look like success. */
function assertTaken(name: string, command: Command, operands: readonly string[], values: Values): void {
  const { operands: names = [], options = [] } = command;
  if (operands.length !== names.length) throw new UsageError(`Usage: polygate ${[name, ...names].join(" ")}`);
  for (const option of Object.keys(values) as (keyof Values)[])
    if (!COMMON.includes(option) && !options.includes(option)) throw new UsageError(`${name} takes no --${option}.`);
}

/** A command that changes a budget by units, and reports it. */
function budgetChange(change: (store: OpenedStore["store"], id: string, units: number) => Promise<void>): Command {
  return {
    operands: ["ID", "UNITS"],
    read([id = "", text = ""]) {
      const units = integerOf("UNITS", text);
      return async (_keys, { store }) => {
        await change(store, id, units);
        return store.budgetReport(id);
      };
    },
  };
}

function pageFrom({ after, limit }: Values): KeyPage {
  return {
    ...(after !== undefined && { after }),
    ...(limit !== undefined && { limit: integerOf("--limit", limit, { from: 1, to: MOST_LISTED }) }),
  };
}

const PERIODS: readonly BudgetPeriod[] = ["day", "week", "month"];

function newBudgetFrom(id: string, values: Values): BudgetOptions {
  const { name, amount, rollover, parent, "time-zone": timeZone } = values;
  if (amount === undefined) throw new UsageError("budgets create needs --amount.");
  const period = PERIODS.find((each) => each === values.period);
  if (values.period !== undefined && !period)
    throw new UsageError(`--period must be day, week or month, not ${values.period}.`);
  return {
    id,
    amount: integerOf("--amount", amount),
    ...(name !== undefined && { name }),
    ...(period && { period }),
    ...(timeZone !== undefined && { timeZone }),
    ...(rollover !== undefined && { rollover }),
    ...(parent !== undefined && { parent }),
  };
}

function newKeyFrom({ id, name, granted, models, expires, budget }: Values): NewKeyOptions {
  return {
    ...(id !== undefined && { id }),
    ...(name !== undefined && { name }),
    ...(granted !== undefined && { granted: integerOf("--granted", granted) }),
    ...(models !== undefined && { models: models.split(",").filter((model) => model !== "") }),
    ...(expires !== undefined && { expiresAt: secondsOf(expires) }),
    ...(budget !== undefined && { budget }),
  };
}

/** Parses an integer. The default range is that of an amount of units. */
function integerOf(name: string, text: string, { from = 0, to = MOST_UNITS } = {}): number {
  const value = /^\d+$/.test(text) ? BigInt(text) : -1n;
  if (value < from || value > to)
    throw new UsageError(`${name} must be an integer from ${from} to ${to}, not ${text}.`);
  return Number(value);
}

function secondsOf(text: string): number {
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new UsageError(`--expires must be a date, such as 2030-01-31, not ${text}.`);
  return Math.floor(time / 1_000);
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function spanOf(name: string, text: string): number {
  const [, count, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new UsageError(`${name} must be a span of time, such as 30m, 24h or 7d, not ${text}.`);
  return Number(count) * (UNITS_MS[unit] ?? 0);
}

const sentenceOf = (difference: object): string =>
  Object.entries(difference)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");

/** Formats an answer for people: a line for each field, or for each key of a list. */
function textOf(answer: unknown): string {
  if (Array.isArray(answer)) return (answer as (KeyReport | BudgetReport)[]).map(lineOf).join("\n");
  const lines = Object.entries(answer as object).map(([name, value]) => `${name}: ${wordOf(name, value)}`);
  if (typeof answer === "object" && answer !== null && "apiKey" in answer)
    lines.push("Store the secret now: it is not kept, and cannot be shown again.");
  return lines.join("\n");
}

function wordOf(name: string, value: unknown): string {
  if ((name === "startsAt" || name === "endsAt") && typeof value === "number") return new Date(value).toISOString();
  if (typeof value === "string") return value;
  return typeof value === "object" ? Object.keys(value ?? {}).join(",") : JSON.stringify(value);
}

function lineOf(report: KeyReport | BudgetReport): string {
  const { id, name, used, available } = report;
  const left = `${available} available`;
  if ("amount" in report) return [id, name, `${used} used`, left, report.period ?? "no period"].join("\t");
  const { revoked, unlimited, budget } = report;
  const state = revoked ? "revoked" : unlimited ? "unlimited" : left;
  return [id, name, `${used} used`, state, ...(budget === undefined ? [] : [`budget ${budget}`])].join("\t");
}
