/** A wrapper for stores of responses that encrypts what was said, and leaves ids readable. */

import { fromBase64, isBase64, toBase64 } from "../media/base64.ts";
import { assertMethods, assertOptions, type Check, fieldsOf, listOf } from "../options.ts";
import type { CallInfo } from "../ports/call-info.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../ports/response-store.ts";
import { assertContent } from "./memory-responses.ts";

/** A secret that encrypts documents. */
export interface EncryptionKey {
  /** The name that each encrypted document carries: 1 to 64 letters, digits, `.`, `_` and `-`. A name must never get another secret. */
  readonly name: string;
  /** 32 random bytes. */
  readonly secret: Uint8Array;
}

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

const assertBytes: Check = (path, secret) => {
  if (!(secret instanceof Uint8Array)) throw new TypeError(`${path} must be a Uint8Array of ${SECRET_BYTES} bytes.`);
};

/**
 * Encrypts the contents of documents with AES-256-GCM of WebCrypto. Each content has its own random IV, and is bound to its API key and to
 * its document: moved to another one, it cannot be read. Ids, aliases, parents and sizes stay readable for the store. `read` and `list`
 * reject when a content cannot be decrypted.
 *
 * @throws RangeError for keys that are missing, have wrong names or lengths, or have the same name.
 * @example
 * const secret = Buffer.from(process.env.RESPONSES_SECRET, "base64"); // openssl rand -base64 32
 * const responseStore = encryptedResponseStore(sqlResponseStore({ db, dialect }), { keys: [{ name: "2026-01", secret }] });
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
    keys: listOf(fieldsOf<EncryptionKey>({ name: "string", secret: assertBytes })),
    allowPlaintext: "boolean?",
  });
  return new EncryptedResponses(store, options);
}

class EncryptedResponses<Context> implements ResponseStore<Context> {
  readonly #store: ResponseStore<Context>;
  readonly #keys: readonly ImportedKey[];
  /** The key that encrypts. */
  readonly #newest: ImportedKey;
  readonly #allowPlaintext: boolean;

  constructor(store: ResponseStore<Context>, { keys, allowPlaintext = false }: EncryptedResponseStoreOptions) {
    const imported = keys.map((key) => new ImportedKey(key));
    const [newest] = imported;
    if (!newest) throw new RangeError("An encrypted store needs a key.");
    if (new Set(keys.map(({ name }) => name)).size < keys.length) throw new RangeError("Two keys have the same name.");
    this.#store = store;
    this.#keys = imported;
    this.#newest = newest;
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
    const content = await this.#newest.encrypt(document.content, keyId, document.id);
    return { ...document, content };
  }

  #decryptAll(keyId: string, documents: readonly KeptDocument[]): Promise<KeptDocument[]> {
    return Promise.all(
      documents.map(async (document) => ({ ...document, content: await this.#decrypt(keyId, document) })),
    );
  }

  async #decrypt(keyId: string, { id, content }: KeptDocument): Promise<string> {
    const [, name, text = ""] = ENCRYPTED.exec(content) ?? [];
    if (name === undefined) {
      if (this.#allowPlaintext) return content;
      throw new Error(`The document ${id} is not encrypted. The option "allowPlaintext" reads it.`);
    }
    const key = this.#keys.find((key) => key.name === name);
    if (!key) throw new Error(`The document ${id} is encrypted with the key "${name}", which the store does not have.`);
    return key.decrypt(text, keyId, id);
  }
}

/** An encrypted content: the name of the key, then the IV and the encrypted bytes in base64. */
const ENCRYPTED = /^aes-gcm:([\w.-]{1,64}):([A-Za-z0-9+/=]+)$/;
const SECRET_BYTES = 32;
const IV_BYTES = 12;

const encoder = new TextEncoder();
// A mark at the beginning of a text belongs to the text.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A key that WebCrypto imports at its first use. */
class ImportedKey {
  readonly name: string;
  readonly #secret: Uint8Array<ArrayBuffer>;
  #imported: ReturnType<typeof crypto.subtle.importKey> | undefined;

  constructor({ name, secret }: EncryptionKey) {
    if (!/^[\w.-]{1,64}$/.test(name))
      throw new RangeError('The name of a key must be 1 to 64 letters, digits, ".", "_" and "-".');
    if (secret.length !== SECRET_BYTES)
      throw new RangeError(`The key "${name}" must have ${SECRET_BYTES} bytes, not ${secret.length}.`);
    this.name = name;
    this.#secret = Uint8Array.from(secret);
  }

  async encrypt(content: string, keyId: string, id: string): Promise<string> {
    const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
    const encrypted = await crypto.subtle.encrypt(
      this.#algorithm(iv, keyId, id),
      await this.#cryptoKey(),
      encoder.encode(content),
    );
    const bytes = new Uint8Array(IV_BYTES + encrypted.byteLength);
    bytes.set(iv);
    bytes.set(new Uint8Array(encrypted), IV_BYTES);
    return `aes-gcm:${this.name}:${toBase64(bytes)}`;
  }

  async decrypt(text: string, keyId: string, id: string): Promise<string> {
    try {
      const bytes = new Uint8Array(isBase64(text) ? fromBase64(text) : []);
      const algorithm = this.#algorithm(bytes.subarray(0, IV_BYTES), keyId, id);
      return decoder.decode(await crypto.subtle.decrypt(algorithm, await this.#cryptoKey(), bytes.subarray(IV_BYTES)));
    } catch (cause) {
      const why = "its content was changed, belongs to another document, or has another secret";
      throw new Error(`The document ${id} cannot be decrypted with the key "${this.name}": ${why}.`, { cause });
    }
  }

  #cryptoKey() {
    this.#imported ??= crypto.subtle.importKey("raw", this.#secret, "AES-GCM", false, ["encrypt", "decrypt"]);
    return this.#imported;
  }

  #algorithm(iv: Uint8Array<ArrayBuffer>, keyId: string, id: string) {
    return { name: "AES-GCM", iv, additionalData: encoder.encode(JSON.stringify([this.name, keyId, id])) };
  }
}
