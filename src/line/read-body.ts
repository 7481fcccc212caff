/** The step that reads a request's body, in the form that its route takes. */

import type { ImageEndpoint } from "../dialects/dialect.ts";
import type { BodyIntake } from "../http/body-chunks.ts";
import type { Form } from "../http/form.ts";
import { parseJsonText, readJsonText } from "../http/json-body.ts";
import { readMultipart } from "../http/multipart.ts";
import type { JsonBudget } from "../model/json.ts";
import type { Call } from "./call.ts";

/** A body as it was read. Its text is let go of when it is parsed, so that a call does not hold both. */
export class SentBody {
  #raw: string | Form | undefined;

  constructor(raw: string | Form | undefined) {
    this.#raw = raw;
  }

  /** The body as it came: a JSON text, or a form; undefined once it was parsed. */
  get raw(): string | Form | undefined {
    return this.#raw;
  }

  /** The value of the JSON, or the form. To be called once. Throws as `parseJsonText` does. */
  parse(budget: JsonBudget): unknown {
    const raw = this.#raw;
    this.#raw = undefined;
    return typeof raw === "string" ? parseJsonText(raw, budget) : raw;
  }
}

/** The body, read and not parsed yet; of a route that takes none, an empty one. */
export async function readBody(call: Call, intake: BodyIntake): Promise<SentBody> {
  const { endpoint, request, json } = call;
  json.booking = intake.lease;
  const isForm = endpoint.kind === "image" && endpoint.body === "form";
  const raw = isForm
    ? await readForm(call, endpoint, intake)
    : await readJsonText(request, json.limits.maxJsonBytes, intake);
  call.assertLive();
  return new SentBody(raw);
}

function readForm({ request, limits }: Call, endpoint: ImageEndpoint, intake: BodyIntake): Promise<Form> {
  const maxFileBytes = (field: string): number | undefined => endpoint.maxFileBytes(field);
  return readMultipart(request, { limits, maxFileBytes }, intake);
}
