/** The commands of `polygate keys`: what each takes, and what it prints. */

import { parseArgs } from "node:util";
import type { KeyReport } from "../stores/durable.ts";
import { keyAdmin, type NewKeyOptions } from "./key-admin.ts";
import { MOST_UNITS } from "../stores/account.ts";
import { MOST_LISTED } from "../stores/durable-input.ts";
import { openStore } from "./open-store.ts";
import { type OpenedStore, UsageError } from "./opening.ts";

/** Where a command finds its surroundings. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
}

export const USAGE = `polygate keys <command> --store <address>

  create [--id ID] [--name NAME] [--granted UNITS] [--models A,B] [--expires DATE]
  rotate ID [--overlap 24h]     a new secret; the old ones end after the overlap
  revoke ID                     no secret finds the key any more
  grant ID UNITS                adds to its quota
  usage ID                      what it has used and has left
  list [--after ID] [--limit N]
  sweep                         charges holds whose leases have run out
  prune --older-than 30d        forgets resolved holds
  verify                        compares balances with the journal (SQL)
  migrate                       makes or updates the tables (SQL)

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
} as const;

type Parsed = ReturnType<typeof parse>;
type Values = Parsed["values"];

interface Command {
  /** The names of what stands after the command. */
  readonly operands: readonly string[];
  /** The options that it takes beside those of every command. */
  readonly options: readonly (keyof Values)[];
  /** Reads the command line, before a store is opened; returns what is done with one. Throws a UsageError where a value is wrong. */
  read(operands: readonly string[], values: Values): (opened: OpenedStore) => Promise<unknown>;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    operands: [],
    options: ["id", "name", "granted", "models", "expires"],
    read(_operands, values) {
      const key = newKeyFrom(values);
      return ({ store }) => keyAdmin(store).create(key);
    },
  },
  rotate: {
    operands: ["ID"],
    options: ["overlap"],
    read([id = ""], { overlap }) {
      const rotation = overlap === undefined ? {} : { overlapMs: spanOf("--overlap", overlap) };
      return ({ store }) => keyAdmin(store).rotate(id, rotation);
    },
  },
  revoke: {
    operands: ["ID"],
    options: [],
    read:
      ([id = ""]) =>
      async ({ store }) => {
        await keyAdmin(store).revoke(id);
        return { id, revoked: true };
      },
  },
  grant: {
    operands: ["ID", "UNITS"],
    options: [],
    read([id = "", text = ""]) {
      const units = integerOf("UNITS", text);
      return ({ store }) => keyAdmin(store).grant(id, units);
    },
  },
  usage: {
    operands: ["ID"],
    options: [],
    read:
      ([id = ""]) =>
      ({ store }) =>
        keyAdmin(store).usage(id),
  },
  list: {
    operands: [],
    options: ["after", "limit"],
    read(_operands, { after, limit }) {
      const page = {
        ...(after !== undefined && { after }),
        ...(limit !== undefined && { limit: integerOf("--limit", limit, { from: 1, to: MOST_LISTED }) }),
      };
      return ({ store }) => keyAdmin(store).list(page);
    },
  },
  sweep: {
    operands: [],
    options: [],
    read:
      () =>
      async ({ store }) => ({ swept: await store.sweep() }),
  },
  prune: {
    operands: [],
    options: ["older-than"],
    read(_operands, { "older-than": span }) {
      if (span === undefined) throw new UsageError("prune needs --older-than, such as 30d.");
      const olderThanMs = spanOf("--older-than", span);
      return async ({ store }) => ({ pruned: await store.prune({ olderThanMs }) });
    },
  },
  verify: {
    operands: [],
    options: [],
    read:
      () =>
      async ({ verify }) => {
        if (!verify) throw new UsageError("Only the stores over SQL keep a journal.");
        const differences = await verify();
        if (differences.length > 0) throw new Error(differences.map(sentenceOf).join("\n"));
        return { differences: 0 };
      },
  },
  migrate: {
    operands: [],
    options: [],
    read:
      () =>
      async ({ migrate }) => {
        if (!migrate) throw new UsageError("Only the stores over SQL have tables.");
        await migrate();
        return { migrated: true };
      },
  },
};

const COMMON: readonly (keyof Values)[] = ["store", "prefix", "json", "help"];

/** Runs a command line, without the program's own name. Rejects with a UsageError where it is wrong. */
export async function runCommand(args: readonly string[], { env, print }: Terminal): Promise<void> {
  const { values, positionals } = parse(args);
  const [group, name = "", ...operands] = positionals;
  if (values.help || group === undefined) return print(USAGE);
  const command = group === "keys" && Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) throw new UsageError(`There is no command "${[group, name].join(" ").trim()}".\n\n${USAGE}`);
  assertTaken(name, command, operands, values);
  const work = command.read(operands, values);
  const address = values.store ?? env["POLYGATE_STORE"];
  if (address === undefined) throw new UsageError("Say in --store or POLYGATE_STORE where the keys are.");
  const opened = await openStore(address, { prefix: values.prefix, create: name === "migrate" });
  try {
    const answer = await work(opened);
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

/** What a command does not take would otherwise be passed over: a wrong word must not look as if it had worked. */
function assertTaken(name: string, command: Command, operands: readonly string[], values: Values): void {
  if (operands.length !== command.operands.length)
    throw new UsageError(`Usage: polygate keys ${[name, ...command.operands].join(" ")}`);
  for (const option of Object.keys(values) as (keyof Values)[])
    if (!COMMON.includes(option) && !command.options.includes(option))
      throw new UsageError(`keys ${name} takes no --${option}.`);
}

function newKeyFrom({ id, name, granted, models, expires }: Values): NewKeyOptions {
  return {
    ...(id !== undefined && { id }),
    ...(name !== undefined && { name }),
    ...(granted !== undefined && { granted: integerOf("--granted", granted) }),
    ...(models !== undefined && { models: models.split(",").filter((model) => model !== "") }),
    ...(expires !== undefined && { expiresAt: secondsOf(expires) }),
  };
}

/** Reads an integer: an amount of units unless told. */
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

/** An answer for people: a line for each field, or for each key. */
function textOf(answer: unknown): string {
  if (Array.isArray(answer)) return (answer as KeyReport[]).map(lineOf).join("\n");
  const lines = Object.entries(answer as object).map(([name, value]) => `${name}: ${wordOf(value)}`);
  if (typeof answer === "object" && answer !== null && "apiKey" in answer)
    lines.push("Store the secret now: it is not kept, and cannot be shown again.");
  return lines.join("\n");
}

function wordOf(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" ? Object.keys(value ?? {}).join(",") : JSON.stringify(value);
}

function lineOf({ id, name, unlimited, used, available, revoked }: KeyReport): string {
  const state = revoked ? "revoked" : unlimited ? "unlimited" : `${available} available`;
  return [id, name, `${used} used`, state].join("\t");
}
