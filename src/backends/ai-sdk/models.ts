/** The models that a host offers, by the names that callers use. */

import { GatewayError } from "../../errors.ts";
import type { ModelInfo, ModelKind } from "../../ports/model-backend.ts";
import type { AiSdkImageModel, AiSdkModels, AiSdkOptions } from "./options.ts";

const VERSIONS: ReadonlySet<unknown> = new Set(["v2", "v3", "v4"]);

type AnyModel = Pick<AiSdkImageModel, "specificationVersion" | "provider" | "modelId">;

export class Models<Model extends AnyModel> {
  readonly #models: AiSdkModels<Model>;

  /** Throws a TypeError for a model that is none. */
  constructor(models: AiSdkModels<Model>) {
    this.#models = models;
    if (typeof models !== "function") for (const [name, model] of Object.entries(models)) assertModel(name, model);
  }

  /** The model by the first of its names that there is one of. Throws `model_not_found`. */
  find(...names: readonly [string, ...string[]]): Model {
    for (const name of names) {
      const model = this.#get(name);
      if (model === undefined) continue;
      assertModel(name, model);
      return model;
    }
    throw new GatewayError("model_not_found", `There is no model "${names[0]}".`, { path: ["model"] });
  }

  #get(name: string): Model | undefined {
    if (typeof this.#models === "function") return this.#models(name);
    return Object.hasOwn(this.#models, name) ? this.#models[name] : undefined;
  }

  /** The names on offer; undefined where every name is let through. */
  get names(): readonly string[] | undefined {
    return typeof this.#models === "function" ? undefined : Object.keys(this.#models);
  }
}

function assertModel(name: string, model: AnyModel | null): void {
  const { specificationVersion, provider }: Partial<AnyModel> = model ?? {};
  if (!VERSIONS.has(specificationVersion) || typeof provider !== "string")
    throw new TypeError(`aiSdk: the model ${JSON.stringify(name)} is none of a provider of the versions 2 to 4.`);
}

/** What is on offer; undefined where one of the kinds lets every name through. */
export function listOf(
  byKind: readonly (readonly [ModelKind, { readonly names: readonly string[] | undefined } | undefined])[],
  info: AiSdkOptions["info"] = {},
): readonly ModelInfo[] | undefined {
  const kinds = new Map<string, ModelKind[]>();
  for (const [kind, models] of byKind) {
    if (!models) continue;
    if (!models.names) return undefined;
    for (const name of models.names) kinds.set(name, [...(kinds.get(name) ?? []), kind]);
  }
  return Array.from(kinds, ([id, does]) => ({ ...info[id], id, kinds: does }));
}
