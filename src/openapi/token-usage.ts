/** The token usage query's part of the document (spec 2.5, 5, 7.1). */

import { encodeError, errorStatus } from "../dialects/token-usage/errors.ts";
import { TokenUsageAnswer, TokenUsageError } from "../dialects/token-usage/schema.answer.ts";
import { errorResponses } from "./errors.ts";
import { answered, anyOfSchemes, examplesOf, jsonContent, schemaRef } from "./shapes.ts";
import type { Format, FormatOperation } from "./types.ts";

const NAME = "Token usage";

const EXAMPLE = {
  code: true,
  message: "ok",
  data: {
    object: "token_usage",
    name: "demo",
    total_granted: 1_000,
    total_used: 10,
    total_available: 990,
    unlimited_quota: false,
    model_limits: {},
    model_limits_enabled: false,
    expires_at: 0,
  },
};

const QUERY: FormatOperation = {
  kind: "query",
  method: "GET",
  endpoint: "/api/usage/token",
  path: "/api/usage/token",
  operation: {
    operationId: "getTokenUsage",
    summary: "Tells the quota of the key that asks.",
    description: "An expired key may ask as well. The key's `sk-` may be left out.",
    tags: [NAME],
    security: anyOfSchemes("bearer"),
    parameters: [],
    responses: {
      200: answered(
        "What was granted, used and is left.",
        jsonContent(schemaRef("TokenUsageAnswer"), examplesOf(["A limited key", EXAMPLE])),
      ),
      ...errorResponses(
        {
          schema: schemaRef("TokenUsageError"),
          encode: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
        },
        ["route", "key", "gateway"],
      ),
    },
  },
};

export const tokenUsageFormat: Format = {
  name: "token-usage",
  part: () => ({
    tag: { name: NAME, description: "What a key has used, and what is left." },
    schemas: { TokenUsageAnswer, TokenUsageError },
    operations: [QUERY],
  }),
};
