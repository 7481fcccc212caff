/** What every relay does otherwise than a model of the gateway's own, in whatever formats. */

import type { Difference } from "./differences.ts";
import type { Format } from "./relayed.ts";

const OWN_KEY = "An upstream's 401 or 403 speaks of the relay's own key, and is never shown as the caller's.";
const COUNTED_HERE =
  "The upstream's format has no count of tokens, and the gateway estimates for every model that is let through.";
const AS_IT_CAME = "An answer in the caller's own format passes as it came, its id included.";

/** By the caller's format. */
export const POLICIES: Readonly<Record<Format, readonly Difference[]>> = {
  messages: [],
  "generate-content": [
    ["errors > complete > 401 is UNAUTHENTICATED", OWN_KEY, "expected 500 to be 401"],
    ["errors > complete > 403 is PERMISSION_DENIED", OWN_KEY, "expected 500 to be 403"],
    ["errors > streamed > 401 is UNAUTHENTICATED", OWN_KEY, "expected 500 to be 401"],
    ["errors > streamed > 403 is PERMISSION_DENIED", OWN_KEY, "expected 500 to be 403"],
    ["errors > retries > after /fail 403: 1 calls", OWN_KEY, "to have a length of 1 but got 2"],
  ],
  "chat-completions": [
    ["errors > /fail 401 is 401 in its own class", OWN_KEY, "Error: 500 The model backend refused this"],
    ["errors > /fail 403 is 403 in its own class", OWN_KEY, "Error: 500 The model backend refused this"],
  ],
};

/** Beside those, where caller and upstream speak the same. */
export const SAME_FORMAT: Readonly<Record<Format, readonly Difference[]>> = {
  messages: [],
  "generate-content": [],
  "chat-completions": [["answers", AS_IT_CAME, "expected 'chatcmpl-"]],
};

/** Beside those, before an upstream of chat completions. */
export const BEFORE_CHAT_COMPLETIONS: Readonly<Record<Format, readonly Difference[]>> = {
  messages: [],
  "generate-content": [["countTokens > refuses sk-demo for nobody", COUNTED_HERE, "The call was expected to fail."]],
  "chat-completions": [],
};
