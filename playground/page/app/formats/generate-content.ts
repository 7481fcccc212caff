/** The generate-content format: `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`. */

import { postJson } from "../http/call.ts";
import { type JsonObject, listAt, member, objectAt, parsed, textAt } from "../json.ts";
import { toSource } from "../source.ts";
import type { AnswerBuilder } from "./answer.ts";
import { type ChatDraft, THINKING_TOKENS, WEATHER } from "./draft.ts";
import type { ChatFormat } from "./format.ts";

/** The key goes into a header: an address is written to logs. */
const KEY_HEADER = "x-goog-api-key";

const toolsOf = ({ tools, codeExecution }: ChatDraft): JsonObject[] => [
  ...(tools
    ? [
        {
          functionDeclarations: [
            { name: WEATHER.name, description: WEATHER.description, parametersJsonSchema: WEATHER.schema },
          ],
        },
      ]
    : []),
  ...(codeExecution ? [{ codeExecution: {} }] : []),
];

const configOf = ({ maxTokens, thinking, schema }: ChatDraft): JsonObject => ({
  maxOutputTokens: maxTokens,
  ...(thinking && { thinkingConfig: { includeThoughts: true, thinkingBudget: THINKING_TOKENS } }),
  ...(schema !== undefined && { responseMimeType: "application/json", responseJsonSchema: parsed(schema) }),
});

const contentsOf = ({ prompt }: ChatDraft): JsonObject[] => [{ role: "user", parts: [{ text: prompt }] }];

function encode(draft: ChatDraft): JsonObject {
  const tools = toolsOf(draft);
  return {
    ...(draft.system !== "" && { systemInstruction: { parts: [{ text: draft.system }] } }),
    generationConfig: configOf(draft),
    ...(tools.length > 0 && { tools }),
    contents: contentsOf(draft),
  };
}

const pathOf = ({ model, stream }: ChatDraft): string =>
  `/v1beta/models/${encodeURIComponent(model)}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`;

/** A chunk of a stream and a whole answer are of one shape. */
function read(answer: AnswerBuilder, chunk: JsonObject): void {
  if (member(chunk, "error")) return answer.fail(chunk);
  const [candidate] = listAt(chunk, "candidates");
  for (const part of listAt(objectAt(candidate, "content"), "parts")) readPart(answer, part);
  answer.stop(member(candidate, "finishReason") ?? member(objectAt(chunk, "promptFeedback"), "blockReason"));
  const usage = objectAt(chunk, "usageMetadata");
  answer.count("input", usage["promptTokenCount"]);
  answer.count("output", usage["candidatesTokenCount"]);
  answer.count("thinking", usage["thoughtsTokenCount"]);
  answer.count("read from tools", usage["toolUsePromptTokenCount"]);
}

function readPart(answer: AnswerBuilder, part: unknown): void {
  const text = textAt(part, "text");
  const call = member(part, "functionCall");
  const code = member(part, "executableCode");
  const result = member(part, "codeExecutionResult");
  if (text !== "") answer.append({ type: member(part, "thought") === true ? "thinking" : "text", text });
  if (call)
    answer.append({ type: "tool-call", name: textAt(call, "name"), text: JSON.stringify(objectAt(call, "args")) });
  if (code) answer.append({ type: "code", text: textAt(code, "code") });
  if (result)
    answer.append({ type: "code-result", outcome: textAt(result, "outcome"), text: textAt(result, "output") });
}

export const generateContent: ChatFormat = {
  id: "generate-content",
  name: "Generate content",
  sdk: "@google/genai",
  request: (draft, apiKey) => postJson(pathOf(draft), { [KEY_HEADER]: apiKey }, encode(draft)),
  leftOut: () => [],
  readEvent: read,
  readBody: read,
  sdkCode: (draft, { apiKey, baseUrl }) => {
    const tools = toolsOf(draft);
    const params = toSource({
      model: draft.model,
      contents: contentsOf(draft),
      config: {
        ...(draft.system !== "" && { systemInstruction: draft.system }),
        ...configOf(draft),
        ...(tools.length > 0 && { tools }),
      },
    });
    // `text` leaves out calls and code, so where these may come all parts are shown.
    const hasParts = draft.tools || draft.codeExecution;
    const show = (answer: string): string =>
      hasParts
        ? `console.log(${answer}.candidates?.[0]?.content?.parts)`
        : `process.stdout.write(${answer}.text ?? "")`;
    const ask = draft.stream
      ? `const stream = await ai.models.generateContentStream(${params});
for await (const chunk of stream) ${show("chunk")};`
      : `const answer = await ai.models.generateContent(${params});
${show("answer")};
console.log(answer.usageMetadata);`;
    return `import { GoogleGenAI } from "@google/genai";

const ai = new GoogleGenAI({ apiKey: ${apiKey}, httpOptions: { baseUrl: ${JSON.stringify(baseUrl)} } });
${ask}
`;
  },
};
