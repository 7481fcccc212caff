/** Writes a call as a curl command for a POSIX shell. */

import type { ApiCall } from "./call.ts";
import { KEY_VARIABLE } from "./secret.ts";

export function asCurl(call: ApiCall, baseUrl: string): string {
  const { method, path, headers, body, form } = call;
  // curl uses POST by default for a form or data.
  const parts = [
    `curl --no-buffer ${method === "POST" && (body || form) ? "" : `-X ${method} `}${quoted(baseUrl + path)}`,
  ];
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body) parts.push(`-d ${quoted(JSON.stringify(body, undefined, 2))}`);
  for (const field of form ?? [])
    parts.push(
      field.file
        ? `-F ${quoted(`${field.name}=@${field.file.name};type=${field.file.type}`)}`
        : // `-F` would read a text that begins with `@` or `<` from a file.
          `--form-string ${quoted(`${field.name}=${field.text}`)}`,
    );
  return parts.join(" \\\n  ");
}

/** Quotes a word with single quotes, except for the variable with the key. */
function quoted(word: string): string {
  const single = `'${word.replaceAll("'", String.raw`'\''`)}'`;
  return single.replaceAll(`$${KEY_VARIABLE}`, `'"$${KEY_VARIABLE}"'`);
}
