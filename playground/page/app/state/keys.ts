/** The API key for calls: a key of the demo, or a key that the user types. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type ShownKey, shownKey } from "../http/secret.ts";

/** The choice of the user's own key, which is kept only in memory. */
export const OTHER = "other";

export const chosenKey: Signal<string> = signal("sk-metered");
export const typedKey: Signal<string> = signal("");

const isTyped = (): boolean => chosenKey.value === OTHER;

export const apiKey: ReadonlySignal<string> = computed(() => (isTyped() ? typedKey.value.trim() : chosenKey.value));

/** The form of the key for display and copies. */
export const keyToShow: ReadonlySignal<ShownKey> = computed(() => shownKey(apiKey.value, !isTyped()));
