/** What of OpenAPI 3.1 is written here, and what each format adds to the document. */

import type * as v from "valibot";
import type { DialectOptions, GatewayEndpoint } from "../index.ts";

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

/** What one method of a path does (OpenAPI: Operation Object). */
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

/** Where the gateway is mounted (OpenAPI: Server Object). */
export interface Server {
  /** Where the gateway is mounted: `https://example.com/ai`, or `/ai` where the document is served from the same host. */
  readonly url: string;
  readonly description?: string;
}

/** A format, which its operations are listed under (OpenAPI: Tag Object). */
export interface Tag {
  readonly name: string;
  readonly description: string;
}

/** An OpenAPI document as JSON has it. */
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

/** One operation of a format, and the endpoint of the gateway's that answers it. */
export interface FormatOperation extends Pick<GatewayEndpoint, "kind" | "method"> {
  /** The endpoint's path as the gateway has it: `/v1/models/**`. */
  readonly endpoint: string;
  /** The path as OpenAPI writes it: `/v1/models/{model}`. */
  readonly path: string;
  readonly operation: Operation;
}

/** What a format adds to the document. */
export interface FormatPart {
  readonly tag: Tag;
  /** The schemas by the names that they have in the document; one that stands inside of another is a reference there. */
  readonly schemas: Readonly<Record<string, v.GenericSchema>>;
  /** Makes further schemas, from those as they are in the document. */
  readonly derived?: (schemas: Readonly<Record<string, JsonSchema>>) => Readonly<Record<string, JsonSchema>>;
  readonly operations: readonly FormatOperation[];
}

/** A format by its name, and how its part is made for a host's options. */
export interface Format {
  readonly name: string;
  readonly part: (options: DialectOptions) => FormatPart;
}
