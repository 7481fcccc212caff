/** The list of formats. A new format is a folder beside this file and a line here. */

import type { Limits } from "../limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { ImageStore } from "../ports/image-store.ts";
import { chatCompletions } from "./chat-completions/index.ts";
import { embeddings } from "./embeddings/index.ts";
import type { Format } from "./format.ts";
import { generateContent } from "./generate-content/index.ts";
import { images } from "./images/index.ts";
import type { ImagesOptions } from "./images/request.profiles.ts";
import { messages, type MessagesOptions } from "./messages/index.ts";
import { responses } from "./responses/index.ts";
import { tokenUsage } from "./token-usage/index.ts";

/** The options of single formats. */
export interface FormatOptions {
  readonly messages?: MessagesOptions;
  readonly images?: ImagesOptions;
}

/** The services that formats need from their gateway. */
export interface FormatContext {
  readonly imageStore: ImageStore;
  readonly clock: Clock;
  readonly limits: Limits;
}

/** Throws a TypeError for an option that does not exist or has a wrong shape. */
export const formats = (options: FormatOptions, { imageStore, clock, limits }: FormatContext): readonly Format[] => [
  messages(options.messages),
  generateContent(),
  chatCompletions({ clock }),
  responses({ clock }),
  embeddings(),
  images({ ...options.images, store: imageStore, clock, limits }),
  tokenUsage(),
];
