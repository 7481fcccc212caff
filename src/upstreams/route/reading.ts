/** Reads what a route needs to know of requests and of the events of answers. */

import type { ChatEvent } from "../../model/chat-event.ts";
import { CHAT } from "../../model/chat-request.ts";
import type { Usage } from "../../model/usage.ts";

/** A request of any kind, as far as a route reads it. */
export interface RoutableRequest {
  readonly model: string;
  readonly stream?: boolean;
  readonly tools?: readonly { readonly type: string }[];
  readonly native?: {
    readonly assertKnown?: (() => void) | undefined;
    readonly body?: Readonly<Record<string, unknown>>;
  };
}

/** Fields of a request that make an upstream store something, or act beyond its answer. */
const KEEPING: readonly string[] = ["background", "container", "mcp_servers", "store"];

/**
 * True for a request that a second upstream may get, too: a chat, without tools that the provider or the gateway runs, without anything that
 * the upstream keeps, and without types that the gateway does not know.
 */
export function mayRepeat(kind: string, { tools = [], native }: RoutableRequest): boolean {
  if (kind !== CHAT || tools.some(({ type }) => type !== "function") || native?.assertKnown) return false;
  return !KEEPING.some((field) => isSet(native?.body?.[field]));
}

const isSet = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null && value !== false && value !== "";

type Known = Exclude<ChatEvent, { readonly type: "native" }>;

/** Returns the neutral events that an event of a backend means. Events of other kinds than chat are returned as they are. */
export function neutral(event: unknown): readonly (Known | string)[] {
  if (typeof event === "string") return [event];
  if (typeof event !== "object" || event === null) return [];
  const known = event as ChatEvent;
  return known.type === "native" ? known.events : [known];
}

/** Events that come before the content of an answer. */
const BEFORE_CONTENT: ReadonlySet<string> = new Set(["start", "usage", "annotation", "prompt-feedback"]);

/** True for an event with content, or with the end of the answer. */
export const isContent = (event: unknown): boolean =>
  neutral(event).some((known) => typeof known === "string" || !BEFORE_CONTENT.has(known.type));

/** Returns the counts in an event. */
export function usageIn(event: unknown): Partial<Usage> | undefined {
  let usage: Partial<Usage> | undefined;
  for (const known of neutral(event))
    if (typeof known === "object" && "usage" in known && known.usage) usage = { ...usage, ...known.usage };
  return usage;
}

/** Returns the number of characters that an event adds to an answer. */
export function charsIn(event: unknown): number {
  let chars = 0;
  for (const known of neutral(event)) {
    if (typeof known === "string") chars += known.length;
    else if ("text" in known && typeof known.text === "string") chars += known.text.length;
    else if ("json" in known) chars += known.json.length;
  }
  return chars;
}
