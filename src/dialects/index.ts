/** The list of dialects. A new format is a folder beside this file and a line in here. */

import type { Dialect } from "./dialect.ts";
import { messages, type MessagesOptions } from "./messages/index.ts";
import { tokenUsage } from "./token-usage/index.ts";

/** What a host may set for a single format. */
export interface DialectOptions {
  readonly messages?: MessagesOptions;
}

export const dialects = (options: DialectOptions): readonly Dialect[] => [messages(options.messages), tokenUsage()];
