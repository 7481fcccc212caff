/** Chooses the api key. */

import { DEMO_KEYS } from "../demo-keys.ts";
import { chosenKey, OTHER, typedKey } from "../state/keys.ts";
import { html, type View } from "./html.ts";

export const KeyPicker = (): View => html`
  <div class="key">
    <label for="key">Key</label>
    <select
      id="key"
      value=${chosenKey.value}
      onChange=${(event: Event) => (chosenKey.value = (event.currentTarget as HTMLSelectElement).value)}
    >
      ${DEMO_KEYS.map(({ apiKey, about }) => html`<option value=${apiKey}>${apiKey} – ${about}</option>`)}
      <option value=${OTHER}>Another key …</option>
    </select>
    ${
      chosenKey.value === OTHER &&
      html`<input
        type="password"
        autocomplete="off"
        spellcheck="false"
        aria-label="Your key"
        placeholder="sk-…"
        value=${typedKey.value}
        onInput=${(event: Event) => (typedKey.value = (event.currentTarget as HTMLInputElement).value)}
      />`
    }
  </div>
`;
