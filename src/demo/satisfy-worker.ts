/** The thread on which schemas are satisfied. */

import { parentPort } from "node:worker_threads";
import { GatewayError, type JsonObject, type JsonValue } from "../index.ts";
import { satisfy } from "./satisfy.ts";

interface Asked {
  readonly id: number;
  readonly schema: JsonObject;
  readonly text: string;
  readonly what: string;
  readonly maxMs: number | undefined;
}

/** What was made of a schema, or why nothing was. */
export type Made = { readonly id: number } & ({ readonly value: JsonValue } | { readonly refused: string });

parentPort?.on("message", ({ id, ...asked }: Asked) => {
  parentPort?.postMessage({ id, ...made(asked) } satisfies Made, []);
});

function made({ schema, text, what, maxMs }: Omit<Asked, "id">): { value: JsonValue } | { refused: string } {
  try {
    return { value: satisfy(schema, text, what, maxMs) };
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error.message };
    throw error;
  }
}
