/** The requests of a coding agent in each chat format: its tools, and turns of text, tool calls and their results. */

export const CHAT_FORMATS = ["messages", "chat-completions", "generate-content", "responses"] as const;
export type ChatFormat = (typeof CHAT_FORMATS)[number];

export interface AgentBody {
  /** The size of the request's body, in kilobytes. */
  readonly kilobytes: number;
  readonly isStreamed: boolean;
  /** The frames of the answer. The request says them in the model's name, because the upstream parses nothing. */
  readonly frames: number;
  /** True for an answer that stays open behind its first frames. */
  readonly isHeld?: boolean;
}

/** The tools and turns of a body of 100 KB and more. A smaller body has a tenth, as an agent's first request; 1 KB is a turn without tools. */
const TOOLS = 60;
const TURNS = 100;

/** A turn of the agent: text, and each other time a tool call with its result. */
interface Turn {
  readonly user: string;
  readonly text: string;
  readonly call: { readonly id: string; readonly name: string; readonly args: object; readonly result: string };
}

const WORDS =
  "the function reads a file and returns its lines so that const value = await store.get(key); if (!value) throw new Error(`no ${key}`); ".split(
    " ",
  );

/** Makes a text like code and prose of about this many characters. No two are equal. */
function textOf(seed: number, chars: number): string {
  let text = "";
  for (let index = seed; text.length < chars; index += 7)
    text += `${WORDS[index % WORDS.length]} ${index % 5 ? "" : "\n"}`;
  return text.slice(0, chars);
}

const parametersOf = (index: number): object => ({
  type: "object",
  properties: {
    path: { type: "string", description: textOf(index, 80) },
    range: { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 2 },
    mode: { type: "string", enum: ["read", "write", "append"], description: textOf(index + 3, 60) },
  },
  required: ["path"],
});

interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
}

const toolOf = (index: number): Tool => ({
  name: `tool_${index}`,
  description: textOf(index + 1, 240),
  parameters: parametersOf(index),
});

const turnOf = (index: number, chars: number): Turn => ({
  user: textOf(index, Math.floor(chars * 0.2)),
  text: textOf(index + 2, Math.floor(chars * 0.2)),
  call: {
    id: `call_${String(index).padStart(24, "0")}`,
    name: `tool_${index % 6}`,
    args: { path: `src/file-${index}.ts`, range: [index, index + 40] },
    result: textOf(index + 4, Math.floor(chars * 0.6)),
  },
});

const SYSTEM = textOf(1, 500);

/** The model's name, from which the upstream reads what to answer. */
const modelOf = ({ frames, isStreamed, isHeld }: AgentBody): string =>
  `bench-${frames}-${isHeld ? "held" : isStreamed ? "streamed" : "complete"}`;

/**
 * Returns the request of an agent as the official clients write it. Its size is right to a few percent.
 *
 * @param conversation The number of the conversation. Conversations share tools and instructions, and no turn.
 * @param missing The last turns that have not happened yet.
 */
export function agentRequest(format: ChatFormat, body: AgentBody, conversation = 0, missing = 0): string {
  const part = body.kilobytes < 5 ? 0 : body.kilobytes < 50 ? 0.1 : 1;
  const turns = Math.max(1, TURNS * part);
  const tools = Array.from({ length: TOOLS * part }, (_, index) => toolOf(index));
  const write = (count: number, chars: number): string => {
    const each = Array.from({ length: count }, (_, index) => turnOf(conversation * TURNS + index, chars));
    return JSON.stringify(WRITERS[format](body, tools, each));
  };
  // The turns fill what the tools and the structure leave.
  const bare = write(turns, 0).length;
  const each = Math.floor((body.kilobytes * 1000 - bare) / turns);
  return write(Math.max(1, turns - missing), Math.max(20, each));
}

type Writer = (body: AgentBody, tools: readonly Tool[], turns: readonly Turn[]) => object;

const WRITERS: Readonly<Record<ChatFormat, Writer>> = {
  messages: (body, tools, turns) => ({
    model: modelOf(body),
    max_tokens: 8_192,
    stream: body.isStreamed,
    system: [{ type: "text", text: SYSTEM, cache_control: { type: "ephemeral" } }],
    tools: tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
    messages: turns.flatMap(({ user, text, call: { id, name, args, result } }) => [
      { role: "user", content: user },
      {
        role: "assistant",
        content: [
          { type: "text", text },
          { type: "tool_use", id, name, input: args },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: result }] },
    ]),
  }),
  "chat-completions": (body, tools, turns) => ({
    model: modelOf(body),
    max_completion_tokens: 8_192,
    stream: body.isStreamed,
    ...(body.isStreamed && { stream_options: { include_usage: true } }),
    tools: tools.map((tool) => ({ type: "function", function: tool })),
    messages: [
      { role: "system", content: SYSTEM },
      ...turns.flatMap(({ user, text, call: { id, name, args, result } }) => [
        { role: "user", content: user },
        {
          role: "assistant",
          content: text,
          tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
        },
        { role: "tool", tool_call_id: id, content: result },
      ]),
      { role: "user", content: "Go on." },
    ],
  }),
  "generate-content": (_, tools, turns) => ({
    systemInstruction: { parts: [{ text: SYSTEM }] },
    generationConfig: { maxOutputTokens: 8_192 },
    tools: [
      {
        functionDeclarations: tools.map(({ parameters, ...tool }) => ({ ...tool, parametersJsonSchema: parameters })),
      },
    ],
    contents: turns.flatMap(({ user, text, call: { id, name, args, result } }) => [
      { role: "user", parts: [{ text: user }] },
      { role: "model", parts: [{ text }, { functionCall: { id, name, args } }] },
      { role: "user", parts: [{ functionResponse: { id, name, response: { output: result } } }] },
    ]),
  }),
  responses: (body, tools, turns) => ({
    model: modelOf(body),
    max_output_tokens: 8_192,
    stream: body.isStreamed,
    store: false,
    instructions: SYSTEM,
    tools: tools.map((tool) => ({ type: "function", ...tool, strict: false })),
    input: [
      ...turns.flatMap(({ user, text, call: { id, name, args, result } }) => [
        { role: "user", content: [{ type: "input_text", text: user }] },
        { role: "assistant", content: [{ type: "output_text", text }] },
        { type: "function_call", call_id: id, name, arguments: JSON.stringify(args) },
        { type: "function_call_output", call_id: id, output: result },
      ]),
      { role: "user", content: [{ type: "input_text", text: "Go on." }] },
    ],
  }),
};

export const pathOf = (format: ChatFormat, body: AgentBody): string => PATHS[format](body);

const PATHS: Readonly<Record<ChatFormat, (body: AgentBody) => string>> = {
  messages: () => "/v1/messages",
  "chat-completions": () => "/v1/chat/completions",
  "generate-content": (body) =>
    `/v1beta/models/${modelOf(body)}:${body.isStreamed ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  responses: () => "/v1/responses",
};
