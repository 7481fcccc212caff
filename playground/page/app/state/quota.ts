/** What the chosen key has left. Asked while a call runs, so that the hold and then the charge can be seen. */

import { effect, type Signal, signal } from "@preact/signals";
import { numberAt, objectAt, parsed, textAt } from "../json.ts";
import { apiKey } from "./keys.ts";

export interface Quota {
  readonly name: string;
  readonly granted: number;
  readonly used: number;
  readonly available: number;
  readonly isUnlimited: boolean;
  /** The models that the key may use, or undefined where it may use all. */
  readonly models: readonly string[] | undefined;
  /** Seconds since 1970; 0 means never. */
  readonly expiresAt: number;
}

/** Undefined until it is known; a text says why it cannot be. */
export const quota: Signal<Quota | string | undefined> = signal(undefined);
/** What live calls hold now, beyond what was used when they began. */
export const held: Signal<number> = signal(0);
/** What the last calls were charged, once they are settled. */
export const charged: Signal<number | undefined> = signal(undefined);

const POLL_MS = 150;

let running = 0;
/** What was used before the first of the live calls; nothing can be more than what is not known. */
let usedBefore = Number.POSITIVE_INFINITY;
let polling: ReturnType<typeof setTimeout> | undefined;
let asked = 0;

async function refreshQuota(): Promise<void> {
  const turn = ++asked;
  const answer = await ask(apiKey.peek()).catch(() => "The playground does not answer.");
  // An answer that a later one has overtaken says nothing new.
  if (turn !== asked) return;
  quota.value = answer;
  if (typeof answer === "string") return;
  const more = Math.max(0, answer.used - usedBefore);
  held.value = running > 0 ? more : 0;
  if (running === 0 && Number.isFinite(usedBefore)) charged.value = more;
}

async function ask(key: string): Promise<Quota | string> {
  const response = await fetch("/api/usage/token", { headers: { authorization: `Bearer ${key}` }, cache: "no-store" });
  const body = parsed(await response.text());
  if (!response.ok) return textAt(body, "message") || `Status ${response.status}`;
  const data = objectAt(body, "data");
  const number = (name: string): number => numberAt(data, name) ?? 0;
  const limits = Object.entries(objectAt(data, "model_limits"));
  return {
    name: textAt(data, "name"),
    granted: number("total_granted"),
    used: number("total_used"),
    available: number("total_available"),
    isUnlimited: data["unlimited_quota"] === true,
    models: data["model_limits_enabled"] === true ? limits.flatMap(([model, may]) => (may ? [model] : [])) : undefined,
    expiresAt: number("expires_at"),
  };
}

/** Watches the quota until a call has ended, and settled. */
export function watchQuota(ended: Promise<unknown>): void {
  const now = quota.peek();
  if (running === 0) {
    usedBefore = typeof now === "object" ? now.used : Number.POSITIVE_INFINITY;
    charged.value = undefined;
  }
  running++;
  clearTimeout(polling);
  poll();
  const end = (): void => {
    running--;
    // What has ended may take a moment to settle.
    setTimeout(() => void refreshQuota(), POLL_MS);
    void refreshQuota();
  };
  void ended.then(end, end);
}

function poll(): void {
  if (running === 0) return;
  void refreshQuota();
  polling = setTimeout(poll, POLL_MS);
}

/** Asks anew for each key that is chosen. While a key is typed, only once there is something of it. */
export function followKey(): () => void {
  let pause: ReturnType<typeof setTimeout> | undefined;
  return effect(() => {
    const key = apiKey.value;
    clearTimeout(pause);
    // An answer that is still to come is about another key.
    asked++;
    quota.value = key === "" ? "Type a key." : undefined;
    charged.value = undefined;
    held.value = 0;
    usedBefore = Number.POSITIVE_INFINITY;
    if (key !== "") pause = setTimeout(() => void refreshQuota(), 100);
  });
}
