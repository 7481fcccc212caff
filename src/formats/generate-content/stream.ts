/** The answer to a caller of generate-content, as a stream: built of neutral events, or the bytes of an upstream of this format. */

import type { GatewayError } from "../../errors.ts";
import type { NativeFrame } from "../../model/chat-event.ts";
import { jsonLine } from "../../model/json.ts";
import type { AnswerContext } from "../format.ts";
import { type AnswerFinish, frameOf, StreamedAnswer } from "../shared/answer.ts";
import { jsonAt, ObjectText, withElements } from "../shared/json-text.ts";
import { GenerateContentBuilder } from "./answer.ts";
import { encodeError } from "./errors.ts";
import type { Framing } from "./request.ts";
import { FORMAT } from "./routes.ts";
import type { GenerateContentErrorBody, GenerateContentStreamErrorBody } from "./schema.answer.ts";

export class GenerateContentStream extends StreamedAnswer {
  override readonly contentType: string;
  override readonly keepAlive: string;
  protected readonly builder: GenerateContentBuilder;
  readonly #framing: Framing;
  #hasBegun = false;

  constructor(answer: AnswerContext, framing: Framing) {
    super(FORMAT);
    this.#framing = framing;
    this.contentType = framing === "sse" ? "text/event-stream; charset=utf-8" : "application/json; charset=utf-8";
    this.keepAlive = framing === "sse" ? EMPTY_FRAME : "\n";
    this.builder = new GenerateContentBuilder(answer, (chunk) => {
      this.text += this.#frame(jsonLine(chunk));
    });
  }

  error(error: GatewayError): string {
    const json = jsonLine(withEnding(encodeError(error)));
    // Send the error twice, because some clients look for it inside a frame, and others outside. The second copy must not end in
    // a blank line: clients would take it for a frame without data, and skip it.
    return this.#frame(json) + (this.#framing === "sse" ? json : "]");
  }

  protected pass(frames: readonly NativeFrame[]): string {
    let text = "";
    for (const { data } of frames) text += this.#frame(withContent(data));
    return text;
  }

  protected passRun(text: string, frames: readonly NativeFrame[]): string {
    return this.#framing === "sse" && hasContent(frames[0]?.data ?? "") ? text : this.pass(frames);
  }

  protected finish(event: AnswerFinish, frames: readonly NativeFrame[]): string {
    const text = frames.length > 0 ? this.pass(frames) : this.write(event);
    if (this.#framing === "sse") return text;
    return this.#hasBegun ? `${text}]` : "[]";
  }

  /**
   * Writes a chunk as a server-sent event or as an element of the array. The server-sent event has only `data:`, because names and
   * comments break some clients.
   */
  #frame(json: string): string {
    if (this.#framing === "sse") return frameOf({ data: json });
    const before = this.#hasBegun ? ",\n" : "[";
    this.#hasBegun = true;
    return before + json;
  }
}

/** Tells whether an upstream's chunk or body has a content with a role and a part. Searches the text, because a frame is not parsed again. */
const hasContent = (json: string): boolean =>
  /"role"\s*:\s*"model"/.test(json) && /"parts"\s*:\s*\[\s*\{\s*"/.test(json);

/** The JSON of a field that is missing or says nothing. */
const NOTHING = /^(?:null|""|\[\s*\])?$/;
/** The JSON of the reasons why an ordinary answer ends. The official service leaves the reason out until the end. */
const ORDINARY = /^(?:null|""|"STOP"|"MAX_TOKENS")?$/;

/**
 * Returns an upstream's chunk or body in which each candidate has a content with its role (spec 2.9) and a part. The official client's chats drop
 * a turn with any other chunk, and shall drop a blocked one.
 */
export function withContent(json: string): string {
  if (hasContent(json)) return json;
  const answer = new ObjectText(json);
  const candidates = answer.get("candidates");
  if (!NOTHING.test(candidates)) answer.set("candidates", withElements(candidates, wholeCandidate));
  else if (NOTHING.test(jsonAt(answer.get("promptFeedback"), ["blockReason"])))
    answer.set("candidates", `[${wholeCandidate('{"index":0}')}]`);
  return answer.text;
}

function wholeCandidate(json: string): string {
  const candidate = new ObjectText(json);
  if (!ORDINARY.test(candidate.get("finishReason"))) return json;
  const said = candidate.get("content");
  const content = new ObjectText(said.startsWith("{") ? said : "{}");
  if (NOTHING.test(content.get("role"))) content.set("role", '"model"');
  // An object with a member is a part. The official service sends an empty text, too.
  if (!/\{\s*"/.test(content.get("parts"))) content.set("parts", '[{"text":""}]');
  candidate.set("content", content.text);
  return candidate.text;
}

/** Adds an unusual end of the answer to an error. Clients that look for no error in a stream, such as LangChain's, notice the end. */
const withEnding = ({ error }: GenerateContentErrorBody): GenerateContentStreamErrorBody => ({
  error,
  candidates: [
    {
      content: { role: "model", parts: [{ text: "" }] },
      finishReason: "OTHER",
      finishMessage: error.message,
      index: 0,
    },
  ],
});

/**
 * The frame that keeps a connection open. Its content has a role and a part: if a chunk had none, the official client's chats would
 * drop the whole turn from their history.
 */
const EMPTY_FRAME = frameOf({
  data: JSON.stringify({ candidates: [{ content: { role: "model", parts: [{ text: "" }] }, index: 0 }] }),
});
