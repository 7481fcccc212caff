/** The pieces that an answer of the providers' interface is made of: nothing that they say is taken for granted. */

import { GatewayError } from "../../errors.ts";
import { toBase64 } from "../../media/base64.ts";
import type { ChatEvent } from "../../model/event.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { metadataOf, signatureOf } from "./metadata.ts";

/** A part as it came. */
export type WirePart = Readonly<Record<string, unknown>>;

/** The stop sequence that a provider says has ended its answer. */
export function stopSequenceIn(metadata: unknown): string | undefined {
  if (!isJsonObject(metadata)) return undefined;
  const told = Object.values(metadata).flatMap((of) => (isJsonObject(of) ? [of["stopSequence"]] : []));
  return told.find((stop) => typeof stop === "string");
}

/** A part of a complete answer as the parts of a stream that say the same. */
export function partsOf(item: JsonObject, id: string): WirePart[] {
  const { type, providerMetadata } = item;
  if (type !== "text" && type !== "reasoning") return [item];
  return [
    { type: `${type}-delta`, id, delta: item["text"] },
    { type: `${type}-end`, id, providerMetadata },
  ];
}

/** The file that a model made. One that it only names an address of is not fetched. */
export function mediaOf(part: WirePart): ChatEvent[] {
  const { data: told, type } = part;
  const data = isJsonObject(told) && "data" in told ? (told as WirePart)["data"] : told;
  const base64 = data instanceof Uint8Array ? toBase64(data) : data;
  if (typeof base64 !== "string") return [providerBlock({ type, mediaType: part["mediaType"] })];
  const signature = signatureOf(metadataOf(part));
  return [
    {
      type: "media",
      mediaType: text(part, "mediaType"),
      data: base64,
      ...(type === "reasoning-file" && { thought: true }),
      ...(signature !== undefined && { signature }),
    },
  ];
}

/** What no wire format has a part for. */
export const providerBlock = (value: WirePart): ChatEvent => ({ type: "provider", dialect: "ai-sdk", value });

/** Texts, thoughts and calls have names of their own, which may be the same. */
export const keyOf = (part: WirePart): string =>
  `${String(part["type"]).startsWith("text") ? "t" : "r"}:${text(part, "id")}`;
export const callKey = (id: string): string => `c:${id}`;

/** A text of a part. Throws `backend_failed` for anything else. */
export function text(part: WirePart, field: string): string {
  const value = part[field];
  if (typeof value === "string") return value;
  throw failed(
    "The model backend's answer has a part that is none.",
    new TypeError(`${String(part["type"])}.${field}`),
  );
}

export const failed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("backend_failed", message, { port: "model-backend", cause });
