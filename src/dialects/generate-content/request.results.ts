/** What functions answered (spec 2.8), in both directions. */

import type { DocumentPart, MediaPart, ToolResultPart } from "../../model/chat.ts";
import type { JsonObject } from "../../model/json.ts";
import type { CallIds } from "./request.calls.ts";
import { decodeMedia, encodeDocument, encodeMedia, isSayable } from "./request.media.ts";
import type { Part as WirePart } from "./schema.ts";

type WireResponse = NonNullable<WirePart["functionResponse"]>;

export function decodeResponse({ id, name, response, parts }: WireResponse, calls: CallIds): ToolResultPart {
  const media = (parts ?? []).flatMap((part) => decodeMedia(part) ?? []);
  return {
    type: "tool-result",
    callId: calls.ofResponse(name, id),
    name,
    parts: [{ type: "json", value: response }, ...media],
  };
}

export function encodeResponse(
  { callId, name, parts, isError }: ToolResultPart,
  names: ReadonlyMap<string, string>,
): WireResponse {
  const media = parts.flatMap((part) => (part.type === "media" || part.type === "document" ? attached(part) : []));
  return {
    id: callId,
    name: name ?? names.get(callId) ?? callId,
    response: responseOf(parts, isError ?? false),
    ...(media.length > 0 && { parts: media }),
  };
}

/** Documents of text are told in the response itself. */
const attached = (part: MediaPart | DocumentPart): NonNullable<WireResponse["parts"]> =>
  part.type === "media"
    ? [part].filter(isSayable).map(encodeMedia)
    : encodeDocument(part).filter(({ inlineData, fileData }) => inlineData ?? fileData);

/** One object is the response as it is; anything else is told under the names that the official service gives them. */
function responseOf(parts: ToolResultPart["parts"], isError: boolean): JsonObject {
  const told = parts.flatMap((part): (string | JsonObject)[] => {
    if (part.type === "json") return [part.value];
    if (part.type === "text") return [part.text];
    return part.type === "document" ? encodeDocument(part).flatMap(({ text }) => text ?? []) : [];
  });
  const [only = "", ...others] = told;
  const single = others.length === 0;
  if (single && !isError && typeof only === "object") return only;
  const lines = told.map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return { [isError ? "error" : "output"]: single ? only : lines.join("\n") };
}
