/** The step that lets a key use a model, where both are known (spec 2.5, 8). */

import type { ListedModel } from "../dialects/dialect.ts";
import { GatewayError, toGatewayError } from "../errors.ts";
import type { ModelInfo, ModelKind } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { Call } from "./call.ts";

/** A model as a request names it. */
export interface NamedModel {
  readonly name: string;
  /** The name that the caller used, which errors repeat: perhaps one of the aliases. Default: `name`. */
  readonly said?: string | undefined;
  /** Other names that keys and backends may know it by. */
  readonly aliases: readonly string[];
  /** The kind of request: chat or image. */
  readonly kind: ModelKind;
}

/** What the backend says of the model; undefined where it lists none. Throws `model_not_allowed` or `model_not_found`. */
export function authorizeModel(call: Call, key: ApiKey, named: NamedModel): Promise<ModelInfo | undefined> | undefined {
  const { name, said = name, aliases } = named;
  // A lone surrogate is half a character: no model has such a name, and no address can hold it.
  if (!name.isWellFormed()) throw noModel(said);
  call.model = name;
  const names = [name, ...aliases];
  if (!mayUse(key, names))
    throw new GatewayError("model_not_allowed", `This API key may not use the model "${said}".`, { path: ["model"] });
  return call.services.backend.models && listedModel(call, named, names);
}

async function listedModel(
  call: Call,
  { name, said = name, kind }: NamedModel,
  names: readonly string[],
): Promise<ModelInfo | undefined> {
  const models = await modelsOf(call);
  const info = models?.find(({ id, kinds }) => names.includes(id) && (kinds?.includes(kind) ?? true));
  // A model that does something else is none to its caller.
  if (models && !info) throw noModel(said);
  call.modelListed = info !== undefined;
  return info;
}

const noModel = (said: string): GatewayError =>
  new GatewayError("model_not_found", `There is no model "${said}".`, { path: ["model"] });

/** The models on offer that a key may use; none where the backend lists none. */
export async function visibleModels(call: Call, key: ApiKey): Promise<readonly ListedModel[]> {
  const models = await modelsOf(call);
  const { aliasesOf } = call.services;
  const named = models?.map((model): ListedModel => ({ ...model, aliases: aliasesOf(model.id) })) ?? [];
  return named.filter(({ id, aliases }) => mayUse(key, [id, ...aliases]));
}

const mayUse = ({ modelLimitsEnabled, modelLimits }: ApiKey, names: readonly string[]): boolean =>
  !modelLimitsEnabled || names.some((name) => Object.hasOwn(modelLimits, name) && modelLimits[name] === true);

async function modelsOf(call: Call): Promise<readonly ModelInfo[] | undefined> {
  const { backend } = call.services;
  if (!backend.models) return undefined;
  try {
    const told = backend.models();
    const models = "then" in told ? await call.wait(told) : told;
    for (const { id, maxOutputTokens: most = 1 } of models)
      if (!(Number.isSafeInteger(most) && most > 0))
        throw new RangeError(`The backend's model "${id}" has an output limit of ${most} tokens.`);
    call.assertLive();
    return models;
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}
