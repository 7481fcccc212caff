/** The header: the navigation, the key, its remaining quota, and the theme. */

import { PLACES, place } from "../state/place.ts";
import { THEMES, theme } from "../state/theme.ts";
import { html, type View } from "./html.ts";
import { KeyPicker } from "./key-picker.ts";
import { QuotaMeter } from "./quota-meter.ts";

/** The admin of the demo has no login, and so answers only browsers of its own machine. */
const isOwnMachine = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

export const Header = (): View => html`
  <header class="header">
    <h1 class="brand">
      <img src="/page/logo.svg" alt="" width="24" height="24" />
      polygate <span class="brand-suffix">playground</span>
    </h1>
    <nav class="places" aria-label="Parts of the playground">
      ${PLACES.map(
        ({ id, name }) => html`<a href=${`#${id}`} aria-current=${place.value === id ? "page" : undefined}>${name}</a>`,
      )}
      ${document.documentElement.dataset["reference"] === "true" && html`<a href="/reference">Reference</a>`}
      ${isOwnMachine && html`<a href="/admin">Admin</a>`}
    </nav>
    <div class="account">
      <${KeyPicker} />
      <${QuotaMeter} />
    </div>
    <${ThemeToggle} />
  </header>
`;

const SIGNS = { system: "◐", light: "☀", dark: "☾" } as const;

/** The button that switches to the next theme. */
function ThemeToggle(): View {
  const now = theme.value;
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length] ?? "system";
  return html`
    <button
      type="button"
      class="quiet theme"
      aria-label=${`Theme: ${now}. Change to ${next}.`}
      title=${`Theme: ${now}`}
      onClick=${() => (theme.value = next)}
    >
      <span aria-hidden="true">${SIGNS[now]}</span>
    </button>
  `;
}
