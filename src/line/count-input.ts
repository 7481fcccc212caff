/** Counts the tokens of a request before it is answered, or instead of that. */

import { toGatewayError } from "../errors.ts";
import { estimateInputTokens } from "../metering/estimate.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { BackendContext } from "./backend-context.ts";
import type { Call } from "./call.ts";

/** Returns the tokens of the input as the backend counts them, or by estimate where it does not. Throws what the backend throws. */
export async function countInput(call: Call, key: ApiKey, request: ChatRequest): Promise<number> {
  const { countTokens } = call.services;
  return (
    (await countByBackend(call, key, request)) ?? estimateInputTokens(request, countTokens, request.mediaResolution)
  );
}

/** Returns the backend's count of the input; undefined where it does not count. Throws what the backend throws. */
export async function countByBackend(call: Call, key: ApiKey, request: ChatRequest): Promise<number | undefined> {
  const { backend } = call.services;
  try {
    const counting = backend.countInputTokens?.(request, new BackendContext(call, key));
    const tokens = counting === undefined ? undefined : await call.wait(counting);
    if (tokens === undefined || (Number.isSafeInteger(tokens) && tokens >= 0)) return tokens;
    throw new TypeError(`A count of tokens must be an integer from 0 up, not ${tokens}.`);
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}
