/** The rules of the generate-content format for a request, as its vendor documents them. */

import * as v from "valibot";
import type { JsonObject } from "../../src/model/json.ts";
import { type Call, callFact, canonical, type Heard, resultFact, textFact, userFact } from "./script.ts";
import { breachOf, type Received, Refused, type Vault } from "./strict.ts";

const json = v.record(v.string(), v.unknown());
const strings = v.optional(v.array(v.string()));
const optionalText = v.optional(v.string());
const optionalNumber = v.optional(v.number());

const part = v.strictObject({
  text: optionalText,
  thought: v.optional(v.boolean()),
  thoughtSignature: optionalText,
  functionCall: v.optional(v.strictObject({ id: optionalText, name: v.string(), args: v.optional(json) })),
  functionResponse: v.optional(
    v.strictObject({
      id: optionalText,
      name: v.string(),
      response: json,
      parts: v.optional(v.array(json)),
      willContinue: v.optional(v.boolean()),
      scheduling: optionalText,
    }),
  ),
  inlineData: v.optional(v.strictObject({ mimeType: v.string(), data: v.string(), displayName: optionalText })),
  fileData: v.optional(v.strictObject({ mimeType: optionalText, fileUri: v.string(), displayName: optionalText })),
  executableCode: v.optional(json),
  codeExecutionResult: v.optional(json),
  videoMetadata: v.optional(json),
  mediaResolution: v.optional(json),
});
type Part = v.InferOutput<typeof part>;
const content = v.strictObject({ role: v.optional(v.string()), parts: v.array(part) });
const declaration = v.strictObject({
  name: v.pipe(v.string(), v.regex(/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/)),
  description: optionalText,
  behavior: optionalText,
  parameters: v.optional(json),
  parametersJsonSchema: v.optional(v.unknown()),
  response: v.optional(json),
  responseJsonSchema: v.optional(v.unknown()),
});
const generationConfig = v.strictObject({
  stopSequences: strings,
  responseMimeType: optionalText,
  responseSchema: v.optional(json),
  responseJsonSchema: v.optional(v.unknown()),
  responseModalities: strings,
  candidateCount: optionalNumber,
  maxOutputTokens: optionalNumber,
  temperature: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(2))),
  topP: optionalNumber,
  topK: optionalNumber,
  seed: optionalNumber,
  presencePenalty: optionalNumber,
  frequencyPenalty: optionalNumber,
  responseLogprobs: v.optional(v.boolean()),
  logprobs: optionalNumber,
  enableEnhancedCivicAnswers: v.optional(v.boolean()),
  speechConfig: v.optional(json),
  imageConfig: v.optional(json),
  mediaResolution: optionalText,
  thinkingConfig: v.optional(
    v.strictObject({
      includeThoughts: v.optional(v.boolean()),
      thinkingBudget: v.optional(v.pipe(v.number(), v.integer())),
      thinkingLevel: v.optional(v.picklist(["MINIMAL", "LOW", "MEDIUM", "HIGH", "minimal", "low", "medium", "high"])),
    }),
  ),
});
const request = v.strictObject({
  contents: v.array(content),
  systemInstruction: v.optional(content),
  tools: v.optional(
    v.array(
      v.strictObject({
        functionDeclarations: v.optional(v.array(declaration)),
        googleSearch: v.optional(json),
        urlContext: v.optional(json),
        codeExecution: v.optional(json),
      }),
    ),
  ),
  toolConfig: v.optional(
    v.strictObject({
      functionCallingConfig: v.optional(
        v.strictObject({
          mode: v.optional(v.picklist(["AUTO", "ANY", "NONE", "VALIDATED"])),
          allowedFunctionNames: strings,
        }),
      ),
      retrievalConfig: v.optional(json),
    }),
  ),
  safetySettings: v.optional(v.array(json)),
  generationConfig: v.optional(generationConfig),
  cachedContent: optionalText,
  serviceTier: optionalText,
});
type Request = v.InferOutput<typeof request>;

/** The texts that the vendor documents for a call that another model has made. */
const SKIPS: ReadonlySet<string> = new Set([
  "skip_thought_signature_validator",
  "context_engineering_is_the_way_to_go",
]);

/** True for models that demand the signatures of their calls. */
export const demandsSignatures = (model: string): boolean => /gemini-[3-9]/.test(model);

const DATA = [
  "text",
  "functionCall",
  "functionResponse",
  "inlineData",
  "fileData",
  "executableCode",
  "codeExecutionResult",
] as const satisfies readonly (keyof Part)[];

interface Turn {
  readonly role: "user" | "model";
  readonly parts: Part[];
}

export function validateGenerateContent({ model, body }: Received, vault: Vault): Heard {
  const breach = breachOf(request, body);
  if (breach) {
    const at = breach.path.slice(0, -1).join(".");
    const name = breach.path.at(-1);
    throw new Refused(
      breach.kind === "extra"
        ? `Invalid JSON payload received. Unknown name "${name}" at '${at}': Cannot find field.`
        : `Invalid value at '${at}.${name}': ${breach.expected}`,
    );
  }
  const valid = body as Request & JsonObject;
  checkThinking(model, valid.generationConfig?.thinkingConfig);
  checkForm(model, valid);
  const turns = mergedTurns(valid.contents);
  for (const [index, { parts }] of turns.entries()) checkParts(parts, index);
  checkTurns(turns);
  for (const { role, parts } of turns) checkSignatures(parts, role, vault);
  if (demandsSignatures(model)) checkCurrentTurn(turns);
  return heardOf(valid, turns);
}

/** Before Gemini 3, no form of the answer stands beside tools; later none beside a forced one. */
function checkForm(model: string, { generationConfig, tools, toolConfig }: Request & JsonObject): void {
  const mime = generationConfig?.responseMimeType;
  if (mime === undefined || mime === "text/plain" || !tools?.length) return;
  const isForced = JSON.stringify(toolConfig ?? {}).includes('"ANY"');
  if (/gemini-[12]/.test(model) || isForced)
    throw new Refused(`Function calling with a response mime type: '${mime}' is unsupported`);
}

/** Returns the content that the signature of a call stands for. */
export const sealedCall = ({ name, args }: Call): string => `${name} ${canonical(args)}`;

type ThinkingConfig = NonNullable<Request["generationConfig"]>["thinkingConfig"];

function checkThinking(model: string, config: ThinkingConfig): void {
  const { thinkingBudget: budget, thinkingLevel: level } = config ?? {};
  if (budget !== undefined && level !== undefined)
    throw new Refused("You can only set only one of thinking budget and thinking level.");
  if (level !== undefined && !demandsSignatures(model))
    throw new Refused("Thinking level is not supported for this model.");
  if (level !== undefined && /pro/.test(model) && level.toLowerCase() === "minimal")
    throw new Refused("Thinking level MINIMAL is not supported for this model.");
  if (budget === undefined || budget === -1) return;
  if (budget === 0 && model.includes("pro"))
    throw new Refused("Budget 0 is invalid. This model only works in thinking mode.");
  if (budget < (model.includes("pro") ? 128 : 0) || budget > 32_768)
    throw new Refused(`The thinking budget ${budget} is invalid. Please choose a value between 128 and 32768.`);
}

/** Joins contents of one role: the official client sends the chunks of a streamed answer one by one. */
function mergedTurns(contents: Request["contents"]): Turn[] {
  if (contents.length === 0) throw new Refused("* GenerateContentRequest.contents: contents is not specified");
  const turns: Turn[] = [];
  for (const [index, { role = "user", parts }] of contents.entries()) {
    if (role !== "user" && role !== "model" && role !== "function")
      throw new Refused("Please use a valid role: user, model.");
    if (parts.length === 0)
      throw new Refused(`* GenerateContentRequest.contents[${index}].parts: contents.parts must not be empty.`);
    const speaker = role === "model" ? "model" : "user";
    const last = turns.at(-1);
    if (last?.role === speaker) last.parts.push(...parts);
    else turns.push({ role: speaker, parts: [...parts] });
  }
  return turns;
}

function checkParts(parts: readonly Part[], turn: number): void {
  // The vendor's own streams end with an empty text, which clients send back beside the rest.
  if (parts.every(({ text, thoughtSignature }) => text === "" && thoughtSignature === undefined))
    throw new Refused("Unable to submit request because it must have a text parameter.");
  for (const [index, part] of parts.entries()) {
    const set = DATA.filter((name) => part[name] !== undefined);
    if (set.length === 0)
      throw new Refused(
        `* GenerateContentRequest.contents[${turn}].parts[${index}].data: required oneof field 'data' must have one initialized field`,
      );
    if (set.length > 1)
      throw new Refused(
        `Invalid value at 'contents[${turn}].parts[${index}]' (oneof), oneof field 'data' is already set.`,
      );
  }
}

/** The order of roles, and calls with their answers. */
function checkTurns(turns: readonly Turn[]): void {
  if (turns[0]?.role !== "user" || turns[0].parts.some(({ functionResponse }) => functionResponse))
    throw new Refused(
      "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    );
  if (turns.at(-1)?.role !== "user")
    throw new Refused("Please ensure that single turn requests end with a user role or the role field is empty.");
  let calls: NonNullable<Part["functionCall"]>[] = [];
  for (const { role, parts } of turns) {
    const answers = parts.flatMap(({ functionResponse }) => functionResponse ?? []);
    if (role === "model" && answers.length > 0) throw new Refused("A function response must not come from the model.");
    if (role === "user") {
      if (parts.some(({ functionCall }) => functionCall))
        throw new Refused("A function call must come from the model.");
      if (answers.length !== calls.length)
        throw new Refused(
          "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        );
      for (const [index, { name, id }] of answers.entries()) {
        const call = calls[index];
        if (call?.name !== name)
          throw new Refused(
            `The function response ${name} does not answer the function call ${call?.name} at its place.`,
          );
        if (id !== undefined && id !== call.id)
          throw new Refused(`The function response ${name} has the id ${id}, and its function call ${call.id}.`);
      }
      if (
        parts.findIndex(({ functionResponse }) => !functionResponse) >= 0 &&
        !parts.slice(0, answers.length).every(({ functionResponse }) => functionResponse)
      )
        throw new Refused("Please ensure that function response turn comes immediately after a function call turn.");
    }
    calls = role === "model" ? parts.flatMap(({ functionCall }) => functionCall ?? []) : [];
  }
}

/** Each signature is one that this server has made for this part, or stands for none where the vendor allows that. */
function checkSignatures(parts: readonly Part[], role: Turn["role"], vault: Vault): void {
  for (const { text, functionCall, thoughtSignature: signature } of parts) {
    if (signature === undefined) continue;
    if (role === "user") throw new Refused("Thought signatures belong into turns of the model.");
    const call = functionCall && { name: functionCall.name, args: (functionCall.args ?? {}) as JsonObject };
    if (call && SKIPS.has(signature)) {
      if (vault.made.size > 0 && [...vault.made].some((made) => vault.holds("call", sealedCall(call), made)))
        throw new Refused(`The thought signature of ${call.name} was made here and did not come back.`);
    } else if (!vault.holds(call ? "call" : "text", call ? sealedCall(call) : "", signature))
      throw new Refused(`Corrupted thought signature on ${call?.name ?? JSON.stringify(text)}.`);
  }
}

/** The first call of each answer since the last text of the user has its signature. */
function checkCurrentTurn(turns: readonly Turn[]): void {
  const begin = beginOfTurn(turns);
  for (const [index, { role, parts }] of turns.entries()) {
    if (role !== "model" || index < begin) continue;
    const position = parts.findIndex(({ functionCall }) => functionCall);
    const first = parts[position];
    if (first?.functionCall && !first.thoughtSignature)
      throw new Refused(
        `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${first.functionCall.name}\` , position ${position + 1}.`,
      );
  }
}

const beginOfTurn = (turns: readonly Turn[]): number =>
  turns.findLastIndex(({ role, parts }) => role === "user" && parts.some(({ functionResponse }) => !functionResponse));

function heardOf({ tools = [], generationConfig }: Request, turns: readonly Turn[]): Heard {
  const facts: string[] = [];
  let calls: Call[] = [];
  for (const { role, parts } of turns) {
    const texts = parts.flatMap(({ text, thought }) => (thought ? [] : (text ?? [])));
    // A streamed text comes back in the pieces that it came in.
    if (texts.join("") !== "") facts.push((role === "user" ? userFact : textFact)(texts.join("")));
    const answers = parts.flatMap(({ functionResponse }) => functionResponse ?? []);
    for (const [index, call] of calls.entries()) facts.push(resultFact(call, answers[index]?.response));
    calls = parts.flatMap(({ functionCall: call }) =>
      call ? { name: call.name, args: (call.args ?? {}) as JsonObject } : [],
    );
    facts.push(...calls.map(callFact));
  }
  const answers = (from: number): number => turns.slice(from).filter(({ role }) => role === "model").length;
  return {
    facts,
    steps: answers(0),
    stepsOfTurn: answers(Math.max(0, beginOfTurn(turns))),
    tools: tools
      .flatMap(({ functionDeclarations = [] }) => functionDeclarations)
      .map(({ name, parameters, parametersJsonSchema }) => ({ name, schema: parametersJsonSchema ?? parameters })),
    schema: generationConfig?.responseJsonSchema ?? generationConfig?.responseSchema,
  };
}
