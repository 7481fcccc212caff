/** A generate-content request (spec 2.8) to the neutral request and back; both directions of a field stand side by side. */

import { GatewayError } from "../../errors.ts";
import { assertValid, type FieldPath } from "../../http/validation.ts";
import type { ChatRequest, NativeRequest, SafetySetting, TextPart, WireObject } from "../../model/chat.ts";
import { withoutPrefix } from "./errors.ts";
import { decodeConfig, encodeConfig, unsaidConfig } from "./request.config.ts";
import { decodeContents, decodeMarks, encodeMarks, encodeMessages } from "./request.contents.ts";
import { decodeCalling, decodeTools, encodeCalling, encodeTools, sayableChoice } from "./request.tools.ts";
import { DIALECT, fieldName } from "./schema.base.ts";
import { CountTokensRequest, GenerateContentRequest, type Part, unsaidIn } from "./schema.ts";
import { fromWire, HARM_CATEGORY, SETTABLE_CATEGORY, THRESHOLD } from "./schema.enums.ts";
import { isImageType, isSupportedMedia, SUPPORTED_IMAGES } from "./schema.media.ts";
import { asSpelled, snakeCase, spellingWalk } from "./schema.spelling.ts";

/** How a stream is framed: as SSE events, or as the elements of one JSON array. */
export type Framing = "sse" | "array";

export interface GenerateContentNative extends NativeRequest {
  readonly framing: Framing;
}

/** What of a request stands in its URL, and what the host says where it is silent. */
export interface RequestTarget {
  readonly model: string;
  readonly stream: boolean;
  readonly defaultMaxOutputTokens: number;
  readonly framing?: Framing;
  /** The body as it came, where it was not in camelCase. */
  readonly raw?: unknown;
}

/** Unknown fields stay in `native`; consecutive contents of one role become one turn. */
export function decodeRequest(body: GenerateContentRequest, target: RequestTarget): ChatRequest {
  const { toolConfig, safetySettings, cachedContent, generationConfig } = body;
  const toolChoice = decodeCalling(toolConfig?.functionCallingConfig ?? {});
  return {
    model: target.model,
    messages: decodeContents(body.contents),
    system: decodeInstruction(body.systemInstruction),
    tools: decodeTools(body.tools ?? []),
    stream: target.stream,
    ...decodeConfig(generationConfig ?? {}, target.defaultMaxOutputTokens),
    ...(toolChoice && { toolChoice }),
    ...(safetySettings && safetySettings.length > 0 && { safety: safetySettings.map(decodeSafety) }),
    ...(cachedContent != null && { cachedContent }),
    native: nativeOf(body, target),
  };
}

function nativeOf(
  body: GenerateContentRequest,
  { raw = body, framing = "array" }: RequestTarget,
): GenerateContentNative {
  const unsaid = (): string[] => [...unsaidIn(body), ...unsaidConfig(body.generationConfig ?? {})];
  return { dialect: DIALECT, body: raw as WireObject, betas: [], framing, unsaid };
}

/**
 * The request as this format says it, made of the neutral fields alone; what the format cannot say is left out, as its table of
 * fates tells.
 */
export function encodeRequest(request: ChatRequest): GenerateContentRequest {
  const { safety = [], cachedContent, system } = request;
  const toolChoice = sayableChoice(request);
  const tools = encodeTools(request.tools);
  // Categories that can only be rated are not for a request.
  const safetySettings = safety.filter(isSettable).map(encodeSafety);
  return {
    contents: encodeMessages(request.messages),
    ...(system.length > 0 && { systemInstruction: { parts: system.map(encodeInstruction) } }),
    ...(tools.length > 0 && { tools }),
    ...(toolChoice && { toolConfig: { functionCallingConfig: encodeCalling(toolChoice) } }),
    ...(safetySettings.length > 0 && { safetySettings }),
    generationConfig: encodeConfig(request),
    ...(cachedContent !== undefined && { cachedContent }),
  };
}

export const isSettable = ({ category }: SafetySetting): boolean => Object.hasOwn(SETTABLE_CATEGORY, category);

function decodeInstruction(instruction: GenerateContentRequest["systemInstruction"]): TextPart[] {
  if (instruction == null || instruction === "") return [];
  const parts = typeof instruction === "string" ? [{ text: instruction }] : instruction.parts;
  return parts.map((part) => ({ type: "text", text: part.text ?? "", ...decodeMarks(part) }));
}

const encodeInstruction = (part: TextPart): Part => ({ text: part.text, ...encodeMarks(part) });

type WireSafety = NonNullable<GenerateContentRequest["safetySettings"]>[number];
const CATEGORY_OF = fromWire(HARM_CATEGORY);
const THRESHOLD_OF = fromWire(THRESHOLD);

const decodeSafety = ({ category, threshold }: WireSafety): SafetySetting => ({
  category: CATEGORY_OF.get(category) ?? "unspecified",
  threshold: THRESHOLD_OF.get(threshold) ?? "unspecified",
});

const encodeSafety = ({ category, threshold }: SafetySetting): WireSafety => ({
  category: HARM_CATEGORY[category] as WireSafety["category"],
  threshold: THRESHOLD[threshold],
});

/** Reads a body in two walks, between which the event loop may serve others. */
export interface BodyReader {
  /** Brings a body to camelCase. Throws `invalid_request` for a field in both spellings. */
  readonly spell: (raw: unknown) => unknown;
  /**
   * Returns the request in a body that is in camelCase. Throws `invalid_request` with the path of the first wrong field, as the
   * caller spelled it in `raw`, and `failed_precondition` for an image in a file of an unsupported type.
   */
  readonly read: (raw: unknown, body: unknown) => GenerateContentRequest;
}

const inCamelCase = spellingWalk(GenerateContentRequest);
const countInCamelCase = spellingWalk(CountTokensRequest);

/** Reads a request that is to be answered. */
export const REQUEST: BodyReader = {
  spell: (raw) => inCamelCase(raw, []),
  read: (raw, body) =>
    inCallersWords(raw, body, () => {
      assertValid(GenerateContentRequest, body);
      assertPreconditions(body, []);
      return body;
    }),
};

/** Reads a request whose tokens are to be counted. */
export const COUNT: BodyReader = {
  spell: (raw) => countInCamelCase(raw, []),
  read: (raw, body) =>
    inCallersWords(raw, body, () => {
      assertValid(CountTokensRequest, body);
      const { generateContentRequest, contents, ...fields } = body;
      const counted = generateContentRequest ?? { ...fields, contents: contents ?? [] };
      assertPreconditions(counted, generateContentRequest ? ["generateContentRequest"] : []);
      return counted;
    }),
};

/** Reads the body of a request that is to be answered, in one go. */
export const readBody = (raw: unknown): GenerateContentRequest => REQUEST.read(raw, REQUEST.spell(raw));

function assertPreconditions({ contents }: GenerateContentRequest, root: FieldPath): void {
  if (typeof contents === "string") return;
  for (const [turn, content] of contents.entries())
    if (typeof content !== "string")
      for (const [index, { fileData }] of content.parts.entries())
        if (fileData && isImageType(fileData.mimeType) && !isSupportedMedia(fileData.mimeType))
          throw new GatewayError("failed_precondition", `is no supported image type: ${SUPPORTED_IMAGES}`, {
            path: [...root, "contents", turn, "parts", index, "fileData", "mimeType"],
          });
}

function inCallersWords<T>(raw: unknown, body: unknown, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof GatewayError) || !error.path || error.path.length === 0) throw error;
    const path = asSpelled(raw, error.path);
    const names = [error.path.join("."), fieldName(error.path)];
    const told = names.reduce((message, name) => withoutPrefix(message, `${name}: `), error.message);
    const snake = path.some((key) => !error.path?.includes(key));
    const message = body === raw ? told : respelled(told, raw, snake);
    throw new GatewayError(error.code, `${fieldName(path)}: ${message}`, { path, cause: error.cause });
  }
}

/**
 * A message that names other fields, in the spelling that the caller uses for them, or for the field at fault; what it quotes
 * stays.
 */
function respelled(message: string, raw: unknown, snake: boolean): string {
  const names = /"[^"]*"|\b[a-z]+(?:[A-Z][a-z]*)+\b/g;
  if (!names.test(message)) return message;
  const keys = keysOf(raw);
  return message.replace(names, (word) =>
    !word.startsWith('"') && !keys.has(word) && (snake || keys.has(snakeCase(word))) ? snakeCase(word) : word,
  );
}

/** How many objects and arrays of a body are looked into for how its caller spells: a few show that. */
const MAX_LOOKED_INTO = 1_000;

function keysOf(body: unknown): Set<string> {
  const keys = new Set<string>();
  const open: unknown[] = [body];
  for (let looked = 0; open.length > 0 && looked < MAX_LOOKED_INTO; looked++) {
    const value = open.shift();
    if (typeof value !== "object" || value === null) continue;
    for (const [key, inner] of Object.entries(value).slice(0, MAX_LOOKED_INTO)) {
      if (!Array.isArray(value)) keys.add(key);
      if (open.length < MAX_LOOKED_INTO && typeof inner === "object") open.push(inner);
    }
  }
  return keys;
}
