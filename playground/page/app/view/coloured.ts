/** Colours JavaScript, JSON, curl, HTTP and streams of events, which are similar enough for a shared pattern. */

import { html, type View } from "./html.ts";

/** The most characters that are coloured: each coloured piece is an element of the page. */
const MAX_COLOURED = 20_000;

/** The tokens of code. A text in double quotes ends in its line. Single quotes of a shell contain JSON, whose tokens get colours. */
const PIECES =
  /(?<key>"(?:[^"\\\n]|\\.)*"(?=\s*:)|^[\w-]+(?=: )|\b[a-z]\w*(?=: ))|(?<string>"(?:[^"\\\n]|\\.)*")|(?<comment>(?:^#|\/\/) .*$)|(?<number>(?<![\w.-])-?\d[\d_]*(?:\.\d+)?(?![\w.]))|(?<word>\b(?:async|await|const|curl|DELETE|export|false|for|from|function|GET|HTTP\/1\.1|if|import|new|null|of|POST|return|true|yield)\b)/gm;

export function Coloured({ text }: { readonly text: string }): View {
  const pieces: (string | View)[] = [];
  let end = 0;
  for (const { index, 0: piece, groups } of text.slice(0, MAX_COLOURED).matchAll(PIECES)) {
    const [kind] = Object.entries(groups ?? {}).find(([, found]) => found !== undefined) ?? [];
    pieces.push(text.slice(end, index), html`<span class=${`is-${kind}`}>${piece}</span>`);
    end = index + piece.length;
  }
  return html`<code>${pieces}${text.slice(end)}</code>`;
}
