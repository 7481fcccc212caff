/** The conversation in both directions: this format has a message for each tool's result, the neutral model has turns. */

import { GatewayError } from "../../errors.ts";
import type { FieldPath } from "../../http/validation.ts";
import type { ChatMessage, JsonPart, Part, TextPart, ToolCallPart, ToolResultPart } from "../../model/chat.ts";
import { type JsonBudget, JsonLimitError } from "../../model/json.ts";
import { fenced } from "../shared/fenced.ts";
import { argumentsIn } from "../shared/tool-calls.ts";
import { ToolIds } from "../shared/tool-ids.ts";
import { type Losses, marksOf } from "../shared/fates.ts";
import { decodePart, encodePart, encodeText, textParts, type WirePart } from "./request.parts.ts";
import { DIALECT } from "./schema.base.ts";
import type {
  AssistantMessage,
  Message,
  SystemMessage,
  TextPart as WireText,
  ToolCall,
  ToolMessage,
} from "./schema.message.ts";

interface Turn {
  readonly role: ChatMessage["role"];
  readonly name?: string;
  readonly parts: Part[];
}

/** The instructions before the conversation, and its turns: messages of one side that follow one another are one. */
export function decodeMessages(
  wire: readonly Message[],
  json: JsonBudget,
): { system: TextPart[]; messages: ChatMessage[] } {
  const system: TextPart[] = [];
  const messages: Turn[] = [];
  for (const [index, message] of wire.entries()) {
    if (isSystem(message) && messages.length === 0 && message.name == null) {
      for (const part of decodeTexts(message)) system.push(part);
      continue;
    }
    const turn = decodeTurn(message, index, json);
    const last = messages.at(-1);
    if (last?.role !== turn.role || last.name !== turn.name) messages.push(turn);
    // One by one: a turn may have more parts than a call can have arguments.
    else for (const part of turn.parts) last.parts.push(part);
  }
  return { system, messages };
}

const isSystem = (message: Message): message is SystemMessage =>
  message.role === "system" || message.role === "developer";

function decodeTurn(message: Message, index: number, json: JsonBudget): Turn {
  if (message.role === "tool") return { role: "user", parts: [decodeResult(message)] };
  const name = message.name == null ? {} : { name: message.name };
  if (isSystem(message)) return { role: "system", ...name, parts: decodeTexts(message) };
  if (message.role === "assistant") return { role: "assistant", ...name, parts: decodeAssistant(message, index, json) };
  const { content } = message;
  return { role: "user", ...name, parts: typeof content === "string" ? textParts(content) : content.map(decodePart) };
}

const decodeTexts = ({ content }: SystemMessage): TextPart[] =>
  typeof content === "string" ? textParts(content) : content.map(({ text }) => ({ type: "text", text }));

function decodeAssistant(message: AssistantMessage, index: number, json: JsonBudget): Part[] {
  const { content, refusal, reasoning_content, tool_calls } = message;
  const said =
    typeof content === "string"
      ? textParts(content)
      : (content ?? []).map((part): Part =>
          part.type === "text" ? { type: "text", text: part.text } : { type: "refusal", text: part.refusal },
        );
  return [
    ...(reasoning_content ? [{ type: "reasoning", text: reasoning_content } as const] : []),
    ...said,
    ...(refusal ? [{ type: "refusal", text: refusal } as const] : []),
    ...(tool_calls ?? []).map((call, at) => decodeCall(call, ["messages", index, "tool_calls", at], json)),
  ];
}

/** Models do not always write valid JSON, and clients send back what was written, with an error as its result. */
function decodeCall(call: ToolCall, at: FieldPath, budget: JsonBudget): Part {
  if (call.type === "custom") return { type: "provider", dialect: DIALECT, value: call };
  const { name, arguments: json } = call.function;
  try {
    return { type: "tool-call", id: call.id, name, input: argumentsIn(json, budget) ?? { invalid_arguments: json } };
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const path = [...at, "function", "arguments"];
    throw new GatewayError("invalid_request", `${path.join(".")}: ${error.message}, with those of the body`, { path });
  }
}

function decodeResult({ tool_call_id, content }: ToolMessage): ToolResultPart {
  const parts = typeof content === "string" ? textParts(content) : content.map(decodePart);
  return { type: "tool-result", callId: tool_call_id, parts };
}

/** The longest id of a call that providers of this format take. */
const MAX_ID = 40;
const isShort = (id: string): boolean => id.length <= MAX_ID;

/** Encodes the conversation of one request. */
export class MessagesEncoder {
  readonly #losses: Losses;
  readonly #ids: ToolIds = new ToolIds(isShort);

  constructor(losses: Losses) {
    this.#losses = losses;
  }

  encode(system: readonly TextPart[], messages: readonly ChatMessage[]): Message[] {
    if (messages.at(-1)?.role === "assistant") this.#losses.add("messages.prefill");
    const preamble = system.length > 0 ? [this.#system({ role: "system", parts: system })] : [];
    return [...preamble, ...messages.flatMap((message) => this.#turn(message))];
  }

  #turn(message: ChatMessage): Message[] {
    switch (message.role) {
      case "system":
        return [this.#system(message)];
      case "user":
        return this.#user(message);
      case "assistant":
        return [this.#assistant(message)];
    }
  }

  #system({ name, parts }: ChatMessage): Message {
    const texts = parts.flatMap((part) => this.#content(part)).filter((part) => part.type === "text");
    return { role: "system", content: shortest(texts), ...(name !== undefined && { name }) };
  }

  /** The results of tools must follow their calls at once; what is no text in them follows in the user's own words. */
  #user({ name, parts }: ChatMessage): Message[] {
    const results: Message[] = [];
    const moved: WirePart[] = [];
    const said: WirePart[] = [];
    for (const part of parts) {
      if (part.type !== "tool-result") {
        for (const one of this.#content(part)) said.push(one);
        continue;
      }
      if (said.length > 0) this.#losses.add("messages.tool-result.order");
      results.push(this.#result(part, moved));
    }
    const content = [...moved, ...said];
    if (content.length === 0 && results.length > 0) return results;
    return [...results, { role: "user", content: shortest(content), ...(name !== undefined && { name }) }];
  }

  #result(part: ToolResultPart, moved: WirePart[]): Message {
    this.#mark(part);
    const texts: WireText[] = [];
    if (part.isError) {
      this.#losses.add("messages.tool-result.isError");
      texts.push(encodeText("The tool has failed."));
    }
    for (const inner of part.parts)
      for (const one of this.#content(inner)) {
        if (one.type === "text") texts.push(one);
        else {
          this.#losses.add("messages.tool-result.media");
          moved.push(one);
        }
      }
    return { role: "tool", tool_call_id: this.#id(part.callId), content: shortest(texts) };
  }

  #assistant({ name, parts }: ChatMessage): Message {
    const content: Exclude<AssistantMessage["content"], string | null | undefined> = [];
    const tool_calls: ToolCall[] = [];
    const say = (said: (typeof content)[number]): void => {
      if (tool_calls.length > 0) this.#losses.add("messages.tool-call.order");
      content.push(said);
    };
    for (const part of parts) {
      if (part.type === "tool-call") tool_calls.push(this.#call(part));
      else if (part.type === "refusal") say({ type: "refusal", refusal: part.text });
      else if (part.type === "provider" && part.dialect === DIALECT) tool_calls.push(part.value as ToolCall);
      else
        for (const one of this.#content(part)) {
          if (one.type === "text") say(one);
          else this.#losses.add(one.type === "file" ? "messages.document" : "messages.media");
        }
    }
    return {
      role: "assistant",
      ...((content.length > 0 || tool_calls.length === 0) && { content: shortest(content) }),
      ...(tool_calls.length > 0 && { tool_calls }),
      ...(name !== undefined && { name }),
    };
  }

  #call(part: ToolCallPart): ToolCall {
    this.#mark(part);
    const { id, name, input } = part;
    return { type: "function", id: this.#id(id), function: { name, arguments: JSON.stringify(input) } };
  }

  #mark(part: Part): void {
    for (const loss of marksOf(part)) this.#losses.add(loss);
  }

  /** What a part says in content; nothing for one that the format does not have. */
  #content(part: Part | JsonPart): WirePart[] {
    switch (part.type) {
      case "text":
      case "media":
      case "document":
        return encodePart(part, this.#losses);
      case "refusal":
        return [encodeText(part.text)];
      case "code":
        this.#mark(part);
        this.#losses.add(`messages.${part.type}`);
        return [encodeText(fenced(part.code, part.language))];
      case "code-result":
        this.#mark(part);
        this.#losses.add(`messages.${part.type}`);
        return [encodeText(fenced(part.output ?? "", ""))];
      case "json":
        this.#losses.add("messages.tool-result.json");
        return [encodeText(JSON.stringify(part.value))];
      // Calls and results have their own place in a message.
      case "tool-call":
      case "tool-result":
      case "reasoning":
      case "redacted-reasoning":
      case "provider":
        this.#losses.add(`messages.${part.type}`);
        return [];
    }
  }

  #id(id: string): string {
    if (!isShort(id)) this.#losses.add("messages.tool-call.id");
    return this.#ids.of(id);
  }
}

/** One text is written as such: not every server reads parts. */
function shortest<Kind extends { readonly type: string }>(parts: Kind[]): string | Kind[] {
  const [first] = parts;
  if (!first) return "";
  return parts.length === 1 && "text" in first && typeof first.text === "string" && first.text !== ""
    ? first.text
    : parts;
}
