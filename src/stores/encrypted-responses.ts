/** A wrapper for stores of responses that encrypts what was said, and leaves ids readable. */

import { ENCRYPTION_KEYS, type EncryptionKey, keyNameOf, Keyring } from "../encryption.ts";
import { assertMethods, assertOptions } from "../options.ts";
import type { CallInfo } from "../ports/call-info.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../ports/response-store.ts";
import { assertContent } from "./memory-responses.ts";

/** The secrets of an encrypted store. */
export interface EncryptedResponseStoreOptions {
  /** The first key encrypts. All keys decrypt, so that a new first key leaves older documents readable. */
  readonly keys: readonly EncryptionKey[];
  /**
   * Reads documents that were stored without encryption. Default: false, an Error. Set this while documents from before the encryption live.
   * Who can write to the database can then forge documents.
   */
  readonly allowPlaintext?: boolean;
}

/**
 * Encrypts the contents of documents with AES-256-GCM of WebCrypto. Each content has its own random IV, and is bound to its API key and to
 * its document: moved to another one, it cannot be read. Ids, aliases, parents and sizes stay readable for the store. `read` and `list`
 * reject when a content cannot be decrypted.
 *
 * @throws TypeError for keys that are missing, have wrong names, or have the same name, and RangeError for a wrong length.
 * @example
 * const secret = Buffer.from(process.env.RESPONSES_SECRET, "base64"); // openssl rand -base64 32
 * const keys = [{ name: "2026-01", secret }];
 * const responseStore = encryptedResponseStore(sqlResponseStore({ db, dialect }), { keys });
 */
export function encryptedResponseStore<Context>(
  store: ResponseStore<Context>,
  options: EncryptedResponseStoreOptions,
): ResponseStore<Context> {
  assertMethods(
    "encryptedResponseStore",
    "store",
    store,
    ["create", "update", "read", "list", "delete"],
    "a ResponseStore",
  );
  assertOptions<EncryptedResponseStoreOptions>("encryptedResponseStore", options, {
    keys: ENCRYPTION_KEYS,
    allowPlaintext: "boolean?",
  });
  return new EncryptedResponses(store, options);
}

class EncryptedResponses<Context> implements ResponseStore<Context> {
  readonly #store: ResponseStore<Context>;
  readonly #keys: Keyring;
  readonly #allowPlaintext: boolean;

  constructor(store: ResponseStore<Context>, { keys, allowPlaintext = false }: EncryptedResponseStoreOptions) {
    this.#store = store;
    this.#keys = new Keyring("An encrypted store", keys);
    this.#allowPlaintext = allowPlaintext;
  }

  async create(keyId: string, documents: readonly NewDocument[], call?: CallInfo<Context>): Promise<boolean> {
    return this.#store.create(
      keyId,
      await Promise.all(documents.map((document) => this.#encrypt(keyId, document))),
      call,
    );
  }

  async update(keyId: string, update: DocumentUpdate, call?: CallInfo<Context>): Promise<boolean> {
    return this.#store.update(keyId, await this.#encrypt(keyId, update), call);
  }

  async read(keyId: string, ids: readonly string[], call?: CallInfo<Context>): Promise<readonly KeptDocument[]> {
    return this.#decryptAll(keyId, await this.#store.read(keyId, ids, call));
  }

  async list(
    keyId: string,
    parentId: string,
    page: DocumentPage,
    call?: CallInfo<Context>,
  ): Promise<readonly KeptDocument[]> {
    return this.#decryptAll(keyId, await this.#store.list(keyId, parentId, page, call));
  }

  delete(keyId: string, id: string, call?: CallInfo<Context>): Promise<boolean> {
    return this.#store.delete(keyId, id, call);
  }

  async #encrypt<Document extends NewDocument | DocumentUpdate>(keyId: string, document: Document): Promise<Document> {
    // The text that the store gets is always valid.
    assertContent(document.content);
    const content = await this.#keys.encrypt(document.content, [keyId, document.id]);
    return { ...document, content: SIGN + content };
  }

  #decryptAll(keyId: string, documents: readonly KeptDocument[]): Promise<KeptDocument[]> {
    return Promise.all(
      documents.map(async (document) => ({ ...document, content: await this.#decrypt(keyId, document) })),
    );
  }

  async #decrypt(keyId: string, { id, content }: KeptDocument): Promise<string> {
    const encrypted = content.startsWith(SIGN) ? content.slice(SIGN.length) : "";
    const name = keyNameOf(encrypted);
    if (name === undefined) {
      if (this.#allowPlaintext) return content;
      throw new Error(`The document ${id} is not encrypted. The option "allowPlaintext" reads it.`);
    }
    if (!this.#keys.has(name))
      throw new Error(`The document ${id} is encrypted with the key "${name}", which the store does not have.`);
    try {
      return await this.#keys.decrypt(encrypted, [keyId, id]);
    } catch (cause) {
      const why = "its content was changed, belongs to another document, or has another secret";
      throw new Error(`The document ${id} cannot be decrypted with the key "${name}": ${why}.`, { cause });
    }
  }
}

/** The sign before an encrypted content. */
const SIGN = "aes-gcm:";
