/** Finds keys and budgets by what people call them: their names, parts of these, and mistyped ids. */

import { nearest } from "../options.ts";
import { nextIteration } from "../ports/clock.ts";
import { MOST_LISTED } from "../stores/durable.ts";
import { pagesOf } from "./pages.ts";

/** A key or a budget. Names need not be unique. */
interface Named {
  readonly id: string;
  readonly name: string;
}

/** Lists keys or budgets in the order of their ids. */
export type ListNamed = (page: { readonly after?: string; readonly limit: number }) => Promise<readonly Named[]>;

/** The most keys or budgets that a text of a command is compared with. */
const MOST_COMPARED = 20_000;

/** The keys or budgets whose letters are compared before other work gets its turn. A comparison takes some 50 microseconds. */
const COMPARED_AT_ONCE = 100;

/** The most ids that a message lists. */
const MOST_IDS = 10;

/**
 * Returns the ids of the keys or the budgets that a user means by a text: the id itself, or else all of that name, or else all of that
 * name in other letters of case, or else all with the text as a part of their names.
 *
 * @param most The number of keys or budgets that are looked at. Default: 20,000.
 */
export async function idsLike(text: string, list: ListNamed, most: number = MOST_COMPARED): Promise<readonly string[]> {
  const lower = text.toLowerCase();
  const found: Named[] = [];
  let compared = 0;
  for await (const page of pagesOf(list)) {
    found.push(...page.filter(({ id, name }) => id === text || name.toLowerCase().includes(lower)));
    compared += page.length;
    // A shorter page ends no list: over HTTP, a page ends early behind long names.
    if (compared >= most) break;
  }
  const steps: readonly ((item: Named) => boolean)[] = [
    ({ id }) => id === text,
    ({ name }) => name === text,
    ({ name }) => name.toLowerCase() === lower,
    () => true,
  ];
  const step = steps.find((fits) => found.some(fits));
  return step === undefined ? [] : found.filter(step).map(({ id }) => id);
}

/** Returns the id that a user probably meant by a mistyped id or name; undefined when none is near. */
export async function idNear(text: string, list: ListNamed): Promise<string | undefined> {
  // A page is enough for a hint.
  const page = await list({ limit: MOST_LISTED });
  let near: string | undefined;
  for (let at = 0; at < page.length; at += COMPARED_AT_ONCE) {
    const names = page.slice(at, at + COMPARED_AT_ONCE).flatMap(({ id, name }) => [id, name]);
    near = nearest(text, near === undefined ? names : [near, ...names]);
    await nextIteration();
  }
  return page.find(({ id, name }) => id === near || name === near)?.id;
}

/** The ids that a user probably meant. */
interface MeantIds {
  readonly ids: readonly string[];
  /** True where the text is a name, or a part of one. */
  readonly areNamed: boolean;
}

/** Returns at most three ids that a user probably meant by an unknown id. A list that fails has none. Takes the `most` of `idsLike`. */
export async function idsMeant(text: string, list: ListNamed, most?: number): Promise<MeantIds> {
  const named = await idsLike(text, list, most).catch(() => []);
  if (named.length > 0) return { ids: named.length > 3 ? [] : named, areNamed: true };
  const near = await idNear(text, list).catch(() => undefined);
  return { ids: near === undefined ? [] : [near], areNamed: false };
}

/** Writes some ids for a message: at most 10, and how many more there are. */
export function idsInWords(ids: readonly string[]): string {
  const more = ids.length > MOST_IDS ? ` and ${ids.length - MOST_IDS} more` : "";
  return `${ids.slice(0, MOST_IDS).join(", ")}${more}`;
}
