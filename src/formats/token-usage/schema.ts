/** The token usage answer on the wire (spec 2.5), and its failures (spec 7.1). */

import * as v from "valibot";

const quota = v.pipe(v.number(), v.description("In quota units."));

export const TokenUsageAnswer = v.object({
  code: v.literal(true),
  message: v.string(),
  data: v.object({
    object: v.literal("token_usage"),
    name: v.string(),
    total_granted: quota,
    total_used: quota,
    total_available: quota,
    unlimited_quota: v.boolean(),
    model_limits: v.record(v.string(), v.boolean()),
    model_limits_enabled: v.boolean(),
    expires_at: v.pipe(v.number(), v.minValue(0), v.description("Unix time in seconds; 0 is never.")),
  }),
});
export type TokenUsageAnswer = v.InferOutput<typeof TokenUsageAnswer>;

export const TokenUsageError = v.object({ success: v.literal(false), message: v.string() });
export type TokenUsageError = v.InferOutput<typeof TokenUsageError>;
