/** The OpenAPI document of the admin. Loaded with the first request for it. */

import { toJsonSchema } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import { ADMIN_ERROR_CODES } from "../refusal-codes.ts";
import type { Operation } from "./operation.ts";

/** The limit that has refused some units, beside the message that says the same. */
const LIMIT = {
  type: "object",
  description: "The limit that has refused some units.",
  required: ["owner"],
  properties: {
    owner: { type: "string", description: "The key or the budget, such as `budget team-a`." },
    available: { type: "integer", description: "The units that can be taken back." },
    book: { type: "string", description: "The sum that would pass `most`." },
    most: { type: "integer", description: "The most units of a sum." },
  },
};

const CODE = {
  enum: ADMIN_ERROR_CODES,
  description: "not_found has the status 404, wherever the unknown id stands.",
};

/** Returns the OpenAPI 3.1 document of operations under a path, as plain JSON. */
export function openApiOf(operations: readonly Operation[], server: string): object {
  const paths = Map.groupBy(operations, ({ path }) => path.replace(":id", "{id}"));
  return {
    openapi: "3.1.0",
    info: {
      title: "polygate admin",
      version: "1",
      description: "Keys, budgets, usage, health and the log of changes.",
    },
    servers: [{ url: server }],
    paths: Object.fromEntries(
      Array.from(paths, ([path, ones]) => [
        path,
        Object.fromEntries(ones.map((one) => [one.method.toLowerCase(), described(one)])),
      ]),
    ),
    components: {
      schemas: {
        Error: {
          type: "object",
          required: ["error"],
          properties: {
            error: {
              type: "object",
              required: ["code", "message"],
              properties: { code: CODE, message: { type: "string" }, limit: LIMIT },
            },
          },
        },
      },
    },
  };
}

function described(operation: Operation): object {
  const {
    operationId,
    path,
    about,
    action,
    body,
    query,
    answer,
    tagged,
    tagOf,
    confirmed,
    asCsv,
    status = 200,
  } = operation;
  const changes = action !== undefined;
  return {
    operationId,
    summary: about,
    parameters: [
      ...(path.includes(":id") ? [{ name: "id", in: "path", required: true, schema: { type: "string" } }] : []),
      ...parametersOf(query),
      ...(changes ? [header("idempotency-key", "A repeated request with the same key changes nothing more.")] : []),
      ...(tagOf ? [header("if-match", "The etag of the answer that the user has seen.")] : []),
      ...(confirmed ? [header("confirm", "true makes a change that was refused with confirmation_required.")] : []),
    ],
    ...(body && { requestBody: { required: true, content: json(body, "input") } }),
    responses: {
      [status]: {
        description: "The answer.",
        content: { ...json(answer, "output"), ...(asCsv && { "text/csv": { schema: { type: "string" } } }) },
        ...(tagged && { headers: { etag: { schema: { type: "string" } } } }),
      },
      default: {
        description: "A refusal, or a failure.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
}

const header = (name: string, description: string): object => ({
  name,
  in: "header",
  description,
  schema: { type: "string" },
});

const json = (schema: GenericSchema, typeMode: "input" | "output"): object => ({
  "application/json": { schema: schemaOf(schema, typeMode) },
});

function parametersOf(query: GenericSchema | undefined): readonly object[] {
  if (!query) return [];
  const { properties = {}, required = [] } = schemaOf(query, "input");
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.includes(name),
    schema,
  }));
}

/** Returns a schema as JSON Schema, without the rules that it cannot tell, such as a change of the type. */
const schemaOf = (schema: GenericSchema, typeMode: "input" | "output"): ReturnType<typeof toJsonSchema> => {
  const { $schema: _dialect, ...rest } = toJsonSchema(schema, { typeMode, errorMode: "ignore" });
  return rest;
};
