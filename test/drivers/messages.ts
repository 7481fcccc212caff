/** How the messages format asks, answers and refuses (spec 2.6, 2.7, 6.1, 7.2). */

import type { GatewayErrorCode } from "../../src/index.ts";
import { type Frame, framing } from "../formats/messages/frames.ts";
import { refusalOf } from "../formats/messages/refusal.ts";
import { VERSION } from "../hosts/stage.ts";
import { anyString, chatPlays, COST, promptOfChat } from "./chat.ts";
import type { Driver, Told } from "./driver.ts";
import { streamed } from "./frames.ts";

const ERRORS: Readonly<Record<GatewayErrorCode, readonly [status: number, type: string, code: string]>> = {
  invalid_request: [400, "invalid_request_error", "invalid_request"],
  malformed_body: [400, "invalid_request_error", "malformed_body"],
  unsupported_media_type: [415, "invalid_request_error", "unsupported_media_type"],
  body_too_large: [413, "invalid_request_error", "request_too_large"],
  context_length_exceeded: [400, "invalid_request_error", "context_length_exceeded"],
  content_refused: [400, "invalid_request_error", "content_policy_violation"],
  failed_precondition: [400, "invalid_request_error", "failed_precondition"],
  not_found: [404, "invalid_request_error", "not_found"],
  method_not_allowed: [405, "invalid_request_error", "method_not_allowed"],
  upgrade_required: [426, "invalid_request_error", "upgrade_required"],
  missing_api_key: [401, "authentication_error", "missing_api_key"],
  malformed_credential: [401, "authentication_error", "invalid_api_key"],
  invalid_api_key: [401, "authentication_error", "invalid_api_key"],
  paused_api_key: [401, "authentication_error", "paused_api_key"],
  expired_api_key: [401, "authentication_error", "expired_api_key"],
  model_not_found: [400, "invalid_request_error", "model_not_found"],
  model_not_allowed: [400, "invalid_request_error", "model_not_allowed"],
  quota_exhausted: [429, "rate_limit_error", "insufficient_quota"],
  quota_insufficient: [429, "rate_limit_error", "insufficient_quota"],
  quota_held: [429, "rate_limit_error", "quota_held"],
  rate_limited: [429, "rate_limit_error", "rate_limit_exceeded"],
  idempotency_key_reused: [409, "invalid_request_error", "idempotency_key_reused"],
  idempotency_key_in_use: [409, "invalid_request_error", "idempotency_key_in_use"],
  busy: [503, "server_error", "busy"],
  client_closed: [499, "invalid_request_error", "client_closed"],
  call_stopped: [403, "invalid_request_error", "call_stopped"],
  deadline_exceeded: [504, "server_error", "deadline_exceeded"],
  backend_unavailable: [503, "server_error", "backend_unavailable"],
  backend_overloaded: [529, "server_error", "overloaded"],
  store_unavailable: [503, "server_error", "store_unavailable"],
  backend_refused: [500, "server_error", "backend_failed"],
  misconfigured: [500, "server_error", "misconfigured"],
  backend_failed: [500, "server_error", "backend_failed"],
  internal: [500, "server_error", "internal_error"],
};

function tell({ type, delta, error }: Frame): Told | undefined {
  if (type === "ping") return { type: "keep-alive" };
  if (type === "error") return { type: "error", error: error as object };
  const { text } = (delta ?? {}) as { readonly text?: string };
  return text === undefined ? undefined : { type: "piece", text };
}

interface Answer {
  readonly content: readonly { readonly text: string }[];
}

const path = (): string => "/v1/messages";

export const messages: Driver = {
  name: "messages",
  forms: [
    {
      name: "complete",
      stream: false,
      path,
      fields: {},
      textOf: async (response) => ((await response.json()) as Answer).content.map(({ text }) => text).join(""),
    },
    { name: "streamed", path, fields: { stream: true }, last: /"message_stop"\}\n/, ...streamed(framing, tell) },
  ],
  models: { one: "model-a", other: "model-b", unknown: "model-z" },
  credential: (apiKey) => ({ "x-api-key": apiKey }),
  headers: { "compat-version": VERSION },
  // The official clients name no less for a long answer, and a test of one has pieces without end.
  body: (prompt, model) => ({ model, max_tokens: 100_000_000, messages: [{ role: "user", content: prompt }] }),
  plays: chatPlays,
  promptOf: promptOfChat,
  cost: COST,
  estimates: true,
  endless: true,
  paths: ["/v1/messages", "/v1/messages/count_tokens"],
  otherPaths: [],
  notOwned: ["/v1/message", "/v1/messages/other", "/v2/messages"],
  refusal(code) {
    const [status, type, wireCode] = ERRORS[code];
    return { status, error: { type, code: wireCode, message: anyString } };
  },
  async refusalOf(response) {
    const { status, ...error } = await refusalOf(response);
    return { status, error };
  },
};
