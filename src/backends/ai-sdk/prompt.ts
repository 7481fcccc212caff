/** The turns of a request as a prompt of the providers' interface, with what earlier answers noted on their parts. */

import type { CacheHint, ChatMessage, ChatRequest, JsonPart, Part, ToolResultPart } from "../../model/chat.ts";
import type { FieldFate } from "../../model/fate.ts";
import { JsonBudget, type JsonObject } from "../../model/json.ts";
import type { PromptMessage, PromptPart, ToolOutput, ToolOutputPart } from "./call-options.ts";
import { fenced } from "../../dialects/shared/fenced.ts";
import { mergedMetadata, metadataIn } from "./metadata.ts";
import type { ProviderOptions } from "./options.ts";
import { encodeFile, encodeResultFile } from "./prompt.files.ts";
import type { Traits } from "./traits.ts";

/** The prompt, and what of its parts this provider can make nothing of. */
export function encodePrompt(request: ChatRequest, traits: Traits): { prompt: PromptMessage[]; fates: FieldFate[] } {
  const writer = new PromptWriter(traits, toolNames(request));
  for (const { text, cache, signature } of request.system)
    writer.prompt.push({ role: "system", content: text, ...writer.options(cache, signature) });
  for (const message of request.messages) writer.message(message);
  return { prompt: writer.prompt, fates: [...writer.fates.values()] };
}

/** The tool of each call, for results that do not say. */
const toolNames = ({ messages }: ChatRequest): ReadonlyMap<string, string> =>
  new Map(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool-call" ? [[part.id, part.name] as const] : [])),
    ),
  );

class PromptWriter {
  readonly prompt: PromptMessage[] = [];
  readonly fates: Map<string, FieldFate> = new Map();
  readonly #traits: Traits;
  readonly #signatures = new JsonBudget();
  readonly #toolNames: ReadonlyMap<string, string>;

  constructor(traits: Traits, names: ReadonlyMap<string, string>) {
    this.#traits = traits;
    this.#toolNames = names;
  }

  message({ role, parts }: ChatMessage): void {
    if (role === "system") return this.#instruct(parts);
    // Results of tools are a turn of their own there.
    for (const part of parts)
      for (const encoded of this.#part(part)) this.#add(encoded.type === "tool-result" ? "tool" : role, encoded);
  }

  #instruct(parts: readonly Part[]): void {
    const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");
    if (this.#traits.says.has("messages.role.system")) this.prompt.push({ role: "system", content: text });
    else this.#add("user", { type: "text", text });
  }

  #add(role: "user" | "assistant" | "tool", part: PromptPart): void {
    const last = this.prompt.at(-1);
    // Into the list that is there: to copy it for each part would take the square of their number.
    if (last?.role === role) (last.content as PromptPart[]).push(part);
    else this.prompt.push({ role, content: [part] });
  }

  #part(part: Part): readonly PromptPart[] {
    const cache = "cache" in part ? part.cache : undefined;
    const signature = "signature" in part ? part.signature : undefined;
    const options = this.options(cache, signature);
    switch (part.type) {
      case "text":
        if (part.thought) return [{ type: "reasoning", text: part.text, ...options }];
        return part.text === "" && signature === undefined ? [] : [{ type: "text", text: part.text, ...options }];
      case "media":
      case "document":
        return encodeFile(part, this.#traits).map((file) => withOptions(file, options.providerOptions));
      case "tool-call":
        return [{ type: "tool-call", toolCallId: part.id, toolName: part.name, input: part.input, ...options }];
      case "tool-result": {
        const toolName = part.name ?? this.#toolNames.get(part.callId) ?? "unknown";
        const output = encodeOutput(part, this.#traits);
        return [{ type: "tool-result", toolCallId: part.callId, toolName, output, ...options }];
      }
      case "reasoning":
        return [{ type: "reasoning", text: part.text, ...options }];
      case "redacted-reasoning": {
        const redacted = { anthropic: { redactedData: part.data } };
        if (this.#traits.isAnthropic) return [{ type: "reasoning", text: "", providerOptions: redacted }];
        this.#drop("messages.redacted-reasoning", "Encrypted reasoning is of another provider's.");
        return [];
      }
      case "refusal":
        return [{ type: "text", text: part.text }];
      case "code":
        return [{ type: "text", text: fenced(part.code, part.language), ...options }];
      case "code-result":
        return [{ type: "text", text: fenced(part.output ?? "", ""), ...options }];
      case "provider":
        return [];
    }
  }

  /** Returns the provider options of a part: its cache hint and its signature. */
  options(cache: CacheHint | undefined, signature?: string): { providerOptions?: ProviderOptions } {
    const hint: ProviderOptions =
      cache && this.#traits.isAnthropic ? { anthropic: { cacheControl: hintOf(cache) } } : {};
    const sealed = signature === undefined ? {} : metadataIn(signature, this.#traits.provider, this.#signatures);
    if (!sealed) this.#drop("messages.signature", "The signature is of another provider's.");
    const providerOptions = mergedMetadata(sealed ?? {}, hint);
    return Object.keys(providerOptions).length > 0 ? { providerOptions } : {};
  }

  #drop(field: string, why: string): void {
    this.fates.set(field, { field, fate: "dropped", why });
  }
}

const hintOf = ({ ttl }: CacheHint): JsonObject => ({ type: "ephemeral", ...(ttl !== undefined && { ttl }) });

const withOptions = (part: PromptPart, more: ProviderOptions | undefined): PromptPart =>
  more ? { ...part, providerOptions: mergedMetadata(part.providerOptions ?? {}, more) } : part;

function encodeOutput({ parts, isError = false }: ToolResultPart, traits: Traits): ToolOutput {
  const [first] = parts;
  if (first?.type === "json" && parts.length === 1)
    return { type: isError ? "error-json" : "json", value: first.value };
  const told = parts.flatMap((part) => (part.type === "provider" ? [] : [part]));
  if (told.every((part) => part.type === "text" || part.type === "json"))
    return { type: isError ? "error-text" : "text", value: told.map(textOf).join("\n") };
  const value = told.flatMap((part): readonly ToolOutputPart[] =>
    part.type === "text" || part.type === "json"
      ? [{ type: "text", text: textOf(part) }]
      : encodeResultFile(part, traits),
  );
  return { type: "content", value: isError ? [{ type: "text", text: "The tool failed." }, ...value] : value };
}

const textOf = (part: { readonly type: "text"; readonly text: string } | JsonPart): string =>
  part.type === "text" ? part.text : JSON.stringify(part.value);
