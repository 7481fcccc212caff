/** The routes of kept responses and conversations, which the gateway answers itself. */

import { GatewayError, invalidField } from "../../errors.ts";
import { JsonPieces, RawJson } from "../../http/answer.ts";
import { queryOf } from "../../http/request.ts";
import { assertValid } from "../../http/validation.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeptDocument } from "../../ports/response-store.ts";
import type { FrameSource, Incoming, KeptDocuments, Query, QueryEndpoint, StoredDocument } from "../format.ts";
import { pageSize } from "../shared/answer.ts";
import {
  cancelResponse,
  KeptStream,
  leaseOf,
  presentResponse,
  type StoredResponse,
  wholeResponse,
} from "./background.ts";
import {
  contentOf,
  conversationItems,
  dereferencedItems,
  hasConversation,
  headOf,
  inputOf,
  isConversation,
  isResponse,
  itemDocumentId,
  keptItem,
  noConversation,
  noItem,
  noResponse,
  PAGE_CHARS,
} from "./kept.ts";
import { ROUTES } from "./routes.ts";
import { ChangedConversation, type InputItem, NewConversation, NewItems } from "./schema.ts";

/** Returns the endpoints of kept responses and conversations, in the order of their routes. */
export function queries(clock: Clock): QueryEndpoint[] {
  const asked = { kind: "query", body: "none", expiredKeysMayAsk: false } as const;
  const sent = { ...asked, body: "json" } as const;
  return [
    {
      ...ROUTES.readResponse,
      ...asked,
      answer: readResponse,
      stream: streamOf,
    },
    {
      ...ROUTES.deleteResponse,
      ...asked,
      answer: async (_query, incoming) => {
        const [id] = idsIn(incoming);
        const { kept, head } = await findResponse(id, incoming);
        await kept.delete(id);
        // The process that makes the response then stops.
        if (head.background) await kept.delete(leaseOf(id));
        return { id, object: "response", deleted: true };
      },
    },
    {
      ...ROUTES.cancelResponse,
      ...asked,
      answer: async (_query, incoming) => {
        if (incoming.wildcardPath === "compact")
          throw new GatewayError("not_found", "This service cannot compact conversations.");
        const kept = keptOf(incoming);
        return responseAnswer(kept, await cancelResponse(kept, () => findResponse(idsIn(incoming)[0], incoming)));
      },
    },
    {
      ...ROUTES.createConversation,
      ...sent,
      answer: async ({ body }, incoming) => createConversation(body ?? {}, incoming, Math.floor(clock.now() / 1000)),
    },
    { ...ROUTES.readConversation, ...asked, answer: readConversation },
    { ...ROUTES.changeConversation, ...sent, answer: changeConversation },
    { ...ROUTES.deleteConversation, ...asked, answer: deleteFromConversation },
  ];
}

/** Returns the ids in an address: those of a response or a conversation, and of an item. */
const idsIn = ({ wildcardPath }: Incoming): [string, string] => {
  const [id = "", , item = ""] = wildcardPath.split("/");
  return [decoded(id), decoded(item)];
};

/** Returns a part of an address in plain text. A part that is encoded wrongly stays as it is, and is the id of nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const NO_STORE = "This service keeps no responses.";

function keptOf({ kept }: Incoming): KeptDocuments {
  if (kept) return kept;
  throw new GatewayError("not_found", NO_STORE);
}

function objectIn({ content }: Pick<KeptDocument, "content">): JsonObject {
  const parsed = parseJson(content);
  return isJsonObject(parsed) ? parsed : {};
}

async function findResponse(
  id: string,
  incoming: Incoming,
): Promise<StoredResponse & { readonly kept: KeptDocuments; readonly start?: number }> {
  const kept = keptOf(incoming);
  const [document] = await kept.peek([id]);
  if (!document || document.id !== id || !isResponse(document)) throw noResponse(id);
  const told = headOf(document);
  if (told) return { kept, document, ...told };
  const [whole] = await kept.whole([document]);
  if (!whole) throw noResponse(id);
  const content = contentOf(whole);
  const status = content.response["status"];
  return { kept, document, head: { ...content, ...(typeof status === "string" && { status }) } };
}

/** Returns the body of a response. Leaves the stored text unchanged where possible. */
async function responseAnswer(
  kept: KeptDocuments,
  { document, failed }: StoredResponse & { readonly failed?: JsonObject },
): Promise<unknown> {
  const { start } = headOf(document) ?? {};
  if (failed || start === undefined) return wholeResponse(kept, document, failed);
  return jsonOf(kept, [{ ...document, content: document.content.slice(start) }]);
}

/** Returns JSON of texts and of the contents of documents, as they are stored: in pieces, when a document is large. */
function jsonOf(kept: KeptDocuments, texts: readonly (string | StoredDocument)[]): RawJson | JsonPieces {
  const known = texts.map((text) => (typeof text === "string" ? text : text.content));
  if (texts.every((text) => typeof text === "string" || !text.parts)) return new RawJson(known.join(""));
  return new JsonPieces(
    piecesOf(kept, texts),
    known.reduce((chars, text) => chars + text.length, 0),
  );
}

async function* piecesOf(kept: KeptDocuments, texts: readonly (string | StoredDocument)[]): AsyncGenerator<string> {
  for (const text of texts) {
    if (typeof text === "string") yield text;
    else
      for await (const piece of kept.pieces(text)) {
        if (piece === undefined) throw noResponse(text.id);
        yield piece;
      }
  }
}

async function readResponse(_query: Query, incoming: Incoming): Promise<unknown> {
  const [id] = idsIn(incoming);
  const { kept } = await findResponse(id, incoming);
  if (!incoming.wildcardPath.endsWith("/input_items"))
    return responseAnswer(kept, await presentResponse(kept, () => findResponse(id, incoming)));
  const { limit, ...page } = pageOf(incoming);
  return listOf(await inputOf(id, kept, incoming, { ...page, limit: limit + 1 }), limit);
}

/** Returns the stream of a response that was made in the background; undefined for any other question. */
function streamOf(_query: Query, incoming: Incoming): FrameSource | undefined {
  const query = queryOf(incoming.request.url);
  if (query.get("stream") !== "true" || incoming.wildcardPath.includes("/")) return undefined;
  const after = Number(query.get("starting_after") || -1);
  if (!Number.isInteger(after) || after < -1) throw invalidField(["starting_after"], "must be the number of an event");
  const [id] = idsIn(incoming);
  const find = async (): Promise<StoredResponse> => {
    const found = await findResponse(id, incoming);
    if (found.head.background) return found;
    throw new GatewayError(
      "invalid_request",
      "Only a response that was made in the background can be streamed later.",
      {
        path: ["stream"],
      },
    );
  };
  return new KeptStream(keptOf(incoming), find, after);
}

const MAX_PAGE = 100;

function pageOf({ request }: Incoming): {
  readonly limit: number;
  readonly order: "asc" | "desc";
  readonly after?: string;
} {
  const query = queryOf(request.url);
  const order = query.get("order") || "desc";
  if (order !== "asc" && order !== "desc") throw invalidField(["order"], 'must be "asc" or "desc"');
  const after = query.get("after");
  return { limit: pageSize(query.get("limit"), "limit", 20, MAX_PAGE), order, ...(after && { after }) };
}

/** Returns a page in the shape of the format. Its items are one more than the page has room for, if another page follows. */
function listOf(items: readonly JsonObject[], limit: number): object {
  const data = items.slice(0, limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: items.length > limit,
  };
}

async function createConversation(body: unknown, incoming: Incoming, createdAt: number): Promise<object> {
  const kept = keptOf(incoming);
  assertValid(NewConversation, body);
  const base = newBase();
  const id = `conv_${base}`;
  const conversation = { id, object: "conversation", created_at: createdAt, metadata: body.metadata ?? {} };
  const first = conversationItems(id, await newItems(body.items ?? [], incoming, base), base);
  await kept.create([{ id, content: JSON.stringify(conversation) }, ...first]);
  return conversation;
}

/** Returns items as they are kept. A reference becomes the item that it names. */
async function newItems(items: readonly InputItem[], incoming: Incoming, base: string): Promise<JsonObject[]> {
  const found = await dereferencedItems(items as unknown as JsonObject[], incoming);
  return found.map((item, at) => keptItem(item, base, at));
}

const newBase = (): string => crypto.randomUUID().replaceAll("-", "");

async function findConversation(
  id: string,
  incoming: Incoming,
): Promise<{ readonly kept: KeptDocuments; readonly document: KeptDocument }> {
  const kept = keptOf(incoming);
  const [document] = await kept.peek([id]);
  if (document?.id !== id || !isConversation(document)) throw noConversation(id);
  return { kept, document };
}

async function readConversation(_query: Query, incoming: Incoming): Promise<unknown> {
  const [id, itemId] = idsIn(incoming);
  const { kept, document } = await findConversation(id, incoming);
  if (itemId !== "") return jsonOf(kept, [await findItem(kept, id, itemId)]);
  if (!incoming.wildcardPath.endsWith("/items")) return objectIn(document);
  const { limit, order, after: lastId } = pageOf(incoming);
  const found: StoredDocument[] = [];
  let after = lastId && itemDocumentId(id, lastId);
  let left = PAGE_CHARS;
  let isOver = false;
  // Large items end a page early. The page has one item more than are shown, if another one follows.
  while (!isOver && found.length <= limit && left > 0) {
    const page = { limit: limit + 1 - found.length, order, maxChars: left, ...(after && { after }) };
    const documents = await kept.list(id, page);
    for (const { chars } of documents) left -= chars;
    found.push(...documents);
    after = documents.at(-1)?.id;
    isOver = after === undefined;
  }
  // An empty page may follow the last item, or an item that is not there.
  if (lastId && found.length === 0) await findItem(kept, id, lastId, ["after"]);
  const shown = found.slice(0, limit);
  const ids = shown.map((item) => item.id.slice(itemDocumentId(id, "").length));
  const end = { first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null, has_more: !isOver };
  const data = shown.flatMap((item, at) => (at > 0 ? [",", item] : [item]));
  return jsonOf(kept, ['{"object":"list","data":[', ...data, `],${JSON.stringify(end).slice(1)}`]);
}

async function findItem(
  kept: KeptDocuments,
  parentId: string,
  id: string,
  path?: readonly string[],
): Promise<StoredDocument> {
  const wanted = itemDocumentId(parentId, id);
  const [found] = await kept.peek([wanted]);
  if (found?.id === wanted && found.parentId === parentId) return found;
  throw noItem(id, path);
}

async function changeConversation({ body }: Query, incoming: Incoming): Promise<object> {
  const [id] = idsIn(incoming);
  const { kept, document } = await findConversation(id, incoming);
  if (incoming.wildcardPath.endsWith("/items")) {
    assertValid(NewItems, body);
    const base = newBase();
    const added = conversationItems(id, await newItems(body.items, incoming, base), base);
    if (!(await kept.create(added))) {
      if (!(await hasConversation(id, kept))) throw noConversation(id);
      throw invalidField(["items"], "the conversation has an item with one of these ids already");
    }
    return listOf(added.map(objectIn), added.length);
  }
  assertValid(ChangedConversation, body);
  const changed = { ...objectIn(document), metadata: body.metadata ?? {} };
  const isChanged = await kept.update({ id, revision: document.revision, content: JSON.stringify(changed) });
  if (!isChanged)
    throw new GatewayError("busy", "The conversation is being changed by another call.", { retryAfterMs: 100 });
  return changed;
}

async function deleteFromConversation(_query: Query, incoming: Incoming): Promise<object> {
  const [id, itemId] = idsIn(incoming);
  const { kept, document } = await findConversation(id, incoming);
  if (itemId === "") {
    await kept.delete(id);
    return { id, object: "conversation.deleted", deleted: true };
  }
  const item = await findItem(kept, id, itemId);
  await kept.delete(item.id, item);
  return objectIn(document);
}
