/** relay: a real model, local or a provider's, as a backend. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import type { ChatCodec } from "../../dialects/codec.ts";
import { chatCompletionsCodec } from "../../dialects/chat-completions/codec.ts";
import { generateContentCodec } from "../../dialects/generate-content/codec.ts";
import { messagesCodec } from "../../dialects/messages/codec.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { assertHangUp } from "../hang-up.ts";
import { ChatRelay } from "./chat.ts";
import { ImageRelay } from "./images.ts";
import type { RelayBackend, RelayFormat, RelayOptions } from "./options.ts";

export {
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  type NamePolicy,
  type RelayBackend,
  type RelayFormat,
  type RelayLimits,
  type RelayOptions,
  type RelayTimeouts,
} from "./options.ts";
export type { RelayModels } from "./models.ts";
export type { Fetch } from "./transport.fetch.ts";

const CODECS = {
  messages: () => messagesCodec,
  "generate-content": () => generateContentCodec,
  "chat-completions": ({ outputLimitField }) =>
    chatCompletionsCodec(outputLimitField === undefined ? {} : { outputLimitField }),
} as const satisfies Record<Exclude<RelayFormat, "images">, (options: RelayOptions) => ChatCodec>;

/**
 * A backend that relays to an upstream which speaks one of the formats: chat, or pictures. A caller of the same format gets the upstream's answer as it
 * came, unknown fields included; one of another format gets it in their own, and what the upstream's format cannot say of a request
 * is told in the headers `polygate-dropped` and `polygate-approximated`. Pictures become the gateway's own: an upstream that answers
 * with addresses is asked for what is there, at its own origin or one of `imageOrigins`. Throws a TypeError for options that are wrong,
 * and a RangeError for a time or a limit that is.
 *
 * @example
 * const backend = relay({ format: "messages", baseUrl: "https://api.example.com/v1", apiKey: process.env.UPSTREAM_KEY });
 */
export function relay(
  options: RelayOptions & { readonly format: "images" },
): Omit<RelayBackend, "image"> & { readonly image: NonNullable<ModelBackend["image"]> };
export function relay(
  options: RelayOptions & { readonly format: Exclude<RelayFormat, "images"> },
): RelayBackend & Required<Pick<ModelBackend, "chat" | "countInputTokens">>;
export function relay(options: RelayOptions): RelayBackend;
export function relay(options: RelayOptions): RelayBackend {
  const { format, hangUp } = options;
  assertHangUp("relay: hangUp", hangUp);
  if (format === "images") {
    const relayed = new ImageRelay(options);
    return { ...own(relayed), image: (request, call) => relayed.image(request, call) };
  }
  if (!Object.hasOwn(CODECS, format)) throw unknownFormat(format);
  const relayed = new ChatRelay(options, CODECS[format](options));
  return {
    ...own(relayed),
    chat: (request, call) => relayed.chat(request, call),
    countInputTokens: (request, call) => relayed.countInputTokens(request, call),
  };
}

/** What every relay has, as functions of their own: a host may put parts of two together, and a class's methods would be lost. */
const own = (relayed: ChatRelay | ImageRelay): RelayBackend => ({
  ...(relayed.models && { models: relayed.models }),
  ...(relayed.hangUp !== undefined && { hangUp: relayed.hangUp }),
  close: () => relayed.close(),
});

function unknownFormat(format: unknown): TypeError {
  const known = [...Object.keys(CODECS), "images"].join(", ");
  return new TypeError(`relay: format must be one of ${known}, not ${JSON.stringify(format)}.`);
}
