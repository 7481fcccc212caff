/** The current part of the page. The address contains its name after the `#`. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";

export const PLACES = [
  { id: "chat", name: "Chat" },
  { id: "pictures", name: "Pictures" },
  { id: "nearness", name: "Embeddings" },
  { id: "docs", name: "Docs" },
] as const;

export type Place = (typeof PLACES)[number]["id"];

/** The parts of the address: the place, then the page of the docs, a heading in it, and a row below the heading. */
const parts: Signal<readonly string[]> = signal([]);

const read = (): void => {
  const next = location.hash.slice(1).split("/");
  // Ignore addresses of elements, such as the link that skips the header.
  if (next[0] === "" || PLACES.some(({ id }) => id === next[0])) parts.value = next;
};
read();
addEventListener("hashchange", read);

export const place: ReadonlySignal<Place> = computed(
  () => PLACES.find(({ id }) => id === parts.value[0])?.id ?? "chat",
);
export const docPage: ReadonlySignal<string> = computed(() => parts.value[1] || "README");
export const docHeading: ReadonlySignal<string> = computed(() => parts.value[2] ?? "");
export const docRow: ReadonlySignal<string> = computed(() => parts.value[3] ?? "");

/** The number of times that a link led to the address that was there already. */
export const revisits: Signal<number> = signal(0);
