/** An answer of the providers' interface as events: the parts of a stream, or the content of a complete answer. */

import type { ChatEvent } from "../../model/event.ts";
import { isJsonObject } from "../../model/json.ts";
import { decodeError } from "./errors.ts";
import { mergedMetadata, metadataOf, signatureOf } from "./metadata.ts";
import type { ProviderOptions } from "./options.ts";
import {
  callKey,
  failed,
  keyOf,
  mediaOf,
  partsOf,
  providerBlock,
  stopSequenceIn,
  text,
  type WirePart,
} from "./parts.ts";
import { decodeFinish, decodeUsage } from "./usage.ts";

/** A text, a thought or a call that has begun. */
interface Block {
  readonly kind: "text" | "reasoning" | "call";
  metadata: ProviderOptions;
  /** Whether anything of it was told. */
  said: boolean;
  /** Of a call: the signature that was told with its beginning. */
  readonly signature?: string | undefined;
}

/** What callers may see of the provider. */
export interface Shown {
  /** The name that callers know the model by; undefined shows the provider's own. */
  readonly model: string | undefined;
  /** Whether callers may see its words about an error. */
  readonly messages: boolean;
}

export class AnswerEvents {
  readonly #shown: Shown;
  readonly #blocks: Map<string, Block> = new Map();
  /** Calls that are told whole, because their arguments come as no JSON or the provider runs them itself. */
  readonly #whole: Set<string> = new Set();
  readonly #called: Set<string> = new Set();
  readonly #sources: { uri?: string; title?: string }[] = [];
  readonly #toolUses: Record<string, number> = {};
  #started = false;
  #finished = false;

  constructor(shown: Shown) {
    this.#shown = shown;
  }

  get isFinished(): boolean {
    return this.#finished;
  }

  /** The events of one part. Throws the provider's own error, or `backend_failed`. */
  part(part: WirePart): ChatEvent[] {
    if (part["type"] === "response-metadata") return this.#start(part);
    const events = this.#content(part);
    return this.#started || events.length === 0 ? events : [...this.#start({}), ...events];
  }

  /** The events of a complete answer. */
  answer(answer: WirePart): ChatEvent[] {
    const { content, response } = answer;
    if (!Array.isArray(content)) throw failed("The model backend's answer has no content.");
    const events = this.#start(isJsonObject(response) ? response : {});
    for (const [index, item] of content.entries()) {
      if (!isJsonObject(item)) throw failed("The model backend's answer has content of no kind.");
      for (const part of partsOf(item, String(index))) events.push(...this.part(part));
    }
    return [...events, ...this.#finish(answer)];
  }

  /** Without the provider's id of the answer: this backend speaks no caller's format, so the id would name nothing to any of them. */
  #start({ modelId }: WirePart): ChatEvent[] {
    if (this.#started) return [];
    this.#started = true;
    const model = this.#shown.model ?? modelId;
    return [{ type: "start", ...(typeof model === "string" && { model }) }];
  }

  #content(part: WirePart): ChatEvent[] {
    switch (part["type"]) {
      case "text-start":
      case "reasoning-start":
        this.#begin(part, part["type"] === "text-start" ? "text" : "reasoning");
        return [];
      case "text-delta":
      case "reasoning-delta":
        return this.#delta(part, part["type"]);
      case "text-end":
      case "reasoning-end":
        return this.#end(keyOf(part), metadataOf(part));
      case "tool-input-start":
        return this.#beginCall(part);
      case "tool-input-delta":
        return this.#callDelta(part);
      case "tool-call":
        return this.#call(part);
      case "file":
      case "reasoning-file":
        return mediaOf(part);
      case "source":
        this.#noteSource(part);
        return [];
      case "tool-result":
      case "tool-approval-request":
      case "custom":
        return [providerBlock(part)];
      case "finish":
        return this.#finish(part);
      case "error":
        throw decodeError(part["error"], this.#shown.messages);
      // What else there is, such as pings, raw chunks and the end of a call's input, says nothing more.
      default:
        return [];
    }
  }

  #begin(part: WirePart, kind: Block["kind"], signature?: string): Block {
    const block = { kind, metadata: metadataOf(part), said: false, signature };
    this.#blocks.set(kind === "call" ? callKey(text(part, "id")) : keyOf(part), block);
    return block;
  }

  #delta(part: WirePart, type: "text-delta" | "reasoning-delta"): ChatEvent[] {
    const [delta, key] = [text(part, "delta"), keyOf(part)];
    const block = this.#blocks.get(key) ?? this.#begin(part, type === "text-delta" ? "text" : "reasoning");
    block.metadata = mergedMetadata(block.metadata, metadataOf(part));
    if (delta === "") return [];
    block.said = true;
    return [{ type, text: delta, block: key }];
  }

  /** Ends a text or a thought, with what the provider noted on it. */
  #end(key: string, last: ProviderOptions): ChatEvent[] {
    const block = this.#blocks.get(key);
    if (!block) return [];
    this.#blocks.delete(key);
    const metadata = mergedMetadata(block.metadata, last);
    const redacted = metadata["anthropic"]?.["redactedData"];
    if (block.kind === "reasoning" && !block.said && typeof redacted === "string")
      return [{ type: "redacted-reasoning", data: redacted }];
    const signature = signatureOf(metadata);
    if (signature === undefined) return [];
    if (block.kind === "reasoning") return [{ type: "reasoning-signature", signature }];
    return [{ type: "text-delta", text: "", block: key, signature }];
  }

  #beginCall(part: WirePart): ChatEvent[] {
    const [id, name] = [text(part, "id"), text(part, "toolName")];
    if (part["providerExecuted"] === true || part["inputEncoding"] === "text") {
      this.#whole.add(id);
      return [];
    }
    const signature = signatureOf(metadataOf(part));
    this.#begin(part, "call", signature);
    this.#called.add(id);
    return [{ type: "tool-call-start", id, name, ...(signature !== undefined && { signature }) }];
  }

  #callDelta(part: WirePart): ChatEvent[] {
    const [id, json] = [text(part, "id"), text(part, "delta")];
    const block = this.#blocks.get(callKey(id));
    if (this.#whole.has(id)) return [];
    if (!block) throw failed("The model backend went on with a tool call that was not open.");
    if (json === "") return [];
    block.said = true;
    return [{ type: "tool-call-delta", id, json }];
  }

  #call(part: WirePart): ChatEvent[] {
    const [id, name, json] = [text(part, "toolCallId"), text(part, "toolName"), text(part, "input")];
    if (part["providerExecuted"] === true) {
      this.#toolUses[name] = (this.#toolUses[name] ?? 0) + 1;
      return [providerBlock(part)];
    }
    const block = this.#blocks.get(callKey(id));
    const signature = signatureOf(mergedMetadata(block?.metadata ?? {}, metadataOf(part)));
    const seal = signature === undefined ? {} : { signature };
    const rest: ChatEvent[] = block?.said || json === "" ? [] : [{ type: "tool-call-delta", id, json }];
    if (!block) {
      if (this.#called.has(id)) throw failed("The model backend told the same tool call twice.");
      this.#called.add(id);
      return [{ type: "tool-call-start", id, name, ...seal }, ...rest, { type: "tool-call-end", id }];
    }
    this.#blocks.delete(callKey(id));
    return [...rest, { type: "tool-call-end", id, ...(block.signature === undefined && seal) }];
  }

  #noteSource({ sourceType, url, title }: WirePart): void {
    if (sourceType !== "url" || typeof url !== "string") return;
    this.#sources.push({ uri: url, ...(typeof title === "string" && { title }) });
  }

  #finish({ finishReason, usage, providerMetadata }: WirePart): ChatEvent[] {
    if (this.#finished) return [];
    this.#finished = true;
    const reason = decodeFinish(finishReason);
    if (reason === undefined) throw failed("The model backend's answer ended by an error.");
    const events = [...this.#blocks].flatMap(([key, { kind }]): ChatEvent[] =>
      kind === "call" ? [] : this.#end(key, {}),
    );
    if (this.#sources.length > 0)
      events.push({ type: "annotation", annotation: { type: "grounding", chunks: this.#sources } });
    const uses = Object.keys(this.#toolUses).length > 0 ? { serverToolUses: this.#toolUses } : {};
    const stopSequence = stopSequenceIn(providerMetadata);
    return [
      ...events,
      {
        type: "finish",
        reason: reason === "stop-sequence" && stopSequence === undefined ? "stop" : reason,
        usage: { ...uses, ...decodeUsage(usage) },
        ...(stopSequence !== undefined && { stopSequence }),
      },
    ];
  }
}
