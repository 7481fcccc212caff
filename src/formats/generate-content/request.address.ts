/** The addresses of models and their methods: `/v1beta/models/{model}:{method}` (spec 4). */

import { GatewayError } from "../../errors.ts";

const TUNED = "tunedModels/";

/** Replaces a percent-encoded colon before the method with a plain colon. */
const withColon = (wildcardPath: string): string => wildcardPath.replace(/%3A(?=[A-Za-z]+$)/i, ":");

/** Returns the method at the end of an address: the text after its last colon. Undefined if no colon follows the last slash. */
export function methodIn(wildcardPath: string): string | undefined {
  const address = withColon(wildcardPath);
  const colon = address.lastIndexOf(":");
  return colon > address.lastIndexOf("/") ? address.slice(colon + 1) : undefined;
}

/** Returns the model's id: the text before the last colon of an address. The id may have slashes and colons (spec 4, note 4). */
export function modelIn(wildcardPath: string, isTuned: boolean): string {
  const prefix = isTuned ? TUNED : "models/";
  const address = withColon(wildcardPath);
  let id: string;
  try {
    id = decodeURIComponent(address.slice(0, address.lastIndexOf(":")));
  } catch {
    throw new GatewayError("invalid_request", "model: must be percent-encoded UTF-8", { path: ["model"] });
  }
  const name = id.startsWith(prefix) ? id.slice(prefix.length) : id;
  if (name === "") throw new GatewayError("invalid_request", "model: must not be empty", { path: ["model"] });
  return isTuned ? prefix + name : name;
}

/** Returns the name of a model as a resource: `models/gemini-2.5-flash`. */
export const resourceOf = (model: string): string => (model.startsWith(TUNED) ? model : `models/${model}`);

/** Returns a model's path. Slashes in the model's name are part of the path; other characters are percent-encoded. */
export const pathOf = (model: string): string => `/${resourceOf(model).split("/").map(encodeURIComponent).join("/")}`;
