/** Reads a multipart form within its limits, while its bytes arrive. */

import { GatewayError } from "../errors.ts";
import { chunksOf, type Patience } from "./body-chunks.ts";
import type { Form, FormRules } from "./form.ts";
import { FormParser, tooLarge } from "./form-parser.ts";
import { leftOf, readBefore } from "./left-behind.ts";
import type { UploadLease } from "./upload-budget.ts";

export interface MultipartOptions extends FormRules {
  /** Where the bytes are booked: all at once where the body's length is declared, otherwise as they arrive. */
  readonly lease: UploadLease;
  /** Ends the reading with its reason, even while the client sends nothing. */
  readonly signal: AbortSignal;
  /** How long a client may send nothing while its upload takes room from others. */
  readonly patience: Patience;
}

/**
 * The form in a request's body. Throws `unsupported_media_type`, `malformed_body`, `body_too_large`, `invalid_request`
 * (with the field as `path`) or `busy`. Past a limit nothing more is read, and nothing that was read is kept.
 */
export async function readMultipart(request: Request, options: MultipartOptions): Promise<Form> {
  const type = assertMultipart(request.headers);
  const { maxUploadBytes } = options.limits;
  const declared = declaredBytes(request.headers);
  if (declared !== undefined && declared > maxUploadBytes) throw tooLarge(maxUploadBytes);
  const parser = await FormParser.open(type, options, declared ?? maxUploadBytes);
  let booked = declared ?? 0;
  options.lease.take(booked);

  let received = 0;
  try {
    for await (const chunk of readAlready(request) ?? chunksOf(request, options.signal, options.patience)) {
      received += chunk.length;
      if (received > (declared ?? maxUploadBytes)) throw tooLarge(declared ?? maxUploadBytes);
      options.lease.take(Math.max(0, received - booked));
      booked = Math.max(booked, received);
      await parser.write(chunk);
    }
    return await parser.end();
  } finally {
    parser.close();
  }
}

/** The bytes of a form that a middleware has read before, where it has kept them; undefined where none has read any. */
function readAlready(request: Request): readonly Uint8Array[] | undefined {
  const left = leftOf(request);
  if (left instanceof Uint8Array) return [left];
  // What has become of a form elsewhere, its files on a disk perhaps, cannot be told.
  if ((left !== undefined && left !== "") || request.body?.locked) throw readBefore();
  return undefined;
}

/** What the body's length is said to be, in bytes. */
function declaredBytes(headers: Headers): number | undefined {
  const declared = headers.get("content-length");
  return declared !== null && /^\d{1,15}$/.test(declared) ? Number(declared) : undefined;
}

const MULTIPART_TYPE = /^multipart\/form-data\s*(?:;|$)/i;

function assertMultipart(headers: Headers): string {
  const type = headers.get("content-type");
  if (type === null || !MULTIPART_TYPE.test(type))
    throw new GatewayError("unsupported_media_type", "The request's content-type must be multipart/form-data.");
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity")
    throw new GatewayError("unsupported_media_type", "The request body must not be compressed (content-encoding).");
  return type;
}
