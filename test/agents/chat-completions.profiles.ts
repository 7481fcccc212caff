/** The vendors of the chat-completions format: how each shows its thoughts, and what each wants back and refuses. */

import * as v from "valibot";
import type { Turn } from "./script.ts";
import { newId, Refused, type Vault } from "./strict.ts";

/** An answer of the assistant as it comes back, as far as a profile reads it. */
export interface Returned {
  readonly content?: unknown;
  readonly reasoning_content?: string | null | undefined;
  readonly reasoning?: string | null | undefined;
  readonly reasoning_details?: readonly Detail[] | null | undefined;
  readonly tool_calls?: readonly ({ readonly id: string } & Extra)[] | null | undefined;
}

/** The extension for signatures, as Google's endpoint has it. */
export interface Extra {
  readonly extra_content?: unknown;
}

/** Reasoning as OpenRouter has it. */
export interface Detail {
  readonly type: string;
  readonly text?: string | null | undefined;
  readonly data?: string | undefined;
  readonly signature?: string | null | undefined;
}

export interface Profile {
  readonly name: string;
  readonly callId: RegExp;
  readonly newCallId: () => string;
  /** Fields of an assistant's message beside those of the format. */
  readonly messageFields: v.ObjectEntries;
  /** Fields of a tool call beside those of the format. */
  readonly callFields?: v.ObjectEntries;
  /** Returns the fields that sign the first call of an answer. Its arguments come with them, before them or behind them. */
  readonly signatureOf?: (callId: string, vault: Vault) => Required<Extra>;
  /** Fields of the request beside those of the format. */
  readonly bodyFields: v.ObjectEntries;
  /** Returns the names of the format's fields that the vendor does not have for a model. */
  readonly refused: (model: string) => readonly string[];
  /** True where the vendor takes only the default sampling for a model. */
  readonly fixesSampling?: (model: string) => boolean;
  /** True where the content of an answer has parts for thoughts. */
  readonly hasThinkingParts?: boolean;
  /** The fields that show a thought in a message, each a list of pieces for the deltas of a stream. */
  readonly thoughtsOf: (turn: Turn, vault: Vault, cut: (text: string) => string[]) => object[];
  /** True where the last piece of a streamed thought is its seal, which may come behind the calls. */
  readonly sealsThoughts?: boolean;
  /** Checks the thoughts of an answer that comes back. Throws `Refused`. */
  readonly check: (answer: Returned, at: AnswerAt) => void;
}

/** The place of an answer that comes back. */
export interface AnswerAt {
  readonly index: number;
  readonly vault: Vault;
  /** The thought that this server made with the answer's first call; undefined where another server made the call. */
  readonly thought: string | undefined;
  /** True in the tool loop that is not over. */
  readonly isInLoop: boolean;
}

const NO_FIELDS: v.ObjectEntries = {};

const EFFORT = v.picklist(["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

/** A field that comes back only where the vendor knows it. */
const optionalText = v.nullish(v.string());

/** True for OpenAI's models that always think. */
const thinks = (model: string): boolean => /^(?:gpt-5|o\d)/.test(model);

const openai: Profile = {
  name: "openai",
  callId: /^[^]{1,40}$/,
  newCallId: () => newId("call_"),
  messageFields: NO_FIELDS,
  bodyFields: { reasoning_effort: v.optional(EFFORT) },
  refused: (model) => (thinks(model) ? ["max_tokens"] : ["reasoning_effort"]),
  fixesSampling: (model) => thinks(model),
  thoughtsOf: () => [],
  check: () => {},
};

const deepseek: Profile = {
  name: "deepseek",
  callId: /^[^]{1,40}$/,
  newCallId: () => newId("call_00_", 20),
  messageFields: { reasoning_content: optionalText },
  bodyFields: {
    thinking: v.optional(v.strictObject({ type: v.picklist(["enabled", "disabled"]) })),
    reasoning_effort: v.optional(EFFORT),
  },
  refused: () => ["max_completion_tokens"],
  thoughtsOf: ({ thought }, _vault, cut) => cut(thought).map((reasoning_content) => ({ reasoning_content })),
  check({ reasoning_content: returned, tool_calls }, { index, thought, isInLoop }) {
    if (isInLoop && tool_calls && returned == null)
      throw new Refused(
        `The \`reasoning_content\` in the thinking mode must be passed back to the API. (message index ${index})`,
      );
    if (thought !== undefined && returned != null && returned !== thought)
      throw new Refused(
        `The reasoning_content of message ${index} is ${JSON.stringify(returned)}, not as it was made.`,
      );
  },
};

const detail = (more: object): object => ({ ...more, format: "anthropic-claude-v1", index: 0 });

const openrouter: Profile = {
  name: "openrouter",
  callId: /^[a-zA-Z0-9_-]{1,64}$/,
  newCallId: () => newId("toolu_"),
  messageFields: {
    reasoning: optionalText,
    reasoning_details: v.nullish(
      v.array(
        v.strictObject({
          type: v.picklist(["reasoning.text", "reasoning.encrypted", "reasoning.summary"]),
          text: optionalText,
          data: v.optional(v.string()),
          summary: optionalText,
          signature: optionalText,
          id: optionalText,
          format: optionalText,
          index: v.optional(v.number()),
        }),
      ),
    ),
  },
  bodyFields: {
    reasoning: v.optional(
      v.strictObject({
        effort: v.optional(EFFORT),
        max_tokens: v.optional(v.number()),
        exclude: v.optional(v.boolean()),
        enabled: v.optional(v.boolean()),
      }),
    ),
    reasoning_effort: v.optional(EFFORT),
    include_reasoning: v.optional(v.boolean()),
    usage: v.optional(v.strictObject({ include: v.boolean() })),
  },
  refused: () => [],
  sealsThoughts: true,
  thoughtsOf({ thought, isRedacted }, vault, cut) {
    if (isRedacted)
      return [{ reasoning_details: [detail({ type: "reasoning.encrypted", data: vault.seal("encrypted", "") })] }];
    const signature = vault.seal("detail", thought);
    const texts = cut(thought).map((text) => ({
      reasoning: text,
      reasoning_details: [detail({ type: "reasoning.text", text })],
    }));
    // The signature comes behind the text in a stream, and beside the text in a complete answer.
    if (texts.length > 1)
      return [...texts, { reasoning_details: [detail({ type: "reasoning.text", text: "", signature })] }];
    return [{ reasoning: thought, reasoning_details: [detail({ type: "reasoning.text", text: thought, signature })] }];
  },
  check({ reasoning_details: details, tool_calls }, { index, vault, thought, isInLoop }) {
    const at = `messages.${index}.reasoning_details`;
    if (!details || details.length === 0) {
      if (isInLoop && tool_calls && thought !== undefined) throw new Refused(`${at}: the reasoning did not come back`);
      return;
    }
    const encrypted = details.filter(({ type }) => type === "reasoning.encrypted");
    for (const { data = "" } of encrypted)
      if (!vault.holds("encrypted", "", data)) throw new Refused(`${at}: this data was not made here`);
    if (encrypted.length === details.length) return;
    const text = details.map(({ text }) => text ?? "").join("");
    const signature = details.map(({ signature }) => signature ?? "").join("");
    if (!vault.holds("detail", text, signature))
      throw new Refused(`${at}: Invalid \`signature\` in \`thinking\` block`);
  },
};

/** A part of Mistral's content. */
interface ContentPart {
  readonly type: string;
  readonly thinking?: readonly { readonly text: string }[];
}

const mistral: Profile = {
  name: "mistral",
  callId: /^[a-zA-Z0-9]{9}$/,
  newCallId: () => newId("", 9),
  messageFields: { prefix: v.optional(v.boolean()) },
  bodyFields: {
    prompt_mode: v.optional(v.nullable(v.literal("reasoning"))),
    random_seed: v.optional(v.number()),
    safe_prompt: v.optional(v.boolean()),
  },
  refused: () => ["max_completion_tokens", "seed", "user"],
  hasThinkingParts: true,
  thoughtsOf: ({ thought }, _vault, cut) =>
    cut(thought).map((text) => ({ content: [{ type: "thinking", thinking: [{ type: "text", text }] }] })),
  check({ content }, { index, thought }) {
    if (thought === undefined || !Array.isArray(content)) return;
    const parts = (content as ContentPart[]).filter(({ type }) => type === "thinking");
    const text = parts.flatMap(({ thinking = [] }) => thinking.map(({ text }) => text)).join("");
    if (parts.length > 0 && text !== thought)
      throw new Refused(`The thinking of message ${index} is ${JSON.stringify(text)}, not as it was made.`);
  },
};

/** Google's endpoint of the format, with the thoughts in the field of most gateways. */
const gemini: Profile = {
  name: "gemini",
  callId: /^[^]{1,64}$/,
  newCallId: () => newId("function-call-", 19),
  messageFields: { reasoning_content: optionalText },
  callFields: {
    extra_content: v.optional(v.strictObject({ google: v.strictObject({ thought_signature: v.string() }) })),
  },
  bodyFields: { reasoning_effort: v.optional(EFFORT) },
  refused: () => [],
  thoughtsOf: ({ thought }, _vault, cut) => cut(thought).map((reasoning_content) => ({ reasoning_content })),
  signatureOf: (id, vault) => ({ extra_content: { google: { thought_signature: vault.seal("call", id) } } }),
  check({ tool_calls }, { index, vault, thought, isInLoop }) {
    const [first] = tool_calls ?? [];
    // Another server's call comes back with the documented placeholder.
    if (!first || !isInLoop || thought === undefined) return;
    const { google } = (first.extra_content ?? {}) as { google?: { thought_signature: string } };
    if (!vault.holds("call", first.id, google?.thought_signature ?? ""))
      throw new Refused(
        `Function call is missing a thought_signature in functionCall parts (message ${index}, ${first.id}).`,
      );
  },
};

export const PROFILES: Readonly<Record<"gemini" | "openai" | "deepseek" | "openrouter" | "mistral", Profile>> = {
  gemini,
  openai,
  deepseek,
  openrouter,
  mistral,
};
