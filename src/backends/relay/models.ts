/** The models of an upstream, by the names that callers know and those that the upstream knows. */

import { GatewayError } from "../../errors.ts";
import type { ModelInfo, ModelKind } from "../../ports/model-backend.ts";

/** A list of what the upstream has, by its own names; or the upstream's name of each, by the name that callers use. */
export type RelayModels = readonly (string | ModelInfo)[] | Readonly<Record<string, string>>;

export class ModelNames {
  /** What callers may ask for; undefined where every name is let through. */
  readonly list: readonly ModelInfo[] | undefined;
  /** The upstream's name of each model, by the caller's; undefined where they are the same. */
  readonly #upstream: ReadonlyMap<string, string> | undefined;

  /** @param kind What each does of which the host has not said. */
  constructor(models: RelayModels | undefined, kind?: ModelKind) {
    if (models === undefined) return;
    const kinds = kind && { kinds: [kind] };
    if (isList(models)) {
      this.list = models.map((model) => ({ ...kinds, ...(typeof model === "string" ? { id: model } : model) }));
      this.#upstream = new Map(this.list.map(({ id }) => [id, id]));
    } else {
      this.#upstream = new Map(Object.entries(models));
      this.list = Array.from(this.#upstream.keys(), (id) => ({ ...kinds, id }));
    }
    for (const [caller, upstream] of this.#upstream)
      if (typeof upstream !== "string" || upstream === "" || caller === "")
        throw new TypeError("relay: models must name each model by a text that is not empty.");
  }

  /** The upstream's name of a model. Throws `model_not_found` where none of its names is on the list. */
  upstreamName(model: string, ...others: readonly string[]): string {
    if (!this.#upstream) return model;
    for (const one of [model, ...others]) {
      const name = this.#upstream.get(one);
      if (name !== undefined) return name;
    }
    throw new GatewayError("model_not_found", `There is no model "${model}".`, { path: ["model"] });
  }
}

// Array.isArray does not narrow a readonly array away.
const isList = (models: RelayModels): models is readonly (string | ModelInfo)[] => Array.isArray(models);
