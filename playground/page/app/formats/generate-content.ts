/** The generate-content format: `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`. */

import { postJson } from "../http/call.ts";
import { type JsonObject, listAt, member, objectAt, parsed, textAt } from "../json.ts";
import { toSource } from "../source.ts";
import type { Answer, AnswerBuilder } from "./answer.ts";
import { type ChatDraft, thinkingTokens, turnsOf, WEATHER } from "./draft.ts";
import type { ChatFormat } from "./format.ts";

/** Sends the key in a header, because addresses appear in logs. */
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

const configOf = ({ maxTokens, temperature, thinking, schema }: ChatDraft): JsonObject => ({
  maxOutputTokens: maxTokens,
  ...(temperature !== undefined && { temperature }),
  ...(thinking && {
    thinkingConfig: { includeThoughts: true, thinkingBudget: thinkingTokens(thinking, maxTokens) },
  }),
  ...(schema !== undefined && { responseMimeType: "application/json", responseJsonSchema: parsed(schema) }),
});

const contentsOf = (draft: ChatDraft): JsonObject[] =>
  turnsOf(draft).flatMap(({ prompt, results, answer }) => {
    const responses = results.map(({ id, name, text }) => ({
      functionResponse: { ...(id !== "" && { id }), name, response: { result: text } },
    }));
    const parts = [...responses, ...(prompt === "" ? [] : [{ text: prompt }])];
    return [{ role: "user", parts }, ...(answer ? [{ role: "model", parts: answer.blocks.map(encodeBlock) }] : [])];
  });

function encodeBlock({ text, seal, ...block }: Answer["blocks"][number]): JsonObject {
  const signed = seal === undefined ? {} : { thoughtSignature: seal };
  switch (block.type) {
    case "text":
      return { text, ...signed };
    case "thinking":
      return { text, thought: true, ...signed };
    case "tool-call": {
      const { id, name } = block;
      return { functionCall: { ...(id !== "" && { id }), name, args: parsed(text) ?? {} }, ...signed };
    }
    case "code":
      return { executableCode: { language: "PYTHON", code: text }, ...signed };
    default:
      return { codeExecutionResult: { outcome: block.outcome, output: text }, ...signed };
  }
}

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

/** Reads a chunk of a stream or a complete answer: both have the same shape. */
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
  const seal = member(part, "thoughtSignature");
  const call = member(part, "functionCall");
  const code = member(part, "executableCode");
  const result = member(part, "codeExecutionResult");
  if (call) {
    const args = JSON.stringify(objectAt(call, "args"));
    answer.append({ type: "tool-call", id: textAt(call, "id"), name: textAt(call, "name"), text: args, seal });
  } else if (code) answer.append({ type: "code", text: textAt(code, "code"), seal });
  else if (result)
    answer.append({ type: "code-result", outcome: textAt(result, "outcome"), text: textAt(result, "output"), seal });
  else if (text !== "" || seal !== undefined)
    answer.append({ type: member(part, "thought") === true ? "thinking" : "text", text, seal });
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
    // `text` omits calls and code, so show all parts if the answer may contain these.
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
