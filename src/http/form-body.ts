/** Writes a multipart form (RFC 7578) as one piece of bytes. */

import { concatenated } from "./concatenated.ts";

/** A field with its text, or one with a file. */
export interface FormPart {
  readonly name: string;
  readonly value: string | FormFile;
}

export interface FormFile {
  readonly fileName: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

export interface FormBody {
  /** The request's content-type, which names the boundary between parts. */
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** The form of these parts. Each file is copied once. */
export function encodeForm(parts: readonly FormPart[]): FormBody {
  // So many random bits that no file holds them.
  const boundary = `polygate-${crypto.randomUUID()}`;
  const encoder = new TextEncoder();
  const pieces = parts.flatMap((part) => [
    encoder.encode(`--${boundary}\r\n${headersOf(part)}\r\n\r\n`),
    typeof part.value === "string" ? encoder.encode(part.value) : part.value.bytes,
    encoder.encode("\r\n"),
  ]);
  pieces.push(encoder.encode(`--${boundary}--\r\n`));
  return { contentType: `multipart/form-data; boundary=${boundary}`, bytes: concatenated(pieces) };
}

function headersOf({ name, value }: FormPart): string {
  const disposition = `content-disposition: form-data; name="${escaped(name)}"`;
  if (typeof value === "string") return disposition;
  return `${disposition}; filename="${escaped(value.fileName)}"\r\ncontent-type: ${value.mediaType}`;
}

const ESCAPES: Readonly<Record<string, string>> = { '"': "%22", "\n": "%0A", "\r": "%0D" };

/** A name as clients write it into a part's header: what would end it is escaped. */
const escaped = (name: string): string => name.replaceAll(/["\n\r]/g, (char) => ESCAPES[char] ?? char);
