/** Collects the fields and files of a multipart form from its bytes, within limits. */

import type { Busboy, FileInfo } from "busboy";
import { GatewayError } from "../errors.ts";
import type { Form, FormRules, UploadedFile } from "./form.ts";
import { GrowingBytes } from "./growing-bytes.ts";

/** The most that the parser is given at once, so that one huge chunk neither fills its buffers nor blocks for long. */
const SLICE_BYTES = 64 * 1024;

/** Collects the parts that the parser finds. The first thing wrong ends it. */
export class FormParser {
  readonly #parser: Busboy;
  readonly #rules: FormRules;
  readonly #bodyBytes: number;
  readonly #fields = new Map<string, string[]>();
  #files: UploadedFile[] = [];
  #fieldCount = 0;
  #fileCount = 0;
  /** Bytes received that are not the content of a file; a file's last slice may still be under way. */
  #formBytes = 0;
  #failure: GatewayError | undefined;

  private constructor(parser: Busboy, rules: FormRules, bodyBytes: number) {
    this.#parser = parser;
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
   * @param type The request's content-type. Throws `malformed_body` when it names no boundary.
   * @param bodyBytes The most that the whole body can be, in bytes.
   */
  static async open(type: string, rules: FormRules, bodyBytes: number): Promise<FormParser> {
    // Imported when it is first needed: it stands on Node's streams, which a host without any form may not have.
    const { default: busboy } = await import("busboy");
    const { maxFieldBytes, maxFields, maxFiles } = rules.limits;
    // One more than may be, because the parser cannot tell the limit from what is beyond it.
    const limits = { fieldSize: maxFieldBytes + 1, parts: maxFields + maxFiles + 1 };
    try {
      const headers = { "content-type": type };
      return new FormParser(busboy({ headers, limits, defParamCharset: "utf8" }), rules, bodyBytes);
    } catch (cause) {
      throw malformed("The request's content-type must name the boundary of its multipart/form-data.", cause);
    }
  }

  async write(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      const slice = chunk.subarray(at, at + SLICE_BYTES);
      this.#formBytes += slice.length;
      // Its callback comes when the slice has been dealt with: that is the back-pressure.
      await new Promise<void>((resolve) => this.#parser.write(slice, () => resolve()));
      if (this.#failure) throw this.#failure;
      const { maxFormBytes } = this.#rules.limits;
      if (this.#formBytes > maxFormBytes + SLICE_BYTES)
        throw new GatewayError("body_too_large", `The form's fields are larger than ${maxFormBytes} bytes.`);
    }
  }

  async end(): Promise<Form> {
    await new Promise<void>((resolve) => this.#parser.on("close", resolve).end());
    if (this.#failure) throw this.#failure;
    return { fields: this.#fields, files: this.#files };
  }

  /** Lets go of everything that is still under way. */
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
      return this.#fail(invalid(field, `The form has more than ${maxFields} fields.`));
    if (isTruncated) return this.#fail(tooLargeField(field, `The field is larger than ${maxFieldBytes} bytes.`));
    if (value === undefined) return this.#fail(malformed("A field of the form is in a charset that is not supported."));
    // Browsers and fetch write every end of a line as CRLF, which its caller has not counted.
    const text = value.replaceAll("\r\n", "\n");
    const values = this.#fields.get(field);
    if (values) values.push(text);
    else this.#fields.set(field, [text]);
  }

  #onFile(part: string | undefined, stream: NodeJS.ReadableStream, { filename }: Partial<FileInfo>): void {
    // A file that breaks off is told by the form's own error.
    stream.on("error", () => {});
    const accepted = this.#accept(part);
    if (!accepted) return void stream.resume();
    const { field, maxBytes } = accepted;
    const content = new GrowingBytes(Math.min(maxBytes, this.#bodyBytes));
    stream.on("data", (chunk: Uint8Array) => {
      this.#formBytes -= chunk.length;
      if (this.#failure) return;
      if (content.length + chunk.length <= maxBytes) return content.append(chunk);
      this.#fail(tooLargeField(field, `The file is larger than ${maxBytes} bytes.`));
    });
    const index = this.#files.length;
    const name = filename === undefined ? undefined : unescaped(filename);
    this.#files.push({ field, name, bytes: new Uint8Array() });
    stream.on("end", () => {
      if (!this.#failure) this.#files[index] = { field, name, bytes: content.seal() };
    });
  }

  #accept(name: string | undefined): { readonly field: string; readonly maxBytes: number } | undefined {
    const { maxFiles } = this.#rules.limits;
    if (name === undefined) return this.#fail(malformed("A part of the form has no name."));
    const field = unescaped(name);
    if (++this.#fileCount > maxFiles) return this.#fail(invalid(field, `The form has more than ${maxFiles} files.`));
    const maxBytes = this.#rules.maxFileBytes(field);
    if (maxBytes === undefined) return this.#fail(invalid(field, "This field takes no file."));
    return this.#failure ? undefined : { field, maxBytes };
  }
}

const ESCAPES: Readonly<Record<string, string>> = { "%22": '"', "%0A": "\n", "%0D": "\r" };

/** A name without the three escapes that clients write into part headers; any other percent sign stands for itself. */
const unescaped = (name: string): string =>
  name.replaceAll(/%22|%0A|%0D/gi, (escape) => ESCAPES[escape.toUpperCase()] ?? escape);

const malformed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("malformed_body", message, { cause });
const invalid = (field: string, message: string): GatewayError =>
  new GatewayError("invalid_request", `${field}: ${message}`, { path: [field] });
/** The error of a body that is larger than it may be. */
export const tooLarge = (maxBytes: number): GatewayError =>
  new GatewayError("body_too_large", `The request body is larger than ${maxBytes} bytes.`);
const tooLargeField = (field: string, message: string): GatewayError =>
  new GatewayError("body_too_large", `${field}: ${message}`, { path: [field] });
