/**
 * The address of the page. Its query names the part and the choices of its user, so that a link to them also survives the redirects of a login,
 * which lose a fragment.
 */

import { type Signal, signal } from "@preact/signals";
import { mayBeSecret } from "../../masked.ts";
import { read, Refusal } from "./api.ts";

/** The choices of a part by their names in its address, most of which the API has, too. An undefined choice is left out. */
export type Choices = Readonly<Record<string, string | undefined>>;

/** Returns the address of a part with choices. */
export function addressOf(part: string, choices: Choices = {}): string {
  const query = new URLSearchParams({ part });
  for (const [name, value] of Object.entries(choices)) if (value !== undefined) query.set(name, value);
  // Keep the commas legible.
  return `${location.pathname}?${String(query).replaceAll("%2C", ",")}`;
}

/**
 * Writes the choices of a part into the address, unless the user has gone to another part meanwhile. Leaves out all that may be a
 * secret, which people take for the id of its key: histories and logs keep addresses.
 */
export function noteChoices(part: string, choices: Choices): void {
  const asked = new URLSearchParams(location.search);
  const noted = Object.fromEntries(Object.entries(choices).filter(([, value = ""]) => !mayBeSecret(value)));
  if ((asked.get("part") ?? "keys") === part) history.replaceState(null, "", addressOf(part, noted));
  here.value = location.pathname + location.search;
}

/** The days of a link to the spend of all days. Without days, a link leads to this month. */
export const ALL_DAYS: Choices = { since: "" };

/** True for a day of the calendar, such as `2026-11-01`. */
export function isDay(text: string): boolean {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : NaN;
  // JavaScript takes the 30th of February for a day of March.
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

/** Tells of a text that is no day, and of days in the wrong order, as the server does, in the words of the page. Empty texts are no choice. */
function faultsOfDays(since: string, until: string): readonly string[] {
  const faults = [
    ["From", since],
    ["To", until],
  ].flatMap(([name, day = ""]) =>
    day === "" || isDay(day) ? [] : [`${name} must be a day, such as 2026-11-01, not ${day}.`],
  );
  const isTurned = faults.length === 0 && since !== "" && until !== "" && since > until;
  return isTurned ? [`From (${since}) is after To (${until}).`] : faults;
}

/**
 * Rejects for wrong days, and for other wrong choices of the page, with what the server refuses of the rest: a link may have several.
 *
 * @param rest The path of a list with the other choices alone.
 * @param others What else the page has found wrong.
 */
export async function assertDays(
  since: string,
  until: string,
  rest: string,
  others: readonly string[] = [],
): Promise<void> {
  const faults = [...others, ...faultsOfDays(since, until)];
  if (faults.length === 0) return;
  const ofServer = await read(rest).then(
    () => [],
    (error: unknown) => (error instanceof Refusal ? [error.message] : []),
  );
  throw new Refusal([...ofServer, ...faults].join(" "), 400);
}

/** The path of this page with its query: where a login leads back to. */
export const here: Signal<string> = signal("");

const LOGIN = document.documentElement.dataset["login"] ?? "";

/** Returns the address of the login, which leads back to what is shown. A host may name its own way back. Empty without a login. */
export const loginAddress = (): string =>
  LOGIN === "" || /[?&]next=/.test(LOGIN)
    ? LOGIN
    : `${LOGIN}${LOGIN.includes("?") ? "&" : "?"}next=${encodeURIComponent(here.value)}`;

/** The filters of calls, which the address and the API name alike, and their words. */
const SCOPE = {
  key: "Key",
  budget: "Budget, with the budgets below",
  ownBudget: "Budget of the key",
  group: "Group",
  model: "Model",
  upstream: "Upstream",
} as const;

/** The chosen filters of calls. An empty text stands for calls without any, such as those of no group. */
export type Scope = Readonly<Partial<Record<keyof typeof SCOPE, string>>>;

/** Reads the filters of calls from an address. */
export const scopeIn = (asked: URLSearchParams): Scope =>
  Object.fromEntries(Object.keys(SCOPE).flatMap((name) => (asked.has(name) ? [[name, asked.get(name) ?? ""]] : [])));

/** The budget of some filters, for a field. The field has no text for calls of no budget, which stay a filter of their own. */
export const budgetOf = (scope: Signal<Scope>): Pick<Signal<string>, "value"> => ({
  get value() {
    return scope.value.budget ?? "";
  },
  set value(budget) {
    const { budget: _before, ...others } = scope.value;
    scope.value = budget === "" ? others : { ...others, budget };
  },
});

/** Returns the words of a filter. */
export const wordsOf = (name: string, value: string): string =>
  `${SCOPE[name as keyof Scope]}: ${value === "" ? "none" : value}`;

/** Goes to an address of this page, which tells the listeners of `popstate`. */
export function go(address: string): void {
  history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Follows a link without loading the page again, unless the user asks for another tab or window. */
export function follow(event: MouseEvent): void {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go((event.currentTarget as HTMLAnchorElement).href);
}

/** Turns addresses of earlier versions into present ones: those with a fragment, such as `#spend?by=model`, and those of the part `refusals`. */
export function renewAddress(isPart: (name: string) => boolean): void {
  const { pathname, search, hash } = location;
  const renewed = [search, hash].map((text) => text.replace(/^(#|\?(?:.*&)?part=)refusals(?![^?&])/, "$1calls"));
  if (renewed.join("") !== search + hash) history.replaceState(null, "", pathname + renewed.join(""));
  const [part = "", choices = ""] = location.hash.slice(1).split("?");
  if (isPart(part)) history.replaceState(null, "", addressOf(part, Object.fromEntries(new URLSearchParams(choices))));
}
