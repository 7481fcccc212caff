/** The description of an HTTP call to the gateway. */

import type { JsonObject } from "../json.ts";

export interface ApiCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: JsonObject;
  /** A multipart form, instead of a JSON body. */
  readonly form?: readonly FormField[];
}

export type FormField =
  | { readonly name: string; readonly text: string; readonly file?: never }
  | { readonly name: string; readonly file: File };

/** Returns a POST call with a JSON body. */
export const postJson = (path: string, headers: Readonly<Record<string, string>>, body: JsonObject): ApiCall => ({
  method: "POST",
  path,
  headers: { ...headers, "content-type": "application/json" },
  body,
});

/** Returns the form as the browser sends it. The browser chooses the boundary, and adds it to the header. */
export function formData(form: readonly FormField[]): FormData {
  const data = new FormData();
  for (const field of form) {
    if (field.file) data.append(field.name, field.file);
    else data.append(field.name, field.text);
  }
  return data;
}
