/** The response store over SQL: each document is a row, and each change is a short transaction that locks the rows it concerns. */

import { type RawBuilder, sql } from "kysely";
import { assertOptions } from "../../options.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../../ports/response-store.ts";
import { assertName } from "../memory-replays.ts";
import {
  assertNewDocument,
  assertPage,
  assertUpdate,
  bytesOf,
  full,
  isDocumentId,
  missingOf,
} from "../memory-responses.ts";
import { SQL_SHAPES, SqlAccess, type SqlStoreOptions } from "./database.ts";
import { type DocumentTable, numberOf, type StoredInteger } from "./tables.ts";

/** Options of the response store over SQL. */
export interface SqlResponseStoreOptions extends SqlStoreOptions {
  /** The most documents of one API key: a positive integer, 100,000 by default. */
  readonly maxDocumentsPerKey?: number;
  /** The most bytes of the documents of one API key: a positive integer, 1 GiB by default. */
  readonly maxBytesPerKey?: number;
}

/** A response store over SQL. */
export interface SqlResponseStore extends ResponseStore {
  /** Deletes all expired documents, and returns their number without children. The store itself deletes some of them as it creates others. */
  sweep(): Promise<number>;
}

/** The most documents that are deleted at once, without their children. */
const BATCH = 100;
/**
 * After this many created documents, a process deletes expired documents and checks the bounds of one key. Until then the key may exceed its
 * bounds.
 */
const CREATED_A_SWEEP = 32;
/** The most values in one statement's list. */
const MOST_VALUES = 500;
/** A statement inserts at most this many rows, and about this many characters of their texts. */
const MOST_ROWS = 100;
const MOST_CHARS = 1024 * 1024;

/**
 * Makes a store that keeps responses and conversations in SQLite, PostgreSQL, MySQL or MariaDB, for any number of processes. Its tables must
 * have been made by `migrate`. Documents expire by the database's clock. MySQL accepts only statements of up to `max_allowed_packet` bytes:
 * set this to 4 MiB at least.
 *
 * @throws RangeError for a bound that is not a positive integer.
 * @example
 * const responseStore = sqlResponseStore({ db: new Kysely({ dialect: nodePostgresDialect(pool) }), dialect: "postgres" });
 */
export function sqlResponseStore(options: SqlResponseStoreOptions): SqlResponseStore {
  assertOptions<SqlResponseStoreOptions>("sqlResponseStore", options, {
    ...SQL_SHAPES,
    maxDocumentsPerKey: "positive?",
    maxBytesPerKey: "positive?",
  });
  return new SqlResponses(options);
}

class SqlResponses implements SqlResponseStore {
  readonly #access: SqlAccess;
  readonly #maxDocuments: number;
  readonly #maxBytes: number;
  /** The documents that this process has created since its last sweep. */
  #created = 0;

  constructor({ maxDocumentsPerKey = 100_000, maxBytesPerKey = 1024 ** 3, ...options }: SqlResponseStoreOptions) {
    this.#access = SqlAccess.open(options);
    this.#maxDocuments = maxDocumentsPerKey;
    this.#maxBytes = maxBytesPerKey;
  }

  async create(keyId: string, documents: readonly NewDocument[]): Promise<boolean> {
    assertName("keyId", keyId);
    for (const document of documents) assertNewDocument(document);
    const created = await this.#access.transact((access) =>
      this.#create(new LockedDocuments(access, keyId), documents),
    );
    this.#created += created ?? 0;
    if (this.#created >= CREATED_A_SWEEP) {
      this.#created = 0;
      // The documents stay created when the sweep fails. A later sweep tries again.
      await this.#sweepOnce()
        .then(() => this.#holdBounds(keyId))
        .catch(() => {});
    }
    return created !== undefined;
  }

  /** Returns the number of documents that were created; undefined when a parent is missing. */
  async #create(locked: LockedDocuments, documents: readonly NewDocument[]): Promise<number | undefined> {
    const found = await locked.find(documents.flatMap(({ id, parentId = id }) => [id, parentId]));
    const missing = missingOf(documents, (id) => found.get(id));
    if (!missing || missing.length === 0) return missing?.length;
    const bytes = missing.reduce((total, document) => total + bytesOf(document), 0);
    if (missing.length > this.#maxDocuments || bytes > this.#maxBytes) throw full();
    // Count the children under the lock of their parent. So a child with a higher position is never visible before one with a lower.
    const families = new Map<string, Family>();
    const positions = missing.map(({ parentId, retainMs }) => {
      if (parentId === undefined) return 0;
      const family = families.get(parentId) ?? { children: found.get(parentId)?.children ?? 0, retainMs };
      family.children++;
      family.retainMs = Math.max(family.retainMs, retainMs);
      families.set(parentId, family);
      return family.children;
    });
    await locked.insert(missing, positions, families);
    for (const [id, { children, retainMs }] of families) {
      const leftMs = found.get(id)?.leftMs;
      if (leftMs !== undefined) await locked.addChildren(id, children, retainMs > leftMs ? retainMs : undefined);
    }
    return missing.length;
  }

  async update(keyId: string, update: DocumentUpdate): Promise<boolean> {
    assertName("keyId", keyId);
    assertUpdate(update);
    const { id, content, retainMs } = update;
    return this.#access.transact(async (access) => {
      const locked = new LockedDocuments(access, keyId);
      const found = (await locked.find([id])).get(id);
      if (found?.revision !== update.revision) return false;
      const aliases = [...new Set(update.aliases ?? found.aliases)];
      const bytes = bytesOf({ content, aliases });
      if (bytes > this.#maxBytes) throw full();
      await locked.update(id, {
        content: encoded(content),
        aliases: aliases.join(" "),
        bytes,
        revision: update.revision + 1,
        ...(found.parentId === undefined && { ends_at: after(access, retainMs) }),
      });
      if (update.aliases) await locked.replaceAliases({ ...found, aliases });
      return true;
    });
  }

  async read(keyId: string, ids: readonly string[]): Promise<readonly KeptDocument[]> {
    const wanted = [...new Set(ids)].filter(isDocumentId);
    const found = new Map((await this.#read(keyId, wanted)).map((document) => [document.id, document]));
    const others = wanted.filter((id) => !found.has(id));
    const holders = new Set((await inPieces(others, (piece) => this.#holders(keyId, piece))).map(({ id }) => id));
    for (const document of await this.#read(
      keyId,
      [...holders].filter((id) => !found.has(id)),
    ))
      found.set(document.id, document);
    return [...found.values()];
  }

  async list(keyId: string, parentId: string, page: DocumentPage): Promise<readonly KeptDocument[]> {
    assertPage(page);
    const { limit, order, after, maxBytes } = page;
    if (!isDocumentId(parentId) || (after !== undefined && !isDocumentId(after))) return [];
    const children = (documents: number) =>
      this.#live()
        .where("d.key_id", "=", keyId)
        .where("d.root_id", "=", parentId)
        .where("d.position", ">", 0)
        .$if(after !== undefined, (query) =>
          // A child that does not exist has no position, so that the page is empty.
          query.where("d.position", order === "asc" ? ">" : "<", (eb) =>
            eb
              .selectFrom("documents as shown")
              .select("shown.position")
              .where("shown.key_id", "=", keyId)
              .where("shown.root_id", "=", parentId)
              .where("shown.id", "=", after ?? "")
              .where("shown.position", ">", 0),
          ),
        )
        .orderBy("d.position", order)
        .limit(documents);
    // Read the sizes first: the contents of a page may be larger than the memory.
    const sizes = maxBytes === undefined ? undefined : await this.#access.all(children(limit).select("d.bytes"));
    const fitting = sizes && maxBytes !== undefined ? fittingIn(sizes, maxBytes) : limit;
    if (fitting === 0) return [];
    const rows = await this.#access.all(children(fitting).select(CONTENT));
    return rows.map(documentOf);
  }

  async delete(keyId: string, id: string): Promise<boolean> {
    if (!isDocumentId(id)) return false;
    return this.#access.transact(async (access) => {
      const locked = new LockedDocuments(access, keyId);
      const found = (await locked.find([id])).get(id);
      if (found?.parentId === undefined) await locked.deleteRoots(found ? [id] : []);
      else await locked.deleteChild(found);
      return found !== undefined;
    });
  }

  async sweep(): Promise<number> {
    let total = 0;
    for (let swept = await this.#sweepOnce(); swept > 0; swept = await this.#sweepOnce()) total += swept;
    return total;
  }

  /** Selects the documents that have not expired. */
  #live() {
    const { db, time } = this.#access;
    return db
      .selectFrom("documents as d")
      .innerJoin("documents as root", (join) =>
        join.onRef("root.key_id", "=", "d.key_id").onRef("root.id", "=", "d.root_id"),
      )
      .where("root.ends_at", ">", time);
  }

  #read(keyId: string, ids: readonly string[]): Promise<KeptDocument[]> {
    return inPieces(ids, async (piece) => {
      const rows = await this.#access.all(
        this.#live().where("d.key_id", "=", keyId).where("d.id", "in", piece).select(CONTENT),
      );
      return rows.map(documentOf);
    });
  }

  /** Returns the id of one document for each alias. */
  #holders(keyId: string, aliases: readonly string[]): Promise<{ id: string }[]> {
    const { db, time } = this.#access;
    return this.#access.all(
      db
        .selectFrom("aliases as a")
        .innerJoin("documents as root", (join) =>
          join.onRef("root.key_id", "=", "a.key_id").onRef("root.id", "=", "a.root_id"),
        )
        .select((eb) => eb.fn.max("a.document_id").as("id"))
        .where("a.key_id", "=", keyId)
        .where("a.alias", "in", aliases)
        .where("root.ends_at", ">", time)
        .groupBy("a.alias"),
    );
  }

  async #sweepOnce(): Promise<number> {
    const { db, time } = this.#access;
    // A subquery, because PostgreSQL uses no index for a comparison with a function whose result may change.
    const now = sql<StoredInteger>`(SELECT ${time})`;
    const expired = await this.#access.all(
      db.selectFrom("documents").select(["key_id", "id"]).where("ends_at", "<=", now).limit(BATCH),
    );
    for (const rows of Map.groupBy(expired, keyOf).values())
      await this.#access.transact((access) =>
        // `find` deletes the expired documents that it meets.
        new LockedDocuments(access, rows[0]?.key_id ?? "").find(rows.map(({ id }) => id)),
      );
    return expired.length;
  }

  /** Deletes the oldest documents of a key that exceeds its bounds. */
  async #holdBounds(keyId: string): Promise<void> {
    for (;;) {
      const [total] = await this.#sizes(keyId, "key_id");
      let surplus = (total?.documents ?? 0) - this.#maxDocuments;
      let surplusBytes = (total?.bytes ?? 0) - this.#maxBytes;
      if (surplus <= 0 && surplusBytes <= 0) return;
      const oldest = await this.#access.all(
        this.#access.db
          .selectFrom("documents")
          .select("id")
          .where("key_id", "=", keyId)
          .where("position", "=", 0)
          .orderBy("seq")
          .limit(BATCH),
      );
      const ids = oldest.map(({ id }) => id);
      if (ids.length === 0) return;
      const sizes = new Map((await this.#sizes(keyId, "root_id", ids)).map((size) => [size.id, size]));
      const deleted = ids.filter((id) => {
        const isDeleted = surplus > 0 || surplusBytes > 0;
        surplus -= isDeleted ? (sizes.get(id)?.documents ?? 0) : 0;
        surplusBytes -= isDeleted ? (sizes.get(id)?.bytes ?? 0) : 0;
        return isDeleted;
      });
      await this.#access.transact((access) => new LockedDocuments(access, keyId).deleteRoots(deleted));
    }
  }

  /** Returns the number and the size of all documents of a key, or of each of its documents without a parent. */
  async #sizes(
    keyId: string,
    by: "key_id" | "root_id",
    rootIds?: readonly string[],
  ): Promise<{ id: string; documents: number; bytes: number }[]> {
    const rows = await this.#access.all(
      this.#access.db
        .selectFrom("documents")
        .select((eb) => [`${by} as id` as const, eb.fn.countAll().as("documents"), eb.fn.sum("bytes").as("bytes")])
        .where("key_id", "=", keyId)
        .$if(rootIds !== undefined, (query) => query.where("root_id", "in", rootIds ?? []))
        .groupBy(by),
    );
    return rows.map(({ id, documents, bytes }) => ({ id, documents: numberOf(documents), bytes: numberOf(bytes) }));
  }
}

/** Returns the number of documents at the beginning of a page that fit into `maxBytes` together: one at least, if there is one. */
function fittingIn(sizes: readonly { readonly bytes: StoredInteger }[], maxBytes: number): number {
  let left = maxBytes;
  const end = sizes.findIndex(({ bytes }) => (left -= numberOf(bytes)) < 0);
  return end < 0 ? sizes.length : Math.max(1, end);
}

/** The columns of a document as it is read. */
const CONTENT = ["d.id", "d.root_id", "d.aliases", "d.content", "d.revision"] as const;

/** A document whose row is locked. */
interface LockedDocument extends Pick<KeptDocument, "id" | "parentId" | "aliases" | "revision"> {
  readonly children: number;
  /** The time until the document, or its parent, expires, in milliseconds. */
  readonly leftMs: number;
}

/** The children of a document to which some are added. */
interface Family {
  children: number;
  /** The longest time of a new child, in milliseconds. */
  retainMs: number;
}

/** The documents of one key, within a transaction. */
class LockedDocuments {
  readonly #access: SqlAccess;
  readonly #keyId: string;

  constructor(access: SqlAccess, keyId: string) {
    this.#access = access;
    this.#keyId = keyId;
  }

  /** Locks and returns the documents with these ids, except expired documents: they are deleted. */
  async find(ids: readonly string[]): Promise<Map<string, LockedDocument>> {
    // Read the rows by a later statement, which sees the changes of the transactions that held the locks before. Leave out a row that was
    // inserted meanwhile, because it is not locked.
    const lockedIds = await this.#lock([...new Set(ids)]);
    const rows = await inPieces(lockedIds, (piece) =>
      this.#access.db
        .selectFrom("documents as d")
        .innerJoin("documents as root", (join) =>
          join.onRef("root.key_id", "=", "d.key_id").onRef("root.id", "=", "d.root_id"),
        )
        .select(["d.id", "d.root_id", "d.aliases", "d.revision", "d.children", "root.ends_at"])
        .select(this.#access.time.as("now"))
        .where("d.key_id", "=", this.#keyId)
        .where("d.id", "in", piece)
        .execute(),
    );
    const [live, expired] = [new Map<string, LockedDocument>(), new Set<string>()];
    for (const row of rows) {
      const leftMs = numberOf(row.ends_at ?? 0) - numberOf(row.now);
      if (leftMs <= 0) expired.add(row.root_id);
      else live.set(row.id, { ...documentOf({ ...row, content: "" }), children: numberOf(row.children), leftMs });
    }
    await this.deleteRoots([...expired]);
    return live;
  }

  /** Locks rows until the transaction ends, and returns their ids. */
  #lock(ids: readonly string[]): Promise<string[]> {
    const { db, dialect } = this.#access;
    return inPieces(ids, async (piece) => {
      // In SQLite the first statement of a transaction must write, so that the transaction takes the write lock at once.
      const rows =
        dialect === "sqlite"
          ? await db
              .updateTable("documents")
              .set((eb) => ({ revision: eb.ref("revision") }))
              .where("key_id", "=", this.#keyId)
              .where("id", "in", piece)
              .returning("id")
              .execute()
          : await db
              .selectFrom("documents")
              .select("id")
              .where("key_id", "=", this.#keyId)
              .where("id", "in", piece)
              .orderBy("seq")
              .forUpdate()
              .execute();
      return rows.map(({ id }) => id);
    });
  }

  /** @param families The children of each new document that has some. */
  async insert(
    documents: readonly NewDocument[],
    positions: readonly number[],
    families: ReadonlyMap<string, Family>,
  ): Promise<void> {
    const { db } = this.#access;
    const rows = documents.map(({ id, parentId, aliases, content, retainMs }, index) => ({
      key_id: this.#keyId,
      id,
      root_id: parentId ?? id,
      position: positions[index] ?? 0,
      children: families.get(id)?.children ?? 0,
      revision: 0,
      ends_at: parentId === undefined ? after(this.#access, Math.max(retainMs, families.get(id)?.retainMs ?? 0)) : null,
      aliases: [...new Set(aliases)].join(" "),
      content: encoded(content),
      bytes: bytesOf({ content, aliases: aliases ?? [] }),
    }));
    for (let at = 0; at < rows.length;) {
      let [end, chars] = [at, 0];
      do chars += rows[end++]?.content.length ?? 0;
      while (end < rows.length && end - at < MOST_ROWS && chars < MOST_CHARS);
      await db.insertInto("documents").values(rows.slice(at, end)).execute();
      at = end;
    }
    await this.#insertAliases(documents);
  }

  async #insertAliases(documents: readonly Pick<NewDocument, "id" | "parentId" | "aliases">[]): Promise<void> {
    const rows = documents.flatMap(({ id, parentId, aliases }) =>
      Array.from(new Set(aliases), (alias) => ({
        key_id: this.#keyId,
        alias,
        root_id: parentId ?? id,
        document_id: id,
      })),
    );
    await inPieces(rows, async (piece) => {
      await this.#access.db.insertInto("aliases").values(piece).execute();
      return [];
    });
  }

  async update(id: string, change: Partial<DocumentRow>): Promise<void> {
    const update = this.#access.db.updateTable("documents").set(change).where("key_id", "=", this.#keyId);
    await update.where("id", "=", id).execute();
  }

  /** @param retainMs Renews the time of the document; undefined leaves it. */
  async addChildren(id: string, children: number, retainMs: number | undefined): Promise<void> {
    await this.update(id, { children, ...(retainMs !== undefined && { ends_at: after(this.#access, retainMs) }) });
  }

  async replaceAliases(document: Pick<NewDocument, "id" | "parentId" | "aliases">): Promise<void> {
    await this.#deleteAliases(document);
    await this.#insertAliases([document]);
  }

  async #deleteAliases({ id, parentId = id }: Pick<NewDocument, "id" | "parentId">): Promise<void> {
    const aliases = this.#access.db.deleteFrom("aliases").where("key_id", "=", this.#keyId);
    await aliases.where("root_id", "=", parentId).where("document_id", "=", id).execute();
  }

  async deleteChild(document: LockedDocument): Promise<void> {
    await this.#deleteAliases(document);
    const documents = this.#access.db.deleteFrom("documents").where("key_id", "=", this.#keyId);
    await documents.where("id", "=", document.id).execute();
  }

  /** Deletes documents without a parent, and all their children. */
  async deleteRoots(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    // Wait for transactions that add children: the next statements must see these children.
    await this.#lock(ids);
    for (const table of ["aliases", "documents"] as const)
      await this.#access.db.deleteFrom(table).where("key_id", "=", this.#keyId).where("root_id", "in", ids).execute();
  }
}

/** A row to write. The database computes the document's end. */
type DocumentRow = Omit<DocumentTable, "seq" | "ends_at"> & { readonly ends_at: RawBuilder<number> | null };

const after = ({ time }: SqlAccess, ms: number): RawBuilder<number> => sql<number>`${time} + ${sql.lit(ms)}`;

/** MySQL returns the ids of keys as bytes, which cannot be compared with `===`. */
const keyOf = ({ key_id }: { readonly key_id: unknown }): string => String(key_id);

const encoded = (content: string): string => Buffer.from(content).toString("base64");

function documentOf(
  row: Pick<DocumentTable, "id" | "root_id" | "aliases" | "content"> & { readonly revision: StoredInteger },
): KeptDocument {
  return {
    id: row.id,
    ...(row.root_id !== row.id && { parentId: row.root_id }),
    aliases: row.aliases === "" ? [] : row.aliases.split(" "),
    content: Buffer.from(row.content, "base64").toString(),
    revision: numberOf(row.revision),
  };
}

/** Runs `work` for at most `MOST_VALUES` items at a time, and joins the results. */
async function inPieces<Item, Result>(
  items: readonly Item[],
  work: (piece: readonly Item[]) => Promise<readonly Result[]>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += MOST_VALUES)
    results.push(...(await work(items.slice(at, at + MOST_VALUES))));
  return results;
}
