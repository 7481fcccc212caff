/** The drivers of all formats that answer requests by a model; a new format is one row. */

import { chatCompletions } from "./chat-completions.ts";
import type { Driver } from "./driver.ts";
import { batchEmbedContents, embeddings } from "./embeddings.ts";
import { generateContent } from "./generate-content.ts";
import { images } from "./images.ts";
import { messages } from "./messages.ts";
import { responses } from "./responses.ts";

export const drivers: readonly Driver[] = [
  messages,
  generateContent,
  chatCompletions,
  responses,
  images,
  embeddings,
  batchEmbedContents,
];
