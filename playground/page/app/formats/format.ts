/** What a chat format is: how it writes a request, reads an answer, and is called with its official SDK. */

import type { ApiCall } from "../http/call.ts";
import type { JsonObject } from "../json.ts";
import type { AnswerBuilder } from "./answer.ts";
import type { ChatDraft } from "./draft.ts";

export interface ChatFormat {
  /** As `gateway.endpoints` names it. */
  readonly id: string;
  readonly name: string;
  /** The npm package of the official SDK. */
  readonly sdk: string;
  readonly request: (draft: ChatDraft, apiKey: string) => ApiCall;
  /** What the draft asks for and the format cannot say, in words. */
  readonly leftOut: (draft: ChatDraft) => readonly string[];
  /** Reads the data of one event of a stream. */
  readonly readEvent: (answer: AnswerBuilder, event: JsonObject) => void;
  /** Reads an answer that came whole. */
  readonly readBody: (answer: AnswerBuilder, body: JsonObject) => void;
  /** A program that makes the call with the official SDK; `apiKey` is a JavaScript expression. */
  readonly sdkCode: (draft: ChatDraft, target: { readonly apiKey: string; readonly baseUrl: string }) => string;
}
