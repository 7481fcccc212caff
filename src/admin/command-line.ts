/** The command line of `polygate`: parses it, finds its command, runs the command, and writes help or the error for a mistake. */

import { parseArgs } from "node:util";
import { moneyOf, writtenMoney } from "../model/money.ts";
import { limitInWords, RefusedChange, RefusedUnits } from "../model/refused-units.ts";
import { manyLines, MAX_TIMER_MS, nearest, oneLine } from "../options.ts";
import { UNMIGRATED } from "../ports/quota-store.ts";
import { isAway } from "../stores/away.ts";
import type { RecordedCall } from "../stores/calls.ts";
import { NO_SUCH_BUDGET, NO_SUCH_KEY, unknownIdIn } from "../stores/ledger.ts";
import { notedCurrency } from "../stores/noted-currency.ts";
import { describeProblem, noteOfEnvFile, placeOf, UsageError } from "../stores/open/connection.ts";
import { asTold, listCsv, listText, textOf } from "./answers.ts";
import { AUDIT_COMMANDS } from "./audit-commands.ts";
import { BUDGET_COMMANDS } from "./budget-commands.ts";
import { argument, ofOtherCurrency } from "./call-admin.ts";
import { CALL_COMMANDS } from "./call-commands.ts";
import {
  type Command,
  CommandError,
  INSTEAD_OF_EMPTY,
  OPTION_HELP,
  OPTIONS,
  type ServerFlags,
  type Syntax,
  type Terminal,
  type Values,
  type Words,
} from "./commands.ts";
import { DATABASES, type NewProject, nextSteps, SERVERS, writeProject } from "./init.ts";
import { keyAdmin } from "./key-admin.ts";
import { KEY_COMMANDS } from "./key-commands.ts";
import { csvOf, linesOfCsv, printTable } from "./lists.ts";
import { loggedStore } from "./logged-store.ts";
import { masked, withoutSecretNames } from "./masked.ts";
import { idsMeant, type ListNamed } from "./names.ts";
import { latestCall, openStore } from "./open-store.ts";
import { codeOf } from "./refusal-codes.ts";
import { currencyOf, spanOf, wordOf } from "./values.ts";

const GROUPS: Readonly<Record<string, Readonly<Record<string, Command>>>> = {
  keys: KEY_COMMANDS,
  budgets: BUDGET_COMMANDS,
};

/** The commands that open a store, and have no group. */
const SINGLE_COMMANDS: Readonly<Record<string, Command>> = { ...CALL_COMMANDS, ...AUDIT_COMMANDS };

/** A command that opens no store by itself. */
interface Program extends Syntax {
  run(operands: readonly string[], values: Values, terminal: Terminal): Promise<void>;
}

const PROGRAMS: Readonly<Record<string, Program>> = {
  demo: {
    about: "runs a gateway with a model that works offline, and a page to try it",
    examples: ["", "--port 8080 --store sqlite:demo.db"],
    options: ["host", "port", "store"],
    variables: {
      POLYGATE_UPSTREAM: "the format of an upstream in place of the model, such as messages",
      POLYGATE_UPSTREAM_URL: "its address",
      POLYGATE_UPSTREAM_KEY: "its secret",
      POLYGATE_UPSTREAM_FILE: "in place of these, a JSON file with upstreams by model",
    },
    run: (_operands, values, { servers }) => servers.demo(flagsOf(values)),
  },
  init: {
    about: "writes a gateway of your own into a folder, with its server and database",
    examples: ["--yes", "my-gateway --server fastify --database postgres"],
    operands: ["[FOLDER]"],
    options: ["server", "database", "yes", "force"],
    words: { yes: "takes the defaults, and asks nothing" },
    variables: {
      UPSTREAM_FORMAT: "the format of the upstream of the gateway that is written",
      UPSTREAM_URL: "its address",
      UPSTREAM_KEY: "its secret",
      MODELS: "its models; .env.example in the folder has all variables",
    },
    async run(operands, values, terminal) {
      const written = await writeProject(await projectOf(operands, values, terminal), terminal.home);
      terminal.print(values.json ? jsonOf(written) : nextSteps(written));
    },
  },
  serve: {
    about: "runs the gateway of a file as a server, with its stores and health",
    examples: ["gateway.ts", "gateway.ts --host 0.0.0.0 --port 8080"],
    operands: ["FILE"],
    options: ["host", "port", "store"],
    words: { json: "prints each line as an object of JSON" },
    run: ([file = ""], values, { servers }) => servers.serve(file, flagsOf(values)),
  },
};

function flagsOf({ host, port, store, json }: Values): ServerFlags {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65_535))
    throw new UsageError(`--port must be an integer from 0 to 65535, not ${port}.`);
  return {
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port: Number(port) }),
    ...(store !== undefined && { store }),
    ...(json !== undefined && { json }),
  };
}

const EVERYWHERE: readonly (keyof Values)[] = ["json", "help", "version"];
const WITH_STORE: readonly (keyof Values)[] = ["store", "prefix", "timeout", "currency", ...EVERYWHERE];

const columns = (rows: readonly (readonly [string, string])[]): string =>
  rows.map(([left, right]) => `  ${left.padEnd(21)}  ${right}`).join("\n");

const examplesOf = (group: string, examples: readonly string[]): string =>
  examples.map((example) => `  polygate ${group} ${example}`.trimEnd()).join("\n");

const usageOf = (name: string, { operands = [] }: Syntax): string => [name, ...operands].join(" ");

const optionsOf = (options: readonly (keyof Values)[], words: Words = {}): string =>
  columns(options.map((name) => [OPTION_HELP[name][0], words[name] ?? OPTION_HELP[name][1]]));

const commandsOf = (group: Readonly<Record<string, Syntax>>): string =>
  columns(Object.entries(group).map(([name, command]) => [usageOf(name, command), command.about]));

const groupHelp = (group: string, commands: Readonly<Record<string, Command>>): string =>
  `polygate ${group} <command> --store <address>\n\n${commandsOf(commands)}`;

const GENERAL_HELP = `${optionsOf(WITH_STORE)}

POLYGATE_STORE in the environment is the default of --store. It keeps a password out of the list of processes.
POLYGATE_CURRENCY is the default of --currency. JSON always has units.
POLYGATE_TIME_ZONE is the default of --time-zone in calls and why. JSON and plain CSV always have UTC.
POLYGATE_USER names you in the log of changes (SQL); by default it is your user in the system.
Exit codes: 0 when the command has worked, 1 when it has failed, 2 when the command line or the input is wrong.`;

const FIRST_EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  keys: [
    "migrate --store sqlite:quota.db",
    'create --id team-a --name "Team A" --granted 50 --currency usd',
    "create --help",
  ],
  budgets: [
    "create company --amount 5000 --currency usd --period month",
    "create team-a --amount 300 --currency usd --period month --parent company",
  ],
};

/** Returns the help of some groups, and of other commands that open a store. */
const usageOfGroups = (groups: readonly string[], others: readonly string[] = []): string =>
  [
    ...groups.map((group) => groupHelp(group, GROUPS[group] ?? {})),
    ...others,
    GENERAL_HELP,
    groups.map((group) => examplesOf(group, FIRST_EXAMPLES[group] ?? [])).join("\n"),
  ].join("\n\n");

/** The help of all commands. The programs come first, because people begin with them. */
export const USAGE: string = [
  `polygate <command>\n\n${commandsOf(PROGRAMS)}`,
  Object.entries(PROGRAMS)
    .map(([name, { examples }]) => examplesOf(name, examples.slice(0, 1)))
    .join("\n"),
  usageOfGroups(Object.keys(GROUPS), [`polygate <command> --store <address>\n\n${commandsOf(SINGLE_COMMANDS)}`]),
].join("\n\n");

/** A command as it was found on the command line. */
interface Found {
  /** Its words, such as `keys create`. */
  readonly name: string;
  readonly syntax: Syntax;
  /** All options that it takes. */
  readonly options: readonly (keyof Values)[];
  readonly operands: readonly string[];
  /** Opens the store, or runs without one. */
  readonly command: Command | Program;
}

function find([group = "", ...operands]: readonly string[]): Found | undefined {
  const program = Object.hasOwn(PROGRAMS, group) ? PROGRAMS[group] : undefined;
  if (program) {
    const options = [...(program.options ?? []), ...EVERYWHERE];
    return { name: group, syntax: program, options, operands, command: program };
  }
  const single = Object.hasOwn(SINGLE_COMMANDS, group) ? SINGLE_COMMANDS[group] : undefined;
  if (single) {
    const options = [...(single.options ?? []), ...WITH_STORE];
    return { name: group, syntax: single, options, operands, command: single };
  }
  const [name = "", ...rest] = operands;
  const commands = Object.hasOwn(GROUPS, group) ? GROUPS[group] : undefined;
  const command = commands && Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) return undefined;
  const options = [...(command.options ?? []), ...WITH_STORE];
  return { name: `${group} ${name}`, syntax: command, options, operands: rest, command };
}

const helpOf = (group: string, { name, syntax, options }: Found): string =>
  [
    `polygate ${usageOf(name, syntax)}: ${syntax.about}`,
    optionsOf(
      options.filter((option) => option !== "currency" || !syntax.hasNoAmounts),
      { help: "this help", ...syntax.words },
    ),
    ...(syntax.variables ? [columns(Object.entries(syntax.variables))] : []),
    Object.hasOwn(SINGLE_COMMANDS, group)
      ? syntax.examples.map((example) => `  polygate ${example}`).join("\n")
      : examplesOf(group, syntax.examples),
  ].join("\n\n");

const NAMES: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(Object.entries(GROUPS).map(([group, commands]) => [group, Object.keys(commands)])),
  ...Object.fromEntries(Object.keys(SINGLE_COMMANDS).map((name) => [name, []])),
  ...Object.fromEntries(Object.keys(PROGRAMS).map((name) => [name, []])),
};

/**
 * Runs a command line, prints its error, and returns the exit code of the process: 2 when the command line or the input is wrong, and 1
 * after any other failure.
 */
export async function exitCodeOf(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    await runCommand(args, terminal);
    return 0;
  } catch (error) {
    // People paste secrets for ids. A terminal keeps its lines.
    const message = masked(describeProblem(error));
    const cause = error instanceof CommandError ? (error.cause ?? error) : error;
    const isUsage = cause instanceof UsageError;
    const limit = cause instanceof RefusedUnits ? { limit: cause.limit } : {};
    const code = isUsage ? "invalid_request" : codeOf(cause);
    const details = error instanceof CommandError ? error.details : {};
    terminal.warn?.(
      args.includes("--json") ? manyLines(JSON.stringify({ error: message, code, ...limit, ...details })) : message,
    );
    return isUsage ? 2 : 1;
  }
}

/** Runs a command line, given without the program's name. Rejects with a UsageError when the command line or the input is wrong. */
export async function runCommand(args: readonly string[], terminal: Terminal): Promise<void> {
  const { env, home } = terminal;
  // JSON escapes only some control characters. Those that it leaves stand inside texts, where their escapes mean the same.
  const print = (line: string): void => terminal.print(manyLines(line));
  const { values, positionals } = parse(args);
  const [group = ""] = positionals;
  const found = find(positionals);
  if (values.version) return print(home.manifest.version);
  if (values.help || group === "") {
    if (found) return print(helpOf(group, found));
    return print(Object.hasOwn(GROUPS, group) ? usageOfGroups([group]) : USAGE);
  }
  if (!found) throw unknownCommand(positionals, NAMES);
  assertArguments(found);
  const { command, operands } = found;
  if ("run" in command) return command.run(operands, values, { ...terminal, print });
  const address = values.store || env["POLYGATE_STORE"];
  if (!address)
    throw new UsageError(
      "No store is given. Name it with --store, or in POLYGATE_STORE: sqlite:FILE, postgres://…, mysql://… or redis://….",
    );
  const answerMs = answerMsOf(found.syntax, values);
  const user = userOf(terminal);
  const { currency: code = env["POLYGATE_CURRENCY"], ...given } = values;
  const currency = currencyOf(code);
  const work = await command.read(
    operands,
    { ...given, ...(currency !== undefined && { currency }) },
    { ...terminal, print },
  );
  if (!values.store && !values.json && !values.csv) {
    const note = noteOfEnvFile(address, await terminal.read(".env").catch(() => ""));
    if (note !== undefined) terminal.warn?.(note);
  }
  const create = found.name === "keys migrate";
  const opened = await openStore(address, { prefix: values.prefix, create, answerMs }).catch((error: unknown) => {
    // The address may stand in a file that the user does not think of.
    if (error instanceof UsageError && error.message.startsWith("The address"))
      throw new UsageError(`${values.store ? "--store" : "POLYGATE_STORE"}: ${error.message}`);
    throw named(error, address);
  });
  try {
    const amount = amountIn(found, values);
    const units = Number(amount ?? 0);
    const latest = currency !== undefined || units > 0 ? await latestCall(opened.calls) : undefined;
    const recorded = latest?.currency;
    const warn = values.json ? undefined : terminal.warn;
    const needsNoted = (currency !== undefined || units > 0) && !latest && !found.syntax.hasNoAmounts;
    const noted = needsNoted ? await notedCurrency(opened.audit) : undefined;
    if (currency !== undefined && recorded === undefined) noteCode(currency, values, env, warn);
    // A report of usage tells the currencies of its own calls.
    const hasOwn = found.syntax.hasNoAmounts || (found.name === "usage" && latest !== undefined);
    const other = hasOwn ? undefined : otherCurrency(currency, latest, noted);
    // A command asks about an amount after it has checked the change.
    const currencyDoubt = amount === undefined || values.yes ? undefined : other?.ofChange;
    if (other && currencyDoubt === undefined) warn?.(amount === undefined ? other.ofList : other.ofChange);
    // An empty code says that units are meant.
    if (code === undefined && units > 0)
      noteUnits(units, latest ?? (noted === undefined ? undefined : { currency: noted }), warn);
    const by = { user, currency, formerCurrency: noted };
    const store = withoutSecretNames(opened.store);
    const logged = loggedStore(keyAdmin(store), { ...opened, store }, by, (error) => {
      warn?.(`The log of changes does not have this change as a whole: ${describeProblem(error)}`);
    });
    const answer = await work(logged.keys, {
      ...opened,
      store: logged.store,
      currencyDoubt,
      countsUnits: code === "",
    });
    if (!answer) return;
    const shown = await asTold(answer, opened.store);
    const { csv, spreadsheet } = csvOf(values);
    const { list } = found.syntax;
    if (values.json) print(jsonOf(shown));
    else if (!list || !Array.isArray(shown)) print(textOf(shown, currency));
    else if (csv) print(linesOfCsv(listCsv(list, shown, currency, spreadsheet)));
    else if (shown.length === 0) print(`There are no ${list} to list.`);
    else printTable(listText(list, shown, currency, terminal.columns), print, terminal.warn ?? (() => {}));
    if (code !== undefined || values.json || !hasAmounts(shown)) return;
    const told = latest ?? (await latestCall(opened.calls)) ?? { currency: await notedCurrency(opened.audit) };
    if (told.currency !== undefined)
      terminal.warn?.(
        `Amounts are units, millionths of ${told.currency}. For money, add --currency ${told.currency.toLowerCase()}.`,
      );
  } catch (error) {
    if (error instanceof RangeError && error.message.startsWith(NO_SUCH_BUDGET))
      throw await unknownId(error, NO_SUCH_BUDGET, "budgets", (page) => opened.store.listBudgets(page));
    if (error instanceof RangeError && error.message.startsWith(NO_SUCH_KEY))
      throw await unknownId(error, NO_SUCH_KEY, "keys", (page) => keyAdmin(opened.store).list(page));
    if (error instanceof RefusedUnits) {
      const { limit, message } = error;
      const words = currency === undefined ? message : limitInWords(limit, (units) => moneyOf(units, currency));
      // A team that comes from elsewhere may have spent more than its budget.
      const help = "available" in limit && limit.available > 0 ? " Take so much at most: then nothing is left." : "";
      throw new CommandError(words + help, {}, { cause: error });
    }
    throw named(error, address);
  } finally {
    await opened.close();
  }
}

/** Reads the longest wait for an answer of the database, in milliseconds. */
function answerMsOf({ isLong }: Syntax, { timeout = isLong ? "1h" : "60s" }: Values): number {
  const ms = spanOf("--timeout", timeout);
  if (ms < 1 || ms > MAX_TIMER_MS) throw new UsageError(`--timeout must be from 1s to 24d, not ${timeout}.`);
  return ms;
}

/** The most characters of a user's name in the log of changes. */
const LONGEST_USER = 180;

/** Returns the name of the user for the log of changes. */
function userOf({ env, user = "unknown" }: Terminal): string {
  const name = env["POLYGATE_USER"] || user;
  if (name.length > LONGEST_USER) throw new UsageError(`POLYGATE_USER must have at most ${LONGEST_USER} characters.`);
  return name;
}

/** Adds to the error for an unknown id the ids that were probably meant: people know names. */
async function unknownId(
  cause: RangeError,
  beginning: string,
  group: "budgets" | "keys",
  list: ListNamed,
): Promise<CommandError> {
  const { message } = cause;
  if (masked(message) !== message)
    return new CommandError(
      `${masked(message)} This is the secret of a key, not an id. If others may have it, "polygate keys remove-secret < FILE" removes the secret in a file, and names its key. "polygate ${group} list" lists the ${group}.`,
      {},
      { cause },
    );
  const { ids, areNamed } = await idsMeant(unknownIdIn(message, beginning) ?? "", list);
  const hint = `${areNamed ? " The command takes an id, not a name." : ""}${question(ids.map(oneLine))}`;
  return new CommandError(`${message}${hint} "polygate ${group} list" lists the ${group}.`, {}, { cause });
}

/** Names the store of an error that its server or its client has made: such an error often has nothing but a port. */
function named(error: unknown, address: string): unknown {
  const isOfStore = isAway(error) || typeof (error as { readonly code?: unknown }).code === "string";
  if (
    !isOfStore ||
    error instanceof UsageError ||
    error instanceof RefusedChange ||
    (error as { readonly code?: unknown }).code === UNMIGRATED
  )
    return error;
  return new CommandError(`${placeOf(address)} cannot be used: ${describeProblem(error)}`, {}, { cause: error });
}

/** Returns the amount that a command line has; undefined for none. */
function amountIn({ syntax, operands }: Found, { granted, amount }: Values): string | undefined {
  const text = granted ?? amount ?? operands[syntax.operands?.indexOf("AMOUNT") ?? -1];
  return text === "none" ? undefined : text;
}

/** What tells of another currency than the given one. */
interface OtherCurrency {
  /** Says what an amount in the given currency means. */
  readonly ofChange: string;
  /** Says in which currency amounts are shown. */
  readonly ofList: string;
}

/** Compares a currency with that of the latest call, or else of noted amounts. A single call of a gateway with wrong prices stops no command. */
function otherCurrency(
  given: string | undefined,
  latest: RecordedCall | undefined,
  noted: string | undefined,
): OtherCurrency | undefined {
  const code = latest ? latest.currency : noted;
  if (given === undefined || code === undefined || code === given) return undefined;
  if (!latest)
    return {
      ofChange: `Amounts were given in ${code} before. With this one, all of them count in ${given}.`,
      ofList: `Amounts were given in ${code}, and are shown as ${given}.`,
    };
  const cause = ofOtherCurrency(latest, given);
  return {
    ofChange: `${cause} An amount in ${given} is right only if your gateway's prices are in ${given}.`,
    ofList: `${cause} Amounts are shown as ${given}, but each call in its own currency.`,
  };
}

/** True for keys and budgets. */
const hasAmounts = (shown: object): boolean => (Array.isArray(shown) ? shown.length > 0 : "available" in shown);

/**
 * Throws a UsageError for an amount without a currency if calls are recorded, or amounts were given, in one: people who think in money forget
 * the currency, and units are millionths of it. Notes what the amount is if nothing tells whether units are money.
 */
function noteUnits(units: number, latest: Pick<RecordedCall, "currency"> | undefined, warn: Terminal["warn"]): void {
  const code = latest?.currency;
  if (code !== undefined)
    throw new UsageError(
      `${units === 1 ? "1 unit is" : `${units} units are`} ${moneyOf(units, code)}. For ${units} ${code}, add --currency ${code.toLowerCase()} (or set POLYGATE_CURRENCY); for units, add --currency "".`,
    );
  if (!latest)
    warn?.(
      `${units} units. If your gateway has prices in a currency, that is ${writtenMoney(units)} of it: add --currency usd, or set POLYGATE_CURRENCY (empty, if you count in units).`,
    );
}

/** Notes a code that no currency has, and a currency in the environment that an option replaces: no recorded call tells which is right. */
function noteCode(currency: string, { currency: given }: Values, env: Terminal["env"], warn: Terminal["warn"]): void {
  const other = env["POLYGATE_CURRENCY"];
  if (given !== undefined && other && other.toUpperCase() !== currency)
    warn?.(`--currency ${given} is taken, not POLYGATE_CURRENCY, which is ${oneLine(other)}.`);
  if (!Intl.supportedValuesOf("currency").includes(currency))
    warn?.(`${currency} is no known currency. It must be the one of your prices.`);
}

const jsonOf = (answer: object): string => JSON.stringify(answer, undefined, 2);

/** The options for which an empty text is the default, or names the calls without a group, a model or an upstream. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set([
  "store",
  "prefix",
  "currency",
  "time-zone",
  "after",
  "by",
  "group",
  "model",
  "upstream",
] satisfies (keyof Values)[]);

/** The least value of each option that is a number. */
const LEAST: Readonly<Record<string, number>> = { granted: 0, amount: 0, limit: 1, port: 0 } satisfies Partial<
  Record<keyof Values, number>
>;

/**
 * Throws a UsageError for an option that the command does not take, and for an empty text where none makes sense. If they were taken, a
 * mistake would look like success.
 */
function parse(args: readonly string[]) {
  const config = { args: [...args], options: OPTIONS, allowPositionals: true } as const;
  const { tokens, positionals } = parseArgs({ ...config, strict: false, tokens: true });
  const found = find(positionals);
  const known: readonly string[] = found?.options ?? Object.keys(OPTIONS);
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== "option") continue;
    const { name, rawName, value } = token;
    if (!known.includes(name)) {
      // The cast is safe: a name that is no option has no entry.
      const hint = found?.syntax.elsewhere?.[name as keyof Values];
      const next = tokens[at + 1];
      const text = value ?? (next?.kind === "positional" ? next.value : undefined);
      throw hint === undefined ? unknownOption(rawName, found?.name, known, text) : new UsageError(hint);
    }
    const isText = OPTIONS[name as keyof typeof OPTIONS].type === "string";
    if (!isText && value !== undefined) throw new UsageError(`${rawName} takes no value.`);
    if (!isText) continue;
    if (value === undefined) throw new UsageError(`${rawName} needs a value.`);
    if (value === "" && !MAY_BE_EMPTY.has(name)) {
      // The cast is safe: a name without such words has no entry.
      const instead = INSTEAD_OF_EMPTY[name as keyof Values] ?? "";
      throw new UsageError(`${rawName} must not be empty, as with a shell variable that is not set.${instead}`);
    }
    if (Object.hasOwn(LEAST, name) && /^-\d/.test(value))
      throw new UsageError(`${rawName} must be ${LEAST[name]} or more, not ${value}.`);
    if (!token.inlineValue && /^-./.test(value))
      throw new UsageError(`${rawName} needs a value. Write ${rawName}=${value} if this is the value.`);
  }
  return parseArgs(config);
}

/** Throws a UsageError for arguments that the command does not take, or that it lacks. */
function assertArguments({ name, syntax, operands: given }: Found): void {
  const { operands: names = [], options = [] } = syntax;
  const required = names.filter((operand) => !operand.startsWith("["));
  const empty = names.find((_, at) => given[at] === "");
  if (empty !== undefined)
    throw new UsageError(
      required.includes(empty)
        ? `${name} needs ${empty}, not an empty text.`
        : `${empty.replaceAll(/[[\]]/g, "")} must not be empty, as with a shell variable that is not set.`,
    );
  if (given.length >= required.length && given.length <= names.length) return;
  const usage = [name, ...names, ...(options.length > 0 ? ["[options]"] : [])].join(" ");
  throw wrongArguments(name, usage, names, given, options.includes("id"));
}

/** The hint for MySQL: `init` has no template for it. */
const OTHER_DATABASE =
  " For MySQL, take sqlite, then install mysql2 in the project, and write its address into POLYGATE_STORE.";

/** Reads the choices of `init`, and asks for those that the command line leaves open, after it has checked the others. */
async function projectOf([folder = "."]: readonly string[], values: Values, { ask }: Terminal): Promise<NewProject> {
  const { yes = false, force = false } = values;
  const isMysql = /^(?:mysql|mariadb)$/i.test(values.database ?? "");
  const named = {
    server: wordOf("--server", values.server, SERVERS),
    database: wordOf("--database", values.database, DATABASES, isMysql ? OTHER_DATABASE : undefined),
  };
  const open = (["server", "database"] as const).filter((name) => !yes && named[name] === undefined);
  if (open.length > 0 && !ask) {
    const flags = open.map((name) => `--${name} ${(name === "server" ? SERVERS : DATABASES).join("|")}`).join(" ");
    throw new UsageError(`init asks for the ${open.join(" and the ")} on a terminal only. Add --yes, or ${flags}.`);
  }
  const choose = async <Kind extends string>(name: "server" | "database", kinds: readonly [Kind, ...Kind[]]) => {
    for (;;) {
      const answer = (await ask?.(`Which ${name}: ${kinds.join(", ")}? (${kinds[0]}) `)) ?? "";
      const chosen = kinds.find((known) => known === (answer.trim().toLowerCase() || kinds[0]));
      if (chosen !== undefined) return chosen;
    }
  };
  const server = named.server ?? (yes ? SERVERS[0] : await choose("server", SERVERS));
  const database = named.database ?? (yes ? DATABASES[0] : await choose("database", DATABASES));
  return { folder, server, database, force };
}

/** The names of the commands of each group. */
type Groups = Readonly<Record<string, readonly string[]>>;

/** The commands that people look for under other words. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  "keys ls": "list",
  "keys add": "create",
  "keys new": "create",
  "keys rename": "update ID --name NAME",
  "keys show": "usage",
  "keys delete": "revoke",
  "keys remove": "revoke",
  "budgets ls": "list",
  "budgets add": "create",
  "budgets new": "create",
  "budgets set": "update",
  "budgets rename": "update ID --name NAME",
  "budgets grant": "top-up",
  "budgets show": "usage",
  "budgets delete": "remove",
};

/** Returns the error for words that are no command. */
function unknownCommand([group = "", name]: readonly string[], groups: Groups): UsageError {
  const of = Object.hasOwn(groups, group) ? groups[group] : undefined;
  if (of && name === undefined)
    return new UsageError(`${group} needs a command, such as ${of[0]}. "polygate ${group} --help" lists them.`);
  const words = name === undefined ? group : `${group} ${name}`;
  const known = Object.hasOwn(OTHER_WORDS, words) ? OTHER_WORDS[words] : undefined;
  const near = known ?? (of && nearest(name ?? "", of));
  const meant = near === undefined ? commandsLike(name ?? group, group, groups) : [`${group} ${near}`];
  const help = of ? `polygate ${group} --help` : "polygate --help";
  return new UsageError(`There is no command "${words}".${question(meant)} "${help}" lists them.`);
}

/** Lists commands for a word that is the name of a command in another group, or for a group that is misspelt. */
function commandsLike(word: string, group: string, groups: Groups): string[] {
  const meant = nearest(group, Object.keys(groups));
  if (meant !== undefined && groups[meant]?.includes(word)) return [`${meant} ${word}`];
  // A word alone, or a command without commands of its own.
  if (meant !== undefined && (word === group || groups[meant]?.length === 0)) return [meant];
  return Object.entries(groups).flatMap(([other, names]) => (names.includes(word) ? [`${other} ${word}`] : []));
}

const question = (meant: readonly string[]): string =>
  meant.length === 0 ? "" : ` Did you mean ${meant.map((words) => `"${words}"`).join(" or ")}?`;

/** The commands that take back what others add. */
const TAKES_BACK: ReadonlyMap<string, string> = new Map([
  ["budgets top-up", "budgets lower"],
  ["keys grant", "keys lower"],
]);

/** The entries of a key's metadata that people take for options. */
const NOTES: ReadonlySet<string> = new Set(["tier", "group", "team", "plan"]);

/**
 * Returns the error for an option that does not exist, or that the command does not take.
 *
 * @param command The words of the command; undefined if it is not known.
 * @param known The options that it takes.
 * @param text The value of the option, if it has one.
 */
function unknownOption(
  option: string,
  command: string | undefined,
  known: readonly string[],
  text: string = "TEXT",
): UsageError {
  if (/^-\d/.test(option)) {
    const taking = TAKES_BACK.get(command ?? "");
    const hint = taking === undefined ? "" : ` "polygate ${taking} ID AMOUNT" takes an amount back.`;
    return new UsageError(`${option} is no option. An amount must be 0 or more.${hint}`);
  }
  const name = option.replace(/^-+/, "");
  const near = nearest(name, known);
  const form = formMeant(name, text, known);
  const ofMetadata = command !== undefined && known.includes("metadata") && NOTES.has(name);
  const instead = ofMetadata ? ` Write --metadata ${name}=${argument(text)}.` : form && ` Write ${form}.`;
  const meant = instead ?? (near === undefined ? "" : ` Did you mean --${near}?`);
  const fault = command === undefined ? `There is no option ${option}.` : `${command} takes no ${option}.`;
  const all = known.map((name) => `--${name}`).join(", ");
  return new UsageError(`${fault}${meant}${command === undefined ? "" : ` It takes ${all}.`}`);
}

/** The options for the form of an answer, by the words that people have for it, also as the value of a `--format`. */
const FORMS: readonly (readonly [words: RegExp, option: string, usage: string])[] = [
  [/^(?:xlsx?|excel|ods|sheets?)$/i, "spreadsheet", "--spreadsheet excel, for a .csv file that Excel opens"],
  [/^csv$/i, "csv", "--csv"],
  [/^json$/i, "json", "--json"],
];

/** Returns the usage of the option for the form that is meant by another name; undefined for no form, and for one that is not taken. */
function formMeant(name: string, text: string, known: readonly string[]): string | undefined {
  const word = /^(?:format|output|type|o)$/.test(name) ? text : name;
  return FORMS.find(([words, option]) => words.test(word) && known.includes(option))?.[2];
}

/**
 * Returns the error for arguments that are too few or too many.
 *
 * @param usage The command with the names of its arguments, such as `keys grant ID AMOUNT`.
 * @param names The names of its arguments. A name in brackets is optional.
 * @param takesId True if the command takes an id as an option.
 */
function wrongArguments(
  command: string,
  usage: string,
  names: readonly string[],
  given: readonly string[],
  takesId: boolean,
): UsageError {
  const further = given[names.length];
  const missing = names.filter((name, at) => at >= given.length && !name.startsWith("["));
  const fault = further === undefined ? `needs ${missing.join(" and ")}.` : `does not take "${further}".`;
  const hint = further !== undefined && takesId ? ` Write --id ${further} for its id.` : "";
  return new UsageError(`${command} ${fault}${hint} Usage: polygate ${usage}`);
}
