/** The port for stores of responses and conversations, which callers of the Responses format ask for again. */

import type { CallInfo } from "./call-info.ts";

/**
 * Keeps documents: responses, conversations and the items of conversations. Each document belongs to one API key, and no other key can
 * see it: the same id may exist once for each key. A document may have children, and a child has no children of its own.
 *
 * Promises, which `polygate/testing` checks:
 * - A document that `create` has made is there for every later verb, in every process, until it is deleted or has expired.
 * - The documents of one `create` are created all together or not at all. A document whose id its key already has stays as it is, also when
 *   several calls create it at once. Of several calls that create it with `isNew` at once, exactly one succeeds.
 * - Of several updates of one revision, exactly one succeeds, also when several processes share the store.
 * - `read` finds a document by its id, and by each of its aliases. When several documents have an alias, `read` returns one of them.
 * - `list` returns the children of a document in the order in which they were created, each once. The children of one `create` stand
 *   together. A new child comes after all children that any reader has seen, so that pages have no gaps while other processes add children.
 * - `delete` removes a document with all its children and aliases, at once.
 * - A document without a parent expires when its `retainMs` has passed since it was created or last updated, by the store's own clock. A
 *   child lives as long as its parent. A parent that gets a child lives for the child's `retainMs` at least.
 * - A store may have bounds. A full store forgets documents of the key that needs room early, the oldest first, each with its children. It
 *   never forgets documents of a key that has less.
 *
 * A store counts as down when a verb rejects, or takes longer than `limits.storeTimeoutMs`. `create` and `update` reject with a RangeError
 * when a value is outside the limits below. The other verbs treat a text that cannot be an id as an unknown id.
 */
export interface ResponseStore<Context = unknown> {
  /**
   * Creates documents of one key, in their order. A parent may be created in the same call, before its children. Resolves with false, and
   * creates nothing, when a document names a parent that does not exist, or a parent that is itself a child, and when a document that is
   * `isNew` exists already. Rejects with a GatewayError `busy`, and creates nothing, when the documents take more room than their key may have.
   */
  create(keyId: string, documents: readonly NewDocument[], call?: CallInfo<Context>): Promise<boolean>;
  /**
   * Replaces the content and the expiry of a document. Resolves with false when the document does not exist or has another revision. Rejects
   * like `create` when the document takes more room than its key may have.
   */
  update(keyId: string, update: DocumentUpdate, call?: CallInfo<Context>): Promise<boolean>;
  /** Returns the documents with these ids or aliases, each once, in any order. An id goes before an alias. Unknown ids are left out. */
  read(keyId: string, ids: readonly string[], call?: CallInfo<Context>): Promise<readonly KeptDocument[]>;
  /** Returns a page of the children of a document. The page is empty when the document or `after` does not exist. */
  list(keyId: string, parentId: string, page: DocumentPage, call?: CallInfo<Context>): Promise<readonly KeptDocument[]>;
  /** Deletes a document with its children. Resolves with false when it does not exist. */
  delete(keyId: string, id: string, call?: CallInfo<Context>): Promise<boolean>;
}

/** A document to create. */
export interface NewDocument {
  /**
   * 1 to 190 visible ASCII characters. Where two parents may have items of the same id, put the id of the parent into this id, and the id of
   * the item into `aliases`.
   */
  readonly id: string;
  /** Further ids that find the document, such as the ids of its items. An alias follows the rules of `id`, but need not be unique. */
  readonly aliases?: readonly string[];
  /** The id of the document that this document belongs to. */
  readonly parentId?: string;
  /** Any text without NUL and lone surrogates: JSON, or JSON that `encryptedResponseStore` has encrypted. */
  readonly content: string;
  /** The time until the document may be forgotten, in milliseconds: an integer from 1 up. For a child, the least time of its parent. */
  readonly retainMs: number;
  /** True when nothing must be created if the key has a document of this id already. Default: that document stays, and the others are created. */
  readonly isNew?: boolean;
}

/** A document as it is stored now. */
export interface KeptDocument {
  /** The id that the document was created with. */
  readonly id: string;
  /** The further ids that find the document. */
  readonly aliases: readonly string[];
  /** The id of the document that this document belongs to; undefined for none. */
  readonly parentId?: string;
  /** The text of the last update. */
  readonly content: string;
  /** The number of updates so far. */
  readonly revision: number;
}

/** A new content of a document. */
export interface DocumentUpdate {
  /** The id of the document; an alias does not count. */
  readonly id: string;
  /** The revision that the new content is based on. */
  readonly revision: number;
  /** The text that replaces the document's content. */
  readonly content: string;
  /** Replaces the aliases. Default: they stay. */
  readonly aliases?: readonly string[];
  /** The time from now until the document may be forgotten, in milliseconds. The time of a child is ignored. */
  readonly retainMs: number;
}

/** A page of a list. */
export interface DocumentPage {
  /** The most documents of the page: an integer from 1 up. */
  readonly limit: number;
  /**
   * The most bytes of the contents in the page, so that large documents do not fill the memory. The page ends before the document that does
   * not fit, and has one document at least. Only an empty page is the end of a list. Default: no limit.
   */
  readonly maxBytes?: number;
  /** `asc` begins with the oldest child. */
  readonly order: "asc" | "desc";
  /** The id of the last document of the page before, in this order. Default: the first page. */
  readonly after?: string;
}
