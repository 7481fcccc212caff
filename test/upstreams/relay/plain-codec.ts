/** A chat format small enough to write by hand, for tests of the relay alone. */

import { GatewayError, type GatewayErrorCode } from "../../../src/errors.ts";
import type { ChatCodec } from "../../../src/formats/format.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { Conversion } from "../../../src/model/conversion.ts";

/** A frame or a body: a piece of text, and at the end the usage. */
interface Said {
  readonly model?: string;
  readonly text?: string;
  readonly end?: boolean;
  readonly tokens?: number;
  readonly error?: string;
}

/** @param conversions What is told of every request. */
export const plainCodec = (conversions: readonly Conversion[] = []): ChatCodec => ({
  format: "plain",
  encodeRequest: ({ model, stream, native, messages }) => ({
    body: {
      model,
      stream,
      betas: [...(native?.betas ?? [])],
      version: native?.version ?? null,
      turns: messages.length,
    },
    path: `/say/${encodeURIComponent(model.toWellFormed())}`,
    headers: { "plain-version": "1" },
    conversions,
  }),
  answerDecoder: () => {
    let ended = false;
    const decode = (data: string): ChatEvent[] => {
      const { model, text, end, tokens, error } = parse(data);
      if (error !== undefined) throw upstreamError(400, error);
      ended ||= end === true;
      return [
        ...(model === undefined ? [] : [{ type: "start", model } as const]),
        ...(text === undefined ? [] : [{ type: "text-delta", text } as const]),
        ...(end ? [{ type: "finish", reason: "stop", usage: { outputTokens: tokens ?? 1 } } as const] : []),
      ];
    };
    return {
      frame: (_event, data) => decode(data),
      end() {
        if (!ended) throw new GatewayError("backend_failed", "The model backend's answer broke off.");
      },
      answer: (body) => decode(body),
    };
  },
  decodeError: (status, headers, body) => {
    const seconds = Number(headers.get("retry-after") ?? "0");
    return upstreamError(status, (body as Said).error ?? "", seconds > 0 ? seconds * 1_000 : undefined);
  },
});

function parse(data: string): Said {
  try {
    return JSON.parse(data) as Said;
  } catch (cause) {
    throw new GatewayError("backend_failed", "The model backend failed.", { cause });
  }
}

const CODES: Readonly<Record<number, GatewayErrorCode>> = {
  401: "invalid_api_key",
  429: "rate_limited",
  502: "backend_unavailable",
  504: "deadline_exceeded",
  529: "backend_overloaded",
};

function upstreamError(status: number, message: string, retryAfterMs?: number): GatewayError {
  const code = CODES[status] ?? (status < 500 ? "invalid_request" : "backend_failed");
  return new GatewayError(code, "The model backend refused.", {
    cause: new Error(message),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

export const sse = (...said: readonly Said[]): string => said.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("");
