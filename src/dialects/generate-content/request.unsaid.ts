/** The fields of a generate-content request that the neutral request has no words for. */

import { Unsaid } from "../shared/unsaid.ts";
import type { GenerateContentRequest, Part } from "./schema.ts";

const BODY: ReadonlySet<string> = new Set([
  // The model stands in the address; some clients name it here too.
  "model",
  "contents",
  "tools",
  "toolConfig",
  "safetySettings",
  "systemInstruction",
  "generationConfig",
  "cachedContent",
]);
const CONFIG: ReadonlySet<string> = new Set([
  "stopSequences",
  "responseMimeType",
  "responseSchema",
  "responseJsonSchema",
  "responseModalities",
  "candidateCount",
  "maxOutputTokens",
  "temperature",
  "topP",
  "topK",
  "seed",
  "presencePenalty",
  "frequencyPenalty",
  "responseLogprobs",
  "logprobs",
  "enableEnhancedCivicAnswers",
  "speechConfig",
  "thinkingConfig",
  "mediaResolution",
]);
const THINKING: ReadonlySet<string> = new Set(["includeThoughts", "thinkingBudget", "thinkingLevel"]);
const TOOL_CONFIG: ReadonlySet<string> = new Set(["functionCallingConfig"]);
const CALLING: ReadonlySet<string> = new Set(["mode", "allowedFunctionNames"]);
const FUNCTION: ReadonlySet<string> = new Set(["name", "description", "parameters", "parametersJsonSchema"]);

const INSTRUCTION: ReadonlySet<string> = new Set(["text"]);
const CONTENT: ReadonlySet<string> = new Set(["role", "parts"]);
const PART: ReadonlySet<string> = new Set([
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  "thought",
  "thoughtSignature",
]);
/** What is in a part of a kind. */
const KINDS: readonly (readonly [kind: keyof Part, decoded: ReadonlySet<string>])[] = [
  ["inlineData", new Set(["mimeType", "data"])],
  ["fileData", new Set(["mimeType", "fileUri"])],
  ["functionCall", new Set(["id", "name", "args"])],
  ["functionResponse", new Set(["id", "name", "response", "parts"])],
  ["executableCode", new Set(["id", "language", "code"])],
  ["codeExecutionResult", new Set(["id", "outcome", "output"])],
];

function gatherPart(unsaid: Unsaid, part: Part): void {
  unsaid.within(part, PART, "contents.parts");
  for (const [kind, decoded] of KINDS)
    if (part[kind] != null) unsaid.within(part[kind], decoded, "contents.parts", kind);
}

export function unsaidOf(body: GenerateContentRequest): ReturnType<Unsaid["told"]> {
  const unsaid = new Unsaid();
  const { generationConfig, toolConfig, tools } = body;
  unsaid.within(body, BODY);
  unsaid.within(generationConfig, CONFIG, "generationConfig");
  unsaid.within(generationConfig?.thinkingConfig, THINKING, "generationConfig.thinkingConfig");
  unsaid.within(toolConfig, TOOL_CONFIG, "toolConfig");
  unsaid.within(toolConfig?.functionCallingConfig, CALLING, "toolConfig.functionCallingConfig");
  for (const { functionDeclarations } of tools ?? [])
    for (const declaration of functionDeclarations ?? [])
      unsaid.within(declaration, FUNCTION, "tools.functionDeclarations");
  const { systemInstruction } = body;
  if (systemInstruction != null && typeof systemInstruction !== "string")
    for (const part of systemInstruction.parts) unsaid.within(part, INSTRUCTION, "systemInstruction.parts");
  for (const content of typeof body.contents === "string" ? [] : body.contents) {
    if (typeof content === "string") continue;
    unsaid.within(content, CONTENT, "contents");
    for (const part of content.parts) gatherPart(unsaid, part);
  }
  return unsaid.told();
}
