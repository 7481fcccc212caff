/** The official clients of both formats, and what each of them sees of an answer, in words that belong to neither. */

import Anthropic from "@anthropic-ai/sdk";
import type { Message } from "@anthropic-ai/sdk/resources/messages";
import { ApiError, FinishReason, type GenerateContentResponse, GoogleGenAI, type Part } from "@google/genai";
import { createGateway, type Gateway, type Hook, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { asGenerateContent, asMessages, type Call, type Question } from "./questions.ts";

/** What a caller sees of an answer. */
export interface Seen {
  readonly text: string;
  readonly thoughts: string;
  /** The signatures of thoughts, in order. */
  readonly seals: readonly string[];
  readonly calls: readonly Call[];
  readonly end: "done" | "cut";
  readonly tokens: { readonly input: number; readonly output: number; readonly cached: number };
}

/** The pieces of an answer's text, as they came. */
export interface SeenStream extends Seen {
  readonly pieces: readonly string[];
}

export interface Client {
  readonly name: string;
  readonly complete: (question: Question) => Promise<Seen>;
  readonly stream: (question: Question, piece?: (text: string) => void) => Promise<SeenStream>;
  /** The status of an error that the client has thrown. */
  readonly statusOf: (error: unknown) => number | undefined;
}

/** A client of each format, before one and the same gateway. */
export function clientsOf(backend: ModelBackend, hooks: readonly Hook[] = []): readonly Client[] {
  const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
  const gateway = createGateway({ backend, quotas, hooks, onFailure: () => {} });
  return [messagesClient(gateway), generateContentClient(gateway)];
}

const fetchFrom =
  (gateway: Gateway): typeof fetch =>
  (url, init) =>
    gateway.fetch(new Request(url instanceof Request ? url.url : url, init));

const CONNECTION = { apiKey: "sk-test", baseURL: "http://gateway.test", maxRetries: 0 } as const;

function messagesClient(gateway: Gateway): Client {
  const client = new Anthropic({ ...CONNECTION, fetch: fetchFrom(gateway) });
  return {
    name: "messages",
    complete: async (question) => seenOfMessage(await client.messages.create(asMessages(question))),
    stream: async (question, piece) => {
      const pieces: string[] = [];
      const stream = client.messages.stream(asMessages(question)).on("text", (text) => {
        pieces.push(text);
        piece?.(text);
      });
      return { ...seenOfMessage(await stream.finalMessage()), pieces };
    },
    statusOf: (error) => (error instanceof Anthropic.APIError ? (error.status as number | undefined) : undefined),
  };
}

function seenOfMessage({ content, stop_reason, usage }: Message): Seen {
  const cached = usage.cache_read_input_tokens ?? 0;
  return {
    text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    thoughts: content.map((block) => (block.type === "thinking" ? block.thinking : "")).join(""),
    seals: content.flatMap((block) => (block.type === "thinking" ? block.signature : [])),
    calls: content.flatMap((block) =>
      block.type === "tool_use" ? { id: block.id, name: block.name, input: block.input as Call["input"] } : [],
    ),
    end: stop_reason === "max_tokens" ? "cut" : "done",
    tokens: {
      input: usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0),
      output: usage.output_tokens,
      cached,
    },
  };
}

function generateContentClient(gateway: Gateway): Client {
  const { apiKey, baseURL: baseUrl } = CONNECTION;
  const retryOptions = { attempts: 1 };
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl, fetch: fetchFrom(gateway), retryOptions } });
  return {
    name: "generate-content",
    complete: async (question) => seenOfChunks([await client.models.generateContent(asGenerateContent(question))]),
    stream: async (question, piece) => {
      const [chunks, pieces]: [GenerateContentResponse[], string[]] = [[], []];
      for await (const chunk of await client.models.generateContentStream(asGenerateContent(question))) {
        chunks.push(chunk);
        for (const { text } of answerParts([chunk])) {
          if (!text) continue;
          pieces.push(text);
          piece?.(text);
        }
      }
      return { ...seenOfChunks(chunks), pieces };
    },
    statusOf: (error) => (error instanceof ApiError ? error.status : undefined),
  };
}

const partsOf = (chunks: readonly GenerateContentResponse[]): Part[] =>
  chunks.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? []);

const answerParts = (chunks: readonly GenerateContentResponse[]): Part[] =>
  partsOf(chunks).filter(({ thought }) => !thought);

function seenOfChunks(chunks: readonly GenerateContentResponse[]): Seen {
  const last = chunks.at(-1);
  const usage = last?.usageMetadata ?? {};
  const thoughts = partsOf(chunks).filter(({ thought }) => thought);
  return {
    text: answerParts(chunks).map(textOf).join(""),
    thoughts: thoughts.map(textOf).join(""),
    seals: thoughts.flatMap(({ thoughtSignature }) => thoughtSignature ?? []),
    calls: partsOf(chunks).flatMap(({ functionCall }) =>
      functionCall
        ? { id: functionCall.id ?? "", name: functionCall.name ?? "", input: functionCall.args as Call["input"] }
        : [],
    ),
    end: last?.candidates?.[0]?.finishReason === FinishReason.MAX_TOKENS ? "cut" : "done",
    tokens: {
      input: (usage.promptTokenCount ?? 0) + (usage.toolUsePromptTokenCount ?? 0),
      output: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
      cached: usage.cachedContentTokenCount ?? 0,
    },
  };
}

/** Code is told in words where a format has no part for it. */
function textOf({ text, executableCode, codeExecutionResult }: Part): string {
  if (executableCode) return `\n\`\`\`python\n${executableCode.code}\`\`\`\n`;
  if (codeExecutionResult) return `\n\`\`\`\n${codeExecutionResult.output}\`\`\`\n`;
  return text ?? "";
}
