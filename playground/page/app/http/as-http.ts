/** Writes a call as the text of an HTTP/1.1 request. */

import type { ApiCall } from "./call.ts";

const BOUNDARY = "polygate-boundary";

/** Returns the request line, the headers and the body. Shows only the name of a file in a form, because its bytes are not text. */
export function asHttp(call: ApiCall, host: string): string {
  const { method, path, headers, body, form } = call;
  const text = body ? JSON.stringify(body, undefined, 2) : "";
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${host}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(form ? [`content-type: multipart/form-data; boundary=${BOUNDARY}`] : []),
    ...(body ? [`content-length: ${new TextEncoder().encode(text).length}`] : []),
    "",
    text,
  ];
  for (const field of form ?? []) {
    lines.push(`--${BOUNDARY}`);
    if (field.file) {
      const { name, type, size } = field.file;
      lines.push(`content-disposition: form-data; name="${field.name}"; filename="${name}"`, `content-type: ${type}`);
      lines.push("", `(${size.toLocaleString("en")} bytes of ${name})`);
    } else lines.push(`content-disposition: form-data; name="${field.name}"`, "", field.text);
  }
  if (form) lines.push(`--${BOUNDARY}--`);
  return lines.join("\n");
}
