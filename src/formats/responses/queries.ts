/** The routes of kept responses and conversations, which the gateway answers itself. */

import { GatewayError } from "../../errors.ts";
import { queryOf } from "../../http/request.ts";
import { assertValid } from "../../http/validation.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeptDocument } from "../../ports/response-store.ts";
import type { FrameSource, Incoming, KeptDocuments, Query, QueryEndpoint } from "../format.ts";
import { pageSize } from "../shared/answer.ts";
import { cancelResponse, KeptStream, presentResponse } from "./background.ts";
import {
  contentOf,
  conversationItems,
  dereferencedItems,
  inputOf,
  isConversation,
  isResponse,
  itemDocumentId,
  keptItem,
  type KeptResponse,
  noConversation,
  noItem,
  noResponse,
  PAGE_BYTES,
} from "./kept.ts";
import { ChangedConversation, type InputItem, NewConversation, NewItems } from "./schema.ts";

/** The fields that all routes of the format share. */
type Common = Pick<QueryEndpoint, "format" | "credential" | "encodeError" | "rateHeaders">;

export function queries(common: Common, clock: Clock): QueryEndpoint[] {
  const base = { ...common, kind: "query", expiredKeysMayAsk: false, needsResponseStore: true } as const;
  const get = { ...base, method: "GET", body: "none" } as const;
  const remove = { ...base, method: "DELETE", body: "none" } as const;
  const post = { ...base, method: "POST", body: "json" } as const;
  return [
    {
      ...get,
      path: "/v1/responses/**",
      owns: hasShape("*", "*/input_items"),
      answer: readResponse(clock),
      stream: streamOf(clock),
    },
    {
      ...remove,
      path: "/v1/responses/**",
      owns: hasShape("*"),
      answer: async (_query, incoming) => {
        const [id] = idsIn(incoming);
        const { kept } = await findResponse(id, incoming);
        await kept.delete(id);
        return { id, object: "response", deleted: true };
      },
    },
    {
      ...post,
      body: "none",
      path: "/v1/responses/**",
      owns: hasShape("*/cancel", "compact"),
      answer: (_query, incoming) => {
        if (incoming.wildcardPath === "compact")
          throw new GatewayError("not_found", "This service cannot compact conversations.");
        return cancelResponse(
          keptOf(incoming),
          async () => (await findResponse(idsIn(incoming)[0], incoming)).document,
          clock.now(),
        );
      },
    },
    {
      ...post,
      path: "/v1/conversations",
      answer: async ({ body }, incoming) => createConversation(body ?? {}, incoming, Math.floor(clock.now() / 1000)),
    },
    { ...get, path: "/v1/conversations/**", owns: hasShape("*", "*/items", "*/items/*"), answer: readConversation },
    { ...post, path: "/v1/conversations/**", owns: hasShape("*", "*/items"), answer: changeConversation },
    { ...remove, path: "/v1/conversations/**", owns: hasShape("*", "*/items/*"), answer: deleteFromConversation },
  ];
}

/** Returns a test whether the end of an address has one of some shapes, in which `*` stands for an id. */
const hasShape =
  (...shapes: readonly string[]) =>
  (wildcardPath: string): boolean =>
    shapes.some((shape) => {
      const [wanted, written] = [shape.split("/"), wildcardPath.split("/")];
      return (
        wanted.length === written.length &&
        wanted.every((one, at) => (one === "*" ? written[at] !== "" : one === written[at]))
      );
    });

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
): Promise<{ readonly kept: KeptDocuments; readonly document: KeptDocument; readonly content: KeptResponse }> {
  const kept = keptOf(incoming);
  const [document] = await kept.read([id]);
  // An alias is the id of an item, not of a response.
  if (!document || document.id !== id || !isResponse(document)) throw noResponse(id);
  return { kept, document, content: contentOf(document) };
}

const readResponse =
  (clock: Clock) =>
  async (_query: Query, incoming: Incoming): Promise<object> => {
    const [id] = idsIn(incoming);
    const { kept, document } = await findResponse(id, incoming);
    if (!incoming.wildcardPath.endsWith("/input_items")) return presentResponse(kept, document, clock.now());
    const { limit, order, after } = pageOf(incoming);
    const input = await inputOf(id, kept, incoming);
    const items = order === "desc" ? input.toReversed() : input;
    const start = after === undefined ? 0 : items.findIndex((item) => item["id"] === after) + 1;
    if (after !== undefined && start === 0) throw noItem(after, ["after"]);
    return listOf(items.slice(start, start + limit + 1), limit);
  };

/** Returns the stream of a response that was made in the background; undefined for any other question. */
const streamOf =
  (clock: Clock) =>
  (_query: Query, incoming: Incoming): FrameSource | undefined => {
    const query = queryOf(incoming.request.url);
    if (query.get("stream") !== "true" || incoming.wildcardPath.includes("/")) return undefined;
    const after = Number(query.get("starting_after") || -1);
    if (!Number.isInteger(after) || after < -1)
      throw new GatewayError("invalid_request", "starting_after: must be the number of an event", {
        path: ["starting_after"],
      });
    const kept = keptOf(incoming);
    const find = async (): Promise<KeptDocument> => {
      const { document, content } = await findResponse(idsIn(incoming)[0], incoming);
      if (content.background) return document;
      throw new GatewayError(
        "invalid_request",
        "Only a response that was made in the background can be streamed later.",
        { path: ["stream"] },
      );
    };
    return new KeptStream(kept, find, after, () => clock.now());
  };

const MAX_PAGE = 100;

function pageOf({ request }: Incoming): {
  readonly limit: number;
  readonly order: "asc" | "desc";
  readonly after?: string;
} {
  const query = queryOf(request.url);
  const order = query.get("order") || "desc";
  if (order !== "asc" && order !== "desc")
    throw new GatewayError("invalid_request", 'order: must be "asc" or "desc"', { path: ["order"] });
  const after = query.get("after");
  return { limit: pageSize(query.get("limit"), "limit", 20, MAX_PAGE), order, ...(after && { after }) };
}

/** Returns a page in the shape of the format. Its items are one more than the page has room for, if another page follows. */
function listOf(items: readonly JsonObject[], limit: number, hasMore: boolean = items.length > limit): object {
  const data = items.slice(0, limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: hasMore,
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
  const [document] = await kept.read([id]);
  if (document?.id !== id || !isConversation(document)) throw noConversation(id);
  return { kept, document };
}

async function readConversation(_query: Query, incoming: Incoming): Promise<object> {
  const [id, itemId] = idsIn(incoming);
  const { kept, document } = await findConversation(id, incoming);
  if (itemId !== "") return objectIn(await findItem(kept, id, itemId));
  if (!incoming.wildcardPath.endsWith("/items")) return objectIn(document);
  const { limit, ...page } = pageOf(incoming);
  const after = page.after && itemDocumentId(id, page.after);
  const { order } = page;
  const found = await kept.list(id, { order, limit: limit + 1, maxBytes: PAGE_BYTES, ...(after && { after }) });
  // An empty page may follow the last item, or an item that is not there.
  if (page.after && found.length === 0) await findItem(kept, id, page.after, ["after"]);
  const last = found.at(-1)?.id;
  // Large items may have ended the page early.
  const isCut =
    last !== undefined && found.length <= limit && (await kept.list(id, { order, limit: 1, after: last })).length > 0;
  return listOf(found.map(objectIn), limit, isCut || found.length > limit);
}

async function findItem(
  kept: KeptDocuments,
  parentId: string,
  id: string,
  path?: readonly string[],
): Promise<KeptDocument> {
  const wanted = itemDocumentId(parentId, id);
  const [found] = await kept.read([wanted]);
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
    const known = await kept.read(added.map((item) => item.id));
    const repeated = known.find(({ parentId }) => parentId === id);
    if (repeated)
      throw new GatewayError("invalid_request", "items: the conversation has an item with one of these ids already", {
        path: ["items"],
      });
    if (!(await kept.create(added))) throw noConversation(id);
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
  await kept.delete(item.id);
  return objectIn(document);
}
