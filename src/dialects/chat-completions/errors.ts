/** The errors of upstreams that speak chat completions, as errors of the gateway's. Their own words stay in `cause`. */

import { GatewayError } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { STATUS_OF_CODE } from "../shared/error-table.ts";
import { emptyAccount, retryAfterOf, UNMET, upstreamError } from "../shared/upstream.ts";

/** The error of an answer that is none: by its status, headers and body (parsed JSON, or a text). */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  return decode(status, body, retryAfterOf(headers));
}

/** The error that came in the middle of a stream, whose own code or type stands for its status. */
export function decodeStreamError(error: unknown): GatewayError {
  const wire = isJsonObject(error) ? error : {};
  const status =
    [wire["status"], wire["code"]].find((one) => isErrorStatus(one)) ??
    STATUS_OF_CODE.get(wire["code"]) ??
    STATUS_OF_TYPE[typeOf(wire)] ??
    500;
  return decode(Number(status), { error }, undefined);
}

const isErrorStatus = (value: unknown): boolean =>
  (typeof value === "number" || typeof value === "string") && /^[45]\d\d$/.test(String(value));

const STATUS_OF_TYPE: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  overloaded_error: 529,
};

function decode(status: number, body: unknown, retryAfterMs: number | undefined): GatewayError {
  const wire = wireError(body);
  if (isTooLong(status, wire))
    return new GatewayError("invalid_request", "messages: are longer than the context window of the model", {
      cause: body,
      port: "model-backend",
      path: ["messages"],
    });
  if ([wire["code"], wire["type"]].includes("insufficient_quota")) return emptyAccount(body);
  if (wire["code"] === "failed_precondition") return upstreamError(status, body, retryAfterMs, UNMET);
  return upstreamError(status, body, retryAfterMs);
}

/** The error object, wherever servers put it. */
function wireError(body: unknown): JsonObject {
  if (typeof body === "string") return { message: body };
  if (!isJsonObject(body)) return {};
  const { error, detail } = body;
  if (isJsonObject(error)) return error;
  const message = [error, body["message"], detail].find((one) => typeof one === "string");
  return { ...body, ...(typeof message === "string" && { message }) };
}

const typeOf = ({ type }: JsonObject): string => (typeof type === "string" ? type : "");

const isTooLong = (status: number, { code, message }: JsonObject): boolean =>
  code === "context_length_exceeded" ||
  (status === 400 && typeof message === "string" && /context (?:length|window|size)/i.test(message.slice(0, 1_000)));
