/** The GenAI semantic conventions of OpenTelemetry, as far as a gateway has something to say in them. */

import type { Attributes } from "@opentelemetry/api";
import type { Usage } from "../index.ts";

/** `gen_ai.operation.name` and `gen_ai.provider.name` of each wire format. */
interface Convention {
  readonly operation: string;
  /** Whose format it is: the conventions tell flavours of telemetry apart by it, whoever really answers. */
  readonly provider: string;
}

const CONVENTIONS: Readonly<Record<string, Convention>> = {
  messages: { operation: "chat", provider: "anthropic" },
  "chat-completions": { operation: "chat", provider: "openai" },
  "generate-content": { operation: "generate_content", provider: "gcp.gen_ai" },
  images: { operation: "generate_content", provider: "openai" },
};

export const conventionOf = (format: string): Convention =>
  (Object.hasOwn(CONVENTIONS, format) ? CONVENTIONS[format] : undefined) ?? { operation: "chat", provider: format };

/** What stands for every model that the host has not named: a metric must not have as many series as callers can make up names. */
export const OTHER = "_OTHER";

/** How long a text may be that is another's own, in characters. */
const MAX_CHARS = 256;

/** A text of another's, such as a model's name, as a span may hold it. */
export const shortened = (text: string | undefined): string | undefined => text?.slice(0, MAX_CHARS);

/** Token counts as attributes of a span. */
export const usageAttributes = (usage: Partial<Usage> | undefined): Attributes => ({
  "gen_ai.usage.input_tokens": usage?.inputTokens,
  "gen_ai.usage.output_tokens": usage?.outputTokens,
  "gen_ai.usage.cache_read.input_tokens": usage?.cacheReadTokens || undefined,
  "gen_ai.usage.cache_creation.input_tokens": usage?.cacheWriteTokens || undefined,
  "gen_ai.usage.reasoning.output_tokens": usage?.reasoningTokens || undefined,
});

/** A time as the conventions want it. */
export const seconds = (ms: number): number => ms / 1000;
