/** Hashes api keys, so that no store holds a secret and no look-up leaks one by its timing. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

interface NativeCrypto {
  hash?(algorithm: "sha256", data: string, encoding: "hex"): string;
}

// Asked for at run time, not imported: a bundle for a runtime without Node's modules must not name one. Every request
// hashes a key, and the native hash takes a tenth of the time.
const native = globalThis.process?.getBuiltinModule?.("node:crypto") as NativeCrypto | undefined;

/** The SHA-256 of an api key (given without its `sk-` prefix), in hex. Keys are random, so no salt is needed. */
export const hashApiKey = (apiKey: string): string =>
  native?.hash?.("sha256", apiKey, "hex") ?? bytesToHex(sha256(utf8ToBytes(apiKey)));
