/** Hashes api keys, so that no store holds a secret and no look-up leaks one by its timing. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** The SHA-256 of an api key (given without its `sk-` prefix), in hex. Keys are random, so no salt is needed. */
export const hashApiKey = (apiKey: string): string => bytesToHex(sha256(utf8ToBytes(apiKey)));
