/** Refusals of an upstream's content policy, in the bodies that vendors send, and blocks of the host's account that look alike. */

import { describe, expect, it } from "vitest";
import { decodeAwsError } from "../../src/clouds/aws-stream.ts";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { decodeError } from "../../src/formats/images/relay.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { responsesCodec } from "../../src/formats/responses/upstream.ts";

const CHAT_CODECS = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
} as const;
const CODECS = {
  ...CHAT_CODECS,
  responses: responsesCodec(),
  images: { decodeError },
  "Bedrock's": { decodeError: decodeAwsError },
} as const;

const coded = (code: string | null, more: object = {}): object => ({
  error: { message: "A secret.", type: "invalid_request_error", param: null, code, ...more },
});
const openRouter = (metadata: object): object => ({ error: { code: 403, message: "A secret.", metadata } });
const anthropic = (type: string, message: string): object => ({ type: "error", error: { type, message } });

const OF_CONTENT: readonly (readonly [vendor: string, status: number, body: object])[] = [
  ["OpenAI", 400, coded("content_policy_violation")],
  ["OpenAI's images", 400, coded("moderation_blocked", { type: "image_generation_user_error" })],
  ["OpenAI, of attacks on computers", 400, coded("cyber_policy", { type: "invalid_request" })],
  ["Azure", 400, coded("content_filter", { param: "prompt", status: 400 })],
  ["Azure's images", 400, coded("contentFilter", { inner_error: {} })],
  ["Azure, by its inner code", 400, coded(null, { innererror: { code: "ResponsibleAIPolicyViolation" } })],
  ["a proxy of Azure", 403, coded("content_filter")],
  ["a proxy that fails", 500, coded("content_policy_violation")],
  ["Moonshot", 400, { error: { message: "A secret.", type: "content_filter" } }],
  ["Alibaba", 400, coded("data_inspection_failed")],
  ["Alibaba's own API", 400, { code: "DataInspectionFailed", message: "A secret." }],
  ["Volcengine", 400, coded("InputTextSensitiveContentDetected.PolicyViolation")],
  ["DeepSeek", 400, { error: { message: "Content Exists Risk", type: "invalid_request_error" } }],
  [
    "xAI",
    403,
    {
      code: "The caller does not have permission to execute the specified operation",
      error: "Content violates usage guidelines. Team: secret, API key ID: secret, Failed check: SAFETY_CHECK_TYPE_BIO",
    },
  ],
  ["OpenRouter's moderation", 403, openRouter({ reasons: ["violence"], flagged_input: "A secret.", model_slug: "m" })],
  ["OpenRouter, by its type", 403, openRouter({ error_type: "content_policy_violation" })],
  ["OpenRouter, of a model's refusal", 403, openRouter({ error_type: "refusal" })],
  [
    "OpenRouter's guardrail",
    403,
    anthropic("permission_error", "Request blocked: prompt injection patterns detected, secret"),
  ],
  ["Anthropic", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy")],
  [
    "Google",
    403,
    {
      error: {
        code: 403,
        message: "A secret.",
        status: "PERMISSION_DENIED",
        details: [{ reason: "PROHIBITED_CONTENT" }],
      },
    },
  ],
  [
    "Cloudflare's guardrails",
    424,
    { success: false, error: [{ code: 2016, message: "Prompt blocked due to security configurations" }] },
  ],
];

const OF_HOST: readonly (readonly [fault: string, status: number, body: unknown])[] = [
  ["a 403 that says nothing", 403, ""],
  ["a forbidden model", 403, anthropic("permission_error", "Your account may not use this model.")],
  ["xAI's missing permission", 403, { code: "permission-denied", error: "Access to the chat endpoint is denied" }],
  ["OpenAI's region", 403, coded("unsupported_country_region_territory", { type: "request_forbidden" })],
  [
    "Azure's blocked resource",
    403,
    coded("Forbidden", { message: "Your resource is temporarily blocked: it may violate our content policy." }),
  ],
  [
    "a blocked user",
    403,
    coded("user_blocked", { message: "Access is restricted due to repeated policy violations." }),
  ],
  ["OpenRouter's permission", 403, openRouter({ error_type: "permission_denied" })],
  ["a refused key, whatever else it says", 401, coded("content_filter")],
  ["an empty account, whatever else it says", 402, coded("content_filter")],
];

const OUTAGE = { error: { code: 503, message: "A secret.", metadata: { reasons: ["The provider is away."] } } };

describe.each(Object.entries(CODECS))("an upstream of %s", (_format, codec) => {
  it.each(OF_CONTENT)("refuses the content, as %s does with %i", (_vendor, status, body) => {
    const error = codec.decodeError(status, new Headers(), body);
    expect(error).toMatchObject({
      code: "content_refused",
      message: "The model backend refuses this content by its policy.",
      cause: body,
    });
  });

  it("keeps the wait that it asks for beside a refusal of the content", () => {
    const error = codec.decodeError(429, new Headers({ "retry-after": "7" }), coded("content_filter"));
    expect(error).toMatchObject({ code: "content_refused", retryAfterMs: 7_000 });
  });

  it.each(OF_HOST)("refuses the host: %s", (_fault, status, body) => {
    expect(codec.decodeError(status, new Headers(), body).code).toBe("backend_refused");
  });
});

describe.each(Object.entries(CHAT_CODECS))("an outage of %s", (_format, codec) => {
  it("is no refusal of the content, whatever its reasons", () => {
    expect(codec.decodeError(503, new Headers(), OUTAGE).code).toBe("backend_unavailable");
  });
});

describe.each(Object.entries(CHAT_CODECS))("an answer of %s that the policy ends", (_format, codec) => {
  const inFrames = OF_CONTENT.filter(([, , body]) => "error" in body);

  it.each(inFrames)("is no failure of the upstream: %s", (_vendor, _status, body) => {
    const data = JSON.stringify(body);
    const refused = expect.objectContaining({ code: "content_refused" });
    expect(() => codec.answerDecoder().frame(undefined, data)).toThrow(refused);
    expect(() => codec.answerDecoder().answer(data)).toThrow(refused);
  });
});
