/** The interface of a chat format: writes requests, reads answers, and shows code for the official SDK. */

import type { ApiCall } from "../http/call.ts";
import type { JsonObject } from "../json.ts";
import type { AnswerBuilder } from "./answer.ts";
import type { ChatDraft } from "./draft.ts";

export interface ChatFormat {
  /** The name of the format in `gateway.endpoints`. */
  readonly id: string;
  readonly name: string;
  /** The npm package of the official SDK. */
  readonly sdk: string;
  readonly request: (draft: ChatDraft, apiKey: string) => ApiCall;
  /** Returns the parts of the draft that the format cannot express, in words. */
  readonly leftOut: (draft: ChatDraft) => readonly string[];
  /** Reads the data of one event of a stream. */
  readonly readEvent: (answer: AnswerBuilder, event: JsonObject) => void;
  /** Reads a complete answer. */
  readonly readBody: (answer: AnswerBuilder, body: JsonObject) => void;
  /** Returns a program that makes the call with the official SDK. `apiKey` is a JavaScript expression. */
  readonly sdkCode: (draft: ChatDraft, target: { readonly apiKey: string; readonly baseUrl: string }) => string;
}
