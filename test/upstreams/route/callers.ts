/** The official clients of the chat formats, as callers that read one whole answer. */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

export type ChatFormatName = "messages" | "chat-completions" | "generate-content" | "responses";

export const FORMATS: readonly ChatFormatName[] = ["messages", "chat-completions", "generate-content", "responses"];

/** An answer as the client has put it together. */
export interface Read {
  readonly ids: readonly string[];
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly input: unknown }[];
  readonly finish: string | null | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

export interface Caller {
  stream(prompt: string): Promise<Read>;
  complete(prompt: string): Promise<Read>;
}

const TOOL = {
  name: "look",
  description: "Looks.",
  schema: { type: "object" as const, properties: { at: { type: "string" as const } } },
};
const LIMIT = 1_000;

const unique = (ids: readonly (string | undefined)[]): string[] => [...new Set(ids.flatMap((id) => id ?? []))];

const messagesRequest = (prompt: string): Anthropic.MessageCreateParamsNonStreaming => ({
  model: "m",
  max_tokens: LIMIT,
  messages: [{ role: "user", content: prompt }],
  tools: [{ name: TOOL.name, description: TOOL.description, input_schema: TOOL.schema }],
});

const readMessage = ({ id, content, stop_reason, usage }: Anthropic.Message): Read => ({
  ids: [id],
  text: content.flatMap((block) => (block.type === "text" ? block.text : [])).join(""),
  reasoning: content.flatMap((block) => (block.type === "thinking" ? block.thinking : [])).join(""),
  calls: content.flatMap((block) =>
    block.type === "tool_use" ? [{ id: block.id, name: block.name, input: block.input }] : [],
  ),
  finish: stop_reason,
  inputTokens: usage.input_tokens,
  outputTokens: usage.output_tokens,
});

function messagesCaller(url: string, apiKey: string): Caller {
  const client = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
  return {
    async stream(prompt) {
      const stream = client.messages.stream(messagesRequest(prompt));
      let open: number | undefined;
      let next = 0;
      for await (const event of stream) {
        // Indices grow by one, and a block ends before the next one begins.
        if (event.type === "content_block_start") {
          if (open !== undefined || event.index !== next++) throw new Error(`block ${event.index} begins`);
          open = event.index;
        } else if (event.type === "content_block_delta" && event.index !== open)
          throw new Error("a closed block grows");
        else if (event.type === "content_block_stop") {
          if (event.index !== open) throw new Error("a closed block ends");
          open = undefined;
        }
      }
      if (open !== undefined) throw new Error("a block stays open");
      return readMessage(await stream.finalMessage());
    },
    complete: async (prompt) => readMessage(await client.messages.create(messagesRequest(prompt))),
  };
}

const completionRequest = (prompt: string): Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, "stream"> => ({
  model: "m",
  max_completion_tokens: LIMIT,
  messages: [{ role: "user", content: prompt }],
  tools: [{ type: "function", function: { name: TOOL.name, description: TOOL.description, parameters: TOOL.schema } }],
});

const readCompletion = (completion: OpenAI.ChatCompletion, ids: readonly string[] = [completion.id]): Read => {
  const [choice] = completion.choices;
  const { content, tool_calls, ...others } = choice?.message ?? {};
  return {
    ids,
    text: content ?? "",
    reasoning: (others as { reasoning_content?: string }).reasoning_content ?? "",
    calls: (tool_calls ?? []).flatMap((call) =>
      call.type === "function"
        ? [{ id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) as unknown }]
        : [],
    ),
    finish: choice?.finish_reason,
    inputTokens: completion.usage?.prompt_tokens,
    outputTokens: completion.usage?.completion_tokens,
  };
};

function chatCompletionsCaller(url: string, apiKey: string): Caller {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
  return {
    async stream(prompt) {
      const stream = client.chat.completions.stream({
        ...completionRequest(prompt),
        stream_options: { include_usage: true },
      });
      const ids: string[] = [];
      const roles: unknown[] = [];
      let reasoning = "";
      for await (const chunk of stream) {
        ids.push(`${chunk.id} ${chunk.created} ${chunk.model}`);
        const delta = chunk.choices[0]?.delta as { role?: string; reasoning_content?: string } | undefined;
        if (delta?.role !== undefined) roles.push(delta.role);
        reasoning += delta?.reasoning_content ?? "";
      }
      if (roles.length > 1) throw new Error("the role is told twice");
      return { ...readCompletion(await stream.finalChatCompletion(), unique(ids)), reasoning };
    },
    complete: async (prompt) => readCompletion(await client.chat.completions.create(completionRequest(prompt))),
  };
}

const contentRequest = (prompt: string): Parameters<GoogleGenAI["models"]["generateContent"]>[0] => ({
  model: "m",
  contents: prompt,
  config: {
    maxOutputTokens: LIMIT,
    thinkingConfig: { includeThoughts: true },
    tools: [
      {
        functionDeclarations: [{ name: TOOL.name, description: TOOL.description, parametersJsonSchema: TOOL.schema }],
      },
    ],
  },
});

function generateContentCaller(url: string, apiKey: string): Caller {
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
  type Answer = Awaited<ReturnType<typeof client.models.generateContent>>;
  const read = (answers: readonly Answer[]): Read => {
    const parts = answers.flatMap(({ candidates }) => candidates?.[0]?.content?.parts ?? []);
    const textOf = (isThought: boolean): string =>
      parts.flatMap(({ text, thought }) => ((thought ?? false) === isThought ? (text ?? []) : [])).join("");
    const last = answers.at(-1);
    return {
      ids: unique(answers.map(({ responseId }) => responseId)),
      text: textOf(false),
      reasoning: textOf(true),
      calls: parts.flatMap(({ functionCall: call }) =>
        call ? [{ id: call.id ?? "", name: call.name ?? "", input: call.args }] : [],
      ),
      finish: last?.candidates?.[0]?.finishReason,
      inputTokens: last?.usageMetadata?.promptTokenCount,
      outputTokens: (last?.usageMetadata?.totalTokenCount ?? 0) - (last?.usageMetadata?.promptTokenCount ?? 0),
    };
  };
  return {
    async stream(prompt) {
      const answers: Answer[] = [];
      for await (const answer of await client.models.generateContentStream(contentRequest(prompt)))
        answers.push(answer);
      return read(answers);
    },
    complete: async (prompt) => read([await client.models.generateContent(contentRequest(prompt))]),
  };
}

const responseRequest = (prompt: string): OpenAI.Responses.ResponseCreateParamsNonStreaming => ({
  model: "m",
  input: prompt,
  max_output_tokens: LIMIT,
  store: false,
  tools: [{ type: "function", name: TOOL.name, description: TOOL.description, parameters: TOOL.schema, strict: false }],
});

function responsesCaller(url: string, apiKey: string): Caller {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
  return {
    async stream(prompt) {
      const check = new ResponseCheck();
      for await (const event of await client.responses.create({ ...responseRequest(prompt), stream: true }))
        check.add(event);
      return readResponse(check.ended(), check.ids);
    },
    complete: async (prompt) => readResponse(await client.responses.create(responseRequest(prompt))),
  };
}

export function readResponse(
  { id, output, status, usage }: OpenAI.Responses.Response,
  ids: readonly string[] = [id],
): Read {
  return {
    ids,
    text: output
      .flatMap((item) => (item.type === "message" ? item.content : []))
      .flatMap((part) => (part.type === "output_text" ? part.text : []))
      .join(""),
    reasoning: output
      .flatMap((item) => (item.type === "reasoning" ? item.summary : []))
      .map(({ text }) => text)
      .join(""),
    calls: output.flatMap((item) =>
      item.type === "function_call"
        ? [{ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) as unknown }]
        : [],
    ),
    finish: status,
    inputTokens: usage?.input_tokens,
    outputTokens: usage?.output_tokens,
  };
}

/** Holds a stream of Responses to its own numbers: the sequence, the items and their texts agree with the last response. */
export class ResponseCheck {
  #ids: string[] = [];
  #last: OpenAI.Responses.Response | undefined;
  #sequence = 0;
  readonly #items: Map<number, { id: string | undefined; text: string; isOpen: boolean }> = new Map();

  get ids(): readonly string[] {
    return unique(this.#ids);
  }

  add(event: OpenAI.Responses.ResponseStreamEvent): void {
    if (event.sequence_number !== this.#sequence++)
      throw new Error(`the event ${event.sequence_number} is out of order`);
    if ("response" in event) {
      this.#ids.push(`${event.response.id} ${event.response.created_at}`);
      this.#last = event.response;
    }
    if (event.type === "response.output_item.added") {
      if (event.output_index !== this.#items.size) throw new Error(`the item ${event.output_index} begins`);
      this.#items.set(event.output_index, { id: event.item.id, text: "", isOpen: true });
    }
    if (event.type === "response.output_item.done") {
      const item = this.#items.get(event.output_index);
      if (!item?.isOpen || item.id !== event.item.id) throw new Error(`the item ${event.output_index} ends`);
      item.isOpen = false;
    }
    if (event.type !== "response.output_text.delta") return;
    const item = this.#items.get(event.output_index);
    if (!item?.isOpen || item.id !== event.item_id) throw new Error(`a text goes to ${event.item_id}`);
    item.text += event.delta;
  }

  /** Returns the last response. */
  ended(): OpenAI.Responses.Response {
    const response = this.#last;
    if (!response) throw new Error("there is no response");
    for (const [index, { id, text, isOpen }] of this.#items) {
      const item = response.output[index];
      if (isOpen || item?.id !== id) throw new Error(`the item ${index} is ${item?.id}, and was ${id}`);
      const whole =
        item?.type === "message" ? item.content.map((part) => ("text" in part ? part.text : "")).join("") : "";
      if (whole !== text) throw new Error(`the item ${index} has another text`);
    }
    if (response.output.length !== this.#items.size) throw new Error("the response has other items");
    return response;
  }
}

/** Returns the official client of a format. */
export const callerOf = (format: ChatFormatName, url: string, apiKey: string): Caller => CALLERS[format](url, apiKey);

const CALLERS: Readonly<Record<ChatFormatName, (url: string, apiKey: string) => Caller>> = {
  messages: messagesCaller,
  "chat-completions": chatCompletionsCaller,
  "generate-content": generateContentCaller,
  responses: responsesCaller,
};
