/** Kept responses and conversations: what a document holds, and the context that a request takes from earlier ones. */

import { type FieldPath, GatewayError, invalidField } from "../../errors.ts";
import type { NativeRequest } from "../../model/chat-request.ts";
import {
  isJsonObject,
  JsonBudget,
  JsonLimitError,
  type JsonLimits,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../model/json.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { KeptDocument } from "../../ports/response-store.ts";
import type { AnswerContext, Incoming, KeptDocuments, NewKept, StoredDocument } from "../format.ts";
import { type InputItem, isCall, type ResponsesRequest } from "./schema.ts";
import { type Chain, type LastTurn, turnsOf } from "./turns.ts";

/**
 * The beginning of the content of a kept response, which is read without the response. The items of its request stand in children of its
 * document, and so does the output of a large response: one item is found without the others.
 */
export interface KeptHead {
  /** The responses before it. */
  readonly chain: Chain;
  /** True for a response that is or was made in the background. */
  readonly background?: boolean;
  /** True when the items of the output stand in children of their own. */
  readonly apart?: boolean;
  readonly status?: string;
}

interface KeptResponse extends KeptHead {
  /** The response as its caller got it. */
  readonly response: JsonObject;
}

const NO_CHAIN: Chain = { depth: 0, ids: [] };

/** The id of the first document of the input of a response: the items of its request, without those of earlier responses. */
const inputIdOf = (id: string): string => `${id}/input`;
const outputIdOf = (id: string): string => `${id}/output`;

/**
 * The name by which an item is found. Its sign keeps apart the ids of items, which callers and upstreams choose, and those of the gateway's
 * own documents.
 */
const aliasOf = (itemId: string): string => `=${itemId}`;

/**
 * Returns the head of a kept response, which is the first line of its content, and the place where the response begins; undefined for a
 * content that was written before heads.
 */
export function headOf({ content }: KeptDocument): { readonly head: KeptHead; readonly start: number } | undefined {
  const end = content.startsWith('{"chain":') ? content.indexOf("\n") : -1;
  return end < 0 ? undefined : { head: parseJson(content.slice(0, end)) as KeptHead, start: end + 1 };
}

/** Reads the whole content of a response's document. */
export function contentOf(
  document: KeptDocument,
  parse = ({ content }: KeptDocument): unknown => parseJson(content, DOCUMENT_LIMITS),
): KeptResponse {
  const told = headOf(document);
  if (!told) return parse(document) as KeptResponse;
  return { ...told.head, response: parse({ ...document, content: document.content.slice(told.start) }) as JsonObject };
}

/** Writes the content of a response's document. */
export function contentFrom({ response, chain, background, apart }: KeptResponse): string {
  const head = {
    chain,
    ...(background && { background }),
    ...(apart && { apart }),
    status: textIn(response["status"]),
  };
  return `${JSON.stringify(head)}\n${JSON.stringify(response)}`;
}

/** A document that the gateway wrote is nested deeper, and has more values, than the request that it holds. */
export const DOCUMENT_LIMITS: JsonLimits = {
  maxJsonBytes: 1024 ** 3,
  maxJsonDepth: 2_000,
  maxJsonValues: 10_000_000,
  maxJsonKeys: 1_000_000,
  maxJsonItems: 10_000_000,
};

/** The native request, with what a kept response needs to know about it. */
export interface ResponsesNative extends NativeRequest {
  readonly own: OwnInput;
}

/** The part of a request that came with it, and the documents that it continues. */
export interface OwnInput {
  /** The items as they came. */
  readonly input: readonly JsonObject[];
  /** The same items without references: the items that a conversation gets. */
  readonly items: readonly JsonObject[];
  readonly chain: Chain;
  /** The id of the response before it, where the chain does not end with that. */
  readonly previousId?: string;
  /** The id of the conversation that the items are added to. */
  readonly conversation: string | undefined;
  /** The ids of the items that the conversation has. */
  readonly known: ReadonlySet<unknown>;
}

const MAX_CHAIN = 1_000;
/** The most responses that are read at once. */
const BLOCK = 32;
const MAX_ITEMS = 10_000;
/** The most characters of a page of documents. The next page has the rest. */
export const PAGE_CHARS: number = 8 * 1024 ** 2;
/** The items of a conversation that are read at once. */
const PAGE = { limit: 500, maxChars: PAGE_CHARS } as const;
/** The references that are resolved at once. */
const REFERENCES_A_READ = 8;
/** Items of a response are kept together up to this many characters. A larger item stands alone. */
const CHUNK_CHARS = 32 * 1024;
/** The documents with items that are read at once. */
const CHUNKS_A_READ = 8;

/** The request with its whole input: the items of the chain or the conversation first, and kept items in place of references. */
export interface ResolvedRequest {
  readonly body: ResponsesRequest;
  readonly own: OwnInput;
}

/**
 * Puts earlier responses, conversations and referenced items into a request. Throws `not_found` for an id that the key does not have, and
 * `invalid_request` for a result whose call is nowhere.
 *
 * @param incoming Its limits hold for the documents and the body together.
 */
export async function resolve(body: ResponsesRequest, incoming: Incoming): Promise<ResolvedRequest> {
  const resolved = await resolveItems(body, incoming);
  turnsOf(incoming)?.begin(itemsOf(resolved.body.input), resolved.own.chain);
  return resolved;
}

async function resolveItems(body: ResponsesRequest, incoming: Incoming): Promise<ResolvedRequest> {
  const { kept } = incoming;
  const { previous_response_id: previousId, conversation } = body;
  if (previousId != null && conversation != null)
    throw invalidField(["conversation"], "cannot stand beside previous_response_id");
  const input = itemsOf(body.input);
  if (previousId == null && conversation == null && !input.some(isReference))
    return { body, own: { input, items: input, chain: NO_CHAIN, conversation: undefined, known: new Set() } };
  const room = new Room(incoming);
  const mayDrop = body.truncation === "auto";
  const last = previousId == null ? undefined : turnsOf(incoming)?.last(previousId);
  const earlier =
    previousId == null ? undefined : last ? turnBefore(last, room) : await chainTo(previousId, kept, room, mayDrop);
  const conversationId = typeof conversation === "string" ? conversation : conversation?.id;
  const context =
    earlier?.items ?? (conversationId === undefined ? [] : await itemsIn(conversationId, kept, room, mayDrop));
  const known = new Set(conversationId === undefined ? [] : context.map(({ id }) => id));
  assertNew(input, known);
  const found = await itemsNamed([...context, ...input].filter(isReference), context, kept, room);
  const placed = new Set<unknown>();
  const before = dereferenced(context, found, placed, (id) => noItem(id, ["previous_response_id"]));
  const items = dereferenced(input, found, placed, (id, index) => noItem(id, ["input", index, "id"], advice(kept)));
  const whole = [...before, ...items];
  assertAnswered(whole, before.length);
  // A response may continue another response that is not kept. Keep the whole conversation with it: no store has the earlier part.
  const own = last && !last.isKept ? { input: whole, items: whole, previousId: last.id } : { input, items };
  return {
    // The cast is safe: the items were valid when they were sent, or the gateway has written them.
    body: { ...body, input: whole as unknown as InputItem[] },
    own: { ...own, chain: earlier?.chain ?? NO_CHAIN, conversation: conversationId, known },
  };
}

/** Returns the items and the chain of the response that the WebSocket has just answered. */
function turnBefore({ content, chain }: LastTurn, room: Room): { readonly items: JsonObject[]; readonly chain: Chain } {
  room.admit(content.length);
  return { items: itemsOfChunk(room.parse({ content })), chain: chain ?? NO_CHAIN };
}

const textIn = (value: unknown): string => (typeof value === "string" ? value : "");

const isReference = ({ type }: JsonObject): boolean => type === "item_reference";

/** Returns the items of an input. A text is one message of the user. */
export const itemsOf = (input: ResponsesRequest["input"]): JsonObject[] =>
  typeof input === "string"
    ? [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }]
    : (input as unknown as JsonObject[]);

/** The error for documents that do not fit into the limits of a request. With `truncation: "auto"`, they are left out instead. */
class BeyondLimit extends GatewayError {
  constructor(message: string, options: { readonly path: FieldPath }) {
    super("invalid_request", `${message}: start anew, compact, or send truncation "auto"`, options);
  }
}

/**
 * Returns the items that are read; undefined when they do not fit and may be left out.
 *
 * @param mayDrop False throws the error of the limit.
 */
async function fitting(mayDrop: boolean, read: () => Promise<JsonObject[]>): Promise<JsonObject[] | undefined> {
  try {
    return await read();
  } catch (error) {
    if (mayDrop && error instanceof BeyondLimit) return undefined;
    throw error;
  }
}

/** Leaves out the results whose calls were left out with the oldest items. */
function withoutOrphans(items: readonly JsonObject[]): JsonObject[] {
  const calls = new Set<unknown>();
  return items.filter((item) => {
    if (isCall(item)) calls.add(item["call_id"]);
    return !isResult(item) || calls.has(item["call_id"]);
  });
}

const isResult = ({ type }: JsonObject): boolean =>
  type === "function_call_output" || type === "custom_tool_call_output";

/** Bounds the documents of one request, as if its caller had sent them: their characters, their values, and the memory of both. */
class Room {
  readonly #incoming: Incoming;
  readonly #json: JsonBudget;
  #left: number;

  /** @param json Counts the values. Default: they count with those of the body. */
  constructor(incoming: Incoming, json: JsonBudget = incoming.json) {
    this.#incoming = incoming;
    this.#json = json;
    this.#left = incoming.limits.maxJsonBytes;
  }

  /** Counts a document before it is read. Throws `invalid_request` when the documents are too large. */
  readonly admit = (chars: number): void => {
    this.#left -= chars;
    if (this.#left >= 0) return;
    const most = this.#incoming.limits.maxJsonBytes;
    throw new BeyondLimit(`input: is larger than ${most} characters, with the earlier items`, { path: ["input"] });
  };

  /** Parses a document that was admitted. Throws `invalid_request` for too many values, and `busy` when the memory has no room. */
  parse({ content }: Pick<KeptDocument, "content">): JsonObject {
    const json = this.#json;
    json.booking?.take(content.length);
    try {
      const parsed = parseJson(content, json);
      return isJsonObject(parsed) ? parsed : {};
    } catch (error) {
      if (!(error instanceof JsonLimitError)) throw error;
      throw new BeyondLimit(`input: the request ${error.message}, with the earlier items`, { path: ["input"] });
    }
  }

  /** Lets the event loop serve others before further documents are parsed. */
  async turn(): Promise<void> {
    if (this.#incoming.json.isLarge) await nextIteration();
  }
}

/**
 * Returns the items of a response and of all responses before it, and the chain of a response that continues it.
 *
 * @param mayDrop Leaves out the oldest responses that do not fit into the limits of a request.
 */
async function chainTo(
  id: string,
  kept: KeptDocuments | undefined,
  room: Room,
  mayDrop: boolean,
): Promise<{ readonly items: JsonObject[]; readonly chain: Chain }> {
  const field = "previous_response_id";
  const read = (await kept?.peek([id, inputIdOf(id)])) ?? [];
  const [last, input] = [id, inputIdOf(id)].map((wanted) => read.find((one) => one.id === wanted));
  if (!kept || !last || !input || !isResponse(last)) throw noResponse(id, field, advice(kept));
  const newest = await continued(last, input, kept, room);
  if (!CONTINUABLE.has(newest.status))
    throw invalidField([field], `the response is ${newest.status}, and only a finished response can be continued`);
  const { depth } = newest.chain;
  if (depth + 1 >= MAX_CHAIN && !mayDrop)
    throw invalidField([field], `continues more than ${MAX_CHAIN} responses: start anew, or send truncation "auto"`);
  const ownChars = last.content.length + input.content.length;
  const chain = chainBehind(id, newest.chain, ownChars);
  // The newest items first. Each block begins with a response that names the block before.
  const lists: JsonObject[][] = [];
  const add = (items: JsonObject[] | undefined): boolean => items !== undefined && lists.push(items) < MAX_CHAIN;
  const whole = (): JsonObject[] => lists.toReversed().flat();
  if (!add(await fitting(mayDrop, () => newest.items()))) return { items: [], chain };
  for (let { ids: block, chars } = newest.chain; block.length > 0;) {
    const documents = await kept.peek(
      block.flatMap((one) => [one, inputIdOf(one)]),
      chars,
    );
    const byId = new Map(documents.map((one) => [one.id, one]));
    let oldest: Continued | undefined;
    for (const earlier of block.toReversed()) {
      const [document, input] = [byId.get(earlier), byId.get(inputIdOf(earlier))];
      if (!document || !input) throw brokenChain(id, earlier);
      const items = await fitting(mayDrop, async () => {
        oldest = await continued(document, input, kept, room);
        return oldest.items();
      });
      if (!add(items)) return { items: withoutOrphans(whole()), chain };
    }
    await room.turn();
    ({ ids: block, chars } = oldest?.chain ?? NO_CHAIN);
  }
  return { items: whole(), chain };
}

/**
 * Returns the chain of a response that continues another one, from the other one's id and chain.
 *
 * @param ownChars The characters of the other one's documents, where they are known.
 */
export function chainBehind(id: string, { depth, ids, chars }: Chain, ownChars?: number): Chain {
  const begins = depth % BLOCK === 0;
  const before = begins ? 0 : chars;
  const known = before === undefined || ownChars === undefined ? undefined : before + ownChars;
  return { depth: depth + 1, ids: begins ? [id] : [...ids, id], ...(known !== undefined && { chars: known }) };
}

/** A response that another one continues. */
interface Continued {
  readonly status: string;
  readonly chain: Chain;
  /** Returns the items of its request and its output. */
  items(): Promise<JsonObject[]>;
}

async function continued(
  document: StoredDocument,
  input: StoredDocument,
  kept: KeptDocuments,
  room: Room,
): Promise<Continued> {
  const { head } = headOf(document) ?? {};
  if (head?.apart) {
    const { status = "", chain } = head;
    const items = async (): Promise<JsonObject[]> => {
      const [output] = await kept.peek([outputIdOf(document.id)]);
      const items = await itemsFrom(input, kept, room);
      return output ? [...items, ...(await itemsFrom(output, kept, room))] : items;
    };
    return { status, chain, items };
  }
  const [whole] = await kept.whole([document], room.admit);
  const { response, chain } = contentOf(whole ?? document, (one) => room.parse(one));
  const items = async (): Promise<JsonObject[]> => [...(await itemsFrom(input, kept, room)), ...outputOf(response)];
  return { status: textIn(response["status"]), chain, items };
}

/** Returns the items of the input or the output of a response, from its first document on. */
async function itemsFrom(first: StoredDocument, kept: KeptDocuments, room: Room): Promise<JsonObject[]> {
  const [document] = await kept.whole([first], room.admit);
  const items = document ? itemsOfChunk(room.parse(document)) : [];
  const more = chunkIds(first.id, 1 + moreOf(first)).slice(1);
  for (let at = 0; at < more.length; at += CHUNKS_A_READ) {
    const ids = more.slice(at, at + CHUNKS_A_READ);
    const byId = new Map((await kept.read(ids, room.admit)).map((one) => [one.id, one]));
    for (const id of ids) {
      const chunk = byId.get(id);
      if (chunk) items.push(...itemsOfChunk(room.parse(chunk)));
    }
    await room.turn();
  }
  return items;
}

/** The number of documents that follow the first one of an input or an output, which begins with this number. */
const moreOf = (first: StoredDocument | undefined): number =>
  Number(/^\{"more":(\d{1,9}),/.exec(first?.content ?? "")?.[1] ?? 0);

/** The ids of the documents that have the items of an input or an output. */
const chunkIds = (first: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => (index === 0 ? first : `${first}/${index}`));

/** Returns the documents for the items of an input or an output. */
function chunksOf(parentId: string, first: string, items: readonly JsonObject[]): NewKept[] {
  const chunks: { readonly items: JsonObject[]; readonly texts: string[] }[] = [{ items: [], texts: [] }];
  let chars = 0;
  for (const item of items) {
    const text = JSON.stringify(item);
    if (chars > 0 && chars + text.length > CHUNK_CHARS) {
      chunks.push({ items: [], texts: [] });
      chars = 0;
    }
    chars += text.length;
    chunks.at(-1)?.items.push(item);
    chunks.at(-1)?.texts.push(text);
  }
  const ids = chunkIds(first, chunks.length);
  return chunks.map(({ items, texts }, index) => {
    const head = index === 0 && chunks.length > 1 ? `"more":${chunks.length - 1},` : "";
    return {
      id: ids[index] ?? first,
      parentId,
      aliases: aliasesOf(items),
      content: `{${head}"input":[${texts.join(",")}]}`,
    };
  });
}

const CONTINUABLE: ReadonlySet<unknown> = new Set(["completed", "incomplete"]);

const outputOf = ({ output }: JsonObject): JsonObject[] =>
  Array.isArray(output) ? output.filter((item) => isJsonObject(item)) : [];

const itemsOfChunk = ({ input }: JsonObject): JsonObject[] =>
  Array.isArray(input) ? input.filter((item) => isJsonObject(item)) : [];

/** Returns the items that a document of any kind holds. */
function itemsOfDocument(document: KeptDocument, room: Room): JsonObject[] {
  const { parentId } = document;
  if (parentId === undefined)
    return isResponse(document) ? outputOf(contentOf(document, (one) => room.parse(one)).response) : [];
  const content = room.parse(document);
  return parentId.startsWith("resp_") ? itemsOfChunk(content) : [content];
}

/**
 * Returns all items of a conversation.
 *
 * @param mayDrop Leaves out the oldest items that do not fit into the limits of a request.
 */
async function itemsIn(
  id: string,
  kept: KeptDocuments | undefined,
  room: Room,
  mayDrop: boolean,
): Promise<JsonObject[]> {
  if (!kept || !(await hasConversation(id, kept))) throw noConversation(id);
  // The newest items first where the oldest may be left out.
  const order = mayDrop ? "desc" : "asc";
  const items: JsonObject[] = [];
  for (let after: string | undefined; ;) {
    const page = await kept.list(id, { ...PAGE, order, ...(after !== undefined && { after }) });
    for (const documents of mayDrop ? page.map((document) => [document]) : [page]) {
      const read = await fitting(mayDrop, async () =>
        (await kept.whole(documents, room.admit)).map((document) => room.parse(document)),
      );
      if (read) items.push(...read);
      if (!read || (mayDrop && items.length >= MAX_ITEMS)) return withoutOrphans(items.toReversed());
    }
    await room.turn();
    if (items.length > MAX_ITEMS)
      throw invalidField(["conversation"], `has more than ${MAX_ITEMS} items: start anew, or send truncation "auto"`);
    after = page.at(-1)?.id;
    if (after === undefined) return mayDrop ? items.toReversed() : items;
  }
}

/** Throws `invalid_request` for an item whose id the conversation has already: the conversation could not keep both. */
function assertNew(input: readonly JsonObject[], known: ReadonlySet<unknown>): void {
  for (const [index, item] of input.entries())
    if (typeof item["id"] === "string" && known.has(item["id"]) && !isReference(item))
      throw invalidField(["input", index, "id"], "the conversation has an item with this id already");
}

/** Finds the items that references name: in the context, or in any document of the key. */
async function itemsNamed(
  references: readonly JsonObject[],
  context: readonly JsonObject[],
  kept: KeptDocuments | undefined,
  room: Room,
): Promise<ReadonlyMap<unknown, JsonObject>> {
  const found = new Map<unknown, JsonObject>();
  const add = (items: readonly JsonObject[]): void => {
    for (const item of items) if (!isReference(item) && item["id"] != null) found.set(item["id"], item);
  };
  add(context);
  // A document may hold many of the items. It is read once, unless its items are asked for together.
  let missing: string[] = [];
  const names = [...new Set(references.map(({ id }) => textIn(id)))];
  for (const [at, name] of names.entries()) {
    if (!found.has(name)) missing.push(name);
    if (missing.length < REFERENCES_A_READ && at < names.length - 1) continue;
    for (const document of (missing.length > 0 && (await kept?.read(missing.map(aliasOf), room.admit))) || [])
      add(itemsOfDocument(document, room));
    missing = [];
    await room.turn();
  }
  return found;
}

/**
 * Replaces references by their items. Leaves out a reference to an item that stands before it.
 *
 * @param placed The ids of the items that stand before. The ids of these items are added.
 */
function dereferenced(
  items: readonly JsonObject[],
  found: ReadonlyMap<unknown, JsonObject>,
  placed: Set<unknown>,
  missing: (id: string, index: number) => GatewayError,
): JsonObject[] {
  return items.flatMap((item, index) => {
    const { id } = item;
    const isRepeated = isReference(item) && placed.has(id);
    placed.add(id);
    if (isRepeated) return [];
    const referred = isReference(item) ? found.get(id) : item;
    if (referred) return [referred];
    throw missing(textIn(id), index);
  });
}

/** Returns items with kept items in place of references. Throws `not_found` for a reference to nothing. */
export async function dereferencedItems(items: readonly JsonObject[], incoming: Incoming): Promise<JsonObject[]> {
  const found = await itemsNamed(items.filter(isReference), items, incoming.kept, new Room(incoming));
  return dereferenced(items, found, new Set(), (id, index) => noItem(id, ["items", index, "id"]));
}

/**
 * Returns a page of the input items of a kept response, with kept items in place of references as far as these are still there. Reads the
 * documents of the page alone, and others only to find `after`. Throws `not_found` for an `after` that is not there.
 */
export async function inputOf(
  id: string,
  kept: KeptDocuments,
  incoming: Incoming,
  { limit, order, after }: { readonly limit: number; readonly order: "asc" | "desc"; readonly after?: string },
): Promise<JsonObject[]> {
  const room = new Room(incoming, new JsonBudget(DOCUMENT_LIMITS));
  const first = inputIdOf(id);
  const named = after !== undefined && STORABLE.test(after) ? [aliasOf(after)] : [];
  const stored = await kept.peek([first, ...named]);
  const ids = chunkIds(first, 1 + moreOf(stored.find((one) => one.id === first)));
  if (order === "desc") ids.reverse();
  const items: JsonObject[] = [];
  let isShown = after === undefined;
  // The document that has the item `after`. Another response may have an item of the same id.
  const start = ids.findIndex(
    (chunk) => named.length > 0 && stored.some((one) => one.id === chunk && one.aliases.includes(named[0] ?? "")),
  );
  for (const wanted of ids.slice(Math.max(0, start))) {
    if (items.length >= limit) break;
    const [chunk] = await kept.read([wanted], isShown ? room.admit : undefined);
    const held = chunk ? itemsOfChunk(room.parse(chunk)) : [];
    for (const item of order === "desc" ? held.toReversed() : held) {
      if (isShown) items.push(item);
      isShown ||= item["id"] === after;
    }
    await nextIteration();
  }
  if (!isShown && after !== undefined) throw noItem(after, ["after"]);
  const page = items.slice(0, limit);
  const references = page.filter(isReference);
  if (references.length === 0) return page;
  const found = await itemsNamed(references, [], kept, room);
  return page.map((item) => (isReference(item) ? (found.get(item["id"]) ?? item) : item));
}

/** Throws `invalid_request` for a result without its call. */
function assertAnswered(items: readonly JsonObject[], firstOwn: number): void {
  const calls = new Set<unknown>();
  for (const [index, item] of items.entries()) {
    const { call_id } = item;
    if (isCall(item)) calls.add(call_id);
    if (isResult(item) && !calls.has(call_id)) {
      const at = Math.max(0, index - firstOwn);
      throw invalidField(["input", at, "call_id"], "answers no tool call of an earlier item");
    }
  }
}

/** Returns an id as errors name it. The longest id of a document has 190 characters. */
const named = (id: string): string => (id.length > 190 ? `${id.slice(0, 190)}…` : id);

/** Returns what a caller can do where nothing is kept. Some clients name earlier items by their ids unless they store nothing. */
const advice = (kept: KeptDocuments | undefined): string =>
  kept ? "" : ' Nothing is kept here: send the whole input, with "store": false.';

/** The error for a response that the key does not have, in the words of the official service. */
export const noResponse = (id: string, field?: string, more = ""): GatewayError =>
  field === undefined
    ? new GatewayError("not_found", `Response with id '${named(id)}' not found.`)
    : new GatewayError("not_found", `Previous response with id '${named(id)}' not found.${more}`, { path: [field] });

const brokenChain = (id: string, earlier: string): GatewayError =>
  new GatewayError("not_found", `The response '${earlier}', which '${id}' continues, was deleted or has expired.`, {
    path: ["previous_response_id"],
  });

export const noConversation = (id: string): GatewayError =>
  new GatewayError("not_found", `Conversation with id '${named(id)}' not found.`, { path: ["conversation"] });

export const noItem = (id: string, path?: FieldPath, more = ""): GatewayError =>
  new GatewayError("not_found", `Item with id '${named(id)}' not found.${more}`, path && { path });

/** The beginnings of the ids of items, by their types. */
const PREFIXES: Readonly<Record<string, string>> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  function_call_output: "fco",
  custom_tool_call: "ctc",
  custom_tool_call_output: "ctco",
};

/**
 * An id that a store can hold, beside the id of a conversation. Callers and upstreams give their items ids of their own.
 */
const STORABLE = /^[\u0021-\u007e]{1,128}$/;

/** The items beside messages that have a status when they are shown, and that callers send without one. */
const WITH_STATUS: ReadonlySet<JsonValue> = new Set([
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "shell_call",
  "shell_call_output",
  "computer_call_output",
]);

/** Returns the content of a message or of a result as it is shown: each picture has a detail. */
const shownContent = (content: JsonValue): JsonValue =>
  Array.isArray(content)
    ? content.map((part) =>
        isJsonObject(part) && part["type"] === "input_image" && part["detail"] == null
          ? { ...part, detail: "auto" }
          : part,
      )
    : content;

/**
 * Returns an item as it is kept and shown: with an id, a status, and its content as a list of parts. A reference stays as it is.
 *
 * @param base A text that no other response or request has.
 */
export function keptItem(item: JsonObject, base: string, index: number): JsonObject {
  if (isReference(item)) return item;
  const { type = "message", id, role, content, ...rest } = item;
  const known = typeof id === "string" && STORABLE.test(id) ? id : undefined;
  const prefix = PREFIXES[textIn(type)] ?? "item";
  const head = { id: known ?? `${prefix}_${base}_i${index}`, type };
  if (type !== "message")
    return {
      ...head,
      ...item,
      ...head,
      ...(item["output"] !== undefined && { output: shownContent(item["output"]) }),
      ...(WITH_STATUS.has(type) && { status: item["status"] ?? "completed" }),
    };
  const isAssistant = role === "assistant";
  const part = isAssistant
    ? { type: "output_text", text: content, annotations: [] }
    : { type: "input_text", text: content };
  const parts = typeof content === "string" ? [part as JsonObject] : content;
  return { ...head, status: "completed", ...rest, role: role ?? "user", content: shownContent(parts ?? []) };
}

/** Returns the part of a request's id that the ids of its response and items share. */
export const baseOf = (requestId: string): string => requestId.replace(/^req_/, "");

/** The gateway's own id for the response to a request. Support can find one by the other. */
export const responseIdOf = (requestId: string): string => `resp_${baseOf(requestId)}`;

/** Tells whether the caller wants the response kept. */
const isStored = ({ request }: AnswerContext): boolean => request.native?.body["store"] !== false;

const ownOf = ({ request }: AnswerContext): OwnInput => (request.native as ResponsesNative).own;

/**
 * Returns the fields of a response that is kept, or whose items are added to a conversation; undefined if the gateway has no store, or the
 * caller wants nothing kept.
 */
export function keptFields(context: AnswerContext): JsonObject | undefined {
  const { request, requestId, kept } = context;
  if (!kept || !request.native) return undefined;
  const { chain, conversation, previousId } = ownOf(context);
  const store = isStored(context);
  if (!store && conversation === undefined) return undefined;
  return {
    id: responseIdOf(requestId),
    store,
    previous_response_id: previousId ?? chain.ids.at(-1) ?? null,
    ...(conversation !== undefined && { conversation: { id: conversation } }),
  };
}

/** Returns the documents of a response: its own first. */
export function responseDocuments(
  context: AnswerContext,
  response: JsonObject,
  background = false,
): [NewKept, ...NewKept[]] {
  const { chain } = ownOf(context);
  const id = responseIdOf(context.requestId);
  const output = outputOf(response);
  const content = contentFrom({ response, chain, background });
  if (content.length <= CHUNK_CHARS) return [{ id, aliases: aliasesOf(output), content }];
  const whole = contentFrom({ response, chain, background, apart: true });
  // A response that begins has none: its documents must not stand in the way of those of its end.
  const apart = output.length > 0 ? chunksOf(id, outputIdOf(id), output) : [];
  return [{ id, aliases: [], content: whole }, ...apart];
}

export function inputDocuments({ request, requestId }: AnswerContext): NewKept[] {
  const { input } = (request.native as ResponsesNative).own;
  const base = baseOf(requestId);
  const id = responseIdOf(requestId);
  const items = input.map((item, index) => keptItem(item, base, index));
  return chunksOf(id, inputIdOf(id), items);
}

/** Returns the aliases of items for later lookups. Skips references, whose items are stored elsewhere. */
const aliasesOf = (items: readonly JsonObject[]): string[] => {
  const ids = items.filter((item) => !isReference(item)).map(({ id }) => id);
  return [...new Set(ids)].filter((id): id is string => typeof id === "string" && STORABLE.test(id)).map(aliasOf);
};

/**
 * Keeps a response, and adds its new items to its conversation: both or neither. A conversation that was deleted meanwhile gets nothing.
 *
 * @returns True when the response itself is kept.
 */
export async function keepResponse(context: AnswerContext, response: JsonObject): Promise<boolean> {
  const documents = isStored(context) ? [...responseDocuments(context, response), ...inputDocuments(context)] : [];
  if (!(await keepWith(context, response, documents))) await context.kept?.create(documents);
  return documents.length > 0;
}

/**
 * The most attempts to add items to a conversation to which other calls add items of the same ids. In the last one, every item gets an id of
 * its own, which no other call has.
 */
const MAX_ADDITIONS = 3;

/**
 * Creates documents, and adds the new items of a response to the conversation of its request: all or nothing. An item whose id the
 * conversation has got meanwhile gets an id of its own. Resolves with false when the conversation was deleted.
 */
export async function keepWith(
  context: AnswerContext,
  response: JsonObject,
  documents: readonly NewKept[],
): Promise<boolean> {
  const { kept } = context;
  const { conversation, known } = ownOf(context);
  const taken = new Set(known);
  if (!kept) return false;
  for (let tries = 1; tries <= MAX_ADDITIONS; tries++) {
    const items = newItemsOf(context, response, tries < MAX_ADDITIONS ? taken : "all");
    if (await kept.create([...documents, ...items])) return true;
    if (conversation === undefined || !(await hasConversation(conversation, kept))) return false;
    for (const id of await takenIn(conversation, items, kept)) taken.add(id);
  }
  return false;
}

export const hasConversation = async (id: string, kept: KeptDocuments): Promise<boolean> =>
  (await kept.peek([id])).some((found) => found.id === id && isConversation(found));

/** Returns the ids of those items that a conversation has already. */
async function takenIn(parentId: string, items: readonly NewKept[], kept: KeptDocuments): Promise<string[]> {
  const taken: string[] = [];
  for (let at = 0; at < items.length; at += BLOCK)
    for (const found of await kept.peek(items.slice(at, at + BLOCK).map(({ id }) => id)))
      if (found.parentId === parentId) taken.push(found.id.slice(itemDocumentId(parentId, "").length));
  return taken;
}

/** Returns the documents that a response adds to the conversation of its request: none without a conversation. */
function newItemsOf(context: AnswerContext, response: JsonObject, taken: ReadonlySet<unknown> | "all"): NewKept[] {
  const { items, conversation } = ownOf(context);
  if (conversation === undefined) return [];
  const base = baseOf(context.requestId);
  const input = items.map((item, index) => keptItem(item, base, index));
  // The upstream's items may be without ids, and some servers give the same ids in each answer.
  const output = outputOf(response).map((item, index) => keptItem(item, `${base}_o`, index));
  return conversationItems(conversation, [...input, ...output], base, taken);
}

/**
 * Returns the documents of items in a conversation. Of items with the same id, the later ones get ids of their own.
 *
 * @param base A text that no other response or request has.
 * @param known The ids of the items that the conversation has. `all` gives every item an id of its own.
 */
export function conversationItems(
  parentId: string,
  items: readonly JsonObject[],
  base: string,
  known: ReadonlySet<unknown> | "all" = new Set(),
): NewKept[] {
  const taken = new Set<unknown>(known === "all" ? [] : known);
  return items.map((item, index) => {
    const given = textIn(item["id"]);
    const isTaken = known === "all" || taken.has(given);
    const id = isTaken ? `item_${base}_n${index}` : given;
    taken.add(id);
    const content = JSON.stringify(isTaken ? { ...item, id } : item);
    return { id: itemDocumentId(parentId, id), aliases: [aliasOf(id)], parentId, content, isNew: true };
  });
}

/** The id of an item's document. Two conversations may have items of the same id. */
export const itemDocumentId = (conversation: string, id: string): string => `${conversation}/${id}`;

/** Tells whether a document is a conversation. */
export const isConversation = ({ id, parentId }: KeptDocument): boolean =>
  parentId === undefined && id.startsWith("conv_");

/** Tells whether a document is a response of this format, and not its lease. */
export const isResponse = ({ id, parentId }: KeptDocument): boolean =>
  parentId === undefined && /^resp_[^/]*$/.test(id);
