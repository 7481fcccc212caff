/** The generate-content errors on the wire (spec 7.3), and the answers about tokens and models. */

import * as v from "valibot";

const text = v.string();
const count = v.pipe(v.number(), v.integer(), v.minValue(0));

const BadRequest = v.object({
  "@type": v.literal("type.googleapis.com/google.rpc.BadRequest"),
  fieldViolations: v.array(v.object({ field: text, description: text })),
});
const RetryInfo = v.object({
  "@type": v.literal("type.googleapis.com/google.rpc.RetryInfo"),
  retryDelay: v.pipe(text, v.regex(/^[\d.]+s$/)),
});

export const GenerateContentError = v.object({
  error: v.object({
    code: v.pipe(v.number(), v.integer()),
    message: text,
    status: v.picklist([
      "INVALID_ARGUMENT",
      "FAILED_PRECONDITION",
      "UNAUTHENTICATED",
      "PERMISSION_DENIED",
      "NOT_FOUND",
      "METHOD_NOT_ALLOWED",
      "PAYLOAD_TOO_LARGE",
      "RESOURCE_EXHAUSTED",
      "ALREADY_EXISTS",
      "ABORTED",
      "CANCELLED",
      "INTERNAL",
      "UNAVAILABLE",
      "DEADLINE_EXCEEDED",
    ]),
    details: v.array(v.variant("@type", [BadRequest, RetryInfo])),
  }),
});

export const CountTokensAnswer = v.object({ totalTokens: count });

export const GenerateContentModel = v.object({
  name: v.pipe(text, v.startsWith("models/")),
  displayName: text,
  inputTokenLimit: v.optional(count),
  outputTokenLimit: v.optional(count),
  supportedGenerationMethods: v.array(text),
});

export const GenerateContentModelList = v.object({
  models: v.array(GenerateContentModel),
  nextPageToken: v.optional(text),
});
