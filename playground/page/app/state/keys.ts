/** The api key that calls are made with: one of the demo's, or one that the user types. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { type ShownKey, shownKey } from "../http/secret.ts";

/** Chosen where the user types a key of their own, which is kept in memory alone. */
export const OTHER = "other";

export const chosenKey: Signal<string> = signal("sk-metered");
export const typedKey: Signal<string> = signal("");

const isTyped = (): boolean => chosenKey.value === OTHER;

export const apiKey: ReadonlySignal<string> = computed(() => (isTyped() ? typedKey.value.trim() : chosenKey.value));

/** The key as it may be shown and copied. */
export const keyToShow: ReadonlySignal<ShownKey> = computed(() => shownKey(apiKey.value, !isTyped()));
