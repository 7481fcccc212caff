/** The pages of the docs, and the search in them. */

import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { groupsOf, type Group } from "../docs/contents.ts";
import { type Block, blocksOf } from "../docs/markdown.ts";
import { type Found, searchIn } from "../docs/search.ts";
import { docPage, place } from "./place.ts";

interface Docs {
  /** The texts of all pages by name. */
  readonly pages: Readonly<Record<string, string>>;
  /** What people search for, by section. */
  readonly phrases: string;
}

/** Undefined until loaded. A text tells why loading has failed. */
const docs: Signal<Docs | string | undefined> = signal(undefined);

const textOf = (page: string): string | undefined =>
  typeof docs.value === "object" && Object.hasOwn(docs.value.pages, page) ? docs.value.pages[page] : undefined;

/** The current page. Undefined until loaded. A text tells why loading has failed. */
export const doc: ReadonlySignal<readonly Block[] | string | undefined> = computed(() => {
  if (typeof docs.value !== "object") return docs.value;
  const text = textOf(docPage.value);
  return text === undefined ? `The docs have no page "${docPage.value}".` : blocksOf(text);
});

export const groups: ReadonlySignal<readonly Group[]> = computed(() => groupsOf(blocksOf(textOf("README") ?? "")));

/** The pages of the reference by area. */
export const referenceGroups: ReadonlySignal<readonly Group[]> = computed(() =>
  groupsOf(blocksOf(textOf("reference") ?? "")),
);

export const query: Signal<string> = signal("");

/** The results are shown, shown beside the page of the one that was followed (a narrow screen hides them), or not shown. */
export const results: Signal<"open" | "followed" | "closed"> = signal("closed");

/** The address of the result that was followed last. */
let followed = "";

/** Keeps the query with the present place in the history, so that the way back leads to its results; an empty one is forgotten. */
export const keepQuery = (text: string): void => history.replaceState(text === "" ? null : { query: text }, "");

/** Notes that a result leads to an address. The query stays, so that the reader can try the next result. */
export function followResult(hash: string): void {
  keepQuery(query.value);
  followed = hash;
  results.value = "followed";
}

/** Ends the search. */
export function clearQuery(): void {
  query.value = "";
  keepQuery("");
  results.value = "closed";
}

/** Shows the query that was kept with the present place in the history, with its results. Any other place shows no results of its own. */
export function recallQuery(): void {
  const { state } = history as { readonly state: { readonly query?: unknown } | null };
  if (typeof state?.query === "string") {
    query.value = state.query;
    results.value = "open";
  } else results.value = query.value !== "" && location.hash === followed ? "followed" : "closed";
}

/** The search. Created with the first query, because it reads all pages. */
const find: ReadonlySignal<(query: string) => Found> = computed(() =>
  typeof docs.value === "object" ? searchIn(docs.value.pages, docs.value.phrases) : () => NONE,
);

const NONE: Found = { hits: [], missing: [] };

export const found: ReadonlySignal<Found> = computed(() =>
  query.value.trim() === "" ? NONE : find.value(query.value),
);

/** The title of the current page, without what follows a colon. Undefined until loaded, and for a page that does not exist. */
const title: ReadonlySignal<string | undefined> = computed(() => {
  const [heading] = typeof doc.value === "object" ? doc.value : [];
  return heading?.type === "heading" ? heading.text.replaceAll("`", "").replace(/: .*/, "") : undefined;
});

/** Shows the title of the page of the docs in the browser's tab. */
export const followTitle = (): (() => void) =>
  effect(() => {
    const isDoc = place.value === "docs" && title.value !== undefined;
    document.title = isDoc ? `${title.value} – polygate` : "polygate playground";
  });

/** Loads the pages when the user first opens the docs. */
export const followDocs = (): (() => void) =>
  effect(() => {
    if (place.value !== "docs" || typeof docs.peek() === "object") return;
    void ask().then((loaded) => (docs.value = loaded));
  });

async function ask(): Promise<Docs | string> {
  try {
    const response = await fetch("/page/docs/pages.json");
    return response.ok ? ((await response.json()) as Docs) : "The docs are not served here.";
  } catch {
    return "The playground does not answer.";
  }
}
