/** One candidate on its way out: its parts in the order in which they began, and what is noted on it. */

import { GatewayError } from "../../errors.ts";
import type { ContentEvent, FinishReason } from "../../model/event.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { annotate, type Notes } from "./response.annotations.ts";
import type { AnswerPart } from "./schema.answer.ts";
import { LANGUAGE, OUTCOME } from "./schema.enums.ts";

/** A call whose arguments are still coming. The format knows calls only whole. */
interface OpenCall {
  readonly id: string;
  readonly name: string;
  readonly signature: string | undefined;
  json: string;
  ended: boolean;
}

/** Ends after which a call may be left half said. */
const CUT_SHORT: ReadonlySet<FinishReason> = new Set<FinishReason>([
  "length",
  "content-filter",
  "recitation",
  "language",
  "blocklist",
  "prohibited-content",
  "personal-data",
  "unsafe-image",
  "malformed-tool-call",
  "other",
]);

export class CandidateWriter {
  readonly #showsThoughts: boolean;
  /** What waits for a call before it to be whole. */
  readonly #line: (AnswerPart | OpenCall)[] = [];
  readonly #calls: Map<string, OpenCall> = new Map();
  readonly #notes: Notes = {};

  constructor(showsThoughts: boolean) {
    this.#showsThoughts = showsThoughts;
  }

  get notes(): Notes {
    return this.#notes;
  }

  write(event: ContentEvent): void {
    switch (event.type) {
      case "tool-call-start":
        return this.#begin(event.id, event.name, event.signature);
      case "tool-call-delta":
        this.#open(event.id).json += event.json;
        return;
      case "tool-call-end":
        this.#call(event.id).ended = true;
        return;
      case "tool-call":
        this.#begin(event.id, event.name, event.signature);
        this.#open(event.id).json = JSON.stringify(event.input);
        this.#call(event.id).ended = true;
        return;
      case "annotation":
        annotate(this.#notes, event.annotation);
        return;
      default:
        for (const part of encodeContent(event, this.#showsThoughts)) this.#line.push(part);
    }
  }

  /** The parts that nothing stands before any more. */
  take(): AnswerPart[] {
    const waiting = this.#line.findIndex((slot) => isOpenCall(slot) && !slot.ended);
    const ready = this.#line.splice(0, waiting < 0 ? this.#line.length : waiting);
    return ready.map((slot) => (isOpenCall(slot) ? callPart(slot, parseArgs(slot.json)) : slot));
  }

  /** Ends every call that has not. One that was cut short and makes no sense is left out. */
  end(reason: FinishReason): void {
    for (const [index, slot] of Array.from(this.#line.entries()).toReversed()) {
      if (!isOpenCall(slot) || slot.ended) continue;
      if (CUT_SHORT.has(reason) && !isWhole(slot.json)) this.#line.splice(index, 1);
      else slot.ended = true;
    }
  }

  #begin(id: string, name: string, signature: string | undefined): void {
    if (this.#calls.has(id))
      throw new GatewayError("backend_failed", "The model backend began the same tool call twice.");
    const call: OpenCall = { id, name, signature, json: "", ended: false };
    this.#calls.set(id, call);
    this.#line.push(call);
  }

  #call(id: string): OpenCall {
    const call = this.#calls.get(id);
    if (!call)
      throw new GatewayError("backend_failed", "The model backend went on with a tool call that it had not begun.");
    return call;
  }

  #open(id: string): OpenCall {
    const call = this.#call(id);
    if (call.ended)
      throw new GatewayError("backend_failed", "The model backend went on with a tool call that had ended.");
    return call;
  }
}

type WholeEvent = Exclude<
  ContentEvent,
  { type: "tool-call" | "tool-call-start" | "tool-call-delta" | "tool-call-end" | "annotation" }
>;

/** The parts that an event becomes. Thoughts are for callers who asked for them; their seals are for all, to be sent back. */
function encodeContent(event: WholeEvent, showsThoughts: boolean): AnswerPart[] {
  switch (event.type) {
    case "text-delta":
      return event.text === "" && event.signature === undefined ? [] : [{ text: event.text, ...sealOf(event) }];
    case "reasoning-delta":
      return showsThoughts && event.text !== "" ? [{ text: event.text, thought: true }] : [];
    case "reasoning-signature":
      return [{ text: "", thought: true, thoughtSignature: event.signature }];
    // Another provider's ciphertext: the format has no part for it.
    case "redacted-reasoning":
      return [];
    case "media": {
      if (event.thought && !showsThoughts) return [];
      const inlineData = { mimeType: event.mediaType, data: event.data };
      return [{ inlineData, ...(event.thought && { thought: true }), ...sealOf(event) }];
    }
    case "code": {
      const executableCode = { ...idOf(event.id), language: LANGUAGE[event.language], code: event.code };
      return [{ executableCode, ...sealOf(event) }];
    }
    case "code-result": {
      const { id, outcome, output } = event;
      const result = { ...idOf(id), outcome: OUTCOME[outcome], ...(output !== undefined && { output }) };
      return [{ codeExecutionResult: result, ...sealOf(event) }];
    }
    default:
      return event satisfies never;
  }
}

const idOf = (id: string | undefined): { id?: string } => (id === undefined ? {} : { id });
const sealOf = ({ signature }: { readonly signature?: string }): { thoughtSignature?: string } =>
  signature === undefined ? {} : { thoughtSignature: signature };

const isOpenCall = (slot: AnswerPart | OpenCall): slot is OpenCall => "json" in slot;

const callPart = ({ id, name, signature }: OpenCall, args: JsonObject): AnswerPart => ({
  functionCall: { id, name, args },
  ...(signature !== undefined && { thoughtSignature: signature }),
});

function isWhole(json: string): boolean {
  try {
    parseArgs(json);
    return true;
  } catch {
    return false;
  }
}

/** The arguments of a call from their JSON; no JSON at all means none. Throws `backend_failed` for anything but an object. */
function parseArgs(json: string): JsonObject {
  let args: unknown;
  try {
    args = JSON.parse(json === "" ? "{}" : json);
  } catch (cause) {
    throw new GatewayError("backend_failed", "The model backend gave a tool call whose arguments are not valid JSON.", {
      cause,
    });
  }
  if (isJsonObject(args)) return args;
  throw new GatewayError("backend_failed", "The model backend gave a tool call whose arguments are no JSON object.");
}
