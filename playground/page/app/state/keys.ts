/** The api key that calls are made with: one of the demo's, or one that the user types. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type ShownKey, shownKey } from "../http/secret.ts";

/** The demo's keys, and what each is there to show. */
export const DEMO_KEYS = [
  { apiKey: "sk-metered", about: "1,000,000 units" },
  { apiKey: "sk-demo", about: "unlimited" },
  { apiKey: "sk-limited", about: "demo-chat only" },
  { apiKey: "sk-empty", about: "used up" },
  { apiKey: "sk-expired", about: "expired" },
] as const;

/** Chosen where the user types a key of their own, which is kept in memory alone. */
export const OTHER = "other";

export const chosenKey: Signal<string> = signal("sk-metered");
export const typedKey: Signal<string> = signal("");

const isTyped = (): boolean => chosenKey.value === OTHER;

export const apiKey: ReadonlySignal<string> = computed(() => (isTyped() ? typedKey.value.trim() : chosenKey.value));

/** The key as it may be shown and copied. */
export const keyToShow: ReadonlySignal<ShownKey> = computed(() => shownKey(apiKey.value, !isTyped()));
