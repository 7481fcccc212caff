/** Checks what a chat backend yields, before it is counted or written: a backend is the host's, and may be written without types. */

import { GatewayError } from "../errors.ts";
import type { ChatEvent } from "../model/event.ts";

/** Throws `backend_failed` for an event that lacks what its type promises, or of a type that there is none of. */
export function assertChatEvent(event: ChatEvent): void {
  if (!isWhole(event))
    throw new GatewayError("backend_failed", "The model backend yielded an event that is none.", {
      port: "model-backend",
      cause: new TypeError(
        `A field of an event of type ${JSON.stringify(event.type)} is missing, or of the wrong type.`,
      ),
    });
}

const isText = (value: unknown): boolean => typeof value === "string";
const mayBeText = (value: unknown): boolean => value === undefined || typeof value === "string";
const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

function isWhole(event: ChatEvent): boolean {
  switch (event.type) {
    case "text-delta":
      return isText(event.text) && mayBeText(event.signature) && mayBeText(event.block);
    case "reasoning-delta":
      return isText(event.text) && mayBeText(event.block);
    case "refusal-delta":
      return isText(event.text);
    case "reasoning-signature":
      return isText(event.signature);
    case "redacted-reasoning":
      return isText(event.data);
    case "tool-call":
      return isText(event.id) && isText(event.name) && isObject(event.input) && mayBeText(event.signature);
    case "tool-call-start":
      return isText(event.id) && isText(event.name) && mayBeText(event.signature);
    case "tool-call-delta":
      return isText(event.id) && isText(event.json);
    case "tool-call-end":
      return isText(event.id) && mayBeText(event.signature);
    case "media":
      return isText(event.mediaType) && isText(event.data) && mayBeText(event.signature);
    case "code":
      return isText(event.code) && isText(event.language) && mayBeText(event.id) && mayBeText(event.signature);
    case "code-result":
      return isText(event.outcome) && mayBeText(event.output) && mayBeText(event.id) && mayBeText(event.signature);
    case "provider":
      return isText(event.dialect) && isObject(event.value);
    case "annotation":
      return isObject(event.annotation);
    case "start":
      return mayBeText(event.id) && mayBeText(event.model);
    case "finish":
      return mayBeText(event.stopSequence);
    case "native":
      return (
        isText(event.dialect) &&
        Array.isArray(event.means) &&
        (event.body === undefined ? areFrames(event.frames) : isText(event.body))
      );
    case "usage":
    case "prompt-feedback":
      return true;
    default:
      event satisfies never;
      return false;
  }
}

const areFrames = (frames: unknown): boolean =>
  Array.isArray(frames) && frames.every((frame: { data?: unknown } | null | undefined) => isText(frame?.data));
