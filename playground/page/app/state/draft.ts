/** The chat request that the user is composing, and the formats to send the request in. */

import { type Signal, signal } from "@preact/signals";
import type { ChatDraft } from "../formats/draft.ts";
import type { ChatFormat } from "../formats/format.ts";
import { chatFormats } from "../formats/list.ts";

export const FIRST_SCHEMA: string = JSON.stringify(
  {
    type: "object",
    properties: {
      city: { type: "string" },
      inhabitants: { type: "integer", minimum: 1000 },
      sights: { type: "array", items: { type: "string", enum: ["tower", "river", "museum"] }, minItems: 2 },
    },
    required: ["city", "inhabitants", "sights"],
  },
  undefined,
  2,
);

/** The draft that each example changes. */
export const PLAIN: ChatDraft = {
  model: "demo-chat",
  system: "",
  past: [],
  results: [],
  prompt: "",
  maxTokens: 4_096,
  temperature: undefined,
  stream: true,
  thinking: undefined,
  tools: false,
  schema: undefined,
  codeExecution: false,
};

export const draft: Signal<ChatDraft> = signal({
  ...PLAIN,
  prompt: "/delay 40 Hello! Say it back to me in every format, word by word, so that I can watch it stream.",
  thinking: "low",
});

/** The result for each call of the weather tool. */
export const weather: Signal<string> = signal("21 °C and light rain");

export const changeDraft = (changes: Partial<ChatDraft>): void => {
  draft.value = { ...draft.peek(), ...changes };
};

/** The formats of the gateway. Undefined until the gateway has answered. */
export const formats: Signal<readonly ChatFormat[] | undefined> = signal(undefined);
/** The ids of the formats that the user does not want. */
export const unwanted: Signal<ReadonlySet<string>> = signal(new Set<string>());

/** Requests the formats of the gateway. Shows all formats if this fails, because calls then report the error. */
export async function findFormats(): Promise<void> {
  const ids = await fetch("/page/formats.json")
    .then((response) => response.json() as Promise<readonly string[]>)
    .catch(() => chatFormats.map(({ id }) => id));
  formats.value = chatFormats.filter(({ id }) => ids.includes(id));
}

export const wantedFormats = (): readonly ChatFormat[] =>
  (formats.value ?? []).filter(({ id }) => !unwanted.value.has(id));
