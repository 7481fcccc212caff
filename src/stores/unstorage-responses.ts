/** A ResponseStore over unstorage: keeps responses and conversations in files, Redis, S3 or any other driver, for one process. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { isJsonObject, parseJson } from "../model/json.ts";
import { assertMethods, assertOptions, CLOCK } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../ports/response-store.ts";
import { assertName } from "./memory-replays.ts";
import { assertNewDocument, assertPage, assertUpdate, bytesOf, isDocumentId, missingOf } from "./memory-responses.ts";

/** The part of an unstorage `Storage` that the store uses. `createStorage` and `prefixStorage` make such a storage. */
export interface ResponseStorage {
  getItem(key: string): Promise<unknown>;
  setItem(key: string, value: string): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
}

/** The keys of the documents in a storage. */
export interface UnstorageResponseStoreOptions {
  /** The prefix of the documents' keys: `polygate:responses` by default. */
  readonly base?: string;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** A response store over unstorage. */
export interface UnstorageResponseStore extends ResponseStore {
  /** Deletes all expired documents. The store itself deletes some of them as it creates others, at most every ten minutes. */
  sweep(): Promise<void>;
}

/** An operation of the storage that takes longer fails, in milliseconds. The next verbs of its key wait only so long. */
const STORAGE_TIMEOUT_MS = 5_000;
const SWEEP_EVERY_MS = 600_000;
/** The most expired documents that a sweep within `create` deletes, without their children, because the caller waits for the sweep. */
const SWEPT_WITH_A_DOCUMENT = 20;

/**
 * Makes a store that keeps responses and conversations in an unstorage storage. A storage cannot compare and write in one step, so **only one
 * process may use a storage**: its verbs wait for each other. With several processes, two updates of one revision may both succeed, and
 * an item of a conversation may be lost; use `polygate/stores/sql` there. A process that dies while it writes may leave a part of one
 * `create` or `delete`. An operation of the storage that takes longer than 5 seconds fails. The store has no bounds.
 *
 * @example
 * const responseStore = unstorageResponseStore(createStorage({ driver: fsDriver({ base: "./responses" }) }));
 */
export function unstorageResponseStore(
  storage: ResponseStorage,
  options: UnstorageResponseStoreOptions = {},
): UnstorageResponseStore {
  const methods = ["getItem", "setItem", "removeItem", "getKeys"] as const satisfies readonly (keyof ResponseStorage)[];
  assertMethods("unstorageResponseStore", "storage", storage, methods, "a storage of unstorage");
  assertOptions<UnstorageResponseStoreOptions>("unstorageResponseStore", options, {
    base: "string?",
    clock: CLOCK,
  });
  return new UnstorageResponses(storage, options);
}

/** A document without a parent, as it is stored. */
interface Root extends KeptDocument {
  /** The time at which the document expires, in milliseconds since the Unix epoch. */
  readonly endsAt: number;
  /** The position of the last child; children with higher positions are not created yet. */
  readonly children: number;
}

/** The place of a child. */
interface Pointer {
  readonly parentId: string;
  readonly position: number;
}

/** Returns a storage whose operations fail when they take too long. */
function inTime(storage: ResponseStorage, clock: Clock): ResponseStorage {
  const within = <T>(asked: Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const late = new Error(`The storage has taken longer than ${STORAGE_TIMEOUT_MS} ms.`);
      const cancel = clock.after(STORAGE_TIMEOUT_MS, () => reject(late));
      Promise.resolve(asked).then(resolve, reject).finally(cancel);
    });
  return {
    getItem: (key) => within(storage.getItem(key)),
    setItem: (key, value) => within(storage.setItem(key, value)),
    removeItem: (key) => within(storage.removeItem(key)),
    getKeys: (base) => within(storage.getKeys(base)),
  };
}

/** The last verb of each API key on each storage. One follows the other, also among stores that share a storage. */
const verbs = new WeakMap<ResponseStorage, Map<string, Promise<unknown>>>();

class UnstorageResponses implements UnstorageResponseStore {
  readonly #storage: ResponseStorage;
  readonly #base: string;
  readonly #clock: Clock;
  readonly #verbs: Map<string, Promise<unknown>>;
  #nextSweep: number;

  constructor(
    storage: ResponseStorage,
    { base = "polygate:responses", clock = systemClock }: UnstorageResponseStoreOptions,
  ) {
    this.#storage = inTime(storage, clock);
    this.#base = base;
    this.#clock = clock;
    this.#verbs = verbs.get(storage) ?? new Map<string, Promise<unknown>>();
    verbs.set(storage, this.#verbs);
    this.#nextSweep = clock.now() + SWEEP_EVERY_MS;
  }

  async create(keyId: string, documents: readonly NewDocument[]): Promise<boolean> {
    assertName("keyId", keyId);
    for (const document of documents) assertNewDocument(document);
    const isCreated = await this.#alone(keyId, () => this.#create(keyId, documents));
    if (this.#clock.now() >= this.#nextSweep) {
      this.#nextSweep = this.#clock.now() + SWEEP_EVERY_MS;
      // The documents stay created when the sweep fails.
      await this.#sweep(SWEPT_WITH_A_DOCUMENT).catch(() => {});
    }
    return isCreated;
  }

  async #create(keyId: string, documents: readonly NewDocument[]): Promise<boolean> {
    const found = new Map<string, Root | KeptDocument | undefined>();
    for (const id of new Set(documents.flatMap(({ id, parentId = id }) => [id, parentId])))
      found.set(id, await this.#find(keyId, id));
    const missing = missingOf(documents, (id) => found.get(id));
    if (!missing) return false;
    const now = this.#clock.now();
    const roots = new Map<string, Root>();
    for (const { id, parentId, aliases = [], content, retainMs } of missing) {
      const document = { id, aliases: [...new Set(aliases)], content, revision: 0 };
      if (parentId === undefined) {
        // An expired document may have had the same id.
        await this.#forget(keyId, id);
        roots.set(id, { ...document, endsAt: now + retainMs, children: 0 });
      } else {
        const parent = roots.get(parentId) ?? (found.get(parentId) as Root);
        const position = parent.children + 1;
        roots.set(parentId, { ...parent, children: position, endsAt: Math.max(parent.endsAt, now + retainMs) });
        await this.#set(this.#child(keyId, parentId, position), { ...document, parentId });
        await this.#set(this.#item("documents", keyId, id), { parentId, position } satisfies Pointer);
      }
      await this.#addAliases(keyId, id, aliases);
    }
    // A root counts its children, so writing the root is what creates them.
    for (const root of roots.values()) await this.#setRoot(keyId, root, found.get(root.id) as Root | undefined);
    return true;
  }

  async update(keyId: string, update: DocumentUpdate): Promise<boolean> {
    assertName("keyId", keyId);
    assertUpdate(update);
    const { id, content, retainMs } = update;
    return this.#alone(keyId, async () => {
      const found = await this.#find(keyId, id);
      if (found?.revision !== update.revision) return false;
      const aliases = update.aliases ? [...new Set(update.aliases)] : found.aliases;
      await this.#addAliases(keyId, id, aliases);
      const changed = { ...found, content, aliases, revision: found.revision + 1 };
      if ("endsAt" in found)
        await this.#setRoot(keyId, { ...found, ...changed, endsAt: this.#clock.now() + retainMs }, found);
      else {
        const pointer = (await this.#get(this.#item("documents", keyId, id))) as Pointer;
        await this.#set(this.#child(keyId, pointer.parentId, pointer.position), changed);
      }
      const kept = new Set(aliases);
      for (const alias of found.aliases)
        if (!kept.has(alias)) await this.#storage.removeItem(this.#alias(keyId, alias, id));
      return true;
    });
  }

  read(keyId: string, ids: readonly string[]): Promise<readonly KeptDocument[]> {
    return this.#alone(keyId, () => this.#read(keyId, ids));
  }

  async #read(keyId: string, ids: readonly string[]): Promise<readonly KeptDocument[]> {
    const found = new Map<string, KeptDocument>();
    for (const id of new Set(ids)) {
      const document = (await this.#find(keyId, id)) ?? (await this.#findByAlias(keyId, id));
      if (document) found.set(document.id, plain(document));
    }
    return [...found.values()];
  }

  async list(keyId: string, parentId: string, page: DocumentPage): Promise<readonly KeptDocument[]> {
    assertPage(page);
    return this.#alone(keyId, () => this.#list(keyId, parentId, page));
  }

  async #list(
    keyId: string,
    parentId: string,
    { limit, order, after, maxBytes = Number.POSITIVE_INFINITY }: DocumentPage,
  ): Promise<readonly KeptDocument[]> {
    const parent = await this.#find(keyId, parentId);
    if (!parent || !("endsAt" in parent)) return [];
    const step = order === "asc" ? 1 : -1;
    let position = order === "asc" ? 0 : parent.children + 1;
    if (after !== undefined) {
      if ((await this.#find(keyId, after))?.parentId !== parentId) return [];
      position = ((await this.#get(this.#item("documents", keyId, after))) as Pointer).position;
    }
    const found: KeptDocument[] = [];
    let bytes = 0;
    while (found.length < limit) {
      position += step;
      if (position < 1 || position > parent.children) break;
      // Deleted children leave a gap.
      const child = (await this.#get(this.#child(keyId, parentId, position))) as KeptDocument | undefined;
      if (!child) continue;
      bytes += bytesOf(child);
      if (bytes > maxBytes && found.length > 0) break;
      found.push(child);
    }
    return found;
  }

  async delete(keyId: string, id: string): Promise<boolean> {
    return this.#alone(keyId, async () => {
      const found = await this.#find(keyId, id);
      if (!found) return false;
      if (found.parentId === undefined) {
        await this.#forget(keyId, id);
        return true;
      }
      const pointer = (await this.#get(this.#item("documents", keyId, id))) as Pointer;
      await this.#forgetChild(keyId, found.parentId, pointer.position);
      return true;
    });
  }

  async sweep(): Promise<void> {
    await this.#sweep(Number.POSITIVE_INFINITY);
  }

  async #sweep(most: number): Promise<void> {
    const now = this.#clock.now();
    const notes = await this.#storage.getKeys(`${this.#base}:expiries`);
    const expired = notes.filter((note) => Number(/(?:^|:)(\d+)\.[^:]*$/.exec(note)?.[1]) <= now);
    for (const note of expired.slice(0, most)) {
      const noted = await this.#get(note);
      if (!isJsonObject(noted)) continue;
      const { keyId, id } = noted as { readonly keyId: string; readonly id: string };
      await this.#alone(keyId, async () => {
        if (!(await this.#find(keyId, id))) await this.#forget(keyId, id);
      });
      await this.#storage.removeItem(note);
    }
  }

  /**
   * Does work when the verbs of the key before it are done. Reads wait too, because some drivers show an item that is still being written.
   */
  #alone<Result>(keyId: string, work: () => Promise<Result>): Promise<Result> {
    const name = `${this.#base} ${keyId}`;
    const before = this.#verbs.get(name) ?? Promise.resolve();
    const done = before.then(work, work);
    const last = done.then(
      () => {},
      () => {},
    );
    this.#verbs.set(name, last);
    void last.then(() => this.#verbs.get(name) === last && this.#verbs.delete(name));
    return done;
  }

  /** Finds a document that has not expired by its id. */
  async #find(keyId: string, id: string): Promise<Root | KeptDocument | undefined> {
    if (!isDocumentId(id)) return undefined;
    const item = await this.#get(this.#item("documents", keyId, id));
    if (!isJsonObject(item)) return undefined;
    const found = item as unknown as Root | Pointer;
    if ("endsAt" in found) return found.endsAt > this.#clock.now() ? found : undefined;
    const { parentId, position } = found;
    const parent = await this.#find(keyId, parentId);
    if (!parent || !("endsAt" in parent) || position > parent.children) return undefined;
    const child = (await this.#get(this.#child(keyId, parentId, position))) as KeptDocument | undefined;
    return child?.id === id ? child : undefined;
  }

  async #findByAlias(keyId: string, alias: string): Promise<Root | KeptDocument | undefined> {
    if (!isDocumentId(alias)) return undefined;
    for (const key of await this.#storage.getKeys(this.#item("aliases", keyId, alias))) {
      const item = await this.#get(key);
      const id = isJsonObject(item) ? item["id"] : undefined;
      const found = typeof id === "string" ? await this.#find(keyId, id) : undefined;
      if (found?.aliases.includes(alias)) return found;
    }
    return undefined;
  }

  async #addAliases(keyId: string, id: string, aliases: readonly string[]): Promise<void> {
    for (const alias of new Set(aliases)) await this.#set(this.#alias(keyId, alias, id), { id });
  }

  /** Writes a root, and the note that lets a sweep find the root when it expires. */
  async #setRoot(keyId: string, root: Root, before: Root | undefined): Promise<void> {
    const { id, endsAt } = root;
    if (before?.endsAt !== endsAt) await this.#set(this.#note(keyId, id, endsAt), { keyId, id });
    await this.#set(this.#item("documents", keyId, id), root);
    if (before && before.endsAt !== endsAt) await this.#storage.removeItem(this.#note(keyId, id, before.endsAt));
  }

  /** Deletes all that is stored of a document without a parent. The root goes first, so that nothing of the rest is found. */
  async #forget(keyId: string, id: string): Promise<void> {
    const key = this.#item("documents", keyId, id);
    const item = await this.#get(key);
    if (!isJsonObject(item) || !("endsAt" in item)) return;
    const root = item as unknown as Root;
    await this.#storage.removeItem(key);
    for (const alias of root.aliases) await this.#storage.removeItem(this.#alias(keyId, alias, id));
    for (let position = 1; position <= root.children; position++) await this.#forgetChild(keyId, id, position);
    await this.#storage.removeItem(this.#note(keyId, id, root.endsAt));
  }

  async #forgetChild(keyId: string, parentId: string, position: number): Promise<void> {
    const key = this.#child(keyId, parentId, position);
    const child = (await this.#get(key)) as KeptDocument | undefined;
    if (!child) return;
    await this.#storage.removeItem(key);
    await this.#storage.removeItem(this.#item("documents", keyId, child.id));
    for (const alias of child.aliases) await this.#storage.removeItem(this.#alias(keyId, alias, child.id));
  }

  /**
   * Returns an item as JSON, which some drivers have parsed already. An item that a dying process has written in part does not exist.
   */
  async #get(key: string): Promise<unknown> {
    const item = await this.#storage.getItem(key);
    if (typeof item !== "string") return item ?? undefined;
    try {
      return parseJson(item);
    } catch {
      return undefined;
    }
  }

  #set(key: string, value: object): Promise<void> {
    return this.#storage.setItem(key, JSON.stringify(value));
  }

  // The names of items are hashes: drivers change some characters of a name, or ignore their case.

  #item(of: "documents" | "aliases", keyId: string, id: string): string {
    return `${this.#base}:${of}:${hashOf(keyId)}:${hashOf(id)}`;
  }

  #alias(keyId: string, alias: string, id: string): string {
    return `${this.#item("aliases", keyId, alias)}:${hashOf(id)}`;
  }

  #child(keyId: string, parentId: string, position: number): string {
    return `${this.#base}:children:${hashOf(keyId)}:${hashOf(parentId)}:${position}`;
  }

  #note(keyId: string, id: string, endsAt: number): string {
    return `${this.#base}:expiries:${endsAt}.${hashOf(JSON.stringify([keyId, id]))}`;
  }
}

const hashOf = (text: string): string => bytesToHex(sha256(utf8ToBytes(text)));

const plain = ({ id, aliases, parentId, content, revision }: KeptDocument): KeptDocument => ({
  id,
  aliases,
  ...(parentId !== undefined && { parentId }),
  content,
  revision,
});
