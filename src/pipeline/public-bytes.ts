/** Answers with a public file, such as a picture: in pieces as its client reads, with room for its bytes until then. */

import type { Answer } from "../http/answer.ts";
import type { BodyLease, BodyRoom } from "../ports/shared-room.ts";
import type { Call } from "./call.ts";
import { Pieces } from "./respond.ts";

/** A smaller file is written at once. */
const PIECE_BYTES = 64 * 1024;

/** The key of the room that clients without a key share. No key has this id. */
const NOBODY = "";

type Files = Map<ArrayBufferLike, { readonly lease: BodyLease; readers: number }>;

/** The files of a gateway that are being read. */
const READING = new WeakMap<BodyRoom, Files>();

/** Returns the answer in pieces. Throws `busy` when the files that are being read leave no room. */
export function inPieces(call: Call, answered: Answer): Answer {
  const { body } = answered;
  if (!(body instanceof Uint8Array) || body.length <= PIECE_BYTES) return answered;
  book(call, body);
  return { ...answered, body: new Pieces(call, piecesOf(body)) };
}

/** Books room for a file, once for all clients that read the same bytes of a store in memory. */
function book(call: Call, { buffer }: Uint8Array): void {
  const { bodies } = call.services;
  const reading: Files = READING.get(bodies) ?? new Map();
  READING.set(bodies, reading);
  let file = reading.get(buffer);
  if (!file) {
    const lease = bodies.lease(NOBODY);
    lease.take(buffer.byteLength);
    reading.set(buffer, (file = { lease, readers: 0 }));
  }
  const booked = file;
  booked.readers++;
  call.defer(() => {
    if (--booked.readers > 0) return;
    reading.delete(buffer);
    booked.lease[Symbol.dispose]();
  });
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
  return undefined;
}
