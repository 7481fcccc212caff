/** Admits a call: authenticates its key (spec 2.5, 5, 8), holds the key to its rate limits, reads the body, and authorizes the model. */

import { GatewayError, isWait, type RefusedBy, toGatewayError } from "../errors.ts";
import type { DocumentsCall, Endpoint, ListedModel } from "../formats/format.ts";
import { declaredBytes, readJsonText } from "../http/body.ts";
import { withoutPrefix } from "../http/request.ts";
import type { Cost, ModelNames } from "../kinds/kind.ts";
import { nameOf, wrongField } from "../kinds/meter.ts";
import { otherModelsIn } from "../kinds/other-models.ts";
import type { NativeRequest } from "../model/chat-request.ts";
import { copyOf, isJsonObject, parseJson, isContainer } from "../model/json.ts";
import { firstOf, modelHint, MOST_COMPARED, nearest, type Shapes, shown, unknownName } from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import { LATE, within } from "../ports/clock.ts";
import { MODEL_SHAPES, type ModelInfo, takesUnlisted } from "../ports/model-backend.ts";
import type { ApiKey, Balance } from "../ports/quota-store.ts";
import type { RateKind, RateLimit, RateLimiter, RateVerdict } from "../ports/rate-limiter.ts";
import type { BodyLease } from "../ports/shared-room.ts";
import { askStore, tellStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import type { BodyContent } from "./idempotency.ts";
import { quietly, report } from "./reports.ts";
import { limitText, refusalOf } from "./reserve.ts";
import { tooLate } from "./settlements.ts";

/** A model as a request names it. */
export interface NamedModel extends ModelNames {
  readonly name: string;
  readonly kind: ModelKind;
}

/**
 * Finds the caller's key, and counts the call for the key. Throws `missing_api_key`, `malformed_credential`, `invalid_api_key`,
 * `paused_api_key`, `expired_api_key`, or `busy` when the key has too many calls in flight.
 */
export async function authenticate(call: Call, expiredKeysMayAsk: boolean): Promise<ApiKey> {
  const { quotas, clock, inFlight } = call.services;
  const credential = call.endpoint.credential(call.request);
  // Some callers send their key as another format wants it.
  if (!credential)
    throw new GatewayError("missing_api_key", `No API key was given. ${call.endpoint.keyPlace ?? ""}`.trimEnd());
  call.secret = credential;
  const row = await askStore(call, "quota-store", "find", () => quotas.find(withoutPrefix(credential), call.details));
  call.assertLive();
  if (!row) throw new GatewayError("invalid_api_key", invalidKey(credential));
  const key = keyIn(row);
  // The record of a refusal names the key, too.
  call.key = key;
  if (!expiredKeysMayAsk) {
    if (key.paused) throw new GatewayError("paused_api_key", "The API key is paused.");
    if (key.expiresAt > 0 && key.expiresAt * 1000 <= clock.now())
      throw new GatewayError("expired_api_key", "The API key has expired.");
  }
  if (call.slot) inFlight.admit(call.slot, key.id);
  return key;
}

/**
 * Says that there is no such key. Some callers put a scheme before the key where their client adds the scheme itself, or paste the key with
 * the quotes of a configuration.
 */
function invalidKey(credential: string): string {
  const [, scheme] = /^["']?(bearer|basic|token|apikey)[\s:]/i.exec(credential) ?? [];
  const surplus = scheme === undefined ? /^["'“‘`]/.test(credential) && "a quotation mark" : `the word ${scheme}`;
  return `The API key is not valid.${surplus === false ? "" : ` It begins with ${surplus}: give the key alone.`}`;
}

/** Reads a field of a row. Returns undefined for a value that has no meaning in this field. */
type ReadField = (value: unknown, row: ApiKey) => unknown;

const readText = (value: unknown): unknown => (typeof value === "string" ? value : undefined);
const readId = (value: unknown): unknown => (Number.isSafeInteger(value) ? value : readText(value));
const readFlag = (value: unknown): boolean | undefined =>
  value === 0 || value === 1 ? value === 1 : typeof value === "boolean" ? value : undefined;
function readNumber(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && !Number.isNaN(number) ? number : undefined;
}

/** The types and the readers of a key's fields. A field with a question mark may be absent. */
const KEY_FIELDS = Object.entries({
  id: ["string", readId],
  name: ["string", (value) => readText(value ?? "")],
  unlimited: ["boolean", (value) => readFlag(value ?? false)],
  modelLimits: ["object", (value, row) => (isContainer(value) ? value : row.modelLimitsEnabled ? undefined : {})],
  // Without this flag, limits of models would not apply.
  modelLimitsEnabled: ["boolean", (value, row) => readFlag(value ?? (isContainer(row.modelLimits) ? value : false))],
  // A field that is missing may have a misspelled name. A key with NaN never expires.
  expiresAt: ["number", (value) => (value === null || Number.isNaN(value) ? 0 : readNumber(value))],
  paused: ["boolean?", (value) => (value == null ? value : readFlag(value))],
  // These are for observers alone.
  budget: ["string?", (value) => value],
  metadata: ["object?", (value) => value],
} satisfies Record<keyof ApiKey, readonly [type: string, read: ReadField]> as Record<
  string,
  readonly [type: string, read: ReadField]
>);

/**
 * Reads a row of the store as a key. Takes what databases write: 0 and 1 for a flag, a text for a number, and null for an absent field.
 * Throws `store_unavailable` for a row whose getters throw, and for a value that could give more rights than the host means: a `Date` in
 * `expiresAt` must not mean that the key never expires.
 */
function keyIn(row: ApiKey): ApiKey {
  try {
    // A store of the host may return anything. Read all fields, because a getter may throw.
    const given: { readonly [Field in keyof ApiKey]: unknown } = row;
    const { id, name, unlimited, modelLimits, modelLimitsEnabled, expiresAt, paused, budget, metadata } = given;
    // A sound row is the key as it stands. Reading each row field by field would cost every call.
    const isKey =
      typeof id === "string" &&
      typeof name === "string" &&
      typeof unlimited === "boolean" &&
      isContainer(modelLimits) &&
      typeof modelLimitsEnabled === "boolean" &&
      typeof expiresAt === "number" &&
      !Number.isNaN(expiresAt) &&
      (paused === undefined || typeof paused === "boolean") &&
      (budget === undefined || typeof budget === "string") &&
      (metadata === undefined || isContainer(metadata));
    return isKey ? row : readRow(row);
  } catch (error) {
    throw toGatewayError(error, "quota-store");
  }
}

/** Reads each field of a row. Throws a TypeError for a wrong value. */
function readRow(row: ApiKey): ApiKey {
  const fields: Record<string, unknown> = {};
  let isSame = true;
  for (const [field, [type, read]] of KEY_FIELDS) {
    const value: unknown = row[field as keyof ApiKey];
    const found = read(value, row);
    if (found === undefined && (value !== undefined || !type.endsWith("?")))
      throw new TypeError(`The store's key has ${field} ${told(value)}; ${field} must be of the type ${type}.`);
    isSame &&= found === value;
    if (found !== undefined) fields[field] = found;
  }
  return isSame ? row : { ...row, ...fields };
}

const told = (value: unknown): string => (typeof value === "number" ? String(value) : shown(value));

/**
 * Asks the store for a key's balance, in whole units: some stores count in fractions, or have no end for an unlimited key, and some databases
 * write long numbers as texts. Rejects with `store_unavailable` for units that are no number; undefined for a key that is gone.
 */
export async function balanceOf(call: Call, key: ApiKey): Promise<Balance | undefined> {
  const { quotas } = call.services;
  const row = await askStore(call, "quota-store", "balance", () => quotas.balance(key.id, call.details));
  if (!row) return undefined;
  const used = unitsIn(row, "used", Number.MAX_SAFE_INTEGER);
  const available = unitsIn(row, "available", Number.MAX_SAFE_INTEGER - used);
  return used === row.used && available === row.available ? row : { ...row, used, available };
}

function unitsIn(row: Balance, field: "used" | "available", most: number): number {
  const units = readNumber(row[field]);
  if (units !== undefined) return Math.max(Math.min(Math.floor(units), most), Number.MIN_SAFE_INTEGER);
  const error = new TypeError(`The store's balance has ${field} ${told(row[field])}; ${field} must be a number.`);
  throw toGatewayError(error, "quota-store");
}

/**
 * Returns the backend's entry for the model; undefined when the backend lists no models. Throws `model_not_allowed` or
 * `model_not_found`.
 */
export function authorizeModel(call: Call, key: ApiKey, named: NamedModel): Promise<ModelInfo | undefined> | undefined {
  const { name, said = name, aliases } = named;
  // A lone surrogate is half a character: no model has such a name, and no address can hold it.
  if (!name.isWellFormed()) throw noModel(said, []);
  call.found.model = name;
  const names = [name, ...aliases];
  if (!mayUse(key, names)) {
    learnModels(call);
    const message = `This API key may not use the model "${said}". ${allowedModels(key, said)}`;
    throw new GatewayError("model_not_allowed", message, { path: ["model"] });
  }
  return call.services.backend.models && listedModel(call, named, names);
}

/** The longest name of a model, and the longest text of a body, that is looked at for the record of a refused request. In characters. */
const MAX_NAME_CHARS = 256;
const MAX_LOOK_CHARS = 16 * 1024;

/** Matches the beginning of a body whose first field is the model, as clients write it. */
const MODEL_FIRST = /^\s*\{\s*"model"\s*:\s*"([^"\\]+)"/;

/**
 * Notes the model of a request that is refused before its model is authorized, for the record alone: from its address, from its parsed
 * body, or from the text of a small body. Of a longer text, only the first field is looked at. A form is not looked at.
 *
 * @param content The body: parsed, or as it was read.
 */
export function noteModel(call: Call, endpoint: Endpoint, content: unknown): void {
  const { found, services } = call;
  if (found.model !== undefined || !services.isRecorded) return;
  learnModels(call);
  const name = quietly(() =>
    "modelIn" in endpoint && endpoint.modelIn ? endpoint.modelIn(call.wildcardPath) : modelOf(content, call),
  );
  if (typeof name !== "string" || name === "" || name.length > MAX_NAME_CHARS || !name.isWellFormed()) return;
  // A host may keep the record. The body that the name is cut from may be megabytes long.
  found.model = copyOf(name);
}

/**
 * Lists the backend's models for the record of a refused call, if no call has listed them yet. Asks the backend once, because a caller who
 * is refused must cost it nothing. A list that comes late is for the records of later calls.
 */
function learnModels(call: Call): void {
  const { backend, isRecorded, kindNames, listed } = call.services;
  // A stranger does not make the gateway ask the backend.
  if (!isRecorded || listed.models || !call.key || !backend.models) return;
  listed.models = [];
  const learn = (models: readonly ModelInfo[]): void => {
    checkModels(models, kindNames);
    // A call that was served meanwhile has a later list.
    if (listed.models?.length === 0) listed.models = models;
  };
  void quietly(() => {
    const told = backend.models?.() ?? [];
    return Array.isArray(told) ? learn(told) : Promise.resolve(told).then(learn);
  });
}

function modelOf(content: unknown, { json }: Call): unknown {
  if (typeof content !== "string") return isJsonObject(content) ? content["model"] : undefined;
  if (content.length > MAX_LOOK_CHARS) return MODEL_FIRST.exec(content.slice(0, MAX_LOOK_CHARS))?.[1];
  const parsed = parseJson(content, json);
  return isJsonObject(parsed) ? parsed["model"] : undefined;
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
        : `${field}: this API key may not use the model "${name}". ${allowedModels(key, name)}`;
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
  const answersKind = ({ kinds }: ModelInfo): boolean => kinds?.includes(kind) ?? true;
  const info = models?.find((model) => names.includes(model.id) && answersKind(model));
  // A model of another kind does not exist for this caller.
  if (models && !info && !isTaken(call, name))
    throw noModel(
      said,
      visibleIn(call, models.filter(answersKind).slice(0, MOST_COMPARED)),
      call.services.backend.takesUnlisted !== undefined && call.key?.modelLimitsEnabled !== true,
    );
  call.found.modelListed = info !== undefined;
  return info;
}

/** Tells whether the backend may answer a model that it does not list. Rejects as `models()` does. */
function isTaken({ services: { backend } }: Call, name: string): boolean {
  try {
    return takesUnlisted(backend, name);
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

/**
 * @param known The models that the caller may know of.
 * @param hasUnlisted True when the caller may use others, such as those of a prefix of a route.
 */
const noModel = (said: string, known: readonly ModelInfo[], hasUnlisted = false): GatewayError => {
  const names = known.map(({ id }) => id);
  return new GatewayError("model_not_found", `There is no model "${said}".${modelHint(said, names, hasUnlisted)}`, {
    path: ["model"],
  });
};

/** Says which models a key may use, that which was probably meant first. Its list of models is no secret to its caller (spec 2.5). */
function allowedModels(key: ApiKey, said: string): string {
  const allowed = Object.keys(key.modelLimits).filter((name) => mayUse(key, [name]));
  if (allowed.length === 0) return "It may use no model.";
  const meant = nearest(said, allowed.slice(0, MOST_COMPARED));
  const first = firstOf(meant === undefined ? allowed : [meant, ...allowed.filter((name) => name !== meant)]);
  const long = allowed.length > 1 ? `${allowed.length} models of long names` : "one model, of a long name";
  return `It may use ${first ?? long}.`;
}

/**
 * Returns the models that a key may use.
 *
 * @param unlisted The ids of the models that a backend has which lists none. Default: none.
 */
export async function visibleModels(
  call: Call,
  key: ApiKey,
  unlisted: readonly string[] = [],
): Promise<readonly ListedModel[]> {
  return visibleIn(call, (await modelsOf(call)) ?? unlisted.map((id) => ({ id })), key);
}

/** Copies only the models with aliases: a backend may list a million models. */
function visibleIn({ services, key: own }: Call, models: readonly ModelInfo[], key = own): readonly ListedModel[] {
  const visible: ListedModel[] = [];
  if (!key) return visible;
  for (const model of models) {
    const aliases = services.aliasesOf(model.id);
    if (key.modelLimitsEnabled && !mayUse(key, [model.id, ...aliases])) continue;
    visible.push(aliases.length > 0 ? { ...model, aliases } : model);
  }
  return visible;
}

const mayUse = ({ modelLimitsEnabled, modelLimits }: ApiKey, names: readonly string[]): boolean =>
  !modelLimitsEnabled || names.some((name) => Object.hasOwn(modelLimits, name) && modelLimits[name] === true);

/** Throws a TypeError for an answer of the backend that is no list of models. */
export function checkModels(models: unknown, kindNames: readonly string[]): void {
  if (!Array.isArray(models)) throw new TypeError(`models() must return a list of models, not ${shown(models)}.`);
  for (const [index, model] of models.entries()) assertModel(model, index, kindNames);
}

async function modelsOf(call: Call): Promise<readonly ModelInfo[] | undefined> {
  const { backend, kindNames } = call.services;
  if (!backend.models) return undefined;
  try {
    const told = backend.models();
    const models: readonly ModelInfo[] = Array.isArray(told) ? told : await call.wait(told);
    checkModels(models, kindNames);
    call.assertLive();
    call.services.listed.models = models;
    return models;
  } catch (error) {
    throw toGatewayError(error, "model-backend");
  }
}

/** The kinds are checked below, where a misspelt one can be told. */
const SHAPES: Shapes<ModelInfo> = { ...MODEL_SHAPES, kinds: "list?" };

/** Throws a TypeError for a listed model with a wrong field. The message names the field and the values that it takes. */
function assertModel(model: ModelInfo, index: number, known: readonly string[]): void {
  const { id, kinds, maxOutputTokens: most = 1 } = model ?? {};
  const areKinds = kinds === undefined || (Array.isArray(kinds) && kinds.every((kind) => known.includes(kind)));
  if (typeof id === "string" && areKinds && Number.isSafeInteger(most) && most > 0) return;
  const where = `models()[${index}]`;
  const wrong = wrongField(where, model, SHAPES);
  if (wrong !== undefined) throw new TypeError(wrong);
  if (!areKinds) {
    const unknown = kinds.map(nameOf).filter((kind) => !known.includes(kind));
    throw new TypeError(`${where}: kinds, ${unknown.map((kind) => unknownName(kind, known)).join("; ")}.`);
  }
  throw new RangeError(`${where}: maxOutputTokens must be an integer from 1 up, not ${most}.`);
}

/** The pause before a retry when the rate limiter names an impossible time, in milliseconds. */
const COME_BACK_MS = 1_000;

const MESSAGE: Readonly<Record<RateKind, string>> = {
  requests: "This API key sends too many requests.",
  tokens: "This API key uses too many tokens in too short a time.",
  calls: "This API key has too many calls at once.",
};

/** The message about a limit of a group of keys: the caller alone may have sent little. */
const GROUP_MESSAGE = "Group limit reached.";

/** Counts a request of the key, and takes a slot of its concurrent calls until the call ends. Throws `rate_limited`. */
export async function limitRequests(call: Call, key: ApiKey, limiter: RateLimiter): Promise<void> {
  let isLost = true;
  /** Gives the call's slot back, and reports the tokens that the call used. */
  const end = (): Promise<unknown> => {
    const { found } = call;
    const tell = (): Promise<unknown> =>
      tellStore(call, "rate-limiter", () => limiter.end(call.id, found.meter?.report.tokens ?? 0, call.details));
    return found.counting ? found.counting.then(tell) : tell();
  };
  const taken = (verdict: RateVerdict): void => {
    isLost = false;
    // A verdict that comes after the call has ended gives its slot back at once.
    if (!verdict.refused) call.defer(end);
  };
  const ask = (): Promise<RateVerdict> => {
    // Without a verdict, the limiter may have counted the call. Do not wait for it: it may hang here, too.
    call.defer(() => {
      if (isLost) call.waitUntil(end());
    });
    return limiter.begin({ id: call.id, keyId: key.id, key }, call.details);
  };
  await askLimiter(call, "begin", ask, taken);
}

/** Counts the estimated tokens of the input and the most tokens of the answer. Throws `rate_limited`. */
export async function limitTokens(
  call: Call,
  key: ApiKey,
  model: string,
  { inputTokens: tokens, maxOutputTokens: outputTokens }: Cost,
  limiter: RateLimiter,
): Promise<void> {
  const demand = { id: call.id, keyId: key.id, key, model, tokens, outputTokens };
  await askLimiter(call, "take", () => limiter.take(demand, call.details));
}

/**
 * Asks for a verdict. Lets the call pass without one when the limiter is down and the host wants it so.
 *
 * @param taken Receives the verdict, in time or late.
 */
async function askLimiter(
  call: Call,
  verb: "begin" | "take",
  ask: () => Promise<RateVerdict>,
  taken?: (verdict: RateVerdict) => void,
): Promise<void> {
  let verdict: RateVerdict | undefined;
  try {
    const told = await askStore(call, "rate-limiter", verb, ask, taken);
    assertVerdict(told, verb);
    verdict = told;
  } catch (thrown) {
    const error = toGatewayError(thrown, "rate-limiter");
    // A limiter that has no limits for a key must not let the key pass.
    if (error.code === "misconfigured") throw error;
    if (!call.isEnded) call.watch?.rateLimit({ decision: "down" });
    if (call.services.rateLimiterDown === "closed" || call.isEnded) throw error;
    report(call, error, "rate-limiter");
  }
  if (verdict) taken?.(verdict);
  call.assertLive();
  if (!verdict) return;
  const { found } = call;
  found.rates = tightest([...found.rates, ...verdict.limits]);
  const { refused } = verdict;
  if (!refused) return call.watch?.rateLimit({ decision: "admitted" });
  const { by: kind, retryAfterMs: told, ...state } = refused;
  const by = Object.hasOwn(MESSAGE, kind) ? kind : "requests";
  call.watch?.rateLimit({ decision: "refused", by });
  const wait = isWait(told) ? Math.ceil(told) : COME_BACK_MS;
  const retryAfterMs = told === Number.POSITIVE_INFINITY ? undefined : wait;
  // A limiter of the host may tell anything.
  const known = Object.entries(state).filter(([, value]) => Number.isFinite(value) || typeof value === "string");
  const refusedBy: RefusedBy = { kind: by, ...Object.fromEntries(known) };
  const message = refusedBy.group ? GROUP_MESSAGE : MESSAGE[by];
  throw new GatewayError("rate_limited", message + limitText(refusedBy), { retryAfterMs, refusedBy });
}

/** Throws a TypeError for anything but a verdict: a limiter of the host may return nothing, and must not admit all calls by that. */
function assertVerdict(told: unknown, verb: string): void {
  const { limits } = Object(told) as Partial<RateVerdict>;
  if (Array.isArray(limits) && limits.every(isContainer)) return;
  throw new TypeError(
    `The rate limiter's ${verb} must resolve with a verdict, such as { limits: [] }, not ${shown(told)}.`,
  );
}

/** For each kind of limit, keeps the one closest to exhaustion; skips limits that are not counts. */
function tightest(limits: readonly RateLimit[]): readonly RateLimit[] {
  const byKind = new Map<string, RateLimit>();
  for (const found of limits) {
    const { kind, limit, remaining, resetMs } = found;
    if (![limit, remaining, Math.ceil(resetMs)].every((count) => Number.isSafeInteger(count) && count >= 0)) continue;
    if (remaining < (byKind.get(kind)?.remaining ?? Number.POSITIVE_INFINITY)) byKind.set(kind, found);
  }
  return [...byKind.values()];
}

/** A body as it was read; empty without a body. */
export interface ReadBody {
  /** A JSON text or a form; undefined after the body was parsed. */
  content?: BodyContent;
  /** Must resolve before the body is parsed; undefined for a key that need not be asked for. Rejects like `assertSolvent`. */
  readonly solvency?: Promise<void> | undefined;
}

/**
 * Tells whether a call of an endpoint may cost nothing, whatever its key has; undefined where nobody knows before the request is decoded.
 * Token counts and the like cost nothing, but they are no reason to read a body for a key without quota.
 */
const mayBeFree = ({ services }: Call, { kind }: Endpoint): boolean | undefined =>
  typeof kind === "string" ? false : kind.hasFreeModels?.(services.prices);

/**
 * Reads the body: a JSON text or a form.
 *
 * A large body, or a body of unknown length, is read only for a key that has quota left: throws `quota_exhausted` or `quota_held`. For a
 * medium body, and for any body of a key that had no quota left a moment ago, the store is asked while the body is read.
 *
 * A key without quota may call a free model, so none of this holds where the price has free models. Where the host does not say whether there
 * are any, only a large body needs quota. The reservation refuses all others.
 */
export async function readBody(call: Call, endpoint: Endpoint, key: ApiKey): Promise<ReadBody> {
  const { limits, request, services } = call;
  const lease = services.bodies.lease(key.id);
  call.defer(() => lease[Symbol.dispose]());
  call.json.booking = lease;
  let solvency: Promise<void> | undefined;
  let metered: Solvency | undefined;
  const isFree = key.unlimited || mayBeFree(call, endpoint);
  if (isFree !== true) {
    const declared = declaredBytes(request.headers);
    const bytes = declared ?? Number.POSITIVE_INFINITY;
    const isLarge = bytes > limits.largeBodyBytes;
    // Token counts are free, also for a key with no quota left, as long as they are little work.
    const isAsked = bytes > limits.mediumBodyBytes || (endpoint.kind !== "query" && services.exhausted.has(key.id));
    if (isFree === undefined && declared === undefined) metered = new Solvency(call, key, lease);
    else if (isLarge) await assertSolvent(call, key);
    else if (isAsked && isFree === false) {
      solvency = assertSolvent(call, key);
      // The failure is met after the body was read.
      solvency.catch(() => {});
    }
  }
  const intake = { lease: metered ?? lease, call };
  const content = endpoint.readForm
    ? await endpoint.readForm(request, intake)
    : await readJsonText(request, call.json.limits.maxJsonBytes, intake);
  call.assertLive();
  return { content, solvency: metered?.asked ?? solvency };
}

/** Asks for the balance of a key once its body of unknown length is large, and stops the reading when the key has no quota left. */
class Solvency implements Pick<BodyLease, "take"> {
  /** Undefined as long as the body is not large. Rejects like `assertSolvent`. */
  asked: Promise<void> | undefined = undefined;
  #refusal: { readonly error: unknown } | undefined = undefined;
  #bytes = 0;
  readonly #call: Call;
  readonly #key: ApiKey;
  readonly #lease: BodyLease;

  constructor(call: Call, key: ApiKey, lease: BodyLease) {
    this.#call = call;
    this.#key = key;
    this.#lease = lease;
  }

  take(bytes: number): void {
    if (this.#refusal) throw this.#refusal.error;
    this.#bytes += bytes;
    if (this.#bytes > this.#call.limits.largeBodyBytes && !this.asked) {
      this.asked = assertSolvent(this.#call, this.#key);
      this.asked.catch((error: unknown) => void (this.#refusal = { error }));
    }
    this.#lease.take(bytes);
  }
}

/** The first and the longest pause before a read for which the bodies of a key leave no room is refused, in milliseconds. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 400;

/** Books room for a read that takes some milliseconds, as those of a burst do. Throws `busy` when there is none for most of a second. */
export async function takeSoon(call: Call, lease: BodyLease, bytes: number): Promise<void> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
    try {
      return lease.take(bytes);
    } catch (error) {
      if (pauseMs > LAST_PAUSE_MS || !(error instanceof GatewayError && error.code === "busy")) throw error;
      await call.pause(pauseMs);
      call.assertLive();
    }
  }
}

/** Throws `quota_exhausted` or `quota_held` when a key has no quota left. */
async function assertSolvent(call: Call, key: ApiKey): Promise<void> {
  const { exhausted } = call.services;
  const balance = await balanceOf(call, key);
  call.assertLive();
  // A key that was deleted meanwhile is refused when quota is reserved.
  if (!balance) return;
  exhausted.noteBalance(key.id, balance.available);
  if (balance.available <= 0) throw refusalOf(call, key, balance);
}

/** Returns the call as the documents of its key see it. */
export function documentsCallOf(call: Call, endpoint: Endpoint, key: ApiKey): DocumentsCall {
  const { limits, services } = call;
  return {
    limits,
    get isEnded() {
      return call.isEnded;
    },
    isFree:
      endpoint.method !== "POST" ||
      ("body" in endpoint && endpoint.body === "none") ||
      mayBeFree(call, endpoint) === true,
    lease: () => services.bodies.lease(key.id),
    takeSoon: (lease, bytes) => takeSoon(call, lease, bytes),
    defer: (release) => call.defer(release),
    assertSolvent: () => assertSolvent(call, key),
    report: (error) => report(call, error, "response-store"),
    async ask(verb, ask) {
      const { clock, details } = call;
      if (!call.isEnded) return askStore(call, "response-store", verb, () => ask(details));
      const answer = await within(ask(details), limits.storeTimeoutMs, clock);
      if (answer !== LATE) return answer;
      throw toGatewayError(tooLate(limits.storeTimeoutMs), "response-store");
    },
  };
}
