/** The documents of a call's key in the host's store of responses. The content of a large document is stored, read and booked in parts. */

import { isHighSurrogate } from "../../model/json.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import type { DocumentUpdate, KeptDocument, NewDocument, ResponseStore } from "../../ports/response-store.ts";
import type { BodyLease } from "../../ports/shared-room.ts";
import type { DocumentsCall, KeptDocuments, KeptPage, NewKept, StoredDocument } from "../format.ts";

/** The longest content of one stored document, in characters. Two bytes each may come to 128 KiB. */
const PART_CHARS = 64 * 1024;
/** The parts that are read at once. */
const PARTS_A_READ = 4;
/** A read of the beginnings of many documents takes at most this part of the share of its key: it is divided where the share is small. */
const PEEKS_IN_SHARE = 8;
/** The most bytes of the documents that are listed at once. */
const LIST_BYTES: number = 1024 ** 2;

export class KeyDocuments implements KeptDocuments {
  readonly #call: DocumentsCall;
  readonly #key: ApiKey;
  readonly #store: ResponseStore;
  readonly #retainMs: number;
  /** The room for the large documents that the call has read, until its end. */
  #lease: BodyLease | undefined;
  /** The characters that the call has read. */
  #chars = 0;
  #isSolvent = false;

  constructor(call: DocumentsCall, key: ApiKey, store: ResponseStore, retainMs: number) {
    this.#call = call;
    this.#key = key;
    this.#store = store;
    this.#retainMs = retainMs;
  }

  create(documents: readonly NewKept[]): Promise<boolean> {
    const retained = documents.flatMap((document) => inParts({ retainMs: this.#retainMs, ...document }));
    return this.#call.ask("create", (call) => this.#store.create(this.#key.id, retained, call));
  }

  async update(update: Omit<DocumentUpdate, "retainMs"> & { readonly retainMs?: number }): Promise<boolean> {
    const { aliases, revision, ...document } = { retainMs: this.#retainMs, ...update };
    const [first, ...parts] = inParts(document);
    if (!first) return false;
    // Write the parts first: a reader that sees the update must find them. They are deleted with the document.
    const ofParent = parts.map((part) => ({ ...part, parentId: update.id }));
    if (
      parts.length > 0 &&
      !(await this.#call.ask("create", (call) => this.#store.create(this.#key.id, ofParent, call)))
    )
      return false;
    const updated = { ...document, content: first.content, revision, ...(aliases && { aliases }) };
    return this.#call.ask("update", (call) => this.#store.update(this.#key.id, updated, call));
  }

  async peek(ids: readonly string[], chars: number = Number.POSITIVE_INFINITY): Promise<readonly StoredDocument[]> {
    const { maxBodyBytesInFlight, maxBodyBytesPerKey } = this.#call.limits;
    const share = Math.min(maxBodyBytesInFlight, maxBodyBytesPerKey) / PEEKS_IN_SHARE;
    const isKnown = chars <= share;
    const atOnce = isKnown ? ids.length : Math.max(1, Math.floor(share / PART_CHARS));
    const stored: StoredDocument[] = [];
    for (let at = 0; at < ids.length; at += atOnce) {
      const some = ids.slice(at, at + atOnce);
      const rows = await this.#booked(isKnown ? chars : some.length * PART_CHARS, () =>
        this.#call.ask("read", (call) => this.#store.read(this.#key.id, some, call)),
      );
      stored.push(...rows.map(storedOf));
    }
    return stored;
  }

  async read(ids: readonly string[], admit?: (chars: number) => void): Promise<readonly KeptDocument[]> {
    return this.whole(await this.peek(ids), admit);
  }

  async whole(stored: readonly StoredDocument[], admit?: (chars: number) => void): Promise<readonly KeptDocument[]> {
    const { isFree, limits } = this.#call;
    const key = this.#key;
    for (const { chars } of stored) {
      admit?.(chars);
      this.#chars += chars;
    }
    // A caller who cannot pay must not cause much work.
    if (this.#chars > limits.largeBodyBytes && !isFree && !key.unlimited && !this.#isSolvent) {
      await this.#call.assertSolvent();
      this.#isSolvent = true;
    }
    const documents: KeptDocument[] = [];
    for (const document of stored) {
      if (!document.parts) {
        documents.push(document);
        continue;
      }
      this.#book(document.chars);
      let content = "";
      let isWhole = true;
      for await (const piece of this.pieces(document)) {
        isWhole = piece !== undefined;
        if (!isWhole) break;
        content += piece;
        await nextIteration();
      }
      // It was deleted while it was read.
      if (isWhole) documents.push({ ...document, content });
    }
    return documents;
  }

  async *pieces({ id, content, parts }: StoredDocument): AsyncGenerator<string | undefined, void> {
    yield content;
    if (!parts) return;
    for (let at = 1; at < parts.count; at += PARTS_A_READ) {
      const end = Math.min(parts.count, at + PARTS_A_READ);
      const ids = Array.from({ length: end - at }, (_, index) => partId(id, parts.token, at + index));
      const rows = await this.#call.ask("read", (call) => this.#store.read(this.#key.id, ids, call));
      const byId = new Map(rows.map((row) => [row.id, row.content]));
      for (const part of ids) yield byId.get(part);
    }
  }

  async list(parentId: string, page: KeptPage): Promise<readonly StoredDocument[]> {
    const { limit, order, maxChars } = page;
    const found: StoredDocument[] = [];
    let left = maxChars;
    const maxBytes = Math.min(maxChars, LIST_BYTES);
    // A page may have nothing but parts of large documents.
    for (let after = page.after; found.length === 0;) {
      const wanted = { limit, order, maxBytes, ...(after !== undefined && { after }) };
      const rows = await this.#booked(maxBytes, () =>
        this.#call.ask("list", (call) => this.#store.list(this.#key.id, parentId, wanted, call)),
      );
      const last = rows.at(-1)?.id;
      // A store may answer with the same page again.
      if (last === undefined || last === after) break;
      after = last;
      for (const row of rows) {
        if (isPart(row.id)) continue;
        const document = storedOf(row);
        left -= document.chars;
        if (left < 0 && found.length > 0) return found;
        found.push(document);
      }
      if (found.length === 0) await nextIteration();
    }
    return found;
  }

  async delete(id: string, { parts }: Pick<StoredDocument, "parts"> = {}): Promise<boolean> {
    const isDeleted = await this.#call.ask("delete", (call) => this.#store.delete(this.#key.id, id, call));
    if (!parts) return isDeleted;
    for (let at = 1; at < parts.count; at++) {
      const part = partId(id, parts.token, at);
      await this.#call.ask("delete", (call) => this.#store.delete(this.#key.id, part, call));
    }
    return isDeleted;
  }

  failed(error: unknown): void {
    this.#call.report(error);
  }

  /** Books room until the end of the call. Throws `busy` when the bodies of the key leave none. */
  #book(bytes: number): void {
    const call = this.#call;
    if (call.isEnded) return;
    if (!this.#lease) {
      const lease = (this.#lease = call.lease());
      call.defer(() => lease[Symbol.dispose]());
    }
    this.#lease.take(bytes);
  }

  /** Books room while the store is asked. */
  async #booked<Value>(bytes: number, ask: () => Promise<Value>): Promise<Value> {
    using lease = this.#call.lease();
    if (!this.#call.isEnded) await this.#call.takeSoon(lease, bytes);
    return await ask();
  }
}

/**
 * Divides a large document: the document itself keeps the beginning of its content, behind a line that names the parts, and each part is a
 * child of the same parent. The token belongs to this content alone: of two updates at once, each has its own parts.
 */
function inParts<Document extends Omit<NewDocument, "aliases">>(
  document: Document,
): readonly (Document | NewDocument)[] {
  const { id, content, retainMs, parentId = id } = document;
  if (content.length <= PART_CHARS) return [document];
  const texts: string[] = [];
  for (let at = 0, end = 0; at < content.length; at = end) {
    end = at + PART_CHARS;
    // Keep the two halves of a character together.
    if (isHighSurrogate(content.charCodeAt(end - 1))) end--;
    texts.push(content.slice(at, end));
  }
  const token = crypto.randomUUID().slice(0, 8);
  const [first, ...others] = texts;
  const parts = others.map((text, index) => ({ id: partId(id, token, index + 1), parentId, content: text, retainMs }));
  return [{ ...document, content: `~${token} ${texts.length} ${content.length}\n${first}` }, ...parts];
}

/** The id of a part. No other id of the gateway begins with this sign, and ids of callers stand behind a sign of their own. */
const partId = (id: string, token: string, number: number): string => `~${token}.${number}~${id}`;

const isPart = (id: string): boolean => id.startsWith("~");

/** Returns a document as it is stored. A content that was written before contents had parts is whole. */
function storedOf(document: KeptDocument): StoredDocument {
  const { content } = document;
  const [line, token, count, chars] = /^~(\w+) (\d+) (\d+)\n/.exec(content.slice(0, 64)) ?? [];
  if (line === undefined || token === undefined) return { ...document, chars: content.length };
  return {
    ...document,
    content: content.slice(line.length),
    chars: Number(chars),
    parts: { token, count: Number(count) },
  };
}
