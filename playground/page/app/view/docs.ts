/** Shows the docs of this version. */

import { useEffect } from "preact/hooks";
import { addressOf, type Block, piecesOf } from "../docs/markdown.ts";
import { doc } from "../state/docs.ts";
import { docHeading, docPage } from "../state/place.ts";
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
  const [found, heading] = [doc.value, docHeading.value];
  useEffect(() => {
    if (typeof found !== "object") return;
    const target = document.getElementById(idOf(heading)) ?? document.querySelector<HTMLElement>(".docs h2");
    if (heading !== "" && target?.id === idOf(heading)) target.scrollIntoView({ block: "start" });
    else scrollTo(0, 0);
    // Move the focus here from the link in the side bar, so that screen readers continue here.
    if (document.activeElement?.closest(".docs-side")) target?.focus({ preventScroll: true });
  }, [found, heading]);
  return html`
    <article class="docs card" aria-label="Docs">
      ${found === undefined && html`<p class="hint">Asking …</p>`}
      ${typeof found === "string" && html`<p class="wrong" role="alert">${found}</p>`}
      ${typeof found === "object" && found.map((block, index) => html`<${BlockView} key=${index} block=${block} />`)}
    </article>
  `;
}

const idOf = (heading: string): string => `docs-${heading}`;

function BlockView({ block }: { readonly block: Block }): View {
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
        ${block.items.map((item) => html`<li><${Line} text=${item} /></li>`)}
      </${block.isOrdered ? "ol" : "ul"}>`;
    default:
      return html`<${Table} rows=${block.rows} />`;
  }
}

const Table = ({ rows: [head = [], ...rows] }: Omit<Extract<Block, { type: "table" }>, "type">): View => html`
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
            html`<tr>
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
