/** The wire formats of the package: the one list that the gateway, the relay and the tests read. */

import { chatCompletionsFormat } from "./chat-completions/module.ts";
import { embeddingsFormat } from "./embeddings/module.ts";
import { generateContentFormat } from "./generate-content/module.ts";
import { imagesFormat } from "./images/module.ts";
import type { ImagesOptions } from "./images/request.profiles.ts";
import type { MessagesOptions } from "./messages/index.ts";
import { messagesFormat } from "./messages/module.ts";
import type { FormatModule } from "./module.ts";
import type { ResponsesOptions } from "./responses/index.ts";
import { responsesFormat } from "./responses/module.ts";
import { tokenUsageFormat } from "./token-usage/module.ts";

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
  readonly messages?: MessagesOptions;
  readonly images?: ImagesOptions;
  readonly responses?: ResponsesOptions;
}
