/** Kept responses and conversations: what a document holds, and the context that a request takes from earlier ones. */

import { GatewayError } from "../../errors.ts";
import type { NativeRequest } from "../../kinds/chat/request.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { KeptDocument } from "../../ports/response-store.ts";
import type { AnswerContext, KeptDocuments } from "../format.ts";
import type { KeptProgress } from "./background.ts";
import { type InputItem, type ResponsesRequest } from "./schema.ts";

/** The content of a kept response. */
export interface KeptResponse {
  /** The response as its caller got it. */
  readonly response: JsonObject;
  /** The items of its request, without those of earlier responses. */
  readonly input: readonly JsonObject[];
  /** The ids of the responses that it continues, the oldest first. */
  readonly previous: readonly string[];
  /** Set for a response that is or was made in the background. */
  readonly background?: KeptProgress;
}

/** Reads the content of a response's document. */
export const contentOf = ({ content }: KeptDocument): KeptResponse => parseJson(content) as unknown as KeptResponse;

/** The native request, with what a kept response needs to know about it. */
export interface ResponsesNative extends NativeRequest {
  readonly own: OwnInput;
}

/** The part of a request that came with it, and the documents that it continues. */
export interface OwnInput {
  readonly input: readonly JsonObject[];
  readonly previous: readonly string[];
  /** The id of the conversation that the items are added to. */
  readonly conversation: string | undefined;
}

/** The most responses in a chain. */
const MAX_CHAIN = 1_000;
/** The most items that are taken from a conversation. */
const MAX_ITEMS = 10_000;
/** The items of a conversation that are read at once. */
const ITEMS_A_READ = 500;

/** The request with its whole input: the items of the chain or the conversation first, and kept items in place of references. */
export interface ResolvedRequest {
  readonly body: ResponsesRequest;
  readonly own: OwnInput;
}

/**
 * Puts earlier responses, conversations and referenced items into a request. Throws `not_found` for an id that the key does not have, and
 * `invalid_request` for a result whose call is nowhere.
 *
 * @param kept Undefined when the gateway has no store.
 * @param maxChars The most characters of all documents together.
 */
export async function resolve(
  body: ResponsesRequest,
  kept: KeptDocuments | undefined,
  maxChars: number,
): Promise<ResolvedRequest> {
  const { previous_response_id: previousId, conversation } = body;
  if (previousId != null && conversation != null)
    throw invalid("conversation: cannot stand beside previous_response_id", ["conversation"]);
  const input = itemsOf(body.input);
  const references = input.filter((item) => item["type"] === "item_reference");
  if (previousId == null && conversation == null && references.length === 0)
    return { body, own: { input, previous: [], conversation: undefined } };
  const room = new Room(maxChars);
  const chain = previousId == null ? undefined : await chainTo(previousId, kept, room);
  const conversationId = typeof conversation === "string" ? conversation : conversation?.id;
  const context = chain?.items ?? (conversationId === undefined ? [] : await itemsIn(conversationId, kept, room));
  const own = await dereferenced(input, context, kept, room);
  const whole = [...context, ...own];
  assertAnswered(whole, context.length);
  return {
    // The cast is safe: the items were valid when they were sent, or the gateway has written them.
    body: { ...body, input: whole as unknown as InputItem[] },
    own: { input: own, previous: chain?.ids ?? [], conversation: conversationId },
  };
}

/** Returns the items of an input. A text is one message of the user. */
export const itemsOf = (input: ResponsesRequest["input"]): JsonObject[] =>
  typeof input === "string"
    ? [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }]
    : (input as unknown as JsonObject[]);

/** Counts the characters of documents. Throws `invalid_request` when there are too many. */
class Room {
  #left: number;

  constructor(maxChars: number) {
    this.#left = maxChars;
  }

  parse({ content }: KeptDocument): JsonObject {
    this.#left -= content.length;
    if (this.#left < 0) throw invalid("input: the earlier responses are larger than a request may be", ["input"]);
    const parsed = parseJson(content);
    return isJsonObject(parsed) ? parsed : {};
  }
}

/** Returns the items of a response and of all responses before it, and the ids of all of them. */
async function chainTo(
  id: string,
  kept: KeptDocuments | undefined,
  room: Room,
): Promise<{ readonly items: JsonObject[]; readonly ids: readonly string[] }> {
  const [last] = (await kept?.read([id])) ?? [];
  if (!last || last.id !== id || last.parentId !== undefined) throw noResponse(id, "previous_response_id");
  const newest = room.parse(last) as unknown as KeptResponse;
  if (newest.previous.length >= MAX_CHAIN)
    throw invalid(`previous_response_id: continues more than ${MAX_CHAIN} responses`, ["previous_response_id"]);
  const found = newest.previous.length === 0 ? [] : ((await kept?.read(newest.previous)) ?? []);
  const byId = new Map(found.map((document) => [document.id, document]));
  const items: JsonObject[] = [];
  for (const earlier of newest.previous) {
    const document = byId.get(earlier);
    if (!document) throw noResponse(earlier, "previous_response_id");
    addItems(room.parse(document) as unknown as KeptResponse, items);
  }
  addItems(newest, items);
  return { items, ids: [...newest.previous, id] };
}

function addItems({ input, response }: KeptResponse, items: JsonObject[]): void {
  for (const item of input) items.push(item);
  for (const item of outputOf(response)) items.push(item);
}

export const outputOf = ({ output }: JsonObject): JsonObject[] =>
  Array.isArray(output) ? output.filter((item) => isJsonObject(item)) : [];

/** Returns all items of a conversation. */
async function itemsIn(id: string, kept: KeptDocuments | undefined, room: Room): Promise<JsonObject[]> {
  const [conversation] = (await kept?.read([id])) ?? [];
  if (!kept || conversation?.id !== id || !id.startsWith("conv_")) throw noConversation(id);
  const items: JsonObject[] = [];
  let after: string | undefined;
  for (;;) {
    const page = await kept.list(id, { limit: ITEMS_A_READ, order: "asc", ...(after !== undefined && { after }) });
    for (const document of page) items.push(room.parse(document));
    after = page.at(-1)?.id;
    if (page.length < ITEMS_A_READ) return items;
    if (items.length > MAX_ITEMS) throw invalid(`conversation: has more than ${MAX_ITEMS} items`, ["conversation"]);
  }
}

/** Replaces references by the items that they name: items of the context, or any kept item of the key. */
async function dereferenced(
  input: readonly JsonObject[],
  context: readonly JsonObject[],
  kept: KeptDocuments | undefined,
  room: Room,
): Promise<JsonObject[]> {
  const wanted = new Set(input.flatMap((item) => (item["type"] === "item_reference" ? String(item["id"]) : [])));
  if (wanted.size === 0) return [...input];
  const found = new Map(context.map((item) => [item["id"], item]));
  const missing = [...wanted].filter((id) => !found.has(id));
  const documents = missing.length > 0 ? ((await kept?.read(missing)) ?? []) : [];
  for (const document of documents) {
    const content = room.parse(document);
    if (document.parentId !== undefined) found.set(document.id, content);
    else {
      const items: JsonObject[] = [];
      if (isJsonObject(content["response"])) addItems(content as unknown as KeptResponse, items);
      for (const item of items) found.set(item["id"], item);
    }
  }
  return input.map((item, index) => {
    if (item["type"] !== "item_reference") return item;
    const id = String(item["id"]);
    const referred = found.get(id);
    if (referred) return referred;
    const message = `Item with id '${id}' not found.`;
    throw new GatewayError("not_found", message, { path: ["input", index, "id"] });
  });
}

/** Throws `invalid_request` for a result without its call. */
function assertAnswered(items: readonly JsonObject[], firstOwn: number): void {
  const calls = new Set<unknown>();
  for (const [index, { type, call_id }] of items.entries()) {
    if (type === "function_call" || type === "custom_tool_call") calls.add(call_id);
    if ((type === "function_call_output" || type === "custom_tool_call_output") && !calls.has(call_id)) {
      const path = ["input", Math.max(0, index - firstOwn), "call_id"];
      throw invalid(`${path.join(".")}: answers no tool call of an earlier item`, path);
    }
  }
}

const invalid = (message: string, path: readonly (string | number)[]): GatewayError =>
  new GatewayError("invalid_request", message, { path });

/** The error for a response that the key does not have, in the words of the official service. */
export const noResponse = (id: string, field?: string): GatewayError =>
  field === undefined
    ? new GatewayError("not_found", `Response with id '${id}' not found.`)
    : new GatewayError("not_found", `Previous response with id '${id}' not found.`, { path: [field] });

export const noConversation = (id: string): GatewayError =>
  new GatewayError("not_found", `Conversation with id '${id}' not found.`, { path: ["conversation"] });

/** The beginnings of the ids of items, by their types. */
const PREFIXES: Readonly<Record<string, string>> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  function_call_output: "fco",
  custom_tool_call: "ctc",
  custom_tool_call_output: "ctco",
};

/** An id that a store can hold. Callers and upstreams give their items ids of their own. */
const STORABLE = /^[\u0021-\u007e]{1,190}$/;

/**
 * Returns an item as it is kept and shown: with an id, a status, and its content as a list of parts.
 *
 * @param base A text that no other response or request has.
 */
export function keptItem(item: JsonObject, base: string, index: number): JsonObject {
  const { type = "message", id, role, content, ...rest } = item;
  const known = typeof id === "string" && STORABLE.test(id) ? id : undefined;
  const prefix = PREFIXES[String(type)] ?? "item";
  const head = { id: known ?? `${prefix}_${base}_i${index}`, type };
  if (type !== "message") return { ...head, ...item, ...head };
  const isAssistant = role === "assistant";
  const part = isAssistant
    ? { type: "output_text", text: content, annotations: [] }
    : { type: "input_text", text: content };
  const parts = typeof content === "string" ? [part as JsonObject] : content;
  return { ...head, status: "completed", ...rest, role: role ?? "user", content: parts ?? [] };
}

/** The part of a request's id by which the ids of its response and items are known. */
export const baseOf = (requestId: string): string => requestId.replace(/^req_/, "");

/** The gateway's own id for the response to a request. Support can find one by the other. */
export const responseIdOf = (requestId: string): string => `resp_${baseOf(requestId)}`;

/** Returns the fields of a response that is kept; undefined if the gateway has no store, or the caller wants nothing kept. */
export function keptFields({ request, requestId, kept }: AnswerContext): JsonObject | undefined {
  if (!kept || !request.native || request.native.body["store"] === false) return undefined;
  const { previous, conversation } = (request.native as ResponsesNative).own;
  return {
    id: responseIdOf(requestId),
    store: true,
    previous_response_id: previous.at(-1) ?? null,
    ...(conversation !== undefined && { conversation: { id: conversation } }),
  };
}

/** Returns the input items of a request as they are kept. */
export function keptInput({ request, requestId }: AnswerContext): JsonObject[] {
  const { input } = (request.native as ResponsesNative).own;
  return input.map((item, index) => keptItem(item, baseOf(requestId), index));
}

/** Returns the ids by which the items of a response are found. */
export const aliasesOf = (input: readonly JsonObject[], response: JsonObject): string[] => {
  const ids = [...input, ...outputOf(response)].map(({ id }) => id);
  return [...new Set(ids)].filter((id): id is string => typeof id === "string" && STORABLE.test(id));
};

/** Keeps a response, and adds its new items to its conversation. */
export async function keepResponse(context: AnswerContext, response: JsonObject): Promise<void> {
  const { previous } = (context.request.native as ResponsesNative).own;
  const input = keptInput(context);
  const content: KeptResponse = { response, input, previous };
  const aliases = aliasesOf(input, response);
  await context.kept?.create([{ id: String(response["id"]), aliases, content: JSON.stringify(content) }]);
  await addToConversationOf(context, response);
}

/** Adds the items of a response to the conversation of its request, if it has one. */
export async function addToConversationOf(context: AnswerContext, response: JsonObject): Promise<void> {
  const { conversation } = (context.request.native as ResponsesNative).own;
  if (!context.kept || conversation === undefined) return;
  // The upstream's items may be without ids.
  const output = outputOf(response).map((item, index) => keptItem(item, `${baseOf(context.requestId)}_o`, index));
  await addToConversation(context.kept, conversation, [...keptInput(context), ...output]);
}

/** Adds items to the end of a conversation, each once. An item that the conversation has already stays where it is. */
export function addToConversation(
  kept: KeptDocuments,
  parentId: string,
  items: readonly JsonObject[],
): Promise<boolean> {
  const documents = new Map(
    items.map((item) => [String(item["id"]), { id: String(item["id"]), parentId, content: JSON.stringify(item) }]),
  );
  return kept.create([...documents.values()]);
}

/** Tells whether a document is a response of this format. */
export const isResponse = ({ id, parentId }: KeptDocument): boolean =>
  parentId === undefined && !id.startsWith("conv_");
