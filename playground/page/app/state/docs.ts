/** The page of the docs that is shown. */

import { effect, type Signal, signal } from "@preact/signals";
import { type Block, blocksOf } from "../docs/markdown.ts";
import { docPage, place } from "./place.ts";

/** Undefined until it has come; a text says why it has not. */
export const doc: Signal<readonly Block[] | string | undefined> = signal(undefined);

/** Asks for each page that the address names. */
export const followDocs = (): (() => void) =>
  effect(() => {
    if (place.value !== "docs") return;
    const page = docPage.value;
    doc.value = undefined;
    void ask(page).then((found) => {
      if (docPage.peek() === page) doc.value = found;
    });
  });

async function ask(page: string): Promise<readonly Block[] | string> {
  try {
    const response = await fetch(`/page/docs/${encodeURIComponent(page)}.md`);
    return response.ok ? blocksOf(await response.text()) : `The docs have no page "${page}".`;
  } catch {
    return "The playground does not answer.";
  }
}
