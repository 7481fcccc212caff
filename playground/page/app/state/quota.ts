/** The remaining quota of the chosen key. Polled during calls, to show the hold and then the charge. */

import { effect, type Signal, signal } from "@preact/signals";
import { numberAt, objectAt, parsed, textAt } from "../json.ts";
import { apiKey } from "./keys.ts";

export interface Quota {
  readonly name: string;
  readonly granted: number;
  readonly used: number;
  readonly available: number;
  readonly isUnlimited: boolean;
  /** The models that the key may use; undefined if all models are allowed. */
  readonly models: readonly string[] | undefined;
  /** Seconds since 1970; 0 means never. */
  readonly expiresAt: number;
}

/** The quota. Undefined until known. A text tells why the quota is unknown. */
export const quota: Signal<Quota | string | undefined> = signal(undefined);
/** The units that live calls hold now. */
export const held: Signal<number> = signal(0);
/** The charge of the last calls after they are settled. */
export const charged: Signal<number | undefined> = signal(undefined);

const POLL_MS = 150;

let running = 0;
/** The used units before the first live call. Infinity if unknown, so that no charge is shown. */
let usedBefore = Number.POSITIVE_INFINITY;
let polling: ReturnType<typeof setTimeout> | undefined;
let asked = 0;

async function refreshQuota(): Promise<void> {
  const turn = ++asked;
  const answer = await ask(apiKey.peek()).catch(() => "The playground does not answer.");
  // Ignore an answer if a later request has started.
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

/** Polls the quota until a call has ended and is settled. */
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
    // A call may settle a moment after its end.
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

/** Requests the quota again for each chosen key. Waits for a pause while the user types a key. */
export function followKey(): () => void {
  let pause: ReturnType<typeof setTimeout> | undefined;
  return effect(() => {
    const key = apiKey.value;
    clearTimeout(pause);
    // Ignore pending answers, because they are about another key.
    asked++;
    quota.value = key === "" ? "Type a key." : undefined;
    charged.value = undefined;
    held.value = 0;
    usedBefore = Number.POSITIVE_INFINITY;
    if (key !== "") pause = setTimeout(() => void refreshQuota(), 100);
  });
}
