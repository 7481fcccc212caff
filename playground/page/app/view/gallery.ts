/** Shows small versions of all pictures. The user chooses a picture here. */

import { chosenId, pictures } from "../state/pictures.ts";
import { html, type View } from "./html.ts";

export function Gallery(): View {
  if (pictures.value.length === 0) return null;
  return html`
    <ul class="gallery" aria-label="Pictures so far">
      ${pictures.value.map(
        ({ id, src, about }) => html`
          <li key=${id}>
            <button
              type="button"
              aria-pressed=${chosenId.value === id}
              aria-label=${`Picture ${id}: ${about}`}
              title=${about}
              onClick=${() => (chosenId.value = id)}
            >
              <img src=${src} alt="" width="72" height="72" />
            </button>
          </li>
        `,
      )}
    </ul>
  `;
}
