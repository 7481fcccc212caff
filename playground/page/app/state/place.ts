/** Which part of the page is shown; its name stands in the address, after the `#`. */

import { type Signal, signal } from "@preact/signals";

export const PLACES = [
  { id: "chat", name: "Chat" },
  { id: "pictures", name: "Pictures" },
  { id: "nearness", name: "Nearness" },
] as const;

export type Place = (typeof PLACES)[number]["id"];

const fromAddress = (): Place => PLACES.find(({ id }) => location.hash === `#${id}`)?.id ?? "chat";

export const place: Signal<Place> = signal(fromAddress());

addEventListener("hashchange", () => (place.value = fromAddress()));
