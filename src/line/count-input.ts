/** Counts the tokens of a request that is not to be answered. */

import { toGatewayError } from "../errors.ts";
import { estimateInputTokens } from "../metering/estimate.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { BackendContext } from "./backend-context.ts";
import type { Call } from "./call.ts";

/** The tokens of its input as the backend counts them, or by estimate where it does not. Throws what the backend throws. */
export async function countInput(call: Call, key: ApiKey, request: ChatRequest): Promise<number> {
  const { backend, countTokens } = call.services;
  try {
    const counting = backend.countInputTokens?.(request, new BackendContext(call, key));
    const tokens = counting === undefined ? undefined : await call.wait(counting);
    if (tokens === undefined) return estimateInputTokens(request, countTokens);
    if (Number.isSafeInteger(tokens) && tokens >= 0) return tokens;
    throw new TypeError(`A count of tokens must be an integer from 0 up, not ${tokens}.`);
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}
