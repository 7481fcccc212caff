/** A plain request in each chat format, and the text of an answer in it. */

export type Json = Record<string, unknown>;

type Asked = { readonly path: string; readonly request: Json };
export type ChatFormat = "messages" | "generate-content" | "chat-completions" | "responses";

/** A request of each format, streamed or not, with a tool where one is named. */
export const CALLERS: Readonly<Record<ChatFormat, (stream: boolean, question?: string, tool?: string) => Asked>> = {
  messages: (stream, question, tool) => ({
    path: "/v1/messages",
    request: {
      model: "m",
      max_tokens: 20_000,
      stream,
      messages: turns(question),
      ...tools(tool, (name) => ({ name, input_schema: SCHEMA })),
    },
  }),
  "generate-content": (stream, question = QUESTION, tool) => ({
    path: `/v1beta/models/m:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    request: {
      contents: [{ role: "user", parts: [{ text: question }] }],
      ...tools(tool, (name) => ({ functionDeclarations: [{ name, parameters: SCHEMA }] })),
    },
  }),
  "chat-completions": (stream, question, tool) => ({
    path: "/v1/chat/completions",
    request: {
      model: "m",
      stream,
      messages: turns(question),
      ...tools(tool, (name) => ({ type: "function", function: { name, parameters: SCHEMA } })),
    },
  }),
  responses: (stream, question, tool) => ({
    path: "/v1/responses",
    request: {
      model: "m",
      stream,
      input: turns(question),
      ...tools(tool, (name) => ({ type: "function", name, parameters: SCHEMA })),
    },
  }),
};

const QUESTION = "Please answer.";
const SCHEMA = { type: "object", properties: { city: { type: "string" } } };
const turns = (content = QUESTION): object[] => [{ role: "user", content }];
const tools = (name: string | undefined, tool: (name: string) => object): object =>
  name ? { tools: [tool(name)] } : {};

/** Returns the JSON of the frames of a stream, without keep-alives and the end mark. */
export const eventsOf = (stream: string): Json[] =>
  stream
    .split(/\r?\n/)
    .filter((line) => line.startsWith("data:") && line.trim() !== "data: [DONE]")
    .map((line) => JSON.parse(line.slice(5)) as Json)
    .filter((event) => event["type"] !== "ping");

/** Returns the text that an answer shows: no reasoning and no tool calls. */
export function textOf(format: string, answer: string, stream: boolean): string {
  const values = stream ? eventsOf(answer) : [JSON.parse(answer) as Json];
  return values.map((value) => TEXTS[format as ChatFormat](value, stream)).join("");
}

/** The shapes of the four formats, as far as their text needs them. */
interface Shown {
  readonly type?: string;
  readonly text?: string;
  readonly thought?: boolean;
  readonly content?: readonly Shown[] | { readonly parts?: readonly Shown[] } | string | null;
  readonly delta?: Shown | string;
  readonly index?: number;
  readonly message?: Shown;
  readonly output?: readonly Shown[];
  readonly candidates?: readonly Shown[];
  readonly choices?: readonly Shown[];
}

const join = (parts: readonly (string | undefined)[]): string => parts.join("");
const listOf = (value: unknown): readonly Shown[] => (Array.isArray(value) ? (value as readonly Shown[]) : []);

const TEXTS: Readonly<Record<ChatFormat, (value: Shown, stream: boolean) => string>> = {
  messages: (value, stream) =>
    stream
      ? typeof value.delta === "object" && value.delta.type === "text_delta"
        ? (value.delta.text ?? "")
        : ""
      : join(listOf(value.content).map(({ type, text }) => (type === "text" ? text : ""))),
  "generate-content": (value) =>
    join(
      listOf(value.candidates)
        .slice(0, 1)
        .flatMap(({ content }) =>
          typeof content === "object" && content && "parts" in content
            ? listOf(content.parts).map(({ text, thought }) => (thought ? "" : text))
            : [],
        ),
    ),
  "chat-completions": (value, stream) =>
    join(
      listOf(value.choices)
        .filter(({ index = 0 }) => index === 0)
        .map((choice) => {
          const part = stream ? choice.delta : choice.message;
          return typeof part === "object" && typeof part.content === "string" ? part.content : "";
        }),
    ),
  responses: (value, stream) =>
    stream
      ? value.type === "response.output_text.delta" && typeof value.delta === "string"
        ? value.delta
        : ""
      : join(
          listOf(value.output).flatMap(({ type, content }) =>
            type === "message" ? listOf(content).map((part) => (part.type === "output_text" ? part.text : "")) : [],
          ),
        ),
};
