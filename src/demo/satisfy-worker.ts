/** The thread that satisfies schemas. */

import { parentPort } from "node:worker_threads";
import { GatewayError, type JsonObject, type JsonValue } from "../index.ts";
import { satisfy } from "./satisfy.ts";

interface SchemaRequest {
  readonly id: number;
  readonly schema: JsonObject;
  readonly text: string;
  readonly what: string;
  readonly maxMs: number | undefined;
}

/** The answer to a request: a value, or the reason for a refusal. */
export type Made = { readonly id: number } & ({ readonly value: JsonValue } | { readonly refused: string });

parentPort?.on("message", ({ id, ...request }: SchemaRequest) => {
  parentPort?.postMessage({ id, ...trySatisfy(request) } satisfies Made, []);
});

function trySatisfy({
  schema,
  text,
  what,
  maxMs,
}: Omit<SchemaRequest, "id">): { value: JsonValue } | { refused: string } {
  try {
    return { value: satisfy(schema, text, what, maxMs) };
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error.message };
    throw error;
  }
}
