/** Reads a multipart form within its limits, while its bytes arrive. */

import { GatewayError } from "../errors.ts";
import { type BodyIntake, chunksOf, declaredBytes } from "./body-chunks.ts";
import type { Form, FormRules } from "./form.ts";
import { FormParser, tooLarge } from "./form-parser.ts";
import { consumedBody, readBefore } from "./consumed-body.ts";

/**
 * The form in a request's body. Throws `unsupported_media_type`, `malformed_body`, `body_too_large`, `invalid_request`
 * (with the field as `path`), `internal` where the host has read it and left no bytes, or what `chunksOf` throws. Past a limit
 * nothing more is read, and nothing that was read is kept.
 */
export async function readMultipart(request: Request, rules: FormRules, intake: BodyIntake): Promise<Form> {
  const type = assertMultipart(request.headers);
  const { maxUploadBytes } = rules.limits;
  const declared = declaredBytes(request.headers);
  if (declared !== undefined && declared > maxUploadBytes) throw tooLarge(maxUploadBytes);
  const parser = await FormParser.open(type, rules, declared ?? maxUploadBytes);
  let received = 0;
  try {
    for await (const chunk of bufferedOf(request, intake) ?? chunksOf(request, intake)) {
      received += chunk.length;
      if (received > (declared ?? maxUploadBytes)) throw tooLarge(declared ?? maxUploadBytes);
      await parser.write(chunk);
    }
    return await parser.end();
  } finally {
    parser.close();
  }
}

/** The bytes of a form that a middleware has read before, where it has kept them; undefined where none has read any. */
function bufferedOf(request: Request, { lease }: BodyIntake): readonly Uint8Array[] | undefined {
  const left = consumedBody(request);
  if (left instanceof Uint8Array) {
    lease.take(left.length);
    return [left];
  }
  // What has become of a form elsewhere, its files on a disk perhaps, cannot be told.
  if ((left !== undefined && left !== "") || request.body?.locked) throw readBefore();
  return undefined;
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
