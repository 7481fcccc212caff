/** The view of keys: lists them, makes new ones, and changes them. */

import { computed, type Signal, signal } from "@preact/signals";
import { withEscapes } from "../../../model/visible.ts";
import type { UsageReport } from "../../../stores/calls.ts";
import { hasFurtherEntries } from "../../../stores/metadata.ts";
import { isZero, type KeyShown, stateInWords, stateOf } from "../../key-state.ts";
import { metadataDoubt, unlimitedWithout } from "../../much.ts";
import { addressOf, ALL_DAYS, follow, noteChoices } from "./address.ts";
import { amountField, amountInWords, dayIn, plain, readAdded, readAmount, shownDay } from "./amounts.ts";
import { attempt, hasCalls, type Listed, loadsOf, mayChange, pagesOf, read, type Write } from "./api.ts";
import {
  budgetField,
  BudgetFilter,
  BudgetName,
  knownBudgets,
  listCsvOf,
  loadKnownBudgets,
  nameOfBudget,
  takeName,
} from "./budgets.ts";
import {
  againFor,
  amountsIn,
  amountsNamed,
  askUser,
  Breakable,
  CallLinks,
  type Column,
  CsvOfList,
  type Field,
  Filter,
  Filters,
  html,
  type Issued,
  linesIn,
  More,
  Name,
  Nothing,
  RowButton,
  RowMenu,
  Select,
  spentColumn,
  showSecret,
  Table,
  Time,
  type View,
  writerAsking,
} from "./parts.ts";

const keys = signal<readonly KeyShown[] | undefined>(undefined);
const next = signal<string | null>(null);
/** The filters, by their names in the API and in the address. An empty one filters nothing. */
const filters = { find: signal(""), state: signal(""), budget: signal(""), metadata: signal("") };
/** The most keys that a search looks at before it waits for its user. */
const MOST_SEARCHED = 20_000;
/** The number of keys that a search has looked at. */
const searched = signal(0);

/**
 * Shows the keys that the address asks for.
 *
 * @param hasBudgets True when the host's store has budgets.
 */
export async function openKeys(asked: URLSearchParams, hasBudgets: boolean): Promise<void> {
  for (const [name, of] of Object.entries(filters)) of.value = asked.get(name) ?? "";
  hasKnownBudgets = hasBudgets;
  const budgets = renewBudgets();
  await takeName(filters.budget, budgets);
  await Promise.all([loadKeys(), budgets]);
}

/** True for a filter that tells active keys from those that are used up or have an amount of 0: for the API, all of these are active. */
const isOfUse = (): boolean => ["active", EMPTY, ZERO].includes(filters.state.value);

/** True when the host's store has budgets. */
let hasKnownBudgets = false;

/** Loads the budgets of the list again: another user may have made some. */
const renewBudgets = async (): Promise<void> => (hasKnownBudgets ? loadKnownBudgets() : undefined);

const load = loadsOf("keys");

/**
 * Lists the keys from the beginning, or goes on behind the last one. A search looks at every key here, because the API has none by name, or by
 * what is left.
 */
async function loadKeys(after?: string): Promise<void> {
  noteChoices("keys", Object.fromEntries(chosen()));
  const [asked, matches, isWhole] = [askedOfServer(), matcher(), filters.find.value === "" && !isOfUse()];
  // The button for more keys would go on with the earlier choice.
  if (after === undefined) next.value = null;
  await load(
    async (isLatest) => {
      const all = after === undefined ? [] : [...(keys.value ?? [])];
      const enough = all.length + PAGE;
      let [last, looked]: [string | null | undefined, number] = [after, 0];
      do {
        const query = new URLSearchParams({
          limit: String(isWhole ? PAGE : 1_000),
          ...asked,
          ...(last !== undefined && { after: last }),
        });
        const { body }: { body: Listed<KeyShown> } = await read(`keys?${query}`);
        if (!isLatest()) return;
        all.push(...body.data.filter(matches));
        looked += body.data.length;
        last = body.next;
      } while (last !== null && all.length < enough && looked < MOST_SEARCHED);
      keys.value = all;
      next.value = last;
      searched.value = looked + (after === undefined ? 0 : searched.value);
    },
    after === undefined ? () => void (keys.value = undefined) : undefined,
  );
}

/** Returns the filters that are chosen. */
const chosen = (): readonly (readonly [name: string, value: string])[] =>
  Object.entries(filters).flatMap(([name, of]) => (of.value === "" ? [] : [[name, of.value] as const]));

/** Returns the filters that the server has. */
const askedOfServer = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    chosen()
      .filter(([name]) => name !== "find")
      .map(([name, value]) => [name, name === "state" && isOfUse() ? "active" : value]),
  );

/** Returns a function that is true for a key of the list, by the filters that the page has alone. */
function matcher(): (key: KeyShown) => boolean {
  const text = filters.find.value.toLowerCase();
  const ofUse = isOfUse() ? filters.state.value : undefined;
  return (key) => hasText(key, text) && (ofUse === undefined || useOf(key) === ofUse);
}

/** True for a key whose id or name has a text in small letters. */
const hasText = ({ id, name }: KeyShown, text: string): boolean => `${id}\n${name}`.toLowerCase().includes(text);

/** Finds the keys that a user means: the key of this id; or else those of this name; or else those whose id or name has the text. */
export async function keysNamed(text: string): Promise<readonly KeyShown[]> {
  const own = await read<KeyShown>(at(text)).catch(() => undefined);
  if (own) return [own.body];
  const [wanted, near]: [string, KeyShown[]] = [text.toLowerCase(), []];
  let looked = 0;
  for await (const page of pagesOf<KeyShown>("keys")) {
    near.push(...page.filter((key) => hasText(key, wanted)));
    looked += page.length;
    if (looked >= MOST_SEARCHED) break;
  }
  const named = near.filter(({ name }) => name.toLowerCase() === wanted);
  return named.length > 0 ? named : near;
}

/** The keys of a page of the list. */
const PAGE = 100;

const at = (id: string): string => `keys/${encodeURIComponent(id)}`;

/** True when the list does not have all keys. */
const isFiltered = (): boolean => chosen().length > 0;

/**
 * Shows a key in the list as it is now. A list of all keys is not loaded again: its user would lose the place in it. A key may have left any other
 * list.
 */
async function renewKey(id: string): Promise<void> {
  // The change is made: a failure here is one of the list alone.
  const now = isFiltered() ? undefined : await read<KeyShown>(at(id)).catch(() => undefined);
  if (now) keys.value = keys.value?.map((key) => (key.id === id ? now.body : key));
  else await loadKeys();
}

/** The most values to choose from. */
const MOST_OFFERED = 50;

/** The models and the rate tiers that keys can name. Each is null when the gateway does not tell them. */
interface Nameable {
  readonly models: readonly string[] | null;
  readonly tiers: readonly string[] | null;
}

const nameable: Signal<Nameable> = signal({ models: null, tiers: null });

/** The models of charged calls. */
const chargedModels: Signal<readonly string[]> = signal([]);

/** The days whose calls tell the known models. */
const DAYS_OF_MODELS = 30;

/** Loads what keys can name, and the models that calls have used of late. Both are a help alone: a failure leaves what is known. */
async function loadChoices(): Promise<void> {
  await read<Nameable>("models").then(
    ({ body }) => void (nameable.value = body),
    () => {},
  );
  if (!hasCalls.value) return;
  const since = dayIn("UTC", Date.now() - DAYS_OF_MODELS * 86_400_000);
  const query = new URLSearchParams({ by: "model", charged: "true", since, limit: String(MOST_OFFERED) });
  await read<UsageReport>(`usage?${query}`).then(
    ({ body }) => void (chargedModels.value = body.rows.flatMap(({ model }) => model ?? [])),
    () => {},
  );
}

/**
 * Sorts the first of some texts, to offer them. A caller may write a line break into the name of a model, which would be chosen as two models.
 */
const sorted = (texts: readonly string[]): readonly string[] =>
  [...new Set(texts)]
    .filter((text) => linesIn(text)[0] === text)
    .slice(0, MOST_OFFERED)
    .toSorted();

/** The models of the gateway, with those of charged calls first. A gateway may list none, and then has all that it has charged. */
const offeredModels = computed(() => {
  const { models } = nameable.value;
  const charged = chargedModels.value;
  return sorted(models?.length ? [...charged.filter((name) => models.includes(name)), ...models] : charged);
});

/** Returns an entry of the metadata of some keys, as people write it. */
const entriesOf = (name: string, of: readonly KeyShown[]): readonly string[] =>
  of.flatMap(({ metadata = {} }) => (metadata[name] === undefined ? [] : `${name}=${metadata[name]}`));

/** The metadata of the listed keys that the gateway itself reads. */
const knownMetadata = computed(() => sorted(["group", "tier"].flatMap((name) => entriesOf(name, keys.value ?? []))));

/** The rate tiers of the gateway, or else those of keys that have spent something, and the groups of the listed keys. */
const offeredMetadata = computed(() => {
  const all = keys.value ?? [];
  const charged = all.filter(({ spent }) => spent > 0);
  const tiers = nameable.value.tiers?.map((tier) => `tier=${tier}`) ?? entriesOf("tier", charged);
  return sorted([...tiers, ...entriesOf("group", all)]);
});

const RIGHTS: readonly Field[] = [
  {
    name: "models",
    label: "Models",
    type: "lines",
    hint: "One name a line. Empty: every model.",
    offers: offeredModels,
  },
  { name: "expires", label: "Expires on", type: "date", hint: "Empty: never." },
  {
    name: "metadata",
    label: "Metadata",
    type: "lines",
    hint: "One name=text a line, such as group=team-a.",
    offers: offeredMetadata,
  },
];

/** The most characters of one question about models: it stands in an address, and servers refuse a long one. */
const MOST_ASKED_CHARS = 4_000;

/** Writes names as a query. Leaves out those that have no room. */
function queryOf(names: readonly string[]): string {
  let query = "";
  for (const name of names) {
    const longer = `${query}&${new URLSearchParams({ name })}`;
    if (longer.length <= MOST_ASKED_CHARS) query = longer;
  }
  return query.slice(1);
}

/**
 * Returns a function that asks the user of a dialog once more for models that the gateway does not have.
 *
 * @param before The models that the key has already.
 */
function againForModels(how: string, before: readonly string[] = []): (models: readonly string[]) => Promise<void> {
  const ask = againFor();
  return async (models) => {
    const query = queryOf(models.filter((name) => !before.includes(name)));
    if (query === "") return;
    const { body } = await read<{ note: string | null }>(`models?${query}`);
    ask(models.join("\n"), body.note ?? undefined, how);
  };
}

/** Reads the metadata that a user has written. Throws for a line without a sign between name and text. */
function metadataIn(text: string): Record<string, string> {
  return Object.fromEntries(
    linesIn(text).map((line) => {
      const sign = line.indexOf("=");
      if (sign < 1) throw new Error(`Metadata: ${JSON.stringify(line)} is no metadata. Write name=text.`);
      const text = line.slice(sign + 1);
      if (hasFurtherEntries(text))
        throw new Error(`Metadata: ${JSON.stringify(line)} has several entries. Write one a line.`);
      return [line.slice(0, sign), text];
    }),
  );
}

/** Returns the end of a day, in seconds of Unix time; 0 for no end. Throws for a day that is over. */
function endOf(date: string): number {
  if (date === "") return 0;
  const end = Date.parse(`${date}T23:59:59`);
  if (end <= Date.now())
    throw new Error(`Expires on: ${shownDay(date)} is over. Choose today or a later day. To stop a key, pause it.`);
  return Math.floor(end / 1_000);
}

/** The effect of taking the last limit of a key. */
const UNLIMITED = "Nothing limits what its calls cost from then on.";

/** Says by what a key with these fields is limited. */
function limitsInWords(granted = "", budget = ""): string {
  const limits = [...(granted === "" ? [] : ["its quota"]), ...(budget === "" ? [] : ["its budget"])];
  return limits.length > 0
    ? `This key is limited by ${limits.join(" and ")}.`
    : "This key is unlimited: it has neither a quota nor a budget.";
}

async function create(): Promise<void> {
  void loadChoices();
  await renewBudgets();
  const quota = amountField("Quota");
  const how = "To make the key, choose Create again.";
  const [askForModels, askForMetadata, make] = [againForModels(how), againFor(), writerAsking(how)];
  askUser({
    title: "New key",
    action: "Create",
    fields: [
      { name: "id", label: "Id", hint: "Empty: a random one. It stays for good." },
      { name: "name", label: "Name", hint: "Empty: the id." },
      {
        name: "granted",
        ...quota,
        hint: `${quota.hint} Empty: no quota of its own.`,
      },
      budgetField({ name: "budget", label: "Budget" }, knownBudgets.value),
      ...RIGHTS,
    ],
    note: ({ granted, budget }) => limitsInWords(granted, budget),
    run: async (values) => {
      const models = linesIn(values["models"] ?? "");
      const metadata = metadataIn(values["metadata"] ?? "");
      const expiresAt = endOf(values["expires"] ?? "");
      await askForModels(models);
      askForMetadata(values["metadata"] ?? "", metadataDoubt(metadata), how);
      const granted = values["granted"] ? readAmount("Quota", values["granted"]) : undefined;
      const body = {
        ...(values["id"] && { id: values["id"] }),
        ...(values["name"] && { name: values["name"] }),
        ...(granted !== undefined && { granted }),
        ...(values["budget"] && { budget: values["budget"] }),
        ...(models.length > 0 && { models }),
        ...(expiresAt > 0 && { expiresAt }),
        ...(Object.keys(metadata).length > 0 && { metadata }),
      };
      const change = { first: granted ?? 0 };
      const lost = showSecret((await make<Issued>({ path: "keys", body, units: granted, change })).body);
      await loadKeys();
      return lost;
    },
  });
}

/**
 * Edits what the server says now, and not what the list has shown for a while.
 *
 * @param reload Loads what is shown again.
 */
export const editKey = (id: string, reload: () => Promise<void> = () => renewKey(id)): Promise<boolean> =>
  attempt(async () => {
    void loadChoices();
    const [{ body: key, tag }] = await Promise.all([read<KeyShown>(at(id)), renewBudgets()]);
    let seen = tag;
    let hasQuota = quotaOf(key) !== undefined;
    const before = key.metadata ?? {};
    const notes = Object.entries(before).map(([name, text]) => `${name}=${text}`);
    const models = key.models ?? [];
    const expires = key.expiresAt > 0 ? new Date(key.expiresAt * 1_000).toLocaleDateString("sv") : "";
    const quota = amountField("Quota from now on");
    const how = "To save it, choose Save again.";
    const [askForBudget, save] = [againFor(), writerAsking(how)];
    const [askForModels, askForMetadata] = [againForModels(how, models), againFor()];
    const values: Record<string, string> = { models: models.join("\n"), expires, metadata: notes.join("\n") };
    askUser({
      title: `Change ${id}`,
      action: "Save",
      fields: [
        { name: "name", label: "Name", value: key.name, isRequired: true },
        budgetField({ name: "budget", label: "Budget", value: key.budget ?? "" }, knownBudgets.value),
        ...(hasQuota ? [] : [{ name: "granted", ...quota, hint: `${quota.hint} Empty: no quota of its own.` }]),
        ...RIGHTS.map((field) => ({ ...field, value: values[field.name] ?? "" })),
      ],
      note: ({ granted, budget }) => limitsInWords(hasQuota ? "quota" : granted, budget),
      run: async (written, write) => {
        const metadata = metadataIn(written["metadata"] ?? "");
        const removed = Object.keys(before).filter((name) => !Object.hasOwn(metadata, name));
        const named = linesIn(written["models"] ?? "");
        await askForModels(named);
        askForMetadata(written["metadata"] ?? "", metadataDoubt(metadata, before), how);
        const granted = !hasQuota && written["granted"] ? readAmount("Quota", written["granted"]) : undefined;
        const changes = {
          name: written["name"],
          models: named.length > 0 ? named : null,
          ...(granted !== undefined && { granted }),
          ...(written["expires"] !== expires && { expiresAt: endOf(written["expires"] ?? "") }),
          metadata: { ...metadata, ...Object.fromEntries(removed.map((name) => [name, null])) },
        };
        if (written["budget"] === "") {
          const limits = { id, hasQuota: hasQuota || Boolean(written["granted"]), budget: key.budget };
          askForBudget("unlimited", unlimitedWithout("budget", limits), "To take it off, choose Save again.");
        }
        // If the gateway refuses the budget, the user tries again with the tag of this change.
        const change = granted === undefined ? undefined : { quota: granted };
        const request = { method: "PATCH", path: at(id), body: changes, tag: seen };
        seen = (await save({ ...request, units: granted, change })).tag;
        hasQuota ||= Boolean(written["granted"]);
        if (written["budget"] !== (key.budget ?? ""))
          await write("PUT", `${at(id)}/budget`, { budget: written["budget"] || null });
        await reload();
        return `${id} is changed.`;
      },
    });
  });

/**
 * Asks how much to add to the quota of a key, or to take from it. Something added that is larger than what was granted is asked for twice.
 *
 * @param facts Sentences that help to choose the amount.
 * @param reload Loads what is shown again.
 */
export const changeQuota = (
  id: string,
  verb: "grant" | "lower",
  facts: View = null,
  reload: () => Promise<void> = () => renewKey(id),
): void => {
  const action = verb === "grant" ? "Add" : "Take";
  const change = writerAsking(`To ${action.toLowerCase()} it, choose ${action} again.`);
  askUser({
    title: verb === "grant" ? `Add to the quota of ${id}` : `Take from the quota of ${id}`,
    action,
    text: facts,
    fields: [{ name: "units", ...amountField("Amount"), isRequired: true }],
    run: async ({ units: written = "" }) => {
      const units = readAdded("Amount", written);
      const quota = verb === "grant" ? quotaOf((await read<KeyShown>(at(id))).body) : undefined;
      const addition = { added: units, given: quota?.granted ?? 0, to: "key" } as const;
      const request = { path: `${at(id)}/${verb}`, body: { units }, units };
      await change(verb === "grant" ? { ...request, change: addition } : request);
      await reload();
      return `The quota of ${id} is changed.`;
    },
  });
};

/** Asks before a key loses its quota. */
const removeQuota = (id: string, reload: () => Promise<void> = () => renewKey(id)): Promise<boolean> =>
  attempt(async () => {
    const { body: key, tag } = await read<KeyShown>(at(id));
    const { available = 0 } = quotaOf(key) ?? {};
    const { budget } = key;
    const effect = budget === undefined ? UNLIMITED : `Only its budget ${nameOfBudget(budget)} limits it from then on.`;
    askUser({
      title: `Remove the quota of ${id}`,
      action: "Remove the quota",
      isDangerous: true,
      text: `${effect} What is left of the quota, ${amountInWords(available)}, is forgotten. What was spent stays.`,
      run: async (_values, write) => {
        await write("PATCH", at(id), { granted: null }, tag);
        await reload();
        return `${id} has no quota any more.`;
      },
    });
  });

/** @param reload Loads what is shown again. The list shows nothing of secrets. */
const rotate = (id: string, reload: () => Promise<void> = async () => {}): void =>
  askUser({
    title: `New secret for ${id}`,
    action: "Make it",
    text: "The older secrets go on for some time, so that nobody stops working.",
    fields: [
      {
        name: "overlap",
        label: "The older secrets end",
        value: "86400000",
        choices: [
          ["0", "at once"],
          ["3600000", "in an hour"],
          ["86400000", "in a day"],
          ["604800000", "in a week"],
        ],
      },
    ],
    note: ({ overlap }) => (overlap === "0" ? "Calls with the older secrets are refused from now on." : ""),
    run: async ({ overlap }, write) => {
      const lost = showSecret((await write<Issued>("POST", `${at(id)}/rotate`, { overlapMs: Number(overlap) })).body);
      await reload();
      return lost;
    },
  });

const setPaused = async (
  write: Write,
  id: string,
  paused: boolean,
  reload: () => Promise<void> = () => renewKey(id),
): Promise<string> => {
  await write("PATCH", at(id), { paused });
  await reload();
  return `${id} ${paused ? "is paused" : "works again"}.`;
};

const pause = (id: string, reload?: () => Promise<void>): void =>
  askUser({
    title: `Pause ${id}`,
    action: "Pause",
    text: "New calls are refused until the key is resumed. Its secrets, quota and expiry stay. Calls that run go on.",
    run: (_values, write) => setPaused(write, id, true, reload),
  });

/** @param reload Loads what is shown again. */
export const resume = (id: string, reload?: () => Promise<void>): void =>
  askUser({
    title: `Resume ${id}`,
    action: "Resume",
    text: "The key works again.",
    run: (_values, write) => setPaused(write, id, false, reload),
  });

const revoke = (id: string, reload: () => Promise<void> = () => renewKey(id)): void =>
  askUser({
    title: `Revoke ${id}`,
    action: "Revoke",
    isDangerous: true,
    text: "All its secrets end at once and for good. Calls that run are still charged.",
    run: async (_values, write) => {
      await write("POST", `${at(id)}/revoke`, {});
      await reload();
      return `${id} is revoked.`;
    },
  });

/** The choices of keys that would be active, but have used up their quota or a budget, or were given nothing. */
const EMPTY = "empty";
const ZERO = "zero";

/** Returns the choice for an active key. */
const useOf = (key: KeyShown): string => (isZero(key) ? ZERO : key.usedUp === undefined ? "active" : EMPTY);

/** Returns the key's own quota; undefined for a key without one. */
export const quotaOf = ({ granted, available }: KeyShown): { granted: number; available: number } | undefined =>
  granted === null || available === null ? undefined : { granted, available };

/** Shows the state of a key, with the time of its expiry. A revoked key has none any more. */
export function State({ of: key }: { of: KeyShown }): View {
  const { revoked, expiresAt } = key;
  const now = Date.now();
  const hasExpired = expiresAt * 1_000 <= now;
  const [state, words] = [stateOf(key, now), stateInWords(key, now)];
  return html`<span
      class=${`state ${words === state ? state : key.usedUp === undefined || isZero(key) ? "empty zero" : "empty"}`}
      >${words}</span
    >
    ${
      expiresAt > 0 &&
      !revoked &&
      html`<span class="quiet"
        >${state === "expired" ? "on" : hasExpired ? "expired" : "expires"} <${Time} at=${expiresAt * 1_000}
      /></span>`
    }`;
}

/** Shows what the calls of a key can still use, and whether its own quota or a budget limits it. */
export function Left({ of: key, amount }: { of: KeyShown; amount: ReturnType<typeof amountsIn> }): View {
  const { revoked, unlimited, budget, left, limitedBy } = key;
  if (left === null) return unlimited && !revoked ? html`<span class="quiet">unlimited</span>` : html`–`;
  const where = limitedBy === null ? (budget === undefined ? "" : "in its own quota") : `in ${nameOfBudget(limitedBy)}`;
  return html`${amount(left)}${
    where !== "" &&
    (left > 0 || isZero(key)
      ? html`<span class="quiet long name" title=${where}>${where}</span>`
      : html`<${Nothing} more=${` ${where}`} />`)
  }`;
}

/**
 * Returns the changes of a key, by the names of their buttons. A revoked key has none.
 *
 * @param reload Loads what is shown again. Default: the key in the list.
 */
export function changesOf(
  key: KeyShown,
  reload?: () => Promise<void>,
): readonly (readonly [name: string, run: () => unknown])[] {
  const { id, revoked, paused } = key;
  if (revoked) return [];
  return [
    ["Edit", () => editKey(id, reload)],
    ...(quotaOf(key)
      ? [
          ["Add quota", () => changeQuota(id, "grant", null, reload)] as const,
          ["Take quota", () => changeQuota(id, "lower", null, reload)] as const,
          ["Remove quota", () => removeQuota(id, reload)] as const,
        ]
      : []),
    ["New secret", () => rotate(id, reload)],
    paused ? ["Resume", () => resume(id, reload)] : ["Pause", () => pause(id, reload)],
    ["Revoke", () => revoke(id, reload)],
  ];
}

/** Makes the columns with which every list of keys begins. */
export const firstColumns = (hasCalls: boolean): readonly Column<KeyShown>[] => [
  {
    name: "Key",
    cell: ({ id, name }) =>
      html`<a class="id" href=${addressOf("key", { id })} onClick=${follow}>${withEscapes(id)}</a
        ><${Name} of=${name} id=${id} />
        ${hasCalls && html`<${CallLinks} name=${id} spend=${{ by: "model,day", ...ALL_DAYS, key: id }} refusals=${{ key: id }} />`}`,
  },
  { name: "State", cell: (key) => html`<${State} of=${key} />` },
];

/** Makes the columns of what keys have spent, and of what is left to them. */
export function booksColumns(rows: readonly KeyShown[]): readonly Column<KeyShown>[] {
  const ofLeft = amountsIn(
    rows.flatMap((key) => key.left ?? []),
    "down",
  );
  return [
    spentColumn(rows, (key) => key, quotaOf),
    { name: amountsNamed("Left"), isNumber: true, cell: (key) => html`<${Left} of=${key} amount=${ofLeft} />` },
  ];
}

const columnsOf = (rows: readonly KeyShown[], hasCalls: boolean): readonly Column<KeyShown>[] => {
  const ofGranted = amountsIn(rows.flatMap((key) => quotaOf(key)?.granted ?? []));
  return [
    ...firstColumns(hasCalls),
    {
      name: amountsNamed("Granted"),
      isNumber: true,
      cell: (key) => {
        const quota = quotaOf(key);
        if (quota) return ofGranted(quota.granted);
        return html`<span class="quiet">${key.budget === undefined ? "unlimited" : "by its budget"}</span>`;
      },
    },
    ...booksColumns(rows),
    { name: "Budget", cell: ({ budget }) => html`<${BudgetName} id=${budget} />` },
    {
      name: "Models",
      cell: ({ models }) =>
        html`<span class=${`models ${models ? "" : "every"}`}
          >${models ? models.map((model) => withEscapes(model)).join(", ") || "none" : "every model"}</span
        >`,
    },
    {
      name: "Metadata",
      isWide: true,
      cell: ({ metadata = {} }) =>
        Object.entries(metadata).map(
          ([name, text]) => html`<span class="note">${name}=<wbr /><${Breakable} text=${withEscapes(text)} /></span>`,
        ),
    },
    {
      name: "Change",
      isChange: true,
      cell: (key) => {
        const [first, ...others] = changesOf(key).map(
          ([name, run]) => html`<${RowButton} name=${name} row=${key.id} onClick=${run} />`,
        );
        return (
          first &&
          html`<div class="row-buttons">
            ${first}
            <${RowMenu} row=${key.id}>${others}<//>
          </div>`
        );
      },
    },
  ];
};

const STATES = [
  ["", "all"],
  ["active", "active"],
  [EMPTY, "used up"],
  [ZERO, "amount is 0"],
  ["paused", "paused"],
  ["expired", "expired"],
  ["revoked", "revoked"],
] as const;

/** The id of the list of metadata, for the filter. */
const METADATA = "known-metadata";

export function Keys({ budgets: hasBudgets, calls }: { budgets: boolean; calls: boolean }): View {
  return html`<section>
    <header class="tools">
      <h2 tabindex="-1">Keys</h2>
      ${mayChange.value && html`<button type="button" class="main" onClick=${create}>New key</button>`}
      <${Filters} chosen=${chosen().length}>
        <${Filter} label="Find" of=${filters.find} example="id or name" onChange=${() => loadKeys()} />
        ${hasBudgets && html`<${BudgetFilter} of=${filters.budget} hint="The keys that draw on this budget themselves." onChange=${() => loadKeys()} />`}
        <${Filter}
          label="Metadata"
          of=${filters.metadata}
          list=${METADATA}
          example="tier=gold"
          onChange=${() => loadKeys()}
        />
        <datalist id=${METADATA}>${knownMetadata.value.map((line) => html`<option value=${line}></option>`)}</datalist>
        <${Select} label="State" of=${filters.state} choices=${STATES} onChange=${() => loadKeys()} />
        <${CsvOfList}
          name="keys"
          pages=${() => pagesOf<KeyShown>("keys", askedOfServer())}
          matches=${matcher()}
          csvOf=${listCsvOf("keys")}
        />
      <//>
    </header>
    <${Table}
      caption="Keys"
      columns=${columnsOf(keys.value ?? [], calls)}
      rows=${keys.value}
      keyOf=${({ id }: KeyShown) => id}
      empty=${isFiltered() ? "There is no such key." : `There is no key yet.${mayChange.value ? " New key makes the first one." : ""}`}
    />
    ${
      next.value !== null &&
      html`<${More} name="More keys" load=${() => loadKeys(next.value ?? "")}>
        <span class="quiet">
          ${plain.format(keys.value?.length ?? 0)} keys are
          shown${(filters.find.value || isOfUse()) && `, of ${plain.format(searched.value)} that were searched`}.
        </span>
      <//>`
    }
  </section>`;
}
