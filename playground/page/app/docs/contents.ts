/** The contents of the docs: the groups of pages in the index, and the headings of a page. */

import { addressOf, type Block, piecesOf } from "./markdown.ts";

export interface Entry {
  readonly name: string;
  readonly href: string;
}

export interface Group {
  readonly name: string;
  readonly entries: readonly Entry[];
}

/** Returns the groups of the index: each heading with the pages that the list behind it begins with. */
export function groupsOf(index: readonly Block[]): Group[] {
  const groups: { name: string; entries: Entry[] }[] = [];
  for (const block of index) {
    if (block.type === "heading" && block.level === 2) groups.push({ name: block.text, entries: [] });
    else if (block.type === "list") groups.at(-1)?.entries.push(...block.items.flatMap(entryOf));
  }
  return groups.filter(({ entries }) => entries.length > 0);
}

function entryOf(item: string): Entry[] {
  const [link] = piecesOf(item);
  const href = link?.type === "link" ? addressOf(link.href ?? "", "README") : undefined;
  return href === undefined ? [] : [{ name: (link?.text ?? "").replaceAll("`", ""), href }];
}

/** A heading of the second or third level. */
export interface Heading extends Entry {
  readonly level: 2 | 3;
}

/** Returns the headings of the second and third level of a page. */
export const headingsOf = (page: string, blocks: readonly Block[]): Heading[] =>
  blocks.flatMap((block) =>
    block.type === "heading" && (block.level === 2 || block.level === 3)
      ? [{ name: block.text.replaceAll("`", ""), href: `#docs/${page}/${block.id}`, level: block.level }]
      : [],
  );
