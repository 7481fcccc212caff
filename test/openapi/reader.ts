/** Reads a document as tools do: finds its schemas, and validates values with them by JSON Schema 2020-12. */

import { Ajv2020 } from "ajv/dist/2020.js";
import { createGateway, type GatewayOptions, memoryQuotaStore } from "../../src/index.ts";
import { type JsonSchema, type OpenApiDocument, openApiDocument, type Operation } from "../../src/openapi/index.ts";

/** A backend for chat and images that no test calls. */
const IDLE: GatewayOptions["backend"] = {
  async *chat() {
    yield "";
  },
  async *image() {},
};

/** Makes the document of a gateway with these options. */
export const documentOf = (options: Partial<GatewayOptions> = {}): OpenApiDocument =>
  openApiDocument(createGateway({ backend: IDLE, quotas: memoryQuotaStore([]), ...options }));

/** Returns the errors of a value as a text, or undefined for a valid value. */
export type Judge = (value: unknown) => string | undefined;

/** Compiles the schemas of a document. Returns a function that gives the judge of one schema. */
export function judges({ components }: OpenApiDocument): (schema: JsonSchema) => Judge {
  // Speed up the tests: compile referenced schemas once, and skip the optimization of generated code.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, inlineRefs: false, code: { optimize: false } });
  ajv.addSchema({ $id: "document", ...inDocument({ components }) });
  const known = new Map<string, Judge>();
  return (schema) => {
    const key = JSON.stringify(schema);
    const judge = known.get(key) ?? judgeOf(ajv, inDocument(schema));
    known.set(key, judge);
    return judge;
  };
}

/** Points the references of a schema into the document, so that the schema works outside of the document. */
const inDocument = <Schema extends object>(schema: Schema): Schema =>
  JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/')) as Schema;

function judgeOf(ajv: Ajv2020, schema: JsonSchema): Judge {
  const validate = ajv.compile(schema);
  return (value) => {
    // Compare the value as it arrives over the wire.
    const valid = validate(JSON.parse(JSON.stringify(value)));
    return valid ? undefined : ajv.errorsText(validate.errors).slice(0, 500);
  };
}

/** Closes every object of a document, so that fields without a description are refused. */
export const closed = (document: OpenApiDocument): OpenApiDocument => ({
  ...document,
  components: {
    ...document.components,
    schemas: Object.fromEntries(
      Object.entries(document.components.schemas).map(([name, schema]) => [name, closedSchema(schema)]),
    ),
  },
});

function closedSchema(schema: JsonSchema): JsonSchema {
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closedWithin(value)]));
  const { properties } = schema;
  const isOwn = typeof properties === "object" && properties !== null && Object.keys(properties).length > 0;
  return isOwn && !("additionalProperties" in schema) ? { ...inner, additionalProperties: false } : inner;
}

function closedWithin(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closedWithin);
  return typeof value === "object" && value !== null ? closedSchema(value as JsonSchema) : value;
}

/** An operation with its path and method. */
export interface LocatedOperation {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

export const operationsOf = ({ paths }: OpenApiDocument): LocatedOperation[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );

/** Finds the schema of an operation's request body. */
export function bodySchema(document: OpenApiDocument, operationId: string): JsonSchema {
  const content = operationBy(document, operationId).requestBody?.content ?? {};
  const [media] = Object.values(content);
  if (!media) throw new Error(`${operationId} has no body.`);
  return media.schema;
}

/** Finds the schema of an operation's answer. */
export function answerSchema(document: OpenApiDocument, operationId: string, status: number, type: string): JsonSchema {
  const schema = operationBy(document, operationId).responses[status]?.content?.[type]?.schema;
  if (!schema) throw new Error(`${operationId} has no answer ${status} of ${type}.`);
  return schema;
}

function operationBy(document: OpenApiDocument, operationId: string): Operation {
  const found = operationsOf(document).find(({ operation }) => operation.operationId === operationId);
  if (!found) throw new Error(`There is no operation ${operationId}.`);
  return found.operation;
}
