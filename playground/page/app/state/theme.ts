/** The theme, light or dark: the system's, or the remembered choice of the user. */

import { effect, type Signal, signal } from "@preact/signals";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const STORED = "polygate-theme";

const stored = THEMES.find((theme) => theme === localStorage.getItem(STORED));

export const theme: Signal<Theme> = signal(stored ?? "system");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(STORED, theme.value);
});
