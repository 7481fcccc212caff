/** The errors that OpenAI's clients read, as a schema: one for chat completions and images (spec 7.4). */

import * as v from "valibot";

export const OpenAIError = v.object({
  error: v.object({
    message: v.string(),
    type: v.picklist([
      "invalid_request_error",
      "authentication_error",
      "permission_error",
      "rate_limit_error",
      "server_error",
    ]),
    param: v.nullable(v.string()),
    code: v.string(),
  }),
});
