/** Describes the token usage query for the OpenAPI document. */

import { BEARER, type FormatDescription } from "../shared/openapi.ts";
import * as tokenUsageFormat from "./index.ts";
import { TokenUsageAnswer, TokenUsageError } from "./schema.ts";

const KEY = { id: "1", name: "demo", unlimited: false, modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 };

export const tokenUsageDescription: FormatDescription = {
  name: "token-usage",
  tag: { name: "Token usage", description: "The quota of a key: granted, used and left." },
  security: [BEARER],
  errorSchema: "TokenUsageError",
  errors: tokenUsageFormat,
  schemas: () => ({ TokenUsageAnswer, TokenUsageError }),
  examples: {
    TokenUsageAnswer: { "A limited key": tokenUsageFormat.encodeUsage(KEY, { used: 10, available: 990, held: 0 }) },
  },
  operations: [
    {
      endpoint: "query GET /api/usage/token",
      operationId: "getTokenUsage",
      summary: "Tells the quota of the key that asks.",
      description: "An expired key may ask as well. The key's `sk-` may be left out.",
      answer: "TokenUsageAnswer",
      causes: ["route", "key", "rate", "gateway"],
    },
  ],
};
