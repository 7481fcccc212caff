/** Makes the ids of requests: random, so that none can be guessed, and cheap. */

/** 128 random bits. */
const ID_BYTES = 16;
const ID_DIGITS = 2 * ID_BYTES;
/** Random bytes are fetched for so many ids at once: the call costs more than the bytes. No more, for an id may hold on to all of them. */
const POOLED_IDS = 32;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The digits of ids to come, and where the next one begins. */
let pool = "";
let next = 0;

/** A new id: `req_` and 32 hexadecimal digits. */
export function newRequestId(): string {
  // Filled when it is first needed: Workers give no random bytes before a request.
  if (next === pool.length) {
    const digits: (string | undefined)[] = [];
    for (const byte of crypto.getRandomValues(new Uint8Array(ID_BYTES * POOLED_IDS))) digits.push(HEX[byte]);
    pool = digits.join("");
    next = 0;
  }
  const from = next;
  next += ID_DIGITS;
  return `req_${pool.slice(from, next)}`;
}
