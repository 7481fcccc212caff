/** How the generate-content format asks, answers and refuses (spec 2.8, 2.9, 6.2, 7.3). */

import { expect } from "vitest";
import type { GatewayErrorCode } from "../../src/index.ts";
import { type Chunk, elements, frames } from "../formats/generate-content/chunks.ts";
import { refusalOf } from "../formats/generate-content/refusal.ts";
import { anyString, chatPlays, COST, promptOfChat } from "./chat.ts";
import type { Driver, Told } from "./driver.ts";
import { streamed } from "./frames.ts";

const ERRORS: Readonly<Record<GatewayErrorCode, readonly [code: number, status: string]>> = {
  invalid_request: [400, "INVALID_ARGUMENT"],
  malformed_body: [400, "INVALID_ARGUMENT"],
  unsupported_media_type: [400, "INVALID_ARGUMENT"],
  context_length_exceeded: [400, "INVALID_ARGUMENT"],
  content_refused: [400, "INVALID_ARGUMENT"],
  failed_precondition: [400, "FAILED_PRECONDITION"],
  missing_api_key: [401, "UNAUTHENTICATED"],
  malformed_credential: [401, "UNAUTHENTICATED"],
  invalid_api_key: [401, "UNAUTHENTICATED"],
  paused_api_key: [401, "UNAUTHENTICATED"],
  expired_api_key: [401, "UNAUTHENTICATED"],
  model_not_allowed: [403, "PERMISSION_DENIED"],
  quota_exhausted: [403, "PERMISSION_DENIED"],
  quota_insufficient: [429, "RESOURCE_EXHAUSTED"],
  quota_held: [429, "RESOURCE_EXHAUSTED"],
  rate_limited: [429, "RESOURCE_EXHAUSTED"],
  model_not_found: [404, "NOT_FOUND"],
  not_found: [404, "NOT_FOUND"],
  method_not_allowed: [405, "UNIMPLEMENTED"],
  upgrade_required: [426, "UNIMPLEMENTED"],
  idempotency_key_reused: [409, "ALREADY_EXISTS"],
  idempotency_key_in_use: [409, "ABORTED"],
  client_closed: [499, "CANCELLED"],
  call_stopped: [403, "PERMISSION_DENIED"],
  body_too_large: [413, "PAYLOAD_TOO_LARGE"],
  backend_overloaded: [503, "UNAVAILABLE"],
  store_unavailable: [503, "UNAVAILABLE"],
  backend_refused: [500, "INTERNAL"],
  misconfigured: [500, "INTERNAL"],
  backend_failed: [500, "INTERNAL"],
  internal: [500, "INTERNAL"],
  busy: [503, "UNAVAILABLE"],
  backend_unavailable: [503, "UNAVAILABLE"],
  deadline_exceeded: [504, "DEADLINE_EXCEEDED"],
};

function tell(chunk: Chunk): Told | undefined {
  if (Object.keys(chunk).length === 0 || isKeepAlive(chunk)) return { type: "keep-alive" };
  if ("error" in chunk) return { type: "error", error: chunk["error"] as object };
  const text = textIn(chunk);
  return text === "" ? undefined : { type: "piece", text };
}

/** An empty text by itself, without an end or counts. */
const isKeepAlive = ({ candidates, ...others }: Chunk): boolean =>
  Object.keys(others).length === 0 && JSON.stringify(candidates) === KEEP_ALIVE;
const KEEP_ALIVE = '[{"content":{"role":"model","parts":[{"text":""}]},"index":0}]';

const textIn = ({ candidates = [] }: Chunk): string =>
  candidates.flatMap(({ content }) => (content?.parts ?? []).map(({ text }) => text ?? "")).join("");

const pathOf =
  (method: string) =>
  (model: string): string =>
    `/v1beta/models/${model}:${method}`;
const METHODS = ["generateContent", "streamGenerateContent?alt=sse", "streamGenerateContent"] as const;
const LAST = String.raw`"finishReason"[^]*"responseId":"[^"]*"\}`;

export const generateContent: Driver = {
  name: "generate-content",
  forms: [
    {
      name: "complete",
      stream: false,
      path: pathOf("generateContent"),
      fields: {},
      textOf: async (response) => textIn((await response.json()) as Chunk),
    },
    {
      name: "streamed",
      path: pathOf("streamGenerateContent?alt=sse"),
      fields: {},
      last: new RegExp(LAST),
      ...streamed(frames, tell),
    },
    // The closing bracket may come in a chunk of its own, behind its length.
    {
      name: "streamed as an array",
      path: pathOf("streamGenerateContent"),
      fields: {},
      last: new RegExp(String.raw`${LAST}[\s\da-f]*\]`),
      ...streamed(elements, tell),
    },
  ],
  models: { one: "model-a", other: "model-b", unknown: "model-z" },
  credential: (apiKey) => ({ "x-goog-api-key": apiKey }),
  headers: {},
  body: (prompt) => ({
    contents: [{ role: "user", parts: [{ text: prompt }] }],
    // A test of an answer without end is not to come to the model's own limit.
    generationConfig: { maxOutputTokens: 100_000_000 },
  }),
  plays: chatPlays,
  promptOf: promptOfChat,
  cost: COST,
  estimates: true,
  endless: true,
  paths: [...METHODS, "countTokens"].map((method) => pathOf(method)("model-a")),
  otherPaths: [],
  notOwned: ["/v1alpha/models/model-a:generateContent", "/v2/models/model-a:generateContent"],
  refusal(code) {
    const [status, name] = ERRORS[code];
    const details = expect.any(Array) as object[];
    return { status, error: { code: status, status: name, message: anyString, details } };
  },
  async refusalOf(response) {
    return { status: response.status, error: await refusalOf(response) };
  },
};
