/** One candidate on its way out: its parts in the order in which they began, and what is noted on it. */

import type { ChatRequest } from "../../model/chat.ts";
import type { ContentEvent, FinishReason } from "../../model/event.ts";
import type { JsonObject } from "../../model/json.ts";
import { EnumeratedText } from "../shared/enumerated.ts";
import { showsThoughts } from "../shared/shows-thoughts.ts";
import { AnsweredArguments, CUT_SHORT, ToolCalls } from "../shared/tool-calls.ts";
import { annotate, averageOf, type Notes } from "./response.annotations.ts";
import type { AnswerPart } from "./schema.answer.ts";
import { DIALECT } from "./schema.base.ts";
import { LANGUAGE, OUTCOME } from "./schema.enums.ts";

/** A call whose arguments are still coming. The format knows calls only whole. */
interface OpenCall {
  readonly id: string;
  readonly name: string;
  signature: string | undefined;
  json: string;
  ended: boolean;
}

export class CandidateWriter {
  readonly #showsThoughts: boolean;
  /** Where the answer is one of several texts. */
  readonly #enumerated: EnumeratedText | undefined;
  /** What waits for a call before it to be whole. */
  readonly #line: (AnswerPart | OpenCall)[] = [];
  readonly #calls: ToolCalls<OpenCall> = new ToolCalls();
  readonly #notes: Notes = {};
  readonly #arguments = new AnsweredArguments();

  constructor(request: ChatRequest) {
    this.#showsThoughts = showsThoughts(request);
    const { responseFormat } = request;
    this.#enumerated = responseFormat?.type === "enum" ? new EnumeratedText(responseFormat.values) : undefined;
  }

  get notes(): Notes {
    const { avgLogprobs = averageOf(this.#notes) } = this.#notes;
    return { ...this.#notes, ...(avgLogprobs != null && { avgLogprobs }) };
  }

  write(event: ContentEvent): void {
    switch (event.type) {
      case "tool-call-start":
        return this.#begin(event.id, event.name, event.signature);
      case "tool-call-delta":
        this.#calls.open(event.id).json += event.json;
        return;
      case "tool-call-end": {
        const call = this.#calls.get(event.id);
        call.ended = true;
        call.signature ??= event.signature;
        return;
      }
      case "tool-call":
        this.#begin(event.id, event.name, event.signature);
        this.#calls.open(event.id).json = JSON.stringify(event.input);
        this.#calls.get(event.id).ended = true;
        return;
      case "annotation":
        annotate(this.#notes, event.annotation);
        return;
      case "text-delta":
        this.#line.push(...textPart(this.#enumerated?.feed(event.text) ?? event.text, event.signature));
        return;
      default:
        for (const part of encodeContent(event, this.#showsThoughts)) this.#line.push(part);
    }
  }

  /** The parts that nothing stands before any more. */
  take(): AnswerPart[] {
    const waiting = this.#line.findIndex((slot) => isOpenCall(slot) && !slot.ended);
    const ready = this.#line.splice(0, waiting < 0 ? this.#line.length : waiting);
    return ready.map((slot) => (isOpenCall(slot) ? callPart(slot, this.#arguments.parse(slot.json)) : slot));
  }

  /** Ends the text, and every call that has not. One that was cut short and makes no sense is left out. */
  end(reason: FinishReason): void {
    this.#line.push(...textPart(this.#enumerated?.end() ?? "", undefined));
    for (const [index, slot] of Array.from(this.#line.entries()).toReversed()) {
      if (!isOpenCall(slot) || slot.ended) continue;
      if (CUT_SHORT.has(reason) && !this.#arguments.find(slot.json)) this.#line.splice(index, 1);
      else slot.ended = true;
    }
  }

  #begin(id: string, name: string, signature: string | undefined): void {
    this.#line.push(this.#calls.begin(id, { id, name, signature, json: "", ended: false }));
  }
}

type WholeEvent = Exclude<
  ContentEvent,
  { type: "text-delta" | "tool-call" | "tool-call-start" | "tool-call-delta" | "tool-call-end" | "annotation" }
>;

/** The parts that an event becomes. Thoughts are for callers who asked for them; their seals are for all, to be sent back. */
function encodeContent(event: WholeEvent, showsThoughts: boolean): AnswerPart[] {
  switch (event.type) {
    case "refusal-delta":
      return event.text === "" ? [] : [{ text: event.text }];
    case "reasoning-delta":
      return showsThoughts && event.text !== "" ? [{ text: event.text, thought: true }] : [];
    case "reasoning-signature":
      return [{ text: "", thought: true, thoughtSignature: event.signature }];
    case "provider":
      return event.dialect === DIALECT ? [event.value] : [];
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

const textPart = (text: string, signature: string | undefined): AnswerPart[] =>
  text === "" && signature === undefined ? [] : [{ text, ...sealOf({ signature }) }];

const idOf = (id: string | undefined): { id?: string } => (id === undefined ? {} : { id });
const sealOf = ({ signature }: { readonly signature?: string | undefined }): { thoughtSignature?: string } =>
  signature === undefined ? {} : { thoughtSignature: signature };

const isOpenCall = (slot: AnswerPart | OpenCall): slot is OpenCall => "json" in slot;

const callPart = ({ id, name, signature }: OpenCall, args: JsonObject): AnswerPart => ({
  functionCall: { id, name, args },
  ...(signature !== undefined && { thoughtSignature: signature }),
});
