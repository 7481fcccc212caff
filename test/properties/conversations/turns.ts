/** The turn that a client sends back after an answer. */

import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { Part } from "../../../src/model/chat-request.ts";

interface Signed {
  readonly signature?: string;
  readonly maker?: string;
}

const sealOf = ({ signature, maker }: Signed): Signed =>
  signature === undefined ? {} : { signature, ...(maker !== undefined && { maker }) };

/** Returns the parts of an answer, each with the signature and the maker that came with it. */
export function turnOf(events: readonly ChatEvent[]): Part[] {
  const parts: Part[] = [];
  const pieces = new Map<string, string>();
  const meant = events.flatMap((event): readonly ChatEvent[] => (event.type === "native" ? event.events : [event]));
  for (const event of meant) {
    const last = parts.at(-1);
    const open = last?.type === "reasoning" && last.signature === undefined ? last : undefined;
    switch (event.type) {
      case "reasoning-delta":
        if (open) parts.pop();
        parts.push({ type: "reasoning", text: (open?.text ?? "") + event.text });
        break;
      case "reasoning-signature":
        if (open) parts.pop();
        parts.push({ type: "reasoning", text: open?.text ?? "", ...sealOf(event) });
        break;
      case "redacted-reasoning":
        parts.push(event);
        break;
      case "text-delta": {
        const text = last?.type === "text" ? last.text : "";
        if (last?.type === "text") parts.pop();
        parts.push({
          type: "text",
          text: text + event.text,
          ...(last?.type === "text" && sealOf(last)),
          ...sealOf(event),
        });
        break;
      }
      case "tool-call":
        parts.push(event);
        break;
      case "tool-call-start":
        parts.push({ type: "tool-call", id: event.id, name: event.name, input: {}, ...sealOf(event) });
        break;
      case "tool-call-delta":
        pieces.set(event.id, (pieces.get(event.id) ?? "") + event.json);
        break;
      case "tool-call-end": {
        const at = parts.findIndex((part) => part.type === "tool-call" && part.id === event.id);
        const input: unknown = JSON.parse(pieces.get(event.id) ?? "{}");
        parts[at] = Object.assign({}, parts[at], { input }, sealOf(event));
        break;
      }
      default:
    }
  }
  return parts;
}
