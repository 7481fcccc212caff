/** Finds the fields of a request's own format that the neutral request has no words for: another format cannot be told of them. */

import { isJsonObject } from "../../model/json.ts";

/** How many are told by name; who sends more is told of the first. */
const MAX_UNSAID = 32;

/** Gathers the paths of such fields, each once. Lists on the way have no place in a path: `tools.input_examples`. */
export class Unsaid {
  readonly #paths: Set<string> = new Set();

  /**
   * Adds those of an object's fields that are not decoded. One that is null or empty says nothing.
   *
   * @param path Where the object stands; in two pieces where it is one of many, because most have no such field to tell of.
   */
  within(object: unknown, decoded: ReadonlySet<string>, path?: string, kind?: string): void {
    if (!isJsonObject(object)) return;
    for (const key of Object.keys(object))
      if (!decoded.has(key) && !isNothing(object[key]))
        this.add([path, kind, key].filter((piece) => piece !== undefined).join("."));
  }

  add(path: string): void {
    if (this.#paths.size < MAX_UNSAID) this.#paths.add(path);
  }

  /** What a native request says of them. */
  told(): { readonly unsaid?: readonly string[] } {
    return this.#paths.size > 0 ? { unsaid: [...this.#paths] } : {};
  }
}

const isNothing = (value: unknown): boolean =>
  value == null || (typeof value === "object" && Object.keys(value).length === 0);
