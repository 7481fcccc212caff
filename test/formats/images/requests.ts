/** Image requests to make cases from: JSON and forms that are in order, and what a case changes in them. */

import type { HostRequestInit } from "../../hosts/host.ts";
import { KEY, type Stage } from "../../hosts/stage.ts";
import { type Bytes, CLEAR } from "./pictures.ts";

export const GENERATIONS = "/v1/images/generations";
export const EDITS = "/v1/images/edits";
export const VARIATIONS = "/v1/images/variations";

export type Headers = Readonly<Record<string, string>>;
/** What a form's field holds; several of the same name are sent as several parts. */
export type Value = string | File;
export type Fields = Readonly<Record<string, unknown>>;
export type FormFields = Readonly<Record<string, Value | readonly Value[] | undefined>>;

export const BEARER: Headers = { authorization: `Bearer ${KEY}` };
/** What a key is sent as. */
export const as = (apiKey: string): Headers => ({ authorization: `Bearer ${apiKey}` });

/** A file to send; its name and its type are those that a browser would tell, unless told. */
export const file = (bytes: Bytes, name = "picture.png", type = "image/png"): File => new File([bytes], name, { type });

/** The form of the given fields; undefined leaves one out. */
export function formOf(fields: FormFields): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    for (const each of value === undefined ? [] : [value].flat())
      if (typeof each === "string") form.append(name, each);
      else form.append(name, each, each.name);
  return form;
}

/** An edit of one picture that is in order, with other fields. */
export const editing = (fields: FormFields = {}): FormFields => ({
  prompt: "A red hat",
  image: file(CLEAR),
  ...fields,
});

export const generating = (fields: Fields = {}): Fields => ({ prompt: "A red hat", ...fields });

export const varying = (fields: FormFields = {}): FormFields => ({ image: file(CLEAR), ...fields });

export const jsonOf = (fields: unknown, headers: Headers = BEARER): HostRequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(fields),
});

/** A form as the platform writes it. */
export const multipartOf = (fields: FormFields, headers: Headers = BEARER): HostRequestInit => ({
  method: "POST",
  headers,
  body: formOf(fields),
});

export const generate = ({ request }: Stage, fields: unknown, headers?: Headers): Promise<Response> =>
  request(GENERATIONS, jsonOf(fields, headers));

export const edit = ({ request }: Stage, fields: FormFields, headers?: Headers): Promise<Response> =>
  request(EDITS, multipartOf(fields, headers));

export const vary = ({ request }: Stage, fields: FormFields, headers?: Headers): Promise<Response> =>
  request(VARIATIONS, multipartOf(fields, headers));
