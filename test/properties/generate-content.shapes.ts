/** Which fields of a generate-content request are the format's own (spec 2.8), for tests that spell them in either way. */

/** A value of the user's, an object of the format's, a list of such, or a map of such by the user's keys. */
export type Shape =
  | "value"
  | { readonly fields: Readonly<Record<string, () => Shape>> }
  | { readonly each: () => Shape }
  | { readonly named: () => Shape };

const values = (names: string): Record<string, () => Shape> =>
  Object.fromEntries(names.split(" ").map((name) => [name, () => "value"]));

const SCHEMA: Shape = {
  fields: {
    ...values("type format title description nullable enum example default pattern required propertyOrdering"),
    ...values("minimum maximum minItems maxItems minLength maxLength minProperties maxProperties"),
    items: () => SCHEMA,
    properties: () => ({ named: () => SCHEMA }),
    anyOf: () => ({ each: () => SCHEMA }),
  },
};

const DATA: Shape = { fields: values("mimeType data") };
const FILE: Shape = { fields: values("mimeType fileUri") };

const PART: Shape = {
  fields: {
    ...values("text thought thoughtSignature"),
    inlineData: () => DATA,
    fileData: () => FILE,
    functionCall: () => ({ fields: values("id name args") }),
    functionResponse: () => ({
      fields: {
        ...values("id name response"),
        parts: () => ({ each: () => ({ fields: { inlineData: () => DATA, fileData: () => FILE } }) }),
      },
    }),
    executableCode: () => ({ fields: values("id language code") }),
    codeExecutionResult: () => ({ fields: values("id outcome output") }),
  },
};

const CONTENT: Shape = { fields: { ...values("role"), parts: () => ({ each: () => PART }) } };

const TOOL: Shape = {
  fields: {
    ...values("codeExecution googleSearch urlContext"),
    functionDeclarations: () => ({
      each: () => ({ fields: { ...values("name description parametersJsonSchema"), parameters: () => SCHEMA } }),
    }),
  },
};

const VOICE: Shape = { fields: { prebuiltVoiceConfig: () => ({ fields: values("voiceName") }) } };

const SPEECH: Shape = {
  fields: {
    ...values("languageCode"),
    voiceConfig: () => VOICE,
    multiSpeakerVoiceConfig: () => ({
      fields: {
        speakerVoiceConfigs: () => ({ each: () => ({ fields: { ...values("speaker"), voiceConfig: () => VOICE } }) }),
      },
    }),
  },
};

const CONFIG: Shape = {
  fields: {
    ...values("stopSequences responseMimeType responseJsonSchema responseModalities candidateCount maxOutputTokens"),
    ...values("temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs"),
    ...values("enableEnhancedCivicAnswers mediaResolution"),
    responseSchema: () => SCHEMA,
    speechConfig: () => SPEECH,
    thinkingConfig: () => ({ fields: values("includeThoughts thinkingBudget") }),
  },
};

export const REQUEST: Shape = {
  fields: {
    contents: () => ({ each: () => CONTENT }),
    tools: () => ({ each: () => TOOL }),
    toolConfig: () => ({
      fields: { functionCallingConfig: () => ({ fields: values("mode allowedFunctionNames") }) },
    }),
    safetySettings: () => ({ each: () => ({ fields: values("category threshold") }) }),
    systemInstruction: () => CONTENT,
    generationConfig: () => CONFIG,
    ...values("cachedContent serviceTier"),
  },
};

export const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** How a field is written: under which names, for one of the format's own. */
export type Spell = (field: string) => readonly string[];

/** A value of a shape, with the format's own fields as they are spelled, and nothing else touched. */
export function respelled(value: unknown, shape: Shape, spell: Spell): unknown {
  if (shape === "value" || typeof value !== "object" || value === null) return value;
  if ("each" in shape) return Array.isArray(value) ? value.map((item) => respelled(item, shape.each(), spell)) : value;
  const entries = Object.entries(value).flatMap(([key, inner]): [string, unknown][] => {
    if ("named" in shape) return [[key, respelled(inner, shape.named(), spell)]];
    const field = Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
    if (!field) return [[key, inner]];
    return spell(key).map((written) => [written, respelled(inner, field(), spell)]);
  });
  return Object.fromEntries(entries);
}
