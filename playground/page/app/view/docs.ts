/** The docs, as they stand beside the playground. */

import { useEffect } from "preact/hooks";
import { addressOf, type Block, piecesOf } from "../docs/markdown.ts";
import { doc } from "../state/docs.ts";
import { docHeading, docPage } from "../state/place.ts";
import { Coloured } from "./coloured.ts";
import { html, type View } from "./html.ts";

export function Docs(): View {
  const [found, heading] = [doc.value, docHeading.value];
  useEffect(() => {
    if (typeof found !== "object") return;
    const target = document.getElementById(idOf(heading));
    if (heading !== "" && target) target.scrollIntoView({ block: "start" });
    else scrollTo(0, 0);
  }, [found, heading]);
  return html`
    <article class="docs card" aria-label="Docs">
      ${docPage.value !== "README" && html`<p><a href="#docs">All pages</a></p>`}
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
      // The page's own name is its first heading.
      return html`<${`h${Math.min(6, block.level + 1)}`} id=${idOf(block.id)}><${Line} text=${block.text} /></${`h${Math.min(6, block.level + 1)}`}>`;
    case "paragraph":
      return html`<p><${Line} text=${block.text} /></p>`;
    case "code":
      return html`<pre tabindex="0"><${Coloured} text=${block.text} /></pre>`;
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
