/** Writes the OpenAPI document of a gateway from its endpoints, and from the operations and schemas of its formats. */

import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import * as v from "valibot";
import { chatCompletionsDescription } from "../formats/chat-completions/openapi.ts";
import { embeddingsDescription } from "../formats/embeddings/openapi.ts";
import { generateContentDescription } from "../formats/generate-content/openapi.ts";
import { imagesDescription } from "../formats/images/openapi.ts";
import { messagesDescription } from "../formats/messages/openapi.ts";
import type { FormatModule } from "../formats/module.ts";
import { responsesDescription } from "../formats/responses/openapi.ts";
import { PROMPT_TOO_LONG } from "../formats/shared/context-length.ts";
import { NO_RETRY } from "../formats/shared/errors.ts";
import {
  type ApiResponse,
  type ErrorCause,
  type FormatDescription,
  type FormatOperation,
  type JsonSchema,
  type MediaType,
  modelOperations,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  parameter,
  ref,
  type Reference,
  SCHEMAS,
  type Server,
} from "../formats/shared/openapi.ts";
import { tokenUsageDescription } from "../formats/token-usage/openapi.ts";
import {
  DEFAULT_LIMITS,
  type Gateway,
  GatewayError,
  type GatewayErrorCode,
  type GatewayErrorDetails,
  type WireFormat,
} from "../index.ts";
import { assertEndpoints, assertOptions, bytesInWords, fieldsOf, listOf, portOf } from "../options.ts";

/** The descriptions of the formats of the package. They stand with their formats, and only this entry of the package reaches them. */
const DESCRIPTIONS: Readonly<Record<WireFormat, FormatDescription>> = {
  messages: messagesDescription,
  "generate-content": generateContentDescription,
  "chat-completions": chatCompletionsDescription,
  responses: responsesDescription,
  embeddings: embeddingsDescription,
  images: imagesDescription,
  "token-usage": tokenUsageDescription,
};

/** A host's description of its own service. */
export interface OpenApiOptions {
  /** Default: `polygate`. */
  readonly title?: string;
  /** The version of the host's service. Default: `1`. */
  readonly version?: string;
  /** The description of the host's service. Default: a sentence about the gateway. */
  readonly description?: string;
  /** The addresses of the gateway. Default: the root of the host that serves the document. */
  readonly servers?: readonly Server[];
  /** The formats of the host's own that the gateway serves, with their descriptions. Default: none. */
  readonly formats?: readonly FormatModule[];
}

const DESCRIPTION = "One gateway to models, in the wire formats that official clients speak.";

/**
 * Returns the OpenAPI 3.1 document of a gateway as plain JSON. It contains the endpoints of this gateway, which depend on its backend and
 * the options of its formats. The schemas of request bodies are those with which the gateway validates.
 *
 * @throws Error for an endpoint that no format here describes: the gateway comes from another version of this library.
 * @example const json = JSON.stringify(openApiDocument(gateway, { servers: [{ url: "https://example.com/ai" }] }));
 */
export function openApiDocument<Context>(
  gateway: Pick<Gateway<Context>, "endpoints" | "formats">,
  options: OpenApiOptions = {},
): OpenApiDocument {
  assertEndpoints("openApiDocument", gateway);
  const { endpoints, formats } = gateway;
  assertOptions<OpenApiOptions>("openApiDocument", options, {
    title: "string?",
    version: "string?",
    description: "string?",
    servers: { optional: listOf(fieldsOf<Server>({ url: "string", description: "string?" })) },
    formats: { optional: listOf(portOf(["serve"], "a FormatModule")) },
  });
  const own = (options.formats ?? []).flatMap(({ description }) => description ?? []);
  const described = [...Object.values(DESCRIPTIONS), ...own].map((format) => withErrors(format, formats));
  const shared = sharedModels(described);
  const parts = [...described, shared];
  const bodyOf = bodies(parts);
  const paths: Record<string, Record<string, Operation>> = {};
  const unknown = new Set(endpoints);
  for (const operation of [...described.flatMap(operationsOf), ...shared.operations]) {
    const [kind, method = "", path = ""] = operation.endpoint.split(" ");
    const patterns = [path, ...(operation.alsoAt ?? [])].map((one) => one.replace(/\{.*/, "**"));
    const served = endpoints.filter((one) => one.kind === kind && one.method === method && patterns.includes(one.path));
    const sharing = operation.formats.filter(({ name }) => served.some(({ format }) => format === name));
    if (sharing.length === 0) continue;
    (paths[path] ??= {})[method.toLowerCase()] = operationOf(
      { ...operation, formats: sharing },
      bodyOf,
      kind === "query",
      method,
      path,
    );
    for (const endpoint of served) if (sharing.some(({ name }) => name === endpoint.format)) unknown.delete(endpoint);
  }
  for (const { format, method, path } of unknown)
    throw new Error(`There is no description of ${format}'s endpoint ${method} ${path}.`);
  const document: OpenApiDocument = {
    openapi: "3.1.1",
    info: {
      title: options.title ?? "polygate",
      version: options.version ?? "1",
      description: options.description ?? DESCRIPTION,
    },
    servers: options.servers ?? [{ url: "/" }],
    tags: described.filter(({ name }) => endpoints.some(({ format }) => format === name)).map(({ tag }) => tag),
    paths,
    components: {
      schemas: reachable(paths, jsonSchemasOf(parts, formats)),
      securitySchemes: SECURITY_SCHEMES,
      headers: HEADERS,
    },
  };
  // Copy the document: hosts may change it, and the tables are shared.
  return JSON.parse(JSON.stringify(document)) as OpenApiDocument;
}

/** The options of a format as the host has given them. */
const optionsOf = (formats: Gateway["formats"], name = ""): object =>
  ({ ...formats } as Readonly<Record<string, object | undefined>>)[name] ?? {};

/** Returns a description with the errors of its format's options. */
const withErrors = (format: FormatDescription, formats: Gateway["formats"]): FormatDescription => ({
  ...format,
  errors: format.errorsOf?.(optionsOf(formats, format.name)) ?? format.errors,
});

const operationsOf = (format: FormatDescription): SharedOperation[] =>
  format.operations.map((operation) => ({ ...operation, formats: [format] }));

/** An operation that several formats share. The headers or the query of a request select the format. */
interface SharedOperation extends FormatOperation {
  readonly formats: readonly FormatDescription[];
}

/** The parts of a description that name bodies. */
type Bodies = Pick<FormatDescription, "schemas" | "jsonSchemas" | "examples"> & { readonly name?: string };

/** Describes the path of models that several formats share. */
function sharedModels(described: readonly FormatDescription[]): Bodies & { operations: readonly SharedOperation[] } {
  const formats = described.filter(({ models }) => models);
  const all = formats.flatMap(({ tag, models }) => (models ? [{ tag, ...models }] : []));
  const operations = modelOperations(
    "/v1/models",
    "",
    "Model",
    all.flatMap(({ parameters }) => parameters),
    ["Several formats share this path.", ...all.map(({ chosenBy }) => chosenBy)].join(" "),
  );
  return {
    schemas: () => ({
      Model: v.union(all.map(({ model }) => model)),
      ModelList: v.union(all.map(({ list }) => list)),
    }),
    examples: {
      Model: Object.fromEntries(all.map(({ tag, examples }) => [tag.name, examples.model])),
      ModelList: Object.fromEntries(all.map(({ tag, examples }) => [tag.name, examples.list])),
    },
    operations: operations.map((operation) => ({ ...operation, formats })),
  };
}

/** The parameters inside paths. */
const PATH_PARAMETERS: readonly Parameter[] = [
  parameter("path", "model", "The model's name, percent-encoded. It may hold slashes.", {
    type: "string",
    minLength: 1,
  }),
  parameter("path", "id", "The last part of the `url` in an image answer."),
  parameter("path", "response_id", "The `id` of a response."),
  parameter("path", "conversation_id", "The `id` of a conversation."),
  parameter("path", "item_id", "The `id` of an item."),
];
const IDEMPOTENCY_KEY = parameter(
  "header",
  "Idempotency-Key",
  "The caller's own name for this request. Where this service keeps answers, a repeated request with the same key gets the " +
    "same answer at no charge.",
  { type: "string", pattern: "^[!-~]{1,255}$" },
);

/** Makes an operation of the document from a row of the tables. */
function operationOf(
  row: SharedOperation,
  bodyOf: (schema: string) => MediaType,
  isQuery: boolean,
  method: string,
  path: string,
): Operation {
  const { formats, operationId, summary, alsoAt = [], request, rules, files, answer, events } = row;
  const elsewhere = alsoAt.map((one) => `\`${one}\``).join(", ");
  const description = [row.description, elsewhere && `The same operation is at ${elsewhere}.`]
    .filter(Boolean)
    .join(" ");
  const responses: Record<string, ApiResponse> = {
    ...errorAnswers(formats, row.causes ?? causesOf(row, isQuery, method, path)),
    ...row.responses,
  };
  if (answer) {
    const content = { "application/json": bodyOf(answer), ...(events && { "text/event-stream": bodyOf(events) }) };
    responses["200"] = { description: row.answerDescription ?? "The answer.", content };
  }
  return {
    operationId,
    summary,
    ...(description && { description }),
    tags: formats.map(({ tag }) => tag.name),
    security: row.security ?? [...new Set(formats.flatMap(({ security }) => security))],
    parameters: [
      ...PATH_PARAMETERS.filter(({ name }) => path.includes(`{${name}}`)),
      ...(row.parameters ?? []),
      ...(method === "POST" ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(request && {
      requestBody: {
        required: true,
        ...(rules && { description: rules }),
        content: files ? { "multipart/form-data": formOf(request, files) } : { "application/json": bodyOf(request) },
      },
    }),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, one]) => [
        status,
        { ...one, headers: { ...ID_HEADERS, ...one.headers } },
      ]),
    ),
  };
}

const formOf = (schema: string, files: readonly string[]): MediaType => ({
  schema: ref(schema),
  encoding: Object.fromEntries(files.map((field) => [field, { contentType: "image/png, image/webp, image/jpeg" }])),
});

/** Returns a function that makes the body of a schema, with its examples. */
const bodies =
  (parts: readonly Bodies[]) =>
  (schema: string): MediaType => {
    const examples = parts.flatMap((part) => Object.entries(part.examples[schema] ?? {}));
    const named = examples.map(([summary, value], index) => [`example${index + 1}`, { summary, value }] as const);
    return { schema: ref(schema), examples: Object.fromEntries(named) };
  };

const RETRY = { retryAfterMs: 2_000 };

type ErrorRow = readonly [ErrorCause, message: string, details?: GatewayErrorDetails];

/** For each error code: its cause, and an example with a message like the gateway's. */
const ERRORS: Readonly<Record<GatewayErrorCode, ErrorRow>> = {
  invalid_request: ["input", "model: is required", { path: ["model"] }],
  malformed_body: ["body", "The request body is not valid JSON: it ends too early."],
  unsupported_media_type: ["body", "The request's content-type must be application/json."],
  body_too_large: ["body", `The request body is larger than ${bytesInWords(DEFAULT_LIMITS.maxJsonBytes)}.`],
  context_length_exceeded: ["backend", PROMPT_TOO_LONG, { context: { inputTokens: 210_000, maxTokens: 200_000 } }],
  content_refused: ["backend", "The model backend refuses this content by its policy."],
  failed_precondition: ["backend", "The model backend cannot meet this request as it is asked."],
  not_found: ["lookup", 'There is no model "other". This API key may use "demo-chat".', { path: ["model"] }],
  method_not_allowed: ["route", "This route takes POST, not PUT.", { allow: ["POST"] }],
  upgrade_required: ["upgrade", "This service takes no WebSockets here. Use HTTP: POST /v1/responses."],
  missing_api_key: ["key", "No API key was given."],
  malformed_credential: ["key", "The header Authorization must begin with Bearer, a space, and the API key."],
  invalid_api_key: ["key", "The API key is not valid."],
  paused_api_key: ["expiry", "The API key is paused."],
  expired_api_key: ["expiry", "The API key has expired."],
  model_not_found: ["model", 'There is no model "other". This API key may use "demo-chat".', { path: ["model"] }],
  model_not_allowed: [
    "model",
    'This API key may not use the model "other". It may use "demo-chat".',
    { path: ["model"] },
  ],
  quota_exhausted: ["quota", "The quota of this API key is used up."],
  quota_insufficient: [
    "quota",
    "The remaining quota of this API key is too small for this request. Units needed: 3, available: 1.",
  ],
  quota_held: ["quota", "The quota that is left of this API key is held by other calls.", RETRY],
  rate_limited: ["rate", "This API key sends too many requests.", RETRY],
  idempotency_key_reused: [
    "replay",
    "Another request was sent with this Idempotency-Key. A new request needs a new one.",
  ],
  idempotency_key_in_use: ["replay", "The request of this Idempotency-Key is still being answered.", RETRY],
  busy: ["gateway", "The gateway is serving as many calls as it can. Try again shortly.", RETRY],
  client_closed: ["gateway", "The client closed the connection."],
  call_stopped: ["gateway", "An operator has stopped the call."],
  deadline_exceeded: ["gateway", "The request took longer than the gateway allows."],
  backend_unavailable: ["backend", "The model backend cannot be reached."],
  backend_overloaded: ["backend", "The model backend is overloaded.", RETRY],
  backend_refused: ["backend", "The model backend refused this service."],
  backend_failed: ["backend", "The model backend failed."],
  store_unavailable: ["gateway", "A store of this service is not available.", RETRY],
  misconfigured: ["rate", "This service has a wrong setting for this API key. Its operator must correct it."],
  internal: ["gateway", "The gateway had an internal error."],
};

/** The errors of causes that only some operations have. */
const FURTHER_ERRORS: readonly (readonly [GatewayErrorCode, ErrorRow])[] = [
  ["malformed_body", ["form", "The request body is not a whole multipart form."]],
  ["unsupported_media_type", ["form", "The request's content-type must be multipart/form-data."]],
  ["body_too_large", ["form", `The request body is larger than ${bytesInWords(DEFAULT_LIMITS.maxUploadBytes)}.`]],
  ["not_found", ["context", "Previous response with id 'resp_1' not found.", { path: ["previous_response_id"] }]],
  ["not_found", ["response", "Response with id 'resp_1' not found."]],
  ["not_found", ["conversation", "Conversation with id 'conv_1' not found.", { path: ["conversation"] }]],
  ["not_found", ["item", "Item with id 'msg_1' not found."]],
];

const ALL_ERRORS: readonly (readonly [GatewayErrorCode, ErrorRow])[] = [
  ...(Object.entries(ERRORS) as [GatewayErrorCode, ErrorRow][]),
  ...FURTHER_ERRORS,
];

/**
 * Returns the causes that apply to an operation. A list of models comes from the backend, so it has the backend's errors. A token count has
 * none, because it is an estimate by default.
 */
function causesOf({ files }: FormatOperation, isQuery: boolean, method: string, path: string): ErrorCause[] {
  const causes: ErrorCause[] = ["route", "key", "expiry", "rate", "input", "gateway"];
  if (method === "POST") causes.push(files ? "form" : "body", "model", "replay");
  if (method === "GET" || !isQuery) causes.push("backend");
  if (!isQuery) causes.push("quota");
  return path.endsWith("{model}") ? [...causes, "lookup"] : causes;
}

/** Makes the error answers of an operation by status. Each format encodes an example of each code. */
function errorAnswers(
  formats: readonly FormatDescription[],
  causes: readonly ErrorCause[],
): Record<string, ApiResponse> {
  const met = ALL_ERRORS.filter(([, [cause]]) => causes.includes(cause));
  const errors = met.flatMap(([code, [cause, summary, details]]) =>
    formats.map((format) => {
      const { keyPlace = "" } = code === "missing_api_key" ? format.errors : {};
      const error = new GatewayError(code, `${summary} ${keyPlace}`.trimEnd(), details);
      const value = format.errors.encodeError(error, "req_0123456789abcdef");
      const isOther = met.some(([one, [other]]) => one === code && other !== cause);
      const name = formats.length > 1 ? `${code} (${format.name})` : isOther ? `${code} (${cause})` : code;
      return { format, error, example: [name, { summary, value }] as const };
    }),
  );
  const byStatus = Map.groupBy(errors, ({ format, error }) => String(format.errors.errorStatus(error)));
  const answers = Array.from(byStatus, ([status, same]): [string, ApiResponse] => {
    const [schema = {}, ...others] = [...new Set(same.map(({ format }) => format.errorSchema))].map(ref);
    const examples = Object.fromEntries(same.map(({ example }) => example));
    const answer = {
      description: [...new Set(same.map(({ error }) => `\`${error.code}\``))].join(", "),
      headers: Object.assign({}, ...same.map(({ error }) => headersOf(error))) as Record<string, Reference>,
      content: {
        "application/json": { schema: others.length > 0 ? { anyOf: [schema, ...others] } : schema, examples },
      },
    };
    return [status, answer];
  });
  return Object.fromEntries(answers);
}

const headersOf = ({ code, allow, retryAfterMs }: GatewayError): Record<string, Reference> => ({
  ...(allow && headerRefs("allow")),
  ...(retryAfterMs !== undefined && headerRefs("retry-after", "retry-after-ms")),
  ...(NO_RETRY.has(code) && headerRefs("x-should-retry")),
});

/** The ways to send an API key. */
const SECURITY_SCHEMES: Readonly<Record<string, JsonSchema>> = {
  bearer: { type: "http", scheme: "bearer", description: "`Authorization: Bearer <API_KEY>`" },
  apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
  googApiKey: { type: "apiKey", in: "header", name: "x-goog-api-key" },
  azureApiKey: { type: "apiKey", in: "header", name: "api-key" },
  queryKey: { type: "apiKey", in: "query", name: "key", description: "A key in an address may end up in logs." },
};

const HEADERS = {
  "request-id": { description: "The id of this call, for questions about it.", schema: { type: "string" } },
  "x-request-id": { description: "The same id, under the name that other clients read.", schema: { type: "string" } },
  "retry-after": { description: "Seconds to wait before the next try.", schema: { type: "integer", minimum: 0 } },
  "retry-after-ms": { description: "The same in milliseconds.", schema: { type: "number", minimum: 0 } },
  "x-should-retry": {
    description: "`false` where no retry helps: waiting changes neither the quota nor the key.",
    schema: { const: "false" },
  },
  allow: { description: "The methods that this path takes.", schema: { type: "string" } },
} as const satisfies Record<string, JsonSchema>;

const headerRefs = (...names: readonly (keyof typeof HEADERS)[]): Record<string, Reference> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** The headers of every answer. */
const ID_HEADERS = headerRefs("request-id", "x-request-id");

/**
 * The actions of valibot that JSON Schema cannot express: rules over several fields, rules for texts that the schemas repeat as
 * metadata, and marks for fields that other formats do not have.
 */
export const ignoreActions: string[] = ["check", "raw_check", "finite", "unsupported", "whole"];

/** Converts the schemas of all formats to JSON Schema. */
function jsonSchemasOf(parts: readonly Bodies[], options: Gateway["formats"]): Record<string, JsonSchema> {
  const definitions = Object.fromEntries(
    parts.flatMap((part) => Object.entries(part.schemas(optionsOf(options, part.name)))),
  );
  const converted = toJsonSchemaDefs(definitions, {
    target: "draft-2020-12",
    typeMode: "input",
    ignoreActions,
    overrideRef: ({ referenceId }) => `${SCHEMAS}${referenceId}`,
  }) as unknown as Record<string, JsonSchema>;
  return Object.assign(converted, ...parts.map((part) => part.jsonSchemas?.(converted, optionsOf(options, part.name))));
}

/** Keeps the schemas that the paths reference, directly or through another schema. Sorts them by name. */
function reachable(paths: unknown, schemas: Readonly<Record<string, JsonSchema>>): Record<string, JsonSchema> {
  const names = new Set(namesIn(paths));
  // The loop also visits the names that it adds.
  for (const name of names) for (const inner of namesIn(schemas[name])) names.add(inner);
  return Object.fromEntries([...names].toSorted().map((name) => [name, schemas[name] ?? {}]));
}

function* namesIn(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  const { $ref } = value as { readonly $ref?: unknown };
  if (typeof $ref === "string" && $ref.startsWith(SCHEMAS)) yield $ref.slice(SCHEMAS.length);
  for (const inner of Object.values(value)) yield* namesIn(inner);
}
