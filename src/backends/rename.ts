/** Puts the caller's name of a model in the place of the upstream's, where an answer tells it. */

import type { ChatEvent } from "../model/event.ts";
import { isJsonObject, type JsonObject, parseJson } from "../model/json.ts";

/** The event as a caller may see it, who knows the model by another name. */
export function renamed(event: ChatEvent, model: string): ChatEvent {
  if (event.type === "start") return event.model === undefined ? event : { ...event, model };
  if (event.type !== "native") return event;
  const means = event.means.map((meant) => (meant.type === "start" && meant.model ? { ...meant, model } : meant));
  if (event.frames === undefined) return { ...event, means, body: renamedJson(event.body, model) };
  const frames = event.frames.map((frame) => ({ ...frame, data: renamedJson(frame.data, model) }));
  return { ...event, means, frames };
}

/** Where the formats name the model: at the top of a chunk or a body, and in the message that a stream begins with. */
const NAMES = ["model", "modelVersion", "model_version"] as const;

// Only what names a model is parsed and written anew: numbers and spaces of the rest stay as the upstream wrote them.
function renamedJson(json: string, model: string): string {
  if (!/"model(?:_?[vV]ersion)?"\s*:/.test(json)) return json;
  let value: unknown;
  try {
    value = parseJson(json);
  } catch {
    return json;
  }
  if (!isJsonObject(value)) return json;
  const inner = value["type"] === "message_start" && isJsonObject(value["message"]) ? [value["message"]] : [];
  const changed = [value, ...inner].filter((object) => rename(object, model));
  return changed.length > 0 ? JSON.stringify(value) : json;
}

function rename(object: JsonObject, model: string): boolean {
  const names = NAMES.filter((name) => typeof object[name] === "string");
  for (const name of names) object[name] = model;
  return names.length > 0;
}
