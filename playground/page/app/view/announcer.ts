/** Tells screen readers about changes elsewhere on the page. */

import { type Signal, signal } from "@preact/signals";
import { html, type View } from "./html.ts";

const said: Signal<string> = signal("");

export const announce = (text: string): void => {
  said.value = text;
};

export const Announcer = (): View => html`<p class="unseen" role="status">${said.value}</p>`;
