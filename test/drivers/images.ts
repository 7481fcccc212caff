/** How the image endpoints ask, answer and refuse (spec 2.1, 2.4); a piece is a picture whose bytes are the piece's text. */

import { expect } from "vitest";
import type { GatewayErrorCode } from "../../src/index.ts";
import { COMMENT, type Frame, framing } from "../formats/images/frames.ts";
import { refusalOf } from "../formats/images/refusal.ts";
import { EDITS, GENERATIONS, VARIATIONS } from "../formats/images/requests.ts";
import { flat } from "../hosts/prices.ts";
import { anyString } from "./chat.ts";
import type { Driver, Told } from "./driver.ts";
import { streamed } from "./frames.ts";

const ERRORS: Readonly<Record<GatewayErrorCode, readonly [status: number, type: string, code: string]>> = {
  invalid_request: [400, "invalid_request_error", "invalid_value"],
  context_length_exceeded: [400, "invalid_request_error", "context_length_exceeded"],
  content_refused: [400, "invalid_request_error", "content_policy_violation"],
  failed_precondition: [400, "invalid_request_error", "failed_precondition"],
  malformed_body: [400, "invalid_request_error", "malformed_body"],
  unsupported_media_type: [415, "invalid_request_error", "unsupported_media_type"],
  body_too_large: [413, "invalid_request_error", "request_too_large"],
  not_found: [404, "invalid_request_error", "not_found"],
  method_not_allowed: [405, "invalid_request_error", "method_not_allowed"],
  upgrade_required: [426, "invalid_request_error", "upgrade_required"],
  missing_api_key: [401, "authentication_error", "missing_api_key"],
  malformed_credential: [401, "authentication_error", "invalid_api_key"],
  invalid_api_key: [401, "authentication_error", "invalid_api_key"],
  paused_api_key: [401, "authentication_error", "paused_api_key"],
  expired_api_key: [401, "authentication_error", "expired_api_key"],
  model_not_found: [404, "invalid_request_error", "model_not_found"],
  model_not_allowed: [403, "permission_error", "model_not_allowed"],
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
  backend_overloaded: [503, "server_error", "overloaded"],
  store_unavailable: [503, "server_error", "store_unavailable"],
  backend_refused: [500, "server_error", "backend_failed"],
  misconfigured: [500, "server_error", "misconfigured"],
  backend_failed: [500, "server_error", "backend_failed"],
  internal: [500, "server_error", "internal_error"],
};

const PRICE = 7;

const textIn = (base64: unknown): string => Buffer.from(String(base64), "base64").toString();

function tell(frame: Frame): Told | undefined {
  if (frame === COMMENT) return { type: "keep-alive" };
  const { event, data } = frame;
  if (event === "error") return { type: "error", error: data["error"] as object };
  return event.endsWith(".completed") ? { type: "piece", text: textIn(data["b64_json"]) } : undefined;
}

const path = (): string => GENERATIONS;

export const images: Driver = {
  name: "images",
  forms: [
    {
      name: "complete",
      stream: false,
      path,
      fields: {},
      async textOf(response) {
        const { data } = (await response.json()) as { readonly data: readonly { readonly b64_json: string }[] };
        return data.map(({ b64_json }) => textIn(b64_json)).join("");
      },
    },
    { name: "streamed", path, fields: { stream: true }, ...streamed(framing, tell) },
  ],
  models: { one: "image-model-2", other: "image-model-multi", unknown: "image-model-3" },
  credential: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  headers: {},
  body: (prompt, model) => ({ model, prompt, n: model === "image-model-3" ? 1 : 3, response_format: "b64_json" }),
  plays: (pieces) => ({
    imagePrice: flat(PRICE),
    async *imagePlay({ prompt, stream }, { signal }) {
      for await (const piece of pieces({ prompt, stream, signal }))
        yield { type: "image", bytes: new TextEncoder().encode(piece), mediaType: "image/png" };
    },
  }),
  promptOf: (backend) => backend.askedForImages.prompt,
  cost: (pieces) => pieces * PRICE,
  // A picture's price is known before it is drawn, so each one that came is charged exactly.
  estimates: false,
  endless: false,
  paths: [GENERATIONS],
  otherPaths: [EDITS, VARIATIONS],
  notOwned: ["/v1/images", "/v1/images/generation", "/v2/images/generations"],
  refusal(code) {
    const [status, type, wireCode] = ERRORS[code];
    const param = expect.toSatisfy((value) => value === null || typeof value === "string") as string | null;
    return { status, error: { type, code: wireCode, param, message: anyString } };
  },
  async refusalOf(response) {
    const { status, ...error } = await refusalOf(response);
    return { status, error };
  },
};
