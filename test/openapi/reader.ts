/** Reads a document as tools do: finds its schemas, and holds values to them by JSON Schema of 2020-12. */

import { Ajv2020 } from "ajv/dist/2020.js";
import { createGateway, type GatewayOptions, memoryQuotaStore } from "../../src/index.ts";
import { type JsonSchema, type OpenApiDocument, openApiDocument, type Operation } from "../../src/openapi/index.ts";

/** A backend that can do both, of which nothing is asked. */
const IDLE: GatewayOptions["backend"] = {
  async *chat() {
    yield "";
  },
  async *image() {},
};

/** The document of a gateway with these options. */
export const documentOf = (options: Partial<GatewayOptions> = {}): OpenApiDocument =>
  openApiDocument(createGateway({ backend: IDLE, quotas: memoryQuotaStore([]), ...options }));

/** Tells what is wrong with a value, or undefined. */
export type Judge = (value: unknown) => string | undefined;

/** Gives the judge of a schema that stands in a document. */
export function judges({ components }: OpenApiDocument): (schema: JsonSchema) => Judge {
  // Most of a schema is looked through once: what it refers to is compiled once for all, and no code made faster.
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

/** A schema whose references lead into the document, wherever it stands itself. */
const inDocument = <Schema extends object>(schema: Schema): Schema =>
  JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/')) as Schema;

function judgeOf(ajv: Ajv2020, schema: JsonSchema): Judge {
  const validate = ajv.compile(schema);
  return (value) => {
    // As it comes over the wire.
    const valid = validate(JSON.parse(JSON.stringify(value)));
    return valid ? undefined : ajv.errorsText(validate.errors).slice(0, 500);
  };
}

/** The same document with its objects closed: a field that is not described is refused. */
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

/** An operation with its place. */
export interface Placed {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

export const operationsOf = ({ paths }: OpenApiDocument): Placed[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );

/** The schema of an operation's body. */
export function bodySchema(document: OpenApiDocument, operationId: string): JsonSchema {
  const content = operationBy(document, operationId).requestBody?.content ?? {};
  const [media] = Object.values(content);
  if (!media) throw new Error(`${operationId} has no body.`);
  return media.schema;
}

/** The schema of an operation's answer. */
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
