/**
 * The wire formats of the package. The gateway and the relay each have a list of the side that they need, so that the bundle of a host
 * contains no other. The compiler asks for each format in each list.
 */

import { chatCompletions, chatCompletionsFormat, chatCompletionsUpstream } from "./chat-completions/module.ts";
import { embeddings, embeddingsFormat } from "./embeddings/module.ts";
import { generateContent, generateContentFormat, generateContentUpstream } from "./generate-content/module.ts";
import { images, imagesFormat, imagesUpstream } from "./images/module.ts";
import { IMAGES_SHAPES, type ImagesOptions } from "./images/request.profiles.ts";
import { messages, messagesFormat, messagesUpstream } from "./messages/module.ts";
import { MESSAGES_SHAPES, type MessagesOptions } from "./messages/routes.ts";
import type { FormatModule, UpstreamFormat } from "./module.ts";
import { responses, responsesFormat, responsesUpstream } from "./responses/module.ts";
import { RESPONSES_SHAPES, type ResponsesOptions } from "./responses/routes.ts";
import { tokenUsage, tokenUsageFormat } from "./token-usage/module.ts";

/** The formats in the order in which they are described and asked. */
export const FORMATS: readonly [
  typeof messagesFormat,
  typeof generateContentFormat,
  typeof chatCompletionsFormat,
  typeof responsesFormat,
  typeof embeddingsFormat,
  typeof imagesFormat,
  typeof tokenUsageFormat,
] = [
  messagesFormat,
  generateContentFormat,
  chatCompletionsFormat,
  responsesFormat,
  embeddingsFormat,
  imagesFormat,
  tokenUsageFormat,
];

type Listed = (typeof FORMATS)[number];

/** The wire formats of the package. A table by format does not compile until it has a row for each. */
export type WireFormat = Listed["name"];

/** The formats that an upstream may speak, by name, with the functions of a relay to each. */
export type VerbsByName = {
  [Format in Listed as [VerbsIn<Format>] extends [never] ? never : Format["name"]]: VerbsIn<Format>;
};

type VerbsIn<Format> = Format extends FormatModule<string, infer _Options, infer Has> ? Has : never;

/** The options of single formats. */
export interface FormatOptions {
  /** Options of the messages format. Default: the ranges of the specification. */
  readonly messages?: MessagesOptions;
  /** Options of the images format. Default: the built-in models, with pictures in memory. */
  readonly images?: ImagesOptions;
  /** Options of the Responses format. Default: no compaction. */
  readonly responses?: ResponsesOptions;
}

/** The sides that a gateway serves. */
export const SERVED: { readonly [Name in WireFormat]: Pick<FormatModule, "serve" | "options"> } = {
  messages: { serve: messages, options: MESSAGES_SHAPES },
  "generate-content": { serve: generateContent },
  "chat-completions": { serve: chatCompletions },
  responses: { serve: responses, options: RESPONSES_SHAPES },
  embeddings: { serve: embeddings },
  images: { serve: images, options: IMAGES_SHAPES },
  "token-usage": { serve: tokenUsage },
};

/** The sides that an upstream speaks. */
export const UPSTREAMS: { readonly [Name in keyof VerbsByName]: UpstreamFormat<VerbsByName[Name]> } = {
  messages: messagesUpstream,
  "generate-content": generateContentUpstream,
  "chat-completions": chatCompletionsUpstream,
  responses: responsesUpstream,
  images: imagesUpstream,
};
