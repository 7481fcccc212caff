/** Encrypts texts with AES-256-GCM of WebCrypto, under secrets that a host can replace. */

import { fromBase64, isBase64, toBase64 } from "./media/base64.ts";
import { type Check, fieldsOf, listOf } from "./options.ts";

/** A secret that encrypts. */
export interface EncryptionKey {
  /** The name that each encrypted text carries: 1 to 64 letters, digits, `.`, `_` and `-`. A name must never get another secret. */
  readonly name: string;
  /** 32 random bytes. */
  readonly secret: Uint8Array;
}

const SECRET_BYTES = 32;
const IV_BYTES = 12;

const assertBytes: Check = (path, secret) => {
  if (!(secret instanceof Uint8Array)) throw new TypeError(`${path} must be a Uint8Array of ${SECRET_BYTES} bytes.`);
};

/** The shape of a list of keys in options. */
export const ENCRYPTION_KEYS: Check = listOf(fieldsOf<EncryptionKey>({ name: "string", secret: assertBytes }));

const encoder = new TextEncoder();
// A mark at the beginning of a text belongs to the text.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** An encrypted text: the name of its key, then the IV and the encrypted bytes in base64. */
const ENCRYPTED = /^([\w.-]{1,64}):([A-Za-z0-9+/=]+)$/;

/** Returns the name of the key that has encrypted a text; undefined for a text that is not encrypted. */
export const keyNameOf = (text: string): string | undefined => ENCRYPTED.exec(text)?.[1];

/** The secrets of a host: the first encrypts, and all decrypt. */
export class Keyring {
  readonly #keys: ReadonlyMap<string, ImportedKey>;
  readonly #newest: ImportedKey;

  /**
   * @param owner The part that needs the keys, for errors: "An encrypted store".
   * @throws TypeError for keys that are missing, have wrong names, or have the same name, and RangeError for a wrong length.
   */
  constructor(owner: string, keys: readonly EncryptionKey[]) {
    const imported = keys.map((key) => new ImportedKey(key));
    const [newest] = imported;
    if (!newest) throw new TypeError(`${owner} needs a key.`);
    this.#keys = new Map(imported.map((key) => [key.name, key]));
    if (this.#keys.size < keys.length) throw new TypeError("Two keys have the same name.");
    this.#newest = newest;
  }

  /**
   * Encrypts a text with a random IV, bound to a place: in another place, the text cannot be decrypted.
   *
   * @returns The name of the key and the base64 of the IV and the encrypted bytes, with a colon between them.
   */
  encrypt(text: string, place: readonly string[]): Promise<string> {
    return this.#newest.encrypt(text, place);
  }

  has(name: string): boolean {
    return this.#keys.has(name);
  }

  /** Decrypts a text. Rejects for a text that was changed, stood in another place, or has a key that is not there. */
  async decrypt(encrypted: string, place: readonly string[]): Promise<string> {
    const [, name = "", base64 = ""] = ENCRYPTED.exec(encrypted) ?? [];
    const key = this.#keys.get(name);
    if (!key) throw new Error(`There is no key "${name}".`);
    return key.decrypt(base64, place);
  }
}

/** A key that WebCrypto imports at its first use. */
class ImportedKey {
  readonly name: string;
  readonly #secret: Uint8Array<ArrayBuffer>;
  #imported: ReturnType<typeof crypto.subtle.importKey> | undefined;

  constructor({ name, secret }: EncryptionKey) {
    if (!/^[\w.-]{1,64}$/.test(name))
      throw new TypeError('The name of a key must be 1 to 64 letters, digits, ".", "_" and "-".');
    if (secret.length !== SECRET_BYTES)
      throw new RangeError(`The key "${name}" must have ${SECRET_BYTES} bytes, not ${secret.length}.`);
    this.name = name;
    this.#secret = Uint8Array.from(secret);
  }

  async encrypt(text: string, place: readonly string[]): Promise<string> {
    const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
    const algorithm = this.#algorithm(iv, place);
    const encrypted = await crypto.subtle.encrypt(algorithm, await this.#cryptoKey(), encoder.encode(text));
    const bytes = new Uint8Array(IV_BYTES + encrypted.byteLength);
    bytes.set(iv);
    bytes.set(new Uint8Array(encrypted), IV_BYTES);
    return `${this.name}:${toBase64(bytes)}`;
  }

  async decrypt(base64: string, place: readonly string[]): Promise<string> {
    const bytes = new Uint8Array(isBase64(base64) ? fromBase64(base64) : []);
    // Several texts of base64 stand for the same bytes, and only one was made here.
    if (toBase64(bytes) !== base64) throw new Error("The text is not as it was encrypted.");
    const algorithm = this.#algorithm(bytes.subarray(0, IV_BYTES), place);
    return decoder.decode(await crypto.subtle.decrypt(algorithm, await this.#cryptoKey(), bytes.subarray(IV_BYTES)));
  }

  #cryptoKey() {
    this.#imported ??= crypto.subtle.importKey("raw", this.#secret, "AES-GCM", false, ["encrypt", "decrypt"]);
    return this.#imported;
  }

  #algorithm(iv: Uint8Array<ArrayBuffer>, place: readonly string[]) {
    return { name: "AES-GCM", iv, additionalData: encoder.encode(JSON.stringify([this.name, ...place])) };
  }
}
