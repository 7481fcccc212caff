/** Makes the ids of requests: random, so that none can be guessed, and cheap. */

/** 128 random bits. */
const ID_BYTES = 16;
/** Random bytes are fetched for so many ids at once: the call costs more than the bytes. */
const POOLED_IDS = 256;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

const pool = new Uint8Array(ID_BYTES * POOLED_IDS);
let next = pool.length;

/** A new id: `req_` and 32 hexadecimal digits. */
export function newRequestId(): string {
  // Filled when it is first needed: Workers give no random bytes before a request.
  if (next === pool.length) {
    crypto.getRandomValues(pool);
    next = 0;
  }
  let id = "req_";
  for (const end = next + ID_BYTES; next < end; next++) id += HEX[pool[next] ?? 0];
  return id;
}
