/** The content blocks of an upstream's answer in this format (spec 2.7) to neutral events. */

import type { Citation } from "../../model/annotation.ts";
import type { ContentEvent } from "../../model/event.ts";
import type { JsonLimits } from "../../model/json.ts";
import { utf8Length } from "../../model/utf8-length.ts";
import { AnsweredArguments } from "../shared/tool-calls.ts";
import { HeldBack, upstreamFailed } from "../shared/upstream.ts";
import { DIALECT } from "./request.ts";
import { type FrameOf, knownBlock, type WireBlock, type WireCitation } from "./schema.upstream.ts";

interface OpenBlock {
  /** Tells its deltas from those of its neighbours. */
  readonly name: string;
  readonly wire: WireBlock;
  readonly callId: string | undefined;
  /** The JSON of a tool's arguments: in pieces where the tool ran on the provider's side, else whether there was any. */
  readonly json: string[];
  readonly citations: WireCitation[];
  /** Where its text begins in that of the answer, in bytes. */
  readonly textStart: number;
  /** How much of it is held until its end, in characters. */
  heldChars: number;
}

/** Characters that an open block costs, apart from its content. */
const BLOCK_CHARS = 64;

/** Reads the blocks of one answer. Throws `backend_failed` for a block that the format cannot have. */
export class BlockDecoder {
  readonly #open: Map<number, OpenBlock> = new Map();
  readonly #heldBack = new HeldBack();
  readonly #arguments: AnsweredArguments;
  #textBytes = 0;

  constructor(limits?: JsonLimits) {
    this.#arguments = new AnsweredArguments(limits);
  }

  /** @param chars The length of the frame that it came in. */
  *start(index: number, wire: WireBlock, chars = 0): Generator<ContentEvent> {
    const block = knownBlock(wire);
    const name = String(index);
    const callId = block?.type === "tool_use" ? block.id : undefined;
    const citations = block?.type === "text" ? [...(block.citations ?? [])] : [];
    this.#forget(index);
    const heldChars = BLOCK_CHARS + chars;
    this.#heldBack.take(heldChars);
    this.#open.set(index, { name, wire, callId, json: [], citations, textStart: this.#textBytes, heldChars });
    // Blocks of other types are known whole at their end.
    if (block?.type === "text") yield* this.#text(block.text, name);
    else if (block?.type === "thinking") {
      if (block.thinking !== "") yield { type: "reasoning-delta", text: block.thinking, block: name };
      if (block.signature) yield { type: "reasoning-signature", signature: block.signature };
    } else if (block?.type === "redacted_thinking") yield { type: "redacted-reasoning", data: block.data };
    else if (block?.type === "tool_use") yield { type: "tool-call-start", id: block.id, name: block.name };
  }

  /** @param chars The length of the frame that it came in. */
  delta(index: number, delta: FrameOf<"content_block_delta">["delta"], chars: number): ContentEvent[] {
    const block = this.#open.get(index);
    if (!block) throw upstreamFailed("The model backend went on with a content block that it had not begun.");
    switch (delta.type) {
      case "text_delta":
        return this.#text(delta.text ?? "", block.name);
      case "thinking_delta":
        return delta.thinking ? [{ type: "reasoning-delta", text: delta.thinking, block: block.name }] : [];
      case "signature_delta":
        return delta.signature ? [{ type: "reasoning-signature", signature: delta.signature }] : [];
      case "input_json_delta": {
        const json = delta.partial_json ?? "";
        if (json === "") return [];
        if (block.callId === undefined) {
          this.#hold(block, chars);
          block.json.push(json);
          return [];
        }
        block.json[0] = json;
        return [{ type: "tool-call-delta", id: block.callId, json }];
      }
      case "citations_delta":
        if (!delta.citation) return [];
        this.#hold(block, chars);
        block.citations.push(delta.citation);
        return [];
      // Deltas of other types are for clients who know them.
      default:
        return [];
    }
  }

  *stop(index: number): Generator<ContentEvent> {
    const block = this.#open.get(index);
    if (!block) throw upstreamFailed("The model backend ended a content block that it had not begun.");
    this.#forget(index);
    const { callId, wire, citations } = block;
    const json = block.json.join("");
    if (callId !== undefined) {
      // Some upstreams give the arguments with the beginning, at once.
      if (json === "") yield { type: "tool-call-delta", id: callId, json: JSON.stringify(wire["input"] ?? {}) };
      yield { type: "tool-call-end", id: callId };
    } else if (knownBlock(wire) === undefined) {
      const value = json === "" ? wire : { ...wire, input: this.#arguments.parse(json) };
      yield { type: "provider", dialect: DIALECT, value };
    }
    if (citations.length > 0)
      yield { type: "annotation", annotation: { type: "citations", citations: this.#cited(block) } };
  }

  #hold(block: OpenBlock, chars: number): void {
    this.#heldBack.take(chars);
    block.heldChars += chars;
  }

  #forget(index: number): void {
    this.#heldBack.letGo(this.#open.get(index)?.heldChars ?? 0);
    this.#open.delete(index);
  }

  #text(text: string, block: string): ContentEvent[] {
    this.#textBytes += utf8Length(text);
    return text === "" ? [] : [{ type: "text-delta", text, block }];
  }

  /** A citation is of its whole block; where in the source it stands, the neutral model does not say. */
  #cited({ citations, textStart }: OpenBlock): Citation[] {
    return citations.map((citation) => {
      const uri = [citation["url"], citation["source"]].find((one) => typeof one === "string");
      return { start: textStart, end: this.#textBytes, ...(uri !== undefined && { uri }) };
    });
  }
}
