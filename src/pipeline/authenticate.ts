/** Authenticates the key of a call, and authorizes its model (spec 2.5, 5, 8). */

import { GatewayError, toGatewayError } from "../errors.ts";
import type { ListedModel } from "../formats/format.ts";
import { withoutPrefix } from "../http/request.ts";
import type { NativeRequest } from "../kinds/chat/request.ts";
import { nameOf, wrongField } from "../kinds/meter.ts";
import { otherModelsIn } from "../kinds/other-models.ts";
import { type Shapes, shown, unknownName } from "../options.ts";
import { MODEL_SHAPES, type ModelInfo, VERB_OF } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { keptBy } from "./kept.ts";
import type { NamedModel } from "./kind.ts";

/**
 * Finds the caller's key, and counts the call for the key. Throws `missing_api_key`, `malformed_credential`, `invalid_api_key`,
 * `expired_api_key`, or `busy` when the key has too many calls in flight.
 */
export async function authenticate(call: Call, expiredKeysMayAsk = false): Promise<ApiKey> {
  const { quotas, clock, inFlight } = call.services;
  const credential = call.endpoint.credential(call.request);
  if (!credential) throw new GatewayError("missing_api_key", "No API key was given.");
  call.secret = credential;
  const key = await askStore(call, "quota-store", "find", () => quotas.find(withoutPrefix(credential), call.details));
  call.assertLive();
  if (!key) throw new GatewayError("invalid_api_key", "The API key is not valid.");
  if (!expiredKeysMayAsk && key.expiresAt > 0 && key.expiresAt * 1000 <= clock.now())
    throw new GatewayError("expired_api_key", "The API key has expired.");
  call.key = key;
  call.kept = keptBy(call);
  if (call.slot) inFlight.admit(call.slot, key.id);
  return key;
}

/**
 * Returns the backend's entry for the model; undefined when the backend lists no models. Throws `model_not_allowed` or
 * `model_not_found`.
 */
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

/**
 * Throws `model_not_allowed` for a field of the caller's body by which an upstream may choose a model that the key may not use: the body
 * passes as it is to an upstream of the same format.
 */
export function authorizeOthers(key: ApiKey, native: NativeRequest | undefined): void {
  if (!key.modelLimitsEnabled) return;
  for (const { path, name } of otherModelsIn(native)) {
    if (name !== undefined && mayUse(key, [name, name.replace(/^models\//, "")])) continue;
    const field = path.join(".");
    const message =
      name === undefined
        ? `This API key may not leave the choice of a model to ${field}.`
        : `${field}: this API key may not use the model "${name}".`;
    throw new GatewayError("model_not_allowed", message, { path });
  }
}

/** Returns the backend's entry for a model that a hook has chosen; undefined when the backend lists no models. */
export const findModel = (call: Call, named: NamedModel): Promise<ModelInfo | undefined> | undefined =>
  call.services.backend.models && listedModel(call, named, [named.name, ...named.aliases]);

async function listedModel(
  call: Call,
  { name, said = name, kind }: NamedModel,
  names: readonly string[],
): Promise<ModelInfo | undefined> {
  const models = await modelsOf(call);
  const info = models?.find(({ id, kinds }) => names.includes(id) && (kinds?.includes(kind) ?? true));
  // A model of another kind does not exist for this caller.
  if (models && !info) throw noModel(said);
  call.modelListed = info !== undefined;
  return info;
}

/** Tells whether the caller's key may use a model that the backend lists with the kind of the call's route. */
export async function listsForKind(call: Call, model: string): Promise<boolean> {
  const { endpoint, key } = call;
  if (!key || !mayUse(key, [model])) return false;
  const models = await modelsOf(call);
  return models?.some(({ id, kinds = [] }) => id === model && kinds.some((kind) => kind === endpoint.kind)) ?? false;
}

const noModel = (said: string): GatewayError =>
  new GatewayError("model_not_found", `There is no model "${said}".`, { path: ["model"] });

/** Returns the models that a key may use; none when the backend lists no models. */
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
    if (!Array.isArray(models)) throw new TypeError(`models() must return a list of models, not ${shown(models)}.`);
    for (const [index, model] of models.entries()) assertModel(model, index);
    call.assertLive();
    return models;
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

/** The kinds are checked below, where a misspelt one can be told. */
const SHAPES: Shapes<ModelInfo> = { ...MODEL_SHAPES, kinds: "list?" };

/** Throws a TypeError that names the wrong field of a listed model, and what it must be. */
function assertModel(model: ModelInfo, index: number): void {
  const { id, kinds, maxOutputTokens: most = 1 } = model ?? {};
  const areKinds = kinds === undefined || (Array.isArray(kinds) && kinds.every((kind) => Object.hasOwn(VERB_OF, kind)));
  if (typeof id === "string" && areKinds && Number.isSafeInteger(most) && most > 0) return;
  const where = `models()[${index}]`;
  const wrong = wrongField(where, model, SHAPES);
  if (wrong !== undefined) throw new TypeError(wrong);
  if (!areKinds) {
    const known = Object.keys(VERB_OF);
    const unknown = kinds.map(nameOf).filter((kind) => !known.includes(kind));
    throw new TypeError(`${where}: kinds, ${unknown.map((kind) => unknownName(kind, known)).join("; ")}.`);
  }
  throw new RangeError(`${where}: maxOutputTokens must be an integer from 1 up, not ${most}.`);
}
