/** The reference ResponseStore: documents in memory, for one process; and the rules that all stores of responses share. */

import { GatewayError } from "../errors.ts";
import { utf8Length } from "../model/json.ts";
import { assertOptions, CLOCK } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../ports/response-store.ts";
import { SharedRoom } from "../ports/shared-room.ts";
import { assertInteger } from "./ledger.ts";
import { assertName } from "./memory-replays.ts";

/** The room for documents in memory. */
export interface MemoryResponseStoreOptions {
  /** The most documents: a positive integer, 100,000 by default. */
  readonly maxDocuments?: number;
  /** The most documents of one API key: a positive integer, half of `maxDocuments` by default. */
  readonly maxDocumentsPerKey?: number;
  /** The most bytes that all documents together may take: a positive integer, 256 MiB by default. */
  readonly maxBytes?: number;
  /** The most bytes of the documents of one API key: a positive integer, half of `maxBytes` by default. */
  readonly maxBytesPerKey?: number;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** A store of responses in memory, with the room that its documents take. */
export interface MemoryResponseStore extends ResponseStore {
  /** The number of documents now, including expired documents that the store has not deleted yet. */
  readonly documents: number;
  /** The size of all documents now, in bytes. */
  readonly bytes: number;
}

/**
 * Makes a store that keeps responses and conversations in memory. When a key exceeds its share, its own oldest documents are deleted. When
 * the whole store is full, the oldest documents of the key that has the most are deleted.
 *
 * @throws RangeError for a bound that is not a positive integer.
 * @example
 * const responseStore = memoryResponseStore({ maxBytes: 64 * 1024 * 1024 });
 */
export function memoryResponseStore(options: MemoryResponseStoreOptions = {}): MemoryResponseStore {
  assertOptions<MemoryResponseStoreOptions>("memoryResponseStore", options, {
    maxDocuments: "positive?",
    maxDocumentsPerKey: "positive?",
    maxBytes: "positive?",
    maxBytesPerKey: "positive?",
    clock: CLOCK,
  });
  return new MemoryResponses(options);
}

const DEFAULT_MAX_DOCUMENTS = 100_000;
const DEFAULT_MAX_BYTES = 256 * 1024 ** 2;
/** A verb deletes at most this many expired documents, not counting their children, so that it stays quick. */
const EXPIRED_AT_ONCE = 64;

/** A document, with its links to parent, siblings and children. */
interface Entry {
  readonly shelf: Shelf;
  readonly parent: Entry | undefined;
  document: KeptDocument;
  bytes: number;
  /** The time at which the document expires, in milliseconds since the Unix epoch. Unused for a child. */
  endsAt: number;
  first: Entry | undefined;
  last: Entry | undefined;
  previous: Entry | undefined;
  next: Entry | undefined;
}

interface Shelf {
  readonly keyId: string;
  readonly byId: Map<string, Entry>;
  readonly byAlias: Map<string, Set<Entry>>;
  /** The documents without a parent, the oldest first. */
  readonly roots: Set<Entry>;
}

class MemoryResponses implements MemoryResponseStore {
  /** The shared room of the store, counted in documents. */
  readonly #slots: SharedRoom;
  /** The shared room of the store, counted in bytes. */
  readonly #room: SharedRoom;
  readonly #clock: Clock;
  readonly #shelves = new Map<string, Shelf>();
  /** The documents without a parent, the first to expire on top. */
  readonly #expiries = new Heap<Entry>((one, other) => one.endsAt < other.endsAt);
  /** The keys, on top the key with the most documents, and the key with the most bytes. */
  readonly #mostDocuments: Heap<Shelf>;
  readonly #mostBytes: Heap<Shelf>;

  constructor(options: MemoryResponseStoreOptions) {
    const { maxDocuments = DEFAULT_MAX_DOCUMENTS, maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
    const slots = new SharedRoom(maxDocuments, options.maxDocumentsPerKey, ["maxDocuments", "maxDocumentsPerKey"]);
    const room = new SharedRoom(maxBytes, options.maxBytesPerKey, ["maxBytes", "maxBytesPerKey"]);
    this.#slots = slots;
    this.#room = room;
    this.#mostDocuments = new Heap((one, other) => slots.heldBy(one.keyId) > slots.heldBy(other.keyId));
    this.#mostBytes = new Heap((one, other) => room.heldBy(one.keyId) > room.heldBy(other.keyId));
    this.#clock = clock;
  }

  get documents(): number {
    return this.#slots.taken;
  }

  get bytes(): number {
    return this.#room.taken;
  }

  async create(keyId: string, documents: readonly NewDocument[]): Promise<boolean> {
    assertName("keyId", keyId);
    for (const document of documents) assertNewDocument(document);
    this.#expire(EXPIRED_AT_ONCE);
    const missing = missingOf(documents, (id) => this.#find(keyId, id)?.document);
    if (!missing) return false;
    const bytes = missing.reduce((total, document) => total + bytesOf(document), 0);
    const named = documents.flatMap(({ id, parentId }) => [id, parentId ?? id]);
    this.#makeRoom(keyId, named, missing.length, bytes);
    for (const document of missing) this.#add(keyId, document);
    return true;
  }

  async update(keyId: string, update: DocumentUpdate): Promise<boolean> {
    assertName("keyId", keyId);
    assertUpdate(update);
    this.#expire(EXPIRED_AT_ONCE);
    const entry = this.#find(keyId, update.id);
    if (entry?.document.revision !== update.revision) return false;
    const { content, retainMs } = update;
    const aliases = update.aliases ? [...new Set(update.aliases)] : entry.document.aliases;
    const bytes = bytesOf({ content, aliases });
    this.#makeRoom(keyId, [(entry.parent ?? entry).document.id], 0, bytes - entry.bytes);
    this.#removeAliases(entry);
    this.#count(entry.shelf, 0, bytes - entry.bytes);
    entry.document = { ...entry.document, content, aliases, revision: update.revision + 1 };
    entry.bytes = bytes;
    this.#addAliases(entry);
    entry.endsAt = this.#clock.now() + retainMs;
    if (!entry.parent) this.#expiries.place(entry);
    return true;
  }

  async read(keyId: string, ids: readonly string[]): Promise<readonly KeptDocument[]> {
    const found = new Set<KeptDocument>();
    for (const id of ids) {
      const entry = this.#find(keyId, id) ?? this.#findByAlias(keyId, id);
      if (entry) found.add(entry.document);
    }
    return [...found];
  }

  async list(keyId: string, parentId: string, page: DocumentPage): Promise<readonly KeptDocument[]> {
    assertPage(page);
    const { limit, order, after, maxBytes = Number.POSITIVE_INFINITY } = page;
    const parent = this.#find(keyId, parentId);
    const shown = after === undefined ? undefined : this.#find(keyId, after);
    if (!parent || (after !== undefined && shown?.parent !== parent)) return [];
    const documents: KeptDocument[] = [];
    const [first, next] = order === "asc" ? (["first", "next"] as const) : (["last", "previous"] as const);
    let bytes = 0;
    for (let child = shown ? shown[next] : parent[first]; child && documents.length < limit; child = child[next]) {
      bytes += child.bytes;
      if (bytes > maxBytes && documents.length > 0) break;
      documents.push(child.document);
    }
    return documents;
  }

  async delete(keyId: string, id: string): Promise<boolean> {
    const entry = this.#find(keyId, id);
    if (entry) this.#remove(entry);
    return entry !== undefined;
  }

  /** Finds a document by its id. Deletes an expired document instead. */
  #find(keyId: string, id: string): Entry | undefined {
    const entry = this.#shelves.get(keyId)?.byId.get(id);
    if (!entry) return undefined;
    const root = entry.parent ?? entry;
    if (root.endsAt > this.#clock.now()) return entry;
    this.#remove(root);
    return undefined;
  }

  #findByAlias(keyId: string, alias: string): Entry | undefined {
    // An expired holder is deleted when it is met.
    for (const { document } of this.#shelves.get(keyId)?.byAlias.get(alias) ?? []) {
      const entry = this.#find(keyId, document.id);
      if (entry) return entry;
    }
    return undefined;
  }

  #expire(most: number): void {
    const now = this.#clock.now();
    for (let count = 0; count < most; count++) {
      const { top } = this.#expiries;
      if (!top || top.endsAt > now) return;
      this.#remove(top);
    }
  }

  /**
   * Makes room for more documents of a key: deletes expired documents, then the oldest of the key itself, or of the key that has the most.
   * Throws `busy` when that does not free enough room.
   *
   * @param named The ids of documents that must stay.
   */
  #makeRoom(keyId: string, named: readonly string[], documents: number, bytes: number): void {
    const fits = (room: SharedRoom, amount: number): boolean =>
      amount <= 0 || (amount <= room.free && room.heldBy(keyId) + amount <= room.mostPerKey);
    const rooms = [
      { room: this.#slots, amount: documents, most: this.#mostDocuments },
      { room: this.#room, amount: bytes, most: this.#mostBytes },
    ];
    if (rooms.every(({ room, amount }) => fits(room, amount))) return;
    this.#expire(Number.POSITIVE_INFINITY);
    const kept = new Set(named.map((id) => this.#shelves.get(keyId)?.byId.get(id)));
    for (const { room, amount, most } of rooms) {
      // Delete nothing for documents that are larger than the room that their key may have.
      if (amount > room.mostPerKey) throw full();
      while (!fits(room, amount)) {
        const held = room.heldBy(keyId) + amount;
        const { top } = most;
        const isOther = held <= room.mostPerKey && top !== undefined && room.heldBy(top.keyId) > held;
        const roots = (isOther ? top : this.#shelves.get(keyId))?.roots ?? [];
        const oldest = firstOf(roots, (root) => !kept.has(root));
        if (!oldest) throw full();
        this.#remove(oldest);
      }
    }
  }

  #add(keyId: string, { retainMs, aliases, isNew: _isNew, ...document }: NewDocument): void {
    const shelf = this.#shelves.get(keyId) ?? { keyId, byId: new Map(), byAlias: new Map(), roots: new Set() };
    this.#shelves.set(keyId, shelf);
    const parent = document.parentId === undefined ? undefined : shelf.byId.get(document.parentId);
    const entry: Entry = {
      shelf,
      parent,
      document: { ...document, aliases: [...new Set(aliases)], revision: 0 },
      bytes: bytesOf({ ...document, aliases: aliases ?? [] }),
      endsAt: this.#clock.now() + retainMs,
      first: undefined,
      last: undefined,
      previous: parent?.last,
      next: undefined,
    };
    if (parent) {
      if (parent.last) parent.last.next = entry;
      else parent.first = entry;
      parent.last = entry;
      parent.endsAt = Math.max(parent.endsAt, entry.endsAt);
      this.#expiries.place(parent);
    } else {
      shelf.roots.add(entry);
      this.#expiries.place(entry);
    }
    shelf.byId.set(document.id, entry);
    this.#addAliases(entry);
    this.#count(shelf, 1, entry.bytes);
  }

  #addAliases(entry: Entry): void {
    const { byAlias } = entry.shelf;
    for (const alias of entry.document.aliases) {
      const holders = byAlias.get(alias);
      if (holders) holders.add(entry);
      else byAlias.set(alias, new Set([entry]));
    }
  }

  #removeAliases(entry: Entry): void {
    const { byAlias } = entry.shelf;
    for (const alias of entry.document.aliases) {
      const holders = byAlias.get(alias);
      holders?.delete(entry);
      if (holders?.size === 0) byAlias.delete(alias);
    }
  }

  /** Removes a document with its children. */
  #remove(entry: Entry): void {
    const { parent, previous, next, shelf } = entry;
    if (previous) previous.next = next;
    else if (parent) parent.first = next;
    if (next) next.previous = previous;
    else if (parent) parent.last = previous;
    shelf.roots.delete(entry);
    this.#expiries.delete(entry);
    for (let child = entry.first; child; child = child.next) this.#forget(child);
    this.#forget(entry);
    if (shelf.byId.size > 0) return;
    this.#shelves.delete(shelf.keyId);
    this.#mostDocuments.delete(shelf);
    this.#mostBytes.delete(shelf);
  }

  #forget(entry: Entry): void {
    this.#removeAliases(entry);
    entry.shelf.byId.delete(entry.document.id);
    this.#count(entry.shelf, -1, -entry.bytes);
  }

  #count(shelf: Shelf, documents: number, bytes: number): void {
    this.#slots.add(shelf.keyId, documents);
    this.#room.add(shelf.keyId, bytes);
    this.#mostDocuments.place(shelf);
    this.#mostBytes.place(shelf);
  }
}

function firstOf<T>(items: Iterable<T>, matches: (item: T) => boolean): T | undefined {
  for (const item of items) if (matches(item)) return item;
  return undefined;
}

/** The error of a store, or of the share of a key, that has no room. */
export const full = (): GatewayError =>
  new GatewayError("busy", "The store of responses is full.", { port: "response-store" });

/**
 * Returns the documents of a `create` that must be added. Returns undefined when a document names a parent that does not exist, or that is
 * itself a child, and when a document that must be new exists.
 *
 * @param find Finds a document of the same key that exists already.
 */
export function missingOf(
  documents: readonly NewDocument[],
  find: (id: string) => { readonly parentId?: string } | undefined,
): readonly NewDocument[] | undefined {
  const missing = new Map<string, NewDocument>();
  for (const document of documents) {
    const { id, parentId, isNew } = document;
    if (parentId !== undefined) {
      const parent = find(parentId) ?? missing.get(parentId);
      if (!parent || parent.parentId !== undefined) return undefined;
    }
    const isThere = missing.has(id) || find(id) !== undefined;
    if (isThere && isNew) return undefined;
    if (!isThere) missing.set(id, document);
  }
  return [...missing.values()];
}

/** The size of a document beside its texts, in bytes. */
const DOCUMENT_BYTES = 512;
/** The size of an alias beside its text, in bytes. */
const ALIAS_BYTES = 256;

/** The room that a document takes in a store, in bytes. */
export const bytesOf = ({ content, aliases = [] }: Pick<NewDocument, "content" | "aliases">): number =>
  DOCUMENT_BYTES + utf8Length(content) + aliases.reduce((total, alias) => total + ALIAS_BYTES + alias.length, 0);

// The checks below reject values that a database cannot store, or would return changed.

export function assertNewDocument({ id, aliases = [], parentId, content, retainMs }: NewDocument): void {
  for (const name of [id, ...aliases, ...(parentId === undefined ? [] : [parentId])]) assertDocumentId(name);
  assertContent(content);
  assertInteger("retainMs", retainMs, 1);
}

export function assertUpdate({ id, aliases = [], content, revision, retainMs }: DocumentUpdate): void {
  for (const name of [id, ...aliases]) assertDocumentId(name);
  assertContent(content);
  assertInteger("revision", revision, 0);
  assertInteger("retainMs", retainMs, 1);
}

export const assertPage = ({ limit }: DocumentPage): void => assertInteger("limit", limit, 1);

function assertDocumentId(id: string): void {
  if (!isDocumentId(id)) throw new RangeError("A document's id must be 1 to 190 visible ASCII characters.");
}

export const isDocumentId = (id: string): boolean => /^[\u0021-\u007e]{1,190}$/.test(id);

export function assertContent(content: string): void {
  if (!content.isWellFormed() || content.includes("\0"))
    throw new RangeError("A document's content must be well-formed text.");
}

/** A binary heap whose items can be moved and deleted. Each operation takes logarithmic time. */
class Heap<T> {
  readonly #isBefore: (one: T, other: T) => boolean;
  readonly #items: T[] = [];
  readonly #positions = new Map<T, number>();

  constructor(isBefore: (one: T, other: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get top(): T | undefined {
    return this.#items[0];
  }

  /** Adds an item, or moves it after its rank has changed. */
  place(item: T): void {
    const at = this.#positions.get(item) ?? this.#items.length;
    this.#down(item, this.#up(item, at));
  }

  delete(item: T): void {
    const at = this.#positions.get(item);
    if (at === undefined) return;
    this.#positions.delete(item);
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#down(last, this.#up(last, at));
  }

  /** Moves the items above a free position down until `item` fits. Returns the position where it fits. */
  #up(item: T, from: number): number {
    let at = from;
    while (at > 0) {
      const above = this.#items[(at - 1) >> 1];
      if (above === undefined || !this.#isBefore(item, above)) break;
      this.#set(at, above);
      at = (at - 1) >> 1;
    }
    return at;
  }

  /** Moves the items below a free position up until `item` fits, and puts it there. */
  #down(item: T, from: number): void {
    let at = from;
    for (;;) {
      const [left, right] = [this.#items[2 * at + 1], this.#items[2 * at + 2]];
      const isRight = left !== undefined && right !== undefined && this.#isBefore(right, left);
      const below = isRight ? right : left;
      if (below === undefined || !this.#isBefore(below, item)) break;
      this.#set(at, below);
      at = 2 * at + (isRight ? 2 : 1);
    }
    this.#set(at, item);
  }

  #set(at: number, item: T): void {
    this.#items[at] = item;
    this.#positions.set(item, at);
  }
}
