/** The texts of requests and of opaque values: each passes through one function, and all else stays as it is. */

import type {
  ChatMessage,
  ChatRequest,
  DocumentPart,
  Part,
  ResponseFormat,
  Speech,
  Tool,
  ToolResultPart,
} from "../model/chat-request.ts";
import type { EmbeddingContent, EmbeddingRequest } from "../model/embedding.ts";
import type { ImageFile, ImageRequest } from "../model/image.ts";
import type { HookRequest } from "../ports/hook.ts";

/** Changes a text. `isReasoning` is true for reasoning of an earlier answer, which may name replacements. */
export type MapText = (text: string, isReasoning?: boolean) => string;

const words = (list: string): ReadonlySet<string> => new Set(list.split(" "));

/**
 * The fields of a provider's own values that are no text: ids, addresses, files, and blobs that only their maker can read. To change one would
 * break it.
 */
const OPAQUE = words(
  "id type role model name call_id tool_use_id tool_call_id item_id container_id file_id url image_url file_url uri fileUri data file_data " +
    "media_type mimeType result encrypted_content encrypted_index encrypted_stdout signature thoughtSignature",
);

/** The fields of a provider's own values in which the caller or a tool names the members: nothing in them is opaque. */
const FREE = words(
  "args arguments attributes env headers input labels metadata response structured_content structuredContent variables",
);

/** The opaque fields that a caller may fill with a text of his own where the neutral request does not have them. */
const ADDRESSES = words("name url image_url file_url uri fileUri data file_data result");

/** Maps the elements of a list. Returns the list itself when none changes, so that nothing is written anew without need. */
function mapList<Element>(list: readonly Element[], map: (element: Element) => Element): readonly Element[] {
  let changed: Element[] | undefined;
  for (const [at, element] of list.entries()) {
    const mapped = map(element);
    if (mapped !== element) (changed ??= list.slice())[at] = mapped;
  }
  return changed ?? list;
}

/** Returns an object with other fields; the object itself when they are the same. */
const withFields = <Value extends object>(value: Value, fields: Partial<Value>): Value =>
  Object.entries(fields).every(([name, field]) => value[name as keyof Value] === field)
    ? value
    : { ...value, ...fields };

/** Maps all texts of a JSON value, the names of members too. `opaque` names the members of a provider's value that stay as they are. */
export function mapJson<Value>(value: Value, map: MapText, opaque?: ReadonlySet<string>): Value {
  if (typeof value === "string") return map(value) as Value;
  if (Array.isArray(value)) return mapList(value, (one) => mapJson(one, map, opaque)) as Value;
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value);
  const mapped = members.map(([name, member]): [string, unknown] => {
    if (!opaque) return [map(name), mapJson(member, map)];
    if (typeof member === "string") return [name, opaque.has(name) ? member : map(member)];
    return [name, mapJson(member, map, isFreeField(name, member) ? undefined : opaque)];
  });
  const isSame = mapped.every(([name, member], at) => name === members[at]?.[0] && member === members[at]?.[1]);
  return isSame ? value : (Object.fromEntries(mapped) as Value);
}

/** Maps the texts of a value that only one provider's format has, beside its opaque fields. */
export const mapProvided = <Value>(value: Value, map: MapText): Value => mapJson(value, map, OPAQUE);

/**
 * Returns the texts in the body of a request that its neutral form does not have.
 *
 * @param searched The texts of the neutral form that are searched.
 */
export function nativeTexts({ native, ...neutral }: HookRequest, searched: ReadonlySet<string>): ReadonlySet<string> {
  // A name or an address of the neutral form is sent as it is in any case.
  const known = new Set(searched);
  eachText(neutral, (text) => known.add(text));
  const others = new Set<string>();
  eachText(native?.body, (text, name, isFree) => {
    const isOpaque = !isFree && OPAQUE.has(name) && (!ADDRESSES.has(name) || text.startsWith("data:"));
    if (!isOpaque && !known.has(text)) others.add(text);
  });
  return others;
}

/**
 * Calls a function with each text of a value, the name of its member, and whether the text stands in a free field: also with the names of
 * members, unless a name can be one of the format.
 */
function eachText(
  value: unknown,
  each: (text: string, name: string, isFree: boolean) => void,
  name = "",
  isFree = false,
): void {
  if (typeof value === "string") each(value, name, isFree);
  else if (Array.isArray(value)) for (const one of value) eachText(one, each, "", isFree);
  else if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value))
    for (const [own, member] of Object.entries(value)) {
      if (isFree || /[^a-z_]/i.test(own)) each(own, "", isFree);
      eachText(member, each, own, isFree || isFreeField(own, member));
    }
}

/** A list, such as the turns of a request, has members of the format. */
const isFreeField = (name: string, value: unknown): boolean => FREE.has(name) && !Array.isArray(value);

/** Maps the texts of a request of any kind. */
export function mapRequest(request: HookRequest, map: MapText): HookRequest {
  const mapped =
    "messages" in request
      ? mapChat(request, map)
      : "inputs" in request
        ? mapEmbedding(request, map)
        : mapImage(request, map);
  const { endUser } = request;
  return endUser === undefined ? mapped : withFields(mapped, { endUser: map(endUser) });
}

// In the order in which providers cache a prompt, which decides the numbers of values: those of a later turn change no earlier one.
function mapChat(request: ChatRequest, map: MapText): ChatRequest {
  const tools = mapList(request.tools, (tool) => mapTool(tool, map));
  const system = mapList(request.system, (part) => withFields(part, { text: map(part.text) }));
  const messages = mapList(request.messages, (message) => mapMessage(message, map));
  const stopSequences = mapList(request.stopSequences, (text) => map(text));
  const { responseFormat, speech } = request;
  return withFields(request, {
    tools,
    system,
    messages,
    stopSequences,
    ...(responseFormat && { responseFormat: mapFormat(responseFormat, map) }),
    ...(speech && { speech: mapSpeech(speech, map) }),
  });
}

/** The speakers have the names that they have in the text. */
const mapSpeech = (speech: Speech, map: MapText): Speech =>
  withFields(speech, {
    ...(speech.speakers && {
      speakers: mapList(speech.speakers, (one) => withFields(one, { speaker: map(one.speaker) })),
    }),
  });

function mapTool(tool: Tool, map: MapText): Tool {
  if (tool.type === "code-execution") return tool;
  if (tool.type === "provider") return withFields(tool, { definition: mapProvided(tool.definition, map) });
  const { description, inputSchema, custom } = tool;
  return withFields(tool, {
    ...(description !== undefined && { description: map(description) }),
    inputSchema: mapJson(inputSchema, map),
    // The grammar of a text is a text, too.
    ...(custom && { custom: mapProvided(custom, map) }),
  });
}

const mapFormat = (format: ResponseFormat, map: MapText): ResponseFormat => {
  if (format.type === "enum") return withFields(format, { values: mapList(format.values, (text) => map(text)) });
  const { schema, name } = format;
  return withFields(format, {
    ...(schema && { schema: mapJson(schema, map) }),
    ...(name !== undefined && { name: mapName(name, map) }),
  });
};

/** Maps a name in which providers take no other signs. */
function mapName(name: string, map: MapText): string {
  const mapped = map(name);
  return mapped === name ? name : mapped.replaceAll(/[^\w-]/g, "_");
}

function mapMessage(message: ChatMessage, map: MapText): ChatMessage {
  const { name, parts } = message;
  return withFields(message, {
    parts: mapList(parts, (part) => mapPart(part, map)),
    ...(name !== undefined && { name: mapName(name, map) }),
  });
}

function mapPart(part: Part, map: MapText): Part {
  switch (part.type) {
    case "text":
    case "refusal":
      return withFields(part, { text: map(part.text) });
    case "reasoning":
      // The maker of a signature accepts it only with the very text that it has signed.
      return part.signature === undefined ? withFields(part, { text: map(part.text, true) }) : part;
    case "document":
      return mapDocument(part, map);
    case "tool-call":
      return withFields(part, { input: mapJson(part.input, map) });
    case "tool-result":
      return withFields(part, { parts: mapList(part.parts, (one) => mapResult(one, map)) });
    case "code":
      return withFields(part, { code: map(part.code) });
    case "code-result":
      return part.output === undefined ? part : withFields(part, { output: map(part.output) });
    case "provider":
      return withFields(part, { value: mapProvided(part.value, map) });
    case "media":
    case "redacted-reasoning":
      return part;
    default:
      return part satisfies never;
  }
}

function mapResult(part: ToolResultPart["parts"][number], map: MapText): ToolResultPart["parts"][number] {
  if (part.type === "json") return withFields(part, { value: mapJson(part.value, map) });
  return mapPart(part, map) as typeof part;
}

function mapDocument(part: DocumentPart, map: MapText): DocumentPart {
  const { source, title, context } = part;
  const mapped =
    source.type === "text"
      ? withFields(source, { text: map(source.text) })
      : source.type === "parts"
        ? withFields(source, { parts: mapList(source.parts, (one) => mapPart(one, map) as typeof one) })
        : source;
  return withFields(part, {
    source: mapped,
    ...(title !== undefined && { title: map(title) }),
    ...(context !== undefined && { context: map(context) }),
  });
}

function mapImage(request: ImageRequest, map: MapText): ImageRequest {
  const { prompt, style, mask } = request;
  return withFields(request, {
    prompt: map(prompt),
    ...(style !== undefined && { style: map(style) }),
    images: mapList(request.images, (image) => mapFileName(image, map)),
    ...(mask && { mask: mapFileName(mask, map) }),
  });
}

const mapFileName = (file: ImageFile, map: MapText): ImageFile =>
  file.name === undefined ? file : withFields(file, { name: map(file.name) });

function mapEmbedding(request: EmbeddingRequest, map: MapText): EmbeddingRequest {
  const inputs = mapList(request.inputs, (input) => {
    if (typeof input === "string") return map(input);
    return "parts" in input ? mapContent(input, map) : input;
  });
  const { titles } = request;
  return withFields(request, {
    inputs,
    ...(titles && { titles: mapList(titles, (title) => (title === undefined ? title : map(title))) }),
  });
}

const mapContent = (content: EmbeddingContent, map: MapText): EmbeddingContent =>
  withFields(content, { parts: mapList(content.parts, (part) => mapPart(part, map) as typeof part) });

/**
 * Returns a request that the gateway sends in the neutral form, although nothing that the neutral request says has changed: the fields of the
 * caller's own format that it cannot say are dropped.
 */
export function withoutNative(request: HookRequest): HookRequest {
  const list = Object.entries(request).find(([, value]) => Array.isArray(value));
  return list ? { ...request, [list[0]]: [...(list[1] as readonly unknown[])] } : request;
}
