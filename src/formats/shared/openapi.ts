/** The parts of an OpenAPI 3.1 document as types, the description that a format gives of itself, and helpers to write it. */

import type * as v from "valibot";
import type { GatewayError } from "../../errors.ts";

/** A JSON Schema of 2020-12, or a reference to one. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A reference to a part of the document (OpenAPI: Reference Object). */
export interface Reference {
  readonly $ref: string;
}

/** A parameter of an operation (OpenAPI: Parameter Object). */
export interface Parameter {
  readonly name: string;
  readonly in: "query" | "header" | "path";
  readonly description: string;
  readonly required?: boolean;
  readonly schema: JsonSchema;
}

/** An example of a body (OpenAPI: Example Object). */
export interface Example {
  readonly summary: string;
  readonly value: unknown;
}

/** A body of one content type (OpenAPI: Media Type Object). */
export interface MediaType {
  readonly schema: JsonSchema;
  readonly examples?: Readonly<Record<string, Example>>;
  readonly encoding?: Readonly<Record<string, { readonly contentType: string }>>;
}

/** An answer, by its content types (OpenAPI: Response Object). */
export interface ApiResponse {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Reference>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

/** An operation: one method of a path (OpenAPI: Operation Object). */
export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly description?: string;
    readonly content: Readonly<Record<string, MediaType>>;
  };
  readonly responses: Readonly<Record<string, ApiResponse>>;
}

/** An address of the gateway (OpenAPI: Server Object). */
export interface Server {
  /** `https://example.com/ai`, or `/ai` where the document is served from the same host. */
  readonly url: string;
  readonly description?: string;
}

/** A wire format, which groups its operations (OpenAPI: Tag Object). */
export interface Tag {
  readonly name: string;
  readonly description: string;
}

/** An OpenAPI document as JSON. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly Server[];
  readonly tags: readonly Tag[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly securitySchemes: Readonly<Record<string, JsonSchema>>;
    readonly headers: Readonly<Record<string, JsonSchema>>;
  };
}

/** A wire format as the document describes it, with the schemas that it shares with the gateway. */
export interface FormatDescription<Options extends object = object> {
  /** The name of the format in the gateway's endpoints. */
  readonly name: string;
  readonly tag: Tag;
  /** The ways to send an API key; any of them is enough. */
  readonly security: Operation["security"];
  /** The name of the schema of errors, and the format's own functions that encode them. */
  readonly errorSchema: string;
  readonly errors: {
    errorStatus(error: GatewayError): number;
    encodeError(error: GatewayError, requestId: string): unknown;
    /** Absent for a format whose error has a text of its own. */
    readonly keyPlace?: string;
  };
  /** Returns the functions in place of `errors`, for a format whose options change its errors. */
  errorsOf?(options: Options): FormatDescription["errors"];
  /** The schemas by their names in the document. A schema inside another one becomes a reference. */
  schemas(options: Options): Readonly<Record<string, v.GenericSchema>>;
  /** Adds or replaces converted schemas where valibot cannot express what the document needs. */
  jsonSchemas?(schemas: JsonSchemas, options: Options): JsonSchemas;
  /** Examples of the schemas: values by their summaries. */
  readonly examples: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly operations: readonly FormatOperation[];
  /** The answers on the path of models that several formats share. Missing for a format that has none there. */
  readonly models?: SharedModels;
}

/** The models of a format on `/v1/models`, which several formats share. */
export interface SharedModels {
  readonly model: v.GenericSchema;
  readonly list: v.GenericSchema;
  readonly examples: { readonly model: unknown; readonly list: unknown };
  readonly parameters: readonly Parameter[];
  /** A sentence about the requests that get this format's answer. */
  readonly chosenBy: string;
}

/** JSON Schemas by their names in the document. */
type JsonSchemas = Readonly<Record<string, JsonSchema>>;

/**
 * The parts of an operation that cannot be derived. Bodies are the names of schemas. `openApiDocument` adds the parameters of the path, the
 * `Idempotency-Key`, the JSON answer and the error answers.
 */
export interface FormatOperation
  extends
    Pick<Operation, "operationId" | "summary" | "description">,
    Partial<Pick<Operation, "security" | "parameters" | "responses">> {
  /** The gateway's endpoint, with the path as OpenAPI writes it: `/v1/models/{model}` stands for `/v1/models/**`. */
  readonly endpoint: `${string} ${"GET" | "POST" | "DELETE"} ${string}`;
  /** The other paths of the same operation. Only its description names them, so that generated clients have one function. */
  readonly alsoAt?: readonly string[];
  readonly request?: string;
  /** The rules for the request that JSON Schema cannot express. */
  readonly rules?: string;
  /** The fields of a form that hold files. Default: the request is JSON. */
  readonly files?: readonly string[];
  /** The JSON of status 200. */
  readonly answer?: string;
  /** The data of one event, for an answer that may be a stream. */
  readonly events?: string;
  /** Default: "The answer." */
  readonly answerDescription?: string;
  /** Default: derived from the kind and the method of the endpoint. */
  readonly causes?: readonly ErrorCause[];
}

/** The causes of errors. An operation answers with the errors of the causes that apply to it. */
export type ErrorCause =
  | "route"
  | "upgrade"
  | "key"
  | "expiry"
  | "input"
  | "rate"
  | "body"
  | "form"
  | "lookup"
  | "context"
  | "response"
  | "conversation"
  | "item"
  | "model"
  | "quota"
  | "replay"
  | "backend"
  | "gateway";

export const BEARER: Operation["security"][number] = { bearer: [] };

/** The credentials of the formats of OpenAI's clients. */
export const OPENAI_SECURITY: Operation["security"] = [BEARER, { azureApiKey: [] }];

/** Begins the description of an answer that may be a stream. */
export const MAYBE_STREAM =
  "One JSON object, or a stream of server-sent events if `stream` is true. The stream's schema describes the data of one event.";

/** The path of all schemas in the document. */
export const SCHEMAS = "#/components/schemas/";
export const ref = (schema: string): JsonSchema => ({ $ref: `${SCHEMAS}${schema}` });

export const parameter = (
  position: Parameter["in"],
  name: string,
  description: string,
  schema: JsonSchema = { type: "string" },
): Parameter => ({ name, in: position, description, schema, ...(position === "path" && { required: true }) });

/** The parameter for the size of a page of models. */
export const pageSize = (name: string, size: number, most?: number): Parameter => {
  const range = { minimum: 1, ...(most !== undefined && { maximum: most }) };
  return parameter("query", name, "The most models of a page.", { type: "integer", ...range, default: size });
};

/** Makes the operations that list models and look one model up. The suffix distinguishes the operation ids of several lists. */
export const modelOperations = (
  path: string,
  suffix: string,
  schema: string,
  parameters: readonly Parameter[],
  description = "",
): FormatOperation[] => [
  {
    endpoint: `query GET ${path}`,
    operationId: `listModels${suffix}`,
    summary: "Lists the models that the key may use.",
    description,
    parameters,
    answer: `${schema}List`,
    answerDescription: "The models.",
  },
  {
    endpoint: `query GET ${path}/{model}`,
    operationId: `getModel${suffix}`,
    summary: "Tells of one model.",
    description,
    answer: schema,
    answerDescription: "The model.",
  },
];

/** Values that the examples of several formats share. */
export const MODEL = "demo-chat";
export const PNG = "iVBORw0KGgo=";
export const TOOL: { readonly name: string; readonly description: string } = {
  name: "get_weather",
  description: "Tells the weather of a place.",
};
export const TOOL_INPUT: JsonSchema = {
  type: "object",
  properties: { place: { type: "string" } },
  required: ["place"],
};
export const QUESTION: { readonly type: "text"; readonly text: string } = { type: "text", text: "What is this?" };
