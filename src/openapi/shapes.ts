/** The small shapes that every format's part of the document is made of. */

import type { ApiResponse, Example, JsonSchema, MediaType, Operation, Parameter, Reference } from "./types.ts";

/** A reference to a schema of the document. */
export const schemaRef = (name: string): Reference & JsonSchema => ({ $ref: `#/components/schemas/${name}` });

const headerRefs = (...names: readonly string[]): Record<string, Reference> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** The headers that every answer has. */
export const ID_HEADERS: Readonly<Record<string, Reference>> = headerRefs("request-id", "x-request-id");
/** The headers of an answer that tells when to come back. */
export const RETRY_HEADERS: Readonly<Record<string, Reference>> = headerRefs("retry-after", "retry-after-ms");
/** The header of an answer which says that no retry helps. */
export const NO_RETRY_HEADERS: Readonly<Record<string, Reference>> = headerRefs("x-should-retry");
/** The header of the answer to a method that a path does not take. */
export const ALLOW_HEADERS: Readonly<Record<string, Reference>> = headerRefs("allow");

/** The headers as the document has them. */
export const HEADERS: Readonly<Record<string, JsonSchema>> = {
  "request-id": { description: "The id of this call, for questions about it.", schema: { type: "string" } },
  "x-request-id": { description: "The same id, under the name that other clients read.", schema: { type: "string" } },
  "retry-after": { description: "Seconds to wait before the next try.", schema: { type: "integer", minimum: 0 } },
  "retry-after-ms": { description: "The same in milliseconds.", schema: { type: "number", minimum: 0 } },
  "x-should-retry": {
    description: "`false` where no retry helps: waiting changes neither the quota nor the key.",
    schema: { const: "false" },
  },
  allow: { description: "The methods that this path takes.", schema: { type: "string" } },
};

/** The ways to send an api key. */
export const SECURITY_SCHEMES: Readonly<Record<string, JsonSchema>> = {
  bearer: { type: "http", scheme: "bearer", description: "`Authorization: Bearer <API_KEY>`" },
  apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
  googApiKey: { type: "apiKey", in: "header", name: "x-goog-api-key" },
  queryKey: { type: "apiKey", in: "query", name: "key", description: "A key in an address may end up in logs." },
};

/** Any one of the named ways. */
export const anyOfSchemes = (...names: readonly (keyof typeof SECURITY_SCHEMES)[]): Operation["security"] =>
  names.map((name) => ({ [name]: [] }));

/** Examples from pairs of a summary and a value; each is called by its place. */
export const examplesOf = (
  ...pairs: readonly (readonly [summary: string, value: unknown])[]
): Record<string, Example> =>
  Object.fromEntries(pairs.map(([summary, value], index) => [`example${index + 1}`, { summary, value }]));

export const jsonContent = (schema: JsonSchema, examples?: MediaType["examples"]): Record<string, MediaType> => ({
  "application/json": { schema, ...(examples && { examples }) },
});

/** An answer of status 200. */
export const answered = (description: string, content: Readonly<Record<string, MediaType>>): ApiResponse => ({
  description,
  headers: ID_HEADERS,
  content,
});

export const parameter = (
  place: Parameter["in"],
  name: string,
  description: string,
  schema: JsonSchema = { type: "string" },
): Parameter => ({ name, in: place, description, schema, ...(place === "path" && { required: true }) });

/** The path's parameter that every format with a list of models has. */
export const MODEL_PARAMETER: Parameter = parameter(
  "path",
  "model",
  "The model's name, percent-encoded. It may hold slashes.",
  { type: "string", minLength: 1 },
);

/** The header of a request that its caller may repeat. */
export const IDEMPOTENCY_KEY: Parameter = parameter(
  "header",
  "Idempotency-Key",
  "A name of the caller's own for this request. Where this service keeps answers, a request that is repeated under it is given the " +
    "same answer at no charge.",
  { type: "string", pattern: "^[!-~]{1,255}$" },
);
