/** The list of dialects. A new format is a folder beside this file and a line in here. */

import type { Limits } from "../limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { ImageStore } from "../ports/image-store.ts";
import { chatCompletions } from "./chat-completions/index.ts";
import type { Dialect } from "./dialect.ts";
import { generateContent } from "./generate-content/index.ts";
import { images, type ImagesOptions } from "./images/index.ts";
import { messages, type MessagesOptions } from "./messages/index.ts";
import { tokenUsage } from "./token-usage/index.ts";

export { imageAliases } from "./images/index.ts";

/** What a host may set for a single format. */
export interface DialectOptions {
  readonly messages?: MessagesOptions;
  readonly images?: ImagesOptions;
}

/** What dialects need that a host has decided, or left to its gateway to decide. */
export interface DialectRoom {
  readonly imageStore: ImageStore;
  readonly clock: Clock;
  readonly limits: Limits;
}

export const dialects = (options: DialectOptions, { imageStore, clock, limits }: DialectRoom): readonly Dialect[] => [
  messages(options.messages),
  generateContent(),
  chatCompletions({ clock }),
  images({ ...options.images, store: imageStore, clock, limits }),
  tokenUsage(),
];
