/** The step that reads a request's body, in the form that its route takes. */

import type { ImageEndpoint } from "../dialects/dialect.ts";
import type { BodyIntake } from "../http/body-chunks.ts";
import type { Form } from "../http/form.ts";
import { readJson } from "../http/json-body.ts";
import { readMultipart } from "../http/multipart.ts";
import type { Call } from "./call.ts";

/** The parsed body: JSON, or a form; undefined for a route that takes none. A repeatable call keeps it as it came, too. */
export function readBody(call: Call, intake: BodyIntake): Promise<unknown> | undefined {
  const { endpoint, request, json, repeatable } = call;
  if (endpoint.kind === "chat" || (endpoint.kind !== "public" && endpoint.body === "json"))
    return readJson(request, json, intake, repeatable && ((text) => (repeatable.body = text)));
  return endpoint.kind === "image" ? readForm(call, endpoint, intake) : undefined;
}

async function readForm(
  { request, limits, repeatable }: Call,
  endpoint: ImageEndpoint,
  intake: BodyIntake,
): Promise<Form> {
  const maxFileBytes = (field: string): number | undefined => endpoint.maxFileBytes(field);
  const form = await readMultipart(request, { limits, maxFileBytes }, intake);
  if (repeatable) repeatable.body = form;
  return form;
}
