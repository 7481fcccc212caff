/** The step that reads a call's `Idempotency-Key`: with one, its caller may repeat it and is answered the same. */

import { GatewayError } from "../errors.ts";

/** The idempotency key of a call that its caller may repeat. */
export interface Repeatable {
  readonly idempotencyKey: string;
}

/** The name of the header. */
const HEADER = "idempotency-key";
const MAX_CHARS = 255;
/** Visible ASCII. Spaces are left out: two headers of the name come as one, with a comma and a space between. */
const VISIBLE = /^[\x21-\x7e]+$/;

/** Undefined for a call without the header. Throws `invalid_request` for a header that can be no key. */
export function repeatableOf({ headers }: Request): Repeatable | undefined {
  const idempotencyKey = headers.get(HEADER);
  if (idempotencyKey === null) return undefined;
  if (idempotencyKey.length > MAX_CHARS || !VISIBLE.test(idempotencyKey))
    throw new GatewayError(
      "invalid_request",
      `The header Idempotency-Key must be 1 to ${MAX_CHARS} visible ASCII characters, without spaces.`,
    );
  return { idempotencyKey };
}
