/** What every format's list of models says alike: one model by its name, and a page of many. */

import { GatewayError } from "../../errors.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { Query } from "../dialect.ts";

/** The model that an address names, its name percent-encoded. Throws `not_found`. */
export async function modelNamed({ models }: Query, encoded: string): Promise<ModelInfo> {
  const name = decoded(encoded);
  const info = (await models()).find(({ id, aliases }) => id === name || aliases.includes(name));
  if (!info) throw new GatewayError("not_found", `There is no model "${name}".`, { path: ["model"] });
  // Told by the name that it was asked by, as its caller goes on using that.
  return { ...info, id: name };
}

/** Whether an address below the models names one, and not a method of one. A model's own name may hold colons. */
export const isModelAddress = (tail: string, { method }: Request): boolean =>
  method !== "POST" && tail !== "" && !/:(?:generateContent|streamGenerateContent|countTokens)$/.test(tail);

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** How many models a page has, from a query's parameter. Throws `invalid_request` for what is no count. */
export function pageSize(text: string | null, name: string, otherwise: number, most: number): number {
  if (text === null || text === "") return otherwise;
  const size = Number(text);
  if (!Number.isInteger(size) || size < 1)
    throw new GatewayError("invalid_request", `${name}: must be an integer of at least 1`, { path: [name] });
  return Math.min(size, most);
}
