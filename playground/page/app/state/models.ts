/** The models that the chosen key may use, by their kind. */

import { effect, type Signal, signal } from "@preact/signals";
import { listAt, parsed, textAt } from "../json.ts";
import { apiKey } from "./keys.ts";

export interface Models {
  readonly chat: readonly string[];
  readonly embedding: readonly string[];
}

const NONE: Models = { chat: [], embedding: [] };

/** The models. Empty if they are unknown: the user can still type any name. */
export const models: Signal<Models> = signal(NONE);

async function ask(key: string): Promise<Models> {
  // Only the list of this format tells the kind of each model.
  const response = await fetch("/v1beta/models?pageSize=1000", { headers: { "x-goog-api-key": key } });
  const all = listAt(parsed(await response.text()), "models");
  const that = (does: string): string[] =>
    all
      .filter((model) => listAt(model, "supportedGenerationMethods").includes(does))
      .map((model) => textAt(model, "name").replace(/^models\//, ""));
  return { chat: that("generateContent"), embedding: that("embedContent") };
}

/** Requests the models again for each chosen key. */
export function followModels(): () => void {
  let pause: ReturnType<typeof setTimeout> | undefined;
  return effect(() => {
    const key = apiKey.value;
    clearTimeout(pause);
    const refresh = async (): Promise<void> => {
      const found = await ask(key).catch(() => NONE);
      if (apiKey.peek() === key) models.value = found;
    };
    pause = setTimeout(() => void refresh(), 100);
  });
}
