/** Reads multipart forms (RFC 7578) within limits, while their bytes arrive, and writes them. */

import type { Busboy, FileInfo } from "busboy";
import { GatewayError, invalidField } from "../errors.ts";
import { bytesInWords } from "../options.ts";
import {
  assertNotCompressed,
  type BodyIntake,
  chunksOf,
  concatenated,
  consumedBody,
  declaredBytes,
  GrowingBytes,
  readBefore,
  tooLarge,
} from "./body.ts";

/** The limits of a form. Each is a positive integer. */
export interface MultipartLimits {
  /** The whole body, in bytes: 413, before the body is read if its length is declared. */
  readonly maxUploadBytes: number;
  /** Everything but the contents of files (fields, part headers, boundaries), in bytes: 413. */
  readonly maxFormBytes: number;
  /** The value of one field, in bytes: 413 that names the field. */
  readonly maxFieldBytes: number;
  /** The number of fields that are not files: 400 that names the first field beyond the limit. */
  readonly maxFields: number;
  /** The number of files: 400 that names the field of the first file beyond the limit. */
  readonly maxFiles: number;
}

interface FormRules {
  readonly limits: MultipartLimits;
  /** Returns the largest file of a field, in bytes, or undefined for a field that takes no file. */
  maxFileBytes(field: string): number | undefined;
}

/** A form as it was sent: names are the client's own (`image[]`), values are text. */
export interface Form {
  /** The values of each field, in order. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly files: readonly UploadedFile[];
}

export interface UploadedFile {
  readonly field: string;
  /** The client's name of the file, without folders. Never use it as a path. */
  readonly name: string | undefined;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

const MULTIPART_TYPE = /^multipart\/form-data\s*(?:;|$)/i;
/** A parameter of a content type, with its value in quotes or as a word. */
const PARAMETER = /;\s*(?:([^\s=;]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))\s*)?/gy;

/**
 * Reads the form in a request's body. Beyond a limit, nothing more is read and nothing is kept.
 *
 * @throws GatewayError `unsupported_media_type`, `malformed_body`, `body_too_large`, `invalid_request` (with the field as `path`), `internal`
 * if the host has read the body and left no bytes, and the errors of `chunksOf`.
 */
export async function readMultipart(request: Request, rules: FormRules, intake: BodyIntake): Promise<Form> {
  const { headers } = request;
  const type = headers.get("content-type");
  if (type === null || !MULTIPART_TYPE.test(type))
    throw new GatewayError("unsupported_media_type", "The request's content-type must be multipart/form-data.");
  assertNotCompressed(headers);
  const { maxUploadBytes } = rules.limits;
  const maxBytes = declaredBytes(headers) ?? maxUploadBytes;
  if (maxBytes > maxUploadBytes) throw tooLarge(maxUploadBytes);
  const parser = await FormParser.open(type, rules, maxBytes);
  let received = 0;
  try {
    for await (const chunk of bufferedBy(request, intake) ?? chunksOf(request, intake)) {
      received += chunk.length;
      if (received > maxBytes) throw tooLarge(maxBytes);
      await parser.write(chunk);
    }
    return await parser.end();
  } finally {
    parser.close();
  }
}

/** Returns the bytes of a form that a middleware has read, or undefined for an unread body. Throws `internal` for a form without bytes. */
function bufferedBy(request: Request, { lease }: BodyIntake): readonly Uint8Array[] | undefined {
  const consumed = consumedBody(request);
  if (consumed instanceof Uint8Array) {
    lease.take(consumed.length);
    return [consumed];
  }
  // A parsed form is of no use: its files may be on a disk.
  if ((consumed !== undefined && consumed !== "") || request.body?.locked) throw readBefore();
  return undefined;
}

/** The bytes that the parser gets at once, so that a huge chunk neither fills its buffers nor blocks the event loop for long. */
const SLICE_BYTES = 64 * 1024;

/** Collects the parts that busboy finds. The first failure ends it. */
class FormParser {
  readonly #parser: Busboy;
  readonly #rules: FormRules;
  readonly #bodyBytes: number;
  readonly #boundaries: Boundaries;
  readonly #fields = new Map<string, string[]>();
  #files: UploadedFile[] = [];
  #fieldCount = 0;
  #fileCount = 0;
  /** The bytes so far that are not contents of files, and the last slice of a file that busboy has not passed on yet. */
  #formBytes = 0;
  #failure: GatewayError | undefined;

  private constructor(parser: Busboy, boundary: string, rules: FormRules, bodyBytes: number) {
    this.#parser = parser;
    this.#boundaries = new Boundaries(boundary);
    this.#rules = rules;
    this.#bodyBytes = bodyBytes;
    parser.on("field", (name: string | undefined, value, { valueTruncated }) =>
      this.#onField(name, value, valueTruncated),
    );
    parser.on("file", (name: string | undefined, stream, info) => this.#onFile(name, stream, info));
    parser.on("partsLimit", () => this.#fail(new GatewayError("invalid_request", "The form has too many parts.")));
    parser.on("error", (cause) => this.#fail(malformed("The request body is not a whole multipart form.", cause)));
  }

  /**
   * Throws `malformed_body` when the content type has no boundary, or too long a boundary.
   *
   * @param type The request's content type.
   * @param bodyBytes The largest possible body, in bytes.
   */
  static async open(type: string, rules: FormRules, bodyBytes: number): Promise<FormParser> {
    // Import busboy only when it is needed: it uses Node's streams, which a host without forms may not have.
    const { default: busboy } = await import("busboy");
    const { maxFieldBytes, maxFields, maxFiles } = rules.limits;
    // Allow one more than the limit: busboy reports the limit itself and everything beyond it in the same way.
    const limits = { fieldSize: maxFieldBytes + 1, parts: maxFields + maxFiles + 1 };
    const boundary = boundaryOf(type);
    try {
      // Name the boundary alone: HTTP allows a semicolon without a parameter (RFC 9110, 5.6.6), and busboy refuses it.
      const headers = { "content-type": `multipart/form-data; boundary="${boundary.replaceAll(/["\\]/g, "\\$&")}"` };
      return new FormParser(busboy({ headers, limits, defParamCharset: "utf8" }), boundary, rules, bodyBytes);
    } catch (cause) {
      throw malformed(NO_BOUNDARY, cause);
    }
  }

  async write(chunk: Uint8Array): Promise<void> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      const slice = bytes.subarray(at, at + SLICE_BYTES);
      this.#formBytes += slice.length;
      this.#boundaries.add(slice);
      // Backpressure: busboy calls back when it has processed the slice.
      await new Promise<void>((resolve) => this.#parser.write(slice, () => resolve()));
      if (this.#failure) throw this.#failure;
      const { maxFormBytes } = this.#rules.limits;
      if (this.#formBytes > maxFormBytes + SLICE_BYTES)
        throw new GatewayError("body_too_large", `The form's fields are larger than ${bytesInWords(maxFormBytes)}.`);
    }
  }

  async end(): Promise<Form> {
    await new Promise<void>((resolve) => this.#parser.on("close", resolve).end());
    if (this.#failure) throw this.#failure;
    // Busboy skips such parts without a word.
    if (this.#boundaries.count > this.#fieldCount + this.#fileCount)
      throw malformed(
        'A part of the form has no header such as content-disposition: form-data; name="prompt", or its boundary is not a whole line.',
      );
    return { fields: this.#fields, files: this.#files };
  }

  /** Drops all files and stops the parser. */
  close(): void {
    this.#files = [];
    this.#parser.destroy();
  }

  #fail(failure: GatewayError): undefined {
    this.#failure ??= failure;
    return undefined;
  }

  #onField(name: string | undefined, value: string | undefined, isTruncated: boolean): void {
    const { maxFields, maxFieldBytes } = this.#rules.limits;
    if (name === undefined) return this.#fail(malformed("A part of the form has no name."));
    const field = unescaped(name);
    if (++this.#fieldCount > maxFields)
      return this.#fail(invalidField([field], `The form has more than ${maxFields} fields.`));
    if (isTruncated)
      return this.#fail(tooLargeField(field, `The field is larger than ${bytesInWords(maxFieldBytes)}.`));
    if (value === undefined) return this.#fail(malformed("A field of the form is in a charset that is not supported."));
    // Browsers and fetch turn every line break into CRLF.
    const text = value.replaceAll("\r\n", "\n");
    const values = this.#fields.get(field);
    if (values) values.push(text);
    else this.#fields.set(field, [text]);
  }

  #onFile(part: string | undefined, stream: NodeJS.ReadableStream, { filename }: Partial<FileInfo>): void {
    // The form's own error reports a file that breaks off.
    stream.on("error", () => {});
    const field = part === undefined ? undefined : unescaped(part);
    const maxBytes = this.#maxBytesOf(field);
    if (field === undefined || maxBytes === undefined) return void stream.resume();
    const content = new GrowingBytes(Math.min(maxBytes, this.#bodyBytes));
    stream.on("data", (chunk: Uint8Array) => {
      this.#formBytes -= chunk.length;
      if (this.#failure) return;
      if (content.length + chunk.length <= maxBytes) return content.append(chunk);
      this.#fail(tooLargeField(field, `The file is larger than ${bytesInWords(maxBytes)}.`));
    });
    const index = this.#files.length;
    const name = filename === undefined ? undefined : unescaped(filename);
    this.#files.push({ field, name, bytes: new Uint8Array() });
    stream.on("end", () => {
      if (!this.#failure) this.#files[index] = { field, name, bytes: content.seal() };
    });
  }

  /** Returns the largest file of a field, in bytes, or undefined for a file that is not accepted. */
  #maxBytesOf(field: string | undefined): number | undefined {
    const { maxFiles } = this.#rules.limits;
    if (field === undefined) return this.#fail(malformed("A part of the form has no name."));
    if (++this.#fileCount > maxFiles)
      return this.#fail(invalidField([field], `The form has more than ${maxFiles} files.`));
    const maxBytes = this.#rules.maxFileBytes(field);
    if (maxBytes === undefined) return this.#fail(invalidField([field], "This field takes no file."));
    return this.#failure ? undefined : maxBytes;
  }
}

const NO_BOUNDARY = "The request's content-type must name the boundary of its multipart/form-data.";

/** The longest boundary, in characters (RFC 2046, 5.1.1). The search for a longer one can take a second for each MiB. */
const MAX_BOUNDARY_CHARS = 70;

/** Returns the boundary of a form. Throws `malformed_body` when the content type has no boundary, or too long a boundary. */
function boundaryOf(type: string): string {
  const from = type.indexOf(";");
  for (const [, name, quoted, word = ""] of from < 0 ? [] : type.slice(from).matchAll(PARAMETER))
    if (name?.toLowerCase() === "boundary") {
      const boundary = quoted?.replaceAll(/\\(.)/g, "$1") ?? word;
      if (boundary.length > MAX_BOUNDARY_CHARS)
        throw malformed(`The boundary of a form must have at most ${MAX_BOUNDARY_CHARS} characters.`);
      if (boundary !== "") return boundary;
    }
  throw malformed(NO_BOUNDARY);
}

const DASH = 0x2d;

/** Counts the boundaries before the parts of a form as busboy finds them, also those that no line break follows. */
class Boundaries {
  count = 0;
  readonly #delimiter: Buffer;
  /** The last bytes, which may begin a delimiter; undefined behind the last delimiter. */
  #rest: Buffer | undefined = Buffer.from("\r\n");

  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
  }

  add(bytes: Buffer): void {
    if (!this.#rest) return;
    // Two bytes behind a delimiter tell whether it is the last. Without its last byte, it may go on in the next bytes.
    const most = this.#delimiter.length + 1;
    const before = this.#rest.length;
    // Copy only the seam: a copy of each slice would double the memory of a large upload.
    let searched: Buffer = Buffer.concat([this.#rest, bytes.subarray(0, most)]);
    let from = this.#countIn(searched, 0);
    if (bytes.length > most) {
      searched = bytes;
      from = this.#countIn(searched, Math.max(0, from - before));
    }
    if (this.#rest) this.#rest = Buffer.from(searched.subarray(Math.max(from, searched.length - most)));
  }

  /** Counts the delimiters in some bytes, and returns the place behind the last one. */
  #countIn(searched: Buffer, start: number): number {
    let from = start;
    for (;;) {
      const at = searched.indexOf(this.#delimiter, from);
      const end = at + this.#delimiter.length;
      if (at < 0 || end + 2 > searched.length || !this.#rest) return from;
      if (searched[end] === DASH && searched[end + 1] === DASH) this.#rest = undefined;
      else this.count++;
      from = end;
    }
  }
}

const UNESCAPED: Readonly<Record<string, string>> = { "%22": '"', "%0A": "\n", "%0D": "\r" };

/** Decodes the three escapes of names in part headers. Any other percent sign stands for itself. */
const unescaped = (name: string): string =>
  name.replaceAll(/%22|%0A|%0D/gi, (escape) => UNESCAPED[escape.toUpperCase()] ?? escape);

const malformed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("malformed_body", message, { cause });
const tooLargeField = (field: string, message: string): GatewayError =>
  new GatewayError("body_too_large", `${field}: ${message}`, { path: [field] });

/** A field of a form to write: a text or a file. */
export interface FormPart {
  readonly name: string;
  readonly value: string | FormFile;
}

interface FormFile {
  readonly fileName: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array;
}

/** Writes a form as one piece of bytes. Each file is copied once. */
export function encodeForm(parts: readonly FormPart[]): { readonly contentType: string; readonly bytes: Uint8Array } {
  // A random boundary, which no file contains.
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

/** Escapes the characters that would end a name in a part header. */
const escaped = (name: string): string => name.replaceAll(/["\n\r]/g, (char) => ESCAPES[char] ?? char);
