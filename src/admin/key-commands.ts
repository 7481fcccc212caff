/** The commands of `polygate keys`. */

import { readAddition } from "../model/amount-text.ts";
import { given } from "../model/json.ts";
import { moneyOf } from "../model/money.ts";
import { RefusedChange } from "../model/refused-units.ts";
import { oneLine } from "../options.ts";
import { isDay } from "../stores/calls.ts";
import { type KeyReport, MOST_LISTED } from "../stores/durable.ts";
import type { KeyChanges } from "../stores/ledger.ts";
import { hasFurtherEntries } from "../stores/metadata.ts";
import { UsageError } from "../stores/open/connection.ts";
import type { LedgerDifference } from "../stores/sql/index.ts";
import { keyMade, type KeyMade, unlimitedNote } from "./answers.ts";
import { argument, commandOf } from "./call-admin.ts";
import {
  assertAmount,
  assertMeant,
  assertStaysLimited,
  doneInWords,
  type Command,
  CommandError,
  currencyOfUnits,
  INSTEAD_OF_EMPTY,
  type Opened,
  type Terminal,
  type Values,
  type Words,
} from "./commands.ts";
import { MOST_NAMED, namedLines, type WrongLine } from "./json-lines.ts";
import { type KeyAdmin, type KeyFilter, type NewKeyOptions } from "./key-admin.ts";
import {
  exportedLine,
  type FailedLine,
  importLines,
  isExported,
  type KeyLine,
  planInWords,
  planOf,
  readLines,
  withoutBudget,
} from "./key-lines.ts";
import { isRevokedAlready, KEY_STATES } from "./key-state.ts";
import { listed, PAGE_WORDS, pageOf } from "./lists.ts";
import { idMeant, meant } from "./meant.ts";
import { doubtInWords, isLittle, littleInWords, metadataDoubt, revokedInWords } from "./much.ts";
import { idsInWords } from "./names.ts";
import type { OpenedStore } from "./open-store.ts";
import { pagesOf } from "./pages.ts";
import { assertHasQuota, assertLacksQuota, assertNewKey, keyIn } from "./possible.ts";
import { nearestHint, spanOf, unitsOf, wordOf } from "./values.ts";

/** Returns a command that pauses a key, or lets it work again, and shows it. */
const pausing = (paused: boolean, about: string, example: string): Command => ({
  about,
  examples: [example],
  operands: ["ID"],
  read([id = ""]) {
    return (keys) => keys.update(id, { paused });
  },
});

const isConflict = (error: unknown): boolean => error instanceof RefusedChange && error.code === "conflict";

/** Says which command gives a quota to a key without one of its own, or changes the budget on which such a key draws. */
async function instead(
  error: unknown,
  id: string,
  store: OpenedStore["store"],
  nextStep: (budget: string) => string,
): Promise<never> {
  const key = isConflict(error) ? await store.report(id) : undefined;
  if (!key?.unlimited || key.revoked) throw error;
  const { budget } = key;
  const given = `"${commandOf("keys update", [id], "--granted AMOUNT")}" gives it one`;
  const next =
    budget === undefined ? `. ${given}.` : `: it draws on the budget ${oneLine(budget)}. ${nextStep(budget)} ${given}.`;
  throw new CommandError(`The API key ${oneLine(id)} has no quota of its own${next}`, {}, { cause: error });
}

/**
 * Returns a command that changes the quota of a key by an amount, and shows the key.
 *
 * @param nextStep The command for a key without a quota of its own, which changes the budget of the key.
 */
const changingQuota = (verb: "grant" | "lower", about: string, nextStep: (budget: string) => string): Command => ({
  about,
  examples: [`${verb} team-a 20 --currency usd`],
  operands: ["ID", "AMOUNT"],
  options: ["yes"],
  read([id = "", text = ""], values, terminal) {
    const units = unitsOf("AMOUNT", text, values.currency, readAddition);
    return async (keys, opened) => {
      const { store } = opened;
      const change = async (): Promise<KeyReport> => {
        const before = verb === "grant" ? await store.report(id) : undefined;
        const addition =
          before && !before.unlimited ? ({ added: units, given: before.granted ?? 0, to: "key" } as const) : undefined;
        const possible = () => assertHasQuota(store, id, verb === "lower" ? units : 0);
        await assertAmount(addition, values, terminal, opened, possible);
        return keys[verb](id, units);
      };
      const key = await change().catch((error: unknown) => instead(error, id, store, nextStep));
      if (!values.json) terminal.print(doneInWords(verb === "grant", units, key, values.currency));
      return key;
    };
  },
});

const FILTER_WORDS: Words = {
  budget: "only keys that draw on this budget, by its id or its name",
  metadata: "only keys with this note; may be repeated",
};

export const KEY_COMMANDS: Readonly<Record<string, Command>> = {
  create: {
    about: "makes a key, and shows its secret once",
    examples: [
      'create --id team-a --name "Team A" --granted 50 --currency usd',
      "create --models small-1,large-1 --expires 2030-01-31 --metadata team=a --metadata plan=gold",
    ],
    options: ["id", "name", "granted", "models", "expires", "metadata", "budget", "yes"],
    read(_operands, all, terminal) {
      const { id, granted, budget, currency, ...values } = all;
      const { warn } = terminal;
      const { models, metadata, ...rights } = changesOf(values);
      assertAhead(rights.expiresAt, values.expires);
      const key: NewKeyOptions = {
        ...rights,
        ...(models && { models }),
        ...(metadata && { metadata: textsOf(metadata) }),
        ...given({ id, budget }),
        ...(granted !== undefined && { granted: unitsOf("--granted", granted, currency) }),
      };
      return async (keys, opened): Promise<KeyMade> => {
        const { store, calls } = opened;
        await assertAmount({ first: key.granted ?? 0 }, all, terminal, opened, () => assertNewKey(store, key));
        const notes = await notesOf({ keys, calls }, key);
        // Ask the store for nothing more: if that failed, the secret would be lost.
        const made = keyMade(await keys.create(key), key);
        const note = noted(notes, values, warn);
        if (made.unlimited && !values.json) warn?.(unlimitedNote(made.id));
        return { ...made, ...note };
      };
    },
  },
  update: {
    about: "changes a key; what is not named stays",
    examples: [
      'update team-a --name "Team A" --models small-1,large-1',
      "update team-a --models '*' --expires never --metadata plan=gold --metadata old-note=",
      "update team-a --granted 50 --currency usd",
    ],
    operands: ["ID"],
    options: ["name", "models", "expires", "metadata", "granted", "yes"],
    words: {
      metadata: "a note on the key, or NAME= to remove it; may be repeated",
      granted: "gives a key without a quota one, beyond what it has used; none takes it away",
    },
    elsewhere: {
      budget: '"budgets assign KEY ID" moves a key to another budget, and "budgets unassign KEY" to none.',
    },
    read([id = ""], all, terminal) {
      const { granted, currency, ...values } = all;
      const { warn } = terminal;
      const quota = granted === undefined || granted === "none" ? null : unitsOf("--granted", granted, currency);
      const changes: KeyChanges = { ...changesOf(values), ...(granted !== undefined && { granted: quota }) };
      assertAhead(changes.expiresAt, values.expires, ` "${commandOf("keys pause", [id])}" stops a key at once.`);
      if (Object.keys(changes).length === 0)
        throw new UsageError("update needs --name, --models, --expires, --metadata or --granted.");
      return async (keys, opened) => {
        const { store, calls } = opened;
        const notes = await notesOf({ keys, calls }, changes, id);
        const before = granted === undefined ? undefined : await store.report(id);
        const change = async (): Promise<KeyReport> => {
          const isExpected =
            granted === "none" ? await assertStaysLimited("quota", await keyIn(store, id), all, terminal) : undefined;
          const given = quota !== null && before?.unlimited ? { quota } : undefined;
          await assertAmount(given, all, terminal, opened, () => assertLacksQuota(store, id));
          return keys.update(id, changes, isExpected);
        };
        const key = await change().catch((error: unknown) => {
          if (!isConflict(error) || quota === null || !before || before.unlimited || before.revoked) throw error;
          const [grant, lower] = ["keys grant", "keys lower"].map((verb) => commandOf(verb, [id, "AMOUNT"]));
          throw new CommandError(
            `The API key ${oneLine(id)} has a quota already. "${grant}" adds to it, and "${lower}" takes from it.`,
            {},
            { cause: error },
          );
        });
        const note = noted(notes, values, warn);
        if (granted === "none" && key.unlimited && key.budget === undefined && !values.json) warn?.(unlimitedNote(id));
        return { ...key, ...note };
      };
    },
  },
  rotate: {
    about: "makes a new secret; the older ones end after the overlap",
    hasNoAmounts: true,
    examples: ["rotate team-a --overlap 2h", "rotate team-a --overlap 0s"],
    operands: ["ID"],
    options: ["overlap", "yes"],
    read([id = ""], { overlap, ...values }, terminal) {
      const rotation = overlap === undefined ? {} : { overlapMs: spanOf("--overlap", overlap) };
      return async (keys, { store }) => {
        if (rotation.overlapMs === 0) {
          await keyIn(store, id);
          const words = `The older secrets of the key ${oneLine(id)} end at once: calls with them are refused.`;
          await assertMeant(words, values, terminal);
        }
        return keys.rotate(id, rotation);
      };
    },
  },
  "add-secret": {
    about: "makes one more secret; the others stay",
    hasNoAmounts: true,
    examples: ["add-secret team-a", "add-secret team-a --expires 2030-01-31"],
    operands: ["ID"],
    options: ["expires"],
    words: {
      expires:
        "when the secret ends: at the start of a day in UTC, such as 2030-01-31, at a time, or after a span, such as 90d; or never",
    },
    read([id = ""], { expires }) {
      const secret = expires === undefined ? {} : { expiresAt: secondsOf(expires) };
      assertAhead(secret.expiresAt, expires);
      return (keys) => keys.addSecret(id, secret);
    },
  },
  "remove-secret": {
    about: "removes the secret that it reads from its input",
    hasNoAmounts: true,
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
    hasNoAmounts: true,
    examples: ["revoke team-a"],
    operands: ["ID"],
    options: ["yes"],
    read([id = ""], values, terminal) {
      return async (keys) => {
        const before = await keys.usage(id);
        if (isRevokedAlready(before)) {
          const note = noted([revokedInWords(oneLine(id))], values, terminal.warn);
          return { id, revoked: true, ...note };
        }
        const words = `All secrets of the key ${oneLine(id)} are removed for good: its calls are refused.`;
        if (!before.revoked) await assertMeant(words, values, terminal);
        await keys.revoke(id);
        return { id, revoked: true };
      };
    },
  },
  grant: changingQuota(
    "grant",
    "adds an amount to its quota",
    (budget) => `${commandOf("budgets top-up", [budget, "AMOUNT"])} adds to that.`,
  ),
  lower: changingQuota(
    "lower",
    "takes an available amount back from its quota",
    (budget) => `${commandOf("budgets lower", [budget, "AMOUNT"])} takes from that.`,
  ),
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
    words: { ...FILTER_WORDS, ...PAGE_WORDS },
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
    hasNoAmounts: true,
    examples: ["export > keys.jsonl", "export --state active --metadata team=a"],
    options: ["state", "budget", "metadata"],
    words: FILTER_WORDS,
    read(_operands, values, { print, warn }) {
      const given = filterOf(values);
      return async (keys, { store }) => {
        const filter = await meant(given, { keys, store }, warn);
        const spoilt: string[] = [];
        for await (const page of pagesOf((next) => keys.list({ ...filter, ...next }))) {
          for (const key of page) {
            if (key.spoilt) spoilt.push(key.id);
            // An import would make a revoked key usable again.
            else if (!key.revoked || filter.state === "revoked") print(exportedLine(key));
          }
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
    hasNoAmounts: true,
    examples: ["import keys.jsonl --dry-run", "import keys.jsonl > secrets.jsonl", "import --update < keys.jsonl"],
    operands: ["[FILE]"],
    options: ["dry-run", "update", "yes"],
    async read([file], values, terminal) {
      const { update = false, "dry-run": isDryRun = false } = values;
      const { read, print, warn } = terminal;
      const { lines, wrong, hint: hintOfFile } = readLines(await read(file));
      return async (keys, opened) => {
        const { store, calls } = opened;
        const faults = [...wrong, ...(await withoutBudget(lines, store))].toSorted(
          (one, other) => one.line - other.line,
        );
        const doubts = values.yes ? [] : await doubtsIn(lines, values, opened);
        // Doubts come last, so that many of them hide no fault.
        const { lines: stopping, words } = namedLines([...faults, ...doubts]);
        if (faults.length > 0) {
          const advice = doubts.length > 0 ? "\nIf the doubtful amounts are meant, add --yes." : "";
          const cause = new UsageError(`Nothing was imported.${hintOfFile}\n${words}${advice}`);
          throw new CommandError(cause.message, { lines: stopping }, { cause });
        }
        // A dry run says what an import would do that cannot ask.
        if (doubts.length > 0) await assertMeant(words, values, isDryRun ? {} : terminal, { lines: stopping });
        const named = {
          metadata: Object.fromEntries(lines.flatMap(({ key }) => Object.entries(key.metadata ?? {}))),
          models: [...new Set(lines.flatMap(({ key }) => key.models ?? []))],
          tiers: [...new Set(lines.flatMap(({ key }) => key.metadata?.["tier"] ?? []))],
        };
        const notes = await notesOf({ keys, calls }, named);
        const note = noted(notes, isDryRun ? values : {}, warn);
        let failed: readonly FailedLine[];
        if (isDryRun) {
          const { refused, ...planned } = await planOf(lines, { keys, store, update });
          print(
            values.json ? JSON.stringify({ dryRun: true, ...planned, ...note }, undefined, 2) : planInWords(planned),
          );
          failed = refused;
        } else failed = await importLines(lines, { keys, store, update, print });
        const known = failed.filter(({ isKnown }) => isKnown).length;
        const ofFailed = known === failed.length ? "all of these" : `${known} of these`;
        const hint = `Known already: ${ofFailed}. With --update, known keys are changed, and are no errors.`;
        if (failed.length > 0)
          throw new CommandError(
            `${failed.length} of ${lines.length} keys ${isDryRun ? "would not be" : "were not"} imported: line ${idsInWords(failed.map(({ line }) => String(line)))}. The output has the errors.${known > 0 ? ` ${hint}` : ""}`,
            { code: known === failed.length ? "conflict" : "failed", failed: failed.length, known },
          );
      };
    },
  },
  sweep: {
    about: "charges holds whose leases have run out",
    hasNoAmounts: true,
    examples: ["sweep"],
    read() {
      return async (_keys, { store }) => ({ swept: await store.sweep() });
    },
  },
  prune: {
    about: "forgets holds that were resolved long ago",
    hasNoAmounts: true,
    examples: ["prune --older-than 30d"],
    options: ["older-than"],
    read(_operands, { "older-than": span }) {
      if (span === undefined) throw new UsageError("prune needs --older-than, such as 30d.");
      const olderThanMs = spanOf("--older-than", span);
      return async (_keys, { store }) => ({ pruned: await store.prune({ olderThanMs }) });
    },
  },
  verify: {
    about: "compares keys with the journal, and what budgets have used with their holds (SQL)",
    isLong: true,
    hasNoAmounts: true,
    examples: ["verify"],
    read() {
      return async (_keys, { verify }) => {
        if (!verify) throw new UsageError("Only the stores over SQL keep a journal.");
        const differences = await verify();
        if (differences.length > 0)
          throw new CommandError([...differences.map(sentenceOf), REPAIR].join("\n"), { differences });
        return { differences: 0 };
      };
    },
  },
  migrate: {
    about: "makes or updates the tables (SQL)",
    isLong: true,
    hasNoAmounts: true,
    examples: ["migrate --store sqlite:quota.db"],
    read(_operands, { json = false }, { print }) {
      return async (_keys, { migrate }) => {
        if (!migrate) throw new UsageError("Only the stores over SQL have tables.");
        const migrated = await migrate();
        if (json) return { migrated };
        return print(
          migrated ? "The tables are made or updated." : "Nothing had to be done: the tables are up to date.",
        );
      };
    },
  },
};

function changesOf({ name, models, expires, metadata }: Values): Omit<KeyChanges, "granted"> {
  return {
    ...(name !== undefined && { name }),
    ...(models !== undefined && { models: models === "*" ? null : modelsIn(models) }),
    ...(expires !== undefined && { expiresAt: secondsOf(expires) }),
    ...(metadata && { metadata: Object.fromEntries(metadata.map(entryOf)) }),
  };
}

/** Returns the lines with a doubtful amount of money, which gives a key its quota. Returns none where no currency is known. */
async function doubtsIn(
  lines: readonly KeyLine[],
  values: Pick<Values, "currency" | "update">,
  opened: Opened,
): Promise<readonly WrongLine[]> {
  const { update } = values;
  const { store } = opened;
  const code = await currencyOfUnits(values, opened);
  if (code === undefined) return [];
  const amount = (units: number): string => moneyOf(units, code);
  const doubtful = lines.flatMap(({ line, key }) => {
    const { id } = key;
    if (isExported(key)) return [];
    const granted = key.granted ?? 0;
    const little = isLittle(granted, "granted", code) ? littleInWords(granted, code) : undefined;
    const error = doubtInWords({ first: granted }, { amount, currency: code }) ?? little;
    return error === undefined ? [] : { id, doubt: { line, error, code: "confirmation_required" } as const };
  });
  // An update leaves the quota of a known key as it is. The store is not asked about more doubts than the error names.
  const doubts: WrongLine[] = [];
  for (const { id, doubt } of doubtful)
    if (!update || id === undefined || doubts.length >= MOST_NAMED || !(await store.report(id))) doubts.push(doubt);
  return doubts;
}

/** The places where a command looks for names that are in use. */
interface InUse {
  readonly keys: KeyAdmin;
  readonly calls: OpenedStore["calls"];
}

/** The names of one or several keys that a gateway reads. */
interface NamesInKey extends Pick<KeyChanges, "metadata" | "models"> {
  /** Default: that of `metadata`. */
  readonly tiers?: readonly string[];
}

/**
 * Notes names that may be mistyped: only a gateway knows its tiers and its models, so they are compared with those of answered calls. Those of
 * other keys may be as wrong. Notes names that no call can tell yet, too.
 *
 * @param own The id of the key. Undefined for a new one.
 */
async function notesOf(
  { keys, calls }: InUse,
  { metadata, models, tiers = [metadata?.["tier"] || []].flat() }: NamesInKey,
  own?: string,
): Promise<readonly string[]> {
  const before = metadata && own !== undefined ? (await keys.usage(own).catch(() => undefined))?.metadata : undefined;
  return [
    ...[metadataDoubt(metadata, before) ?? []].flat(),
    ...(tiers.length > 0 ? await notesOfTiers(tiers, { keys, calls }, own) : []),
    ...(models?.length ? await notesOfModels(models, calls) : []),
  ];
}

/** Prints notes, or returns them for JSON, as HTTP does. */
function noted(notes: readonly string[], { json = false }: Values, warn: Terminal["warn"]): { readonly note?: string } {
  if (json) return notes.length > 0 ? { note: notes.join(" ") } : {};
  for (const note of notes) warn?.(note);
  return {};
}

/** Returns what the answered calls have, such as their models. A key is made without the record, too. */
async function answered(calls: InUse["calls"], by: "key" | "model"): Promise<readonly string[]> {
  const report = await calls?.usage({ by: [by], limit: MOST_LISTED }).catch(() => undefined);
  return (report?.rows ?? []).filter((row) => row.calls > row.refused + row.failed).flatMap((row) => row[by] || []);
}

/** Says that no recorded call tells whether some names are right. */
const unchecked = (names: string, calls: InUse["calls"], told: string): string =>
  `Nothing tells yet whether a gateway has ${names}: ${calls ? `no call ${told}was answered, as far as is recorded: gateways write calls up to a second after their end` : "this store has no record of calls"}.`;

async function notesOfTiers(
  tiers: readonly string[],
  { keys, calls }: InUse,
  own: string | undefined,
): Promise<readonly string[]> {
  const users = new Set(await answered(calls, "key"));
  const page = users.size > 0 ? await keys.list({ limit: MOST_LISTED }) : [];
  const named = page.flatMap(({ id, metadata }) => (id !== own && users.has(id) && metadata?.["tier"]) || []);
  const failed = (await calls?.list({ errorCode: ["misconfigured"], limit: MOST_FAILED }).catch(() => [])) ?? [];
  const isRefused = (name: string): boolean =>
    failed.some(({ errorMessage }) => errorMessage?.includes(`names the rate tier ${JSON.stringify(name)},`));
  const known = [...new Set(named)].filter((name) => !isRefused(name));
  const consequence =
    "A gateway whose rate limiter has tiers, but not this one, refuses the calls of the key; a gateway without tiers ignores the name.";
  const factOf = (tier: string): string => {
    if (isRefused(tier)) return `A gateway has refused calls of the tier ${oneLine(tier)}.`;
    if (known.length === 0) return unchecked(`the tier ${oneLine(tier)}`, calls, "of a key with a tier ");
    return `No call of a key with the tier ${oneLine(tier)} was answered, only of ${idsInWords(known.map(oneLine))}.`;
  };
  const facts = tiers
    .filter((tier) => !known.includes(tier))
    .slice(0, MOST_NOTED)
    .map((tier) => factOf(tier) + nearestHint(tier, known));
  // An import may name many tiers.
  return facts.map((fact, at) => (at < facts.length - 1 ? fact : `${fact} ${consequence}`));
}

async function notesOfModels(models: readonly string[], calls: InUse["calls"]): Promise<readonly string[]> {
  const known = await answered(calls, "model");
  if (known.length === 0) {
    const names = `the ${models.length === 1 ? "model" : "models"} ${idsInWords(models.map(oneLine))}`;
    return [`${unchecked(names, calls, "")} A gateway without a model refuses its calls.`];
  }
  return models
    .filter((model) => !known.includes(model))
    .slice(0, MOST_NOTED)
    .map(
      (model) =>
        `No recorded call of the model ${oneLine(model)} was answered.${nearestHint(model, known)} A gateway without this model refuses its calls.`,
    );
}

/** The most refused calls that are read, and the most models that are noted. */
const MOST_FAILED = 100;
const MOST_NOTED = 5;

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
  const isSpan = /^\d{1,9}[smhd]$/.test(text);
  const time = isSpan ? Date.now() + spanOf("--expires", text) : isDay(day) ? Date.parse(text) : NaN;
  if (!(time < Date.UTC(10_000, 0)))
    throw new UsageError(`--expires must be a date, such as 2030-01-31, a span, such as 90d, or never, not ${text}.`);
  return Math.floor(time / 1_000);
}

/** Throws a UsageError for a time that is over. */
function assertAhead(expiresAt = 0, text = "", hint = ""): void {
  if (expiresAt !== 0 && expiresAt * 1_000 <= Date.now())
    throw new UsageError(`--expires must be in the future, and ${text} is over.${hint}`);
}

const sentenceOf = ({ table, id, field, stored, expected }: LedgerDifference): string => {
  const row = `table ${table}, id ${oneLine(id)}`;
  if (field === "missing") return `${row}: the row is missing, and the journal has its entries`;
  const [found, right] = [stored, expected].map((value) => oneLine(String(value ?? "nothing")) || "nothing");
  return `${row}, field ${field}, stored ${found}, expected ${right}`;
};

/** The next step after differences. A change of a key writes its row and the journal alike, and so mends none. */
const REPAIR =
  'No command mends a difference: see "Repair the ledger" in docs/operations.md. It is told until the ledger is repaired.';
