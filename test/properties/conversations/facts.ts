/** What a request says, fact by fact: each is found again on the other side of a map, or a conversion has told of it. */

import type { ConvertedField } from "../../../src/formats/shared/conversions.ts";
import type {
  ChatRequest,
  DocumentPart,
  MediaPart,
  MediaSource,
  Part,
  ToolChoice,
  ToolResultPart,
} from "../../../src/index.ts";

export interface Fact {
  /** What is said, as a text that is equal where the same is said. */
  readonly key: string;
  /** The conversions that account for its loss: those fields of the tables that it is told under. */
  readonly fields: readonly Field[];
  /** What must still stand in the other format's body where the conversion is no worse than approximated. */
  readonly words?: string;
  /** Whether its place among the others matters. */
  readonly ordered?: true;
  /** The signature or the encrypted reasoning that the fact is about. No other maker may get it. */
  readonly seal?: { readonly value: string; readonly maker: string | undefined };
}

type Field = ConvertedField | `native.${string}`;

/** Objects are the same in whatever order their keys are. */
function json(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(json).join(",")}]`;
  let text = "{";
  for (const key of Object.keys(value).toSorted()) {
    const inner: unknown = Reflect.get(value, key);
    if (inner !== undefined) text += `${JSON.stringify(key)}:${json(inner)},`;
  }
  return `${text}}`;
}

const fact = (key: string, fields: readonly Field[] = [], words?: string): Fact => ({
  key,
  fields,
  ...(words !== undefined && { words }),
});

const PLAIN = [
  "model",
  "maxOutputTokens",
  "limitedByDefault",
  "maxAnswerTokens",
  "temperature",
  "topK",
  "seed",
  "presencePenalty",
  "frequencyPenalty",
  "logprobs",
  "mediaResolution",
  "cachedContent",
  "enhancedCivicAnswers",
  "serviceTier",
  "endUser",
] as const satisfies (keyof ChatRequest & Field)[];

/** The names of one tier in several formats. */
const STANDARD: ReadonlyMap<unknown, string> = new Map([
  ["standard", "default"],
  ["standard_only", "default"],
]);

/** Everything that a request says. */
export function* factsOf(request: ChatRequest): Generator<Fact> {
  yield fact(`stream ${request.stream}`);
  for (const path of request.native?.unsupported?.() ?? []) yield fact(`own field ${path}`, [`native.${path}`]);
  for (const field of PLAIN)
    if (request[field] !== undefined)
      yield fact(`${field} ${json(STANDARD.get(request[field]) ?? request[field])}`, [field]);
  // All that is likely at all is no limit.
  if ((request.topP ?? 1) < 1) yield fact(`topP ${request.topP}`, ["topP"]);
  if ((request.candidateCount ?? 1) > 1) yield fact(`candidates ${request.candidateCount}`, ["candidateCount"]);
  for (const stop of request.stopSequences) yield fact(`stop ${stop}`, ["stopSequences"]);
  for (const one of request.modalities ?? []) if (one !== "text") yield fact(`modality ${one}`, ["modalities"]);
  for (const [key, value] of Object.entries(request.speech ?? {}))
    yield fact(`speech ${key} ${json(value)}`, ["speech"]);
  for (const setting of request.safety ?? []) yield fact(`safety ${json(setting)}`, ["safety"]);
  yield* reasoningFacts(request);
  yield* formatFacts(request);
  yield* toolFacts(request);
  for (const part of request.system) yield* partFacts("instruction", part, Number);
  yield* messageFacts(request);
}

function* reasoningFacts({ reasoning }: ChatRequest): Generator<Fact> {
  if (!reasoning) return;
  // To switch reasoning off is to ask for no effort. Some models have only a lowest one.
  if (reasoning.type === "disabled") return yield fact("reasoning disabled", ["reasoning", "reasoning.effort"]);
  yield fact(`reasoning ${reasoning.type}`, ["reasoning", "reasoning.budgetTokens", "reasoning.adaptive"]);
  if (reasoning.visible === false) yield fact("reasoning hidden", ["reasoning.visible"]);
  if (reasoning.type === "enabled")
    yield fact(`reasoning budget ${reasoning.budgetTokens}`, ["reasoning.budgetTokens", "reasoning"]);
  else if (reasoning.effort) yield fact(`reasoning effort ${reasoning.effort}`, ["reasoning.effort", "reasoning"]);
}

function* formatFacts({ responseFormat: format }: ChatRequest): Generator<Fact> {
  if (!format) return;
  if (format.type === "enum") {
    yield fact("answer one of", ["responseFormat.enum"]);
    for (const value of format.values) yield fact(`answer ${value}`, ["responseFormat.enum"], value);
    return;
  }
  yield fact("answer in JSON", ["responseFormat"]);
  if (format.schema) yield fact(`answer schema ${json(format.schema)}`, ["responseFormat", "responseFormat.schema"]);
  if (format.name !== undefined) yield fact(`answer name ${format.name}`, ["responseFormat.name"]);
  if (format.strict !== undefined)
    yield fact(`answer strict ${format.strict}`, ["responseFormat", "responseFormat.strict"]);
}

function* toolFacts({ tools, toolChoice }: ChatRequest): Generator<Fact> {
  for (const tool of tools) {
    const kind: Field = `tools.${tool.type}`;
    if (tool.type === "code-execution") yield fact("tool for code", [kind]);
    else if (tool.type === "provider")
      yield fact(`tool ${json(tool.definition)}`, [kind, "tools.hosted", "tools.web-search", "toolChoice.names"]);
    else {
      const { name, description, inputSchema, strict, cache, custom } = tool;
      // Arguments are an object, also where their schema does not say so.
      const schema = json({ ...inputSchema, type: "object" });
      yield fact(`tool ${name} ${description} ${schema}`, [kind, "tools.function.schema", "toolChoice.names"]);
      if (strict !== undefined) yield fact(`tool ${name} ${strict}`, ["tools.function.strict", "toolChoice.names"]);
      const grammar = custom?.format;
      if (grammar) yield fact(`tool ${name} follows ${json(grammar)}`, ["tools.function.custom", "toolChoice.names"]);
      if (cache) yield fact(`tool ${name} cache ${json(cache)}`, ["messages.cache", "toolChoice.names"]);
    }
  }
  const choice = toolChoice && plainest(toolChoice);
  if (!choice || (tools.length === 0 && isFree(choice))) return;
  const lost: readonly Field[] = [
    "toolChoice",
    "toolChoice.unmet",
    "toolChoice.names",
    "tools.provider",
    "tools.web-search",
    "tools.code-execution",
  ];
  yield fact(`choice ${choice.type}`, lost);
  if (choice.type === "none") return;
  if (!choice.parallel) yield fact("choice one call", [...lost, "toolChoice.parallel"]);
  if (choice.type === "tool") yield fact(`choice of ${choice.name}`, lost);
  else for (const name of choice.names ?? []) yield fact(`choice among ${name}`, lost);
}

/** One of a single tool is that tool. */
function plainest(choice: ToolChoice): ToolChoice {
  const [only, ...others] = (choice.type === "required" && choice.names) || [];
  return only === undefined || others.length > 0 || choice.type === "none"
    ? choice
    : { type: "tool", name: only, parallel: choice.parallel };
}

/** A choice that asks for no tool says nothing where there is none. */
const isFree = (choice: ToolChoice): boolean =>
  choice.type === "none" || (choice.type === "auto" && (choice.names?.length ?? 0) === 0);

function* messageFacts({ messages }: ChatRequest): Generator<Fact> {
  const called = new Map<string, string>();
  const numberOf = numbering();
  for (const [index, { role, name, parts }] of messages.entries()) {
    const isPrefill = role === "assistant" && index === messages.length - 1;
    if (name !== undefined) yield fact(`${role} is ${name}`, ["messages.name"]);
    for (const part of parts) {
      if (part.type === "tool-call") called.set(part.id, part.name);
      if (part.type === "tool-result" && part.name !== undefined && called.get(part.callId) !== part.name)
        yield fact(`result of call ${numberOf(part.callId)} is ${part.name}'s`, ["messages.tool-result.name"]);
      for (const found of partFacts(role, part, numberOf)) yield isPrefill ? continued(found) : found;
    }
  }
}

/** A fact of the turn that the answer continues. Some providers accept no reasoning in this turn, and no white space at its end. */
const continued = ({ words, ...found }: Fact): Fact => ({
  ...found,
  fields: [...found.fields, "messages.prefill"],
  ...(words !== undefined && !found.key.startsWith("reasoned ") && { words: words.trimEnd() }),
});

/** The number of a call or a result, by its id: a conversation whose ids are others is the same conversation. */
type NumberOf = (id: string) => number;

function numbering(): NumberOf {
  const numbers = new Map<string, number>();
  return (id) => {
    const number = numbers.get(id) ?? numbers.size + 1;
    numbers.set(id, number);
    return number;
  };
}

/** What one part says, and in which order parts stand. */
function* partFacts(role: string, part: Part, numberOf: NumberOf): Generator<Fact> {
  yield* marks(part, numberOf);
  const [first, ...others] = [...saidBy(role, part, numberOf)];
  // Results may come back in any order. Some formats want them in the order of their calls.
  if (first) yield part.type === "tool-result" ? first : { ...first, ordered: true };
  yield* others;
}

function* marks(part: Part, numberOf: NumberOf): Generator<Fact> {
  if ("cache" in part && part.cache) yield fact(`cache ${json(part.cache)}`, ["messages.cache", ...lossOf(part)]);
  yield* seals(part, numberOf);
  if ("thought" in part && part.thought) yield fact(`thought ${part.type}`, ["messages.thought", ...lossOf(part)]);
}

/** The signature of a part, or its encrypted reasoning, with the maker. An empty text is no signature. */
function* seals(part: Part, numberOf: NumberOf): Generator<Fact> {
  const isReasoning = part.type === "reasoning" || part.type === "redacted-reasoning";
  const signature = part.type === "redacted-reasoning" ? part.data : "signature" in part ? part.signature : undefined;
  if (!signature) return;
  const maker = "maker" in part ? part.maker : undefined;
  const where = part.type === "tool-call" ? `call ${numberOf(part.id)}` : isReasoning ? "reasoning" : part.type;
  const told: readonly Field[] = isReasoning
    ? [...REASONING, `messages.${part.type}`]
    : ["messages.signature", "messages.signature.foreign", ...lossOf(part)];
  for (const value of valuesOf(signature))
    yield { ...fact(`${where} sealed ${value} by ${maker ?? "nobody known"}`, told), seal: { value, maker } };
}

/** The seals in a signature. A provider of chat completions has several in its details, and the gateway keeps these as JSON. */
function valuesOf(signature: string): readonly string[] {
  if (!signature.startsWith('{"field":')) return [signature];
  const { details = [] } = JSON.parse(signature) as { details?: { signature?: string; data?: string }[] };
  return details.flatMap((detail) => detail.signature ?? detail.data ?? []);
}

/** The conversions of reasoning, with its signature. */
const REASONING: readonly Field[] = ["messages.reasoning", "messages.reasoning.unsealed", "messages.reasoning.foreign"];

/** The conversions of a part that is lost with all that is on it. */
const lossOf = (part: Part): readonly Field[] => (part.type === "media" || part.type === "document" ? MEDIA : []);

const MEDIA: readonly Field[] = [
  "messages.media",
  "messages.media.audio",
  "messages.media.video",
  "messages.media.url",
  "messages.media.moved",
  "messages.document",
  "messages.document.url",
];

function* saidBy(role: string, part: Part, numberOf: NumberOf): Generator<Fact> {
  const kind: Field = `messages.${part.type}`;
  switch (part.type) {
    case "text":
      return yield* textFacts(`${role} says ${part.text}`, part.text, ["messages.role.system"]);
    case "refusal":
      return yield* textFacts(`${role} declines ${part.text}`, part.text, [kind]);
    case "reasoning":
      if (part.text !== "") yield fact(`reasoned ${part.text}`, REASONING, part.text);
      return;
    case "redacted-reasoning":
      return;
    case "code":
      return yield fact(`code ${part.id} ${part.language} ${part.code}`, [kind], part.code);
    case "code-result":
      return yield fact(`code result ${part.id} ${part.outcome} ${part.output}`, [kind], part.output ?? "");
    case "tool-call":
      yield fact(`call ${numberOf(part.id)} ${part.name} ${json(part.input)}`, [kind]);
      return yield fact(`call id ${part.id}`, ["messages.tool-call.id"]);
    case "tool-result":
      return yield* resultFacts(part, `result of call ${numberOf(part.callId)}`);
    case "provider":
      return yield fact(`${part.format} ${json(part.value)}`, [kind]);
    case "media":
      return yield* mediaFacts(role, part);
    case "document":
      return yield* documentFacts(role, part);
  }
}

/** An empty text says nothing, and some providers refuse a blank one. */
function* textFacts(key: string, text: string, told: readonly Field[]): Generator<Fact> {
  if (text.trim() !== "") yield fact(key, told, text);
  else if (text !== "") yield fact(key, [...told, "messages.text"]);
}

function* mediaFacts(where: string, { kind, source, detail }: MediaPart): Generator<Fact> {
  const words = source.type === "url" ? source.url : source.type === "file" ? source.id : source.data;
  yield fact(`${where} ${kind} ${json(named(source))}`, [...MEDIA, "messages.tool-result.media"], words);
  if (detail !== undefined)
    yield fact(`${where} ${kind} detail ${detail}`, ["messages.media.detail", "messages.tool-result.media", ...MEDIA]);
}

/** The one type of sound that has two names. */
const named = (source: MediaSource): MediaSource =>
  source.type === "base64" && source.mediaType === "audio/mp3" ? { ...source, mediaType: "audio/mpeg" } : source;

function* documentFacts(where: string, part: DocumentPart): Generator<Fact> {
  const { source, title, context, citations } = part;
  const lost: readonly Field[] = [...MEDIA, "messages.document.text", "messages.tool-result.media"];
  if (source.type === "text") yield fact(`${where} document ${source.text}`, lost, source.text);
  else if (source.type === "parts") {
    yield fact(`${where} document of ${source.parts.length} parts`, lost);
    for (const inner of source.parts) {
      if (inner.type === "text") yield fact(`${where} document says ${inner.text}`, lost, inner.text);
      else yield* mediaFacts(where, inner);
      if (inner.cache) yield fact(`cache ${json(inner.cache)}`, ["messages.cache", ...MEDIA]);
    }
  } else {
    const words = wordsOf(source);
    yield fact(`${where} document ${json(source)}`, lost, words);
  }
  if (title !== undefined)
    yield fact(`${where} title ${title}`, ["messages.document.title", "messages.document.text", ...lost], title);
  if (context !== undefined) yield fact(`${where} context ${context}`, ["messages.document.context", ...lost], context);
  if (citations) yield fact(`${where} citations`, ["messages.document.citations", ...lost]);
}

/** A document of text may be told as its text. */
function wordsOf(source: MediaSource): string {
  if (source.type !== "base64") return source.type === "url" ? source.url : source.id;
  const isText = /^text\/|^application\/json/.test(source.mediaType);
  return isText ? Buffer.from(source.data, "base64").toString() : source.data;
}

function* resultFacts({ callId, parts, isError }: ToolResultPart, where: string): Generator<Fact> {
  yield fact(where, ["messages.tool-result.unasked"]);
  yield fact(`result id ${callId}`, ["messages.tool-call.id"]);
  if (isError) yield fact(`${where} failed`, ["messages.tool-result.isError"]);
  for (const inner of parts) {
    if (inner.type === "text") {
      const told: readonly Field[] = ["messages.tool-result.text", "messages.tool-result.isError"];
      yield* textFacts(`${where} says ${inner.text}`, inner.text, told);
      if (inner.cache) yield fact(`cache ${json(inner.cache)}`, ["messages.cache"]);
    } else if (inner.type === "json")
      yield fact(`${where} is ${json(inner.value)}`, ["messages.tool-result.json", "messages.tool-result.text"]);
    else if (inner.type === "provider") yield fact(`${where} ${json(inner.value)}`, ["messages.provider"]);
    else {
      yield* marks(inner, Number);
      yield* inner.type === "media" ? mediaFacts(where, inner) : documentFacts(where, inner);
    }
  }
}
