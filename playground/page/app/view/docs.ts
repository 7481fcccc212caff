/** Shows the docs of this version. */

import { useEffect } from "preact/hooks";
import { addressOf, type Block, piecesOf, rowOf } from "../docs/markdown.ts";
import { doc, results } from "../state/docs.ts";
import { docHeading, docPage, docRow, revisits } from "../state/place.ts";
import { Coloured } from "./coloured.ts";
import { DocsSide } from "./docs-side.ts";
import { html, type View } from "./html.ts";
import { CopyButton } from "./listing.ts";

export const Docs = (): View => html`
  <div class="docs-layout">
    <${DocsSide} />
    <${Page} />
  </div>
`;

function Page(): View {
  const [found, heading, row] = [doc.value, docHeading.value, docRow.value];
  useEffect(() => {
    if (typeof found !== "object") return;
    const named = document.querySelector<HTMLElement>(".docs .is-named") ?? document.getElementById(idOf(heading));
    const target = named ?? document.querySelector<HTMLElement>(".docs h2");
    if (heading !== "" && target === named) target?.scrollIntoView({ block: "start", behavior: "instant" });
    else scrollTo({ top: 0, behavior: "instant" });
    // Move the focus here from the link in the side bar, so that screen readers continue here. Results that the way back shows keep it.
    if (results.peek() !== "open" && document.activeElement?.closest(".docs-side"))
      target?.focus({ preventScroll: true });
  }, [found, heading, row, revisits.value]);
  let section = "";
  const blocks = typeof found === "object" ? found : [];
  const inSections = blocks.map((block, index) => {
    if (block.type === "heading") section = index === 0 ? "" : block.id;
    return { block, row: section === heading ? row : "" };
  });
  return html`
    <article class="docs card" aria-label="Docs">
      ${found === undefined && html`<p class="hint">Asking …</p>`}
      ${typeof found === "string" && html`<p class="wrong" role="alert">${found}</p>`}
      ${inSections.map(({ block, row }, index) => html`<${BlockView} key=${index} block=${block} row=${row} />`)}
    </article>
  `;
}

const idOf = (heading: string): string => `docs-${heading}`;

/** Marks the row or the item that the address names. */
const markOf = (text: string, row: string): object =>
  row !== "" && rowOf(text) === row ? { class: "is-named", tabindex: -1, "aria-current": "location" } : {};

/** @param row The id of a row in the block's section that the address names; empty for none. */
function BlockView({ block, row }: { readonly block: Block; readonly row: string }): View {
  switch (block.type) {
    case "heading":
      // The first heading already shows the name of the page.
      return html`<${`h${Math.min(6, block.level + 1)}`} id=${idOf(block.id)} tabindex="-1"><${Line} text=${block.text} /></${`h${Math.min(6, block.level + 1)}`}>`;
    case "paragraph":
      return html`<p><${Line} text=${block.text} /></p>`;
    case "code":
      return html`
        <div class="listing">
          <div class="listing-head"><${CopyButton} key=${block.text} text=${block.text} /></div>
          <pre tabindex="0"><${Coloured} text=${block.text} /></pre>
        </div>
      `;
    case "list":
      return html`<${block.isOrdered ? "ol" : "ul"}>
        ${block.items.map((item) => html`<li ...${markOf(item, row)}><${Line} text=${item} /></li>`)}
      </${block.isOrdered ? "ol" : "ul"}>`;
    default:
      return html`<${Table} rows=${block.rows} named=${row} />`;
  }
}

const Table = ({
  rows: [head = [], ...rows],
  named,
}: Omit<Extract<Block, { type: "table" }>, "type"> & { readonly named: string }): View => html`
  <div class="table" tabindex="0" role="region" aria-label="Table">
    <table>
      <thead>
        <tr>
          ${head.map((cell) => html`<th scope="col"><${Line} text=${cell} /></th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr ...${markOf(row[0] ?? "", named)}>
              ${row.map((cell) => html`<td><${Line} text=${cell} /></td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>
`;

function Line({ text }: { readonly text: string }): View {
  const pieces = piecesOf(text).map((piece) => {
    if (piece.type === "text") return piece.text;
    if (piece.type === "code") return html`<code>${piece.text}</code>`;
    if (piece.type === "strong") return html`<strong><${Line} text=${piece.text} /></strong>`;
    const address = addressOf(piece.href ?? "", docPage.value);
    return address === undefined
      ? html`<${Line} text=${piece.text} />`
      : html`<a href=${address}><${Line} text=${piece.text} /></a>`;
  });
  return html`<span>${pieces}</span>`;
}
