/** Writes multipart forms byte by byte, as the platform's own FormData never would. */

import type { HostRequestInit } from "../../hosts/host.ts";
import { streamOf } from "../../http/byte-stream.ts";
import { type Bytes, joined } from "./pictures.ts";
import { BEARER, type Headers } from "./requests.ts";

export const FORM_TYPE = "multipart/form-data; boundary=form";

export interface Part {
  readonly name: string;
  readonly header: string;
  readonly body: Bytes;
}

/** A part that is a field, or a file where it has a file's name. */
export const partOf = (name: string, body: string | Bytes, fileName?: string): Part => ({
  name,
  header:
    fileName === undefined
      ? `content-disposition: form-data; name="${name}"`
      : `content-disposition: form-data; name="${name}"; filename="${fileName}"\r\ncontent-type: application/octet-stream`,
  body: typeof body === "string" ? new TextEncoder().encode(body) : body,
});

/** The whole body of a form. */
export const formBytes = (parts: readonly Part[]): Bytes =>
  joined(
    ...parts.flatMap(({ header, body }) => [
      new TextEncoder().encode(`--form\r\n${header}\r\n\r\n`),
      body,
      new TextEncoder().encode("\r\n"),
    ]),
    new TextEncoder().encode("--form--\r\n"),
  );

/** A request of such a body, its length declared where the host's client does that. */
export const wireForm = (body: Bytes, headers: Headers = {}): HostRequestInit => ({
  method: "POST",
  headers: { ...BEARER, "content-type": FORM_TYPE, ...headers },
  body,
});

/** The same in chunks, of no declared length. */
export const chunked = (chunks: readonly Bytes[], headers: Headers = {}): HostRequestInit => ({
  method: "POST",
  headers: { ...BEARER, "content-type": FORM_TYPE, ...headers },
  body: streamOf(chunks),
  duplex: "half",
});
