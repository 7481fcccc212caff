/** Checks an upstream before calls need it: asks for its models, or else for one token, and says in words what is wrong. */

import { type GatewayError, mistakeOf } from "../../errors.ts";
import { wholeOf } from "../../formats/shared/lazy.ts";
import { parseAnswerObject } from "../../formats/shared/upstream.ts";
import { CHAT, type ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { oneLine } from "../../options.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { assertCheckOptions, CHECK_MS, type CheckOptions, notListed } from "../backend.ts";
import { NO_ROUTE } from "./address.ts";
import type { RelayCheck } from "./options.ts";
import { type Asking, assertCoreOptions, type CoreRelayOptions, openRelay, partsIn } from "./relay.ts";
import { credentialMistake, isOfType, JSON_TYPE, readBytes } from "./relayed.ts";
import { Exchange, UNREAD } from "./transport.ts";
import type { Upstream } from "./upstream.ts";

/**
 * Checks the upstream of a relay of `polygate/core`, as `check()` of other relays does: asks for its models, or for one token where it lists
 * none. Resolves with what is wrong: an address that does not answer, a refused key, a missing model.
 * Throws a TypeError for wrong options, and a RangeError for a wrong timeout or limit.
 *
 * @param options The options of the relay.
 */
export function checkRelay(options: CoreRelayOptions, how?: CheckOptions): Promise<RelayCheck> {
  assertCoreOptions("checkRelay", options);
  const { backend, upstream, asking } = openRelay(options.format, options, [], partsIn(options));
  return checkUpstream(upstream, asking, how).then(async (checked) => {
    await backend.close();
    return checked;
  });
}

/**
 * A failure is a problem in words. Rejects only for wrong options.
 *
 * @param asking Undefined for a relay that draws pictures.
 */
export async function checkUpstream(
  upstream: Upstream,
  asking: Asking | undefined,
  options: CheckOptions = {},
): Promise<RelayCheck> {
  assertCheckOptions(options);
  const { timeoutMs = CHECK_MS, models = [] } = options;
  const abort = new AbortController();
  const late = new Error(`The upstream did not answer within ${timeoutMs} ms.`);
  const cancel = upstream.clock.after(timeoutMs, () => abort.abort(late));
  try {
    const path = upstream.listPath;
    let noList = "The upstream lists no models";
    if (path !== undefined) {
      const codec = asking && (await wholeOf(asking.codec));
      const headers = codec ? codec.encodeRequest(tokenRequest("check")).headers : {};
      const { status, ids, problem } = await listOf(upstream, path, headers, abort.signal);
      if (problem !== undefined) return { ok: false, problem, models: undefined };
      if (ids) {
        const names = ids.names.filter((name) => isShowable(upstream, name));
        return withModels(upstream, { ...ids, names }, models);
      }
      noList = `The upstream answers ${status} to GET ${upstream.pathOf(path)}, so it lists no models`;
    }
    const model = upstream.models?.find(({ kinds }) => kinds?.includes(CHAT) ?? true)?.id;
    if (!asking || model === undefined)
      return wrong(`${noList}, and nothing else could be checked. Check the relay's baseUrl and format.`);
    return await withToken(upstream, asking.ask, model, noList, abort.signal);
  } catch (error) {
    return wrong(abort.signal.aborted ? late.message : unreached(upstream, error));
  } finally {
    cancel();
    abort.abort(UNREAD);
  }
}

const wrong = (problem: string): RelayCheck => ({ ok: false, problem, models: undefined });

interface Listing {
  readonly status: number;
  /** Undefined when the upstream has no list; `more` is true when the list goes on. */
  readonly ids: { readonly names: readonly string[]; readonly more: boolean } | undefined;
  readonly problem: string | undefined;
}

async function listOf(
  upstream: Upstream,
  path: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Listing> {
  const exchange = new Exchange(upstream.clock, signal);
  try {
    const response = await upstream.get(path, headers, exchange);
    const { status } = response;
    if (NO_ROUTE.has(status)) return { status, ids: undefined, problem: undefined };
    if (status < 200 || status > 299) {
      const words = wordsOf(await upstream.failures.ofWrongType(response, exchange));
      return { status, ids: undefined, problem: refusal(upstream, status, words) };
    }
    if (!isOfType(response, JSON_TYPE)) {
      const words = wordsOf(await upstream.failures.ofWrongType(response, exchange));
      return { status, ids: undefined, problem: `${words} This is no list of models. Check the relay's baseUrl.` };
    }
    const text = new TextDecoder().decode(await readBytes(response, upstream.limits.maxBodyBytes, exchange));
    return { status, ids: namesIn(parseAnswerObject(text, upstream.json)), problem: undefined };
  } finally {
    exchange.cut(UNREAD);
  }
}

/** Returns the words about an unexpected response, without secrets. */
const wordsOf = ({ cause, message }: Error): string => (cause instanceof Error ? cause.message : message);

/** True for an error of the host's own functions for credentials. The error that is told is a copy, so its name tells. */
const isOfCredential = ({ cause }: GatewayError): boolean => cause instanceof Error && cause.name === "CredentialError";

/** Reads the names from a list of any format. */
function namesIn(answer: JsonObject): NonNullable<Listing["ids"]> {
  const { data, models, has_more: hasMore, nextPageToken } = answer;
  const entries: readonly unknown[] = Array.isArray(data) ? data : Array.isArray(models) ? models : [];
  const names = entries.flatMap((entry) => {
    const name = isJsonObject(entry) ? (entry["id"] ?? entry["name"]) : undefined;
    return typeof name === "string" ? [name.replace(/^models\//, "")] : [];
  });
  return { names, more: hasMore === true || (typeof nextPageToken === "string" && nextPageToken !== "") };
}

/** False for a name that holds a secret of the relay or control characters: an upstream may echo its request. */
const isShowable = ({ failures }: Upstream, name: string): boolean =>
  failures.redacted(name) === name && oneLine(name) === name;

/** Compares the models of the relay and those of a route, by the names of callers, with the models that the upstream lists. */
function withModels(
  upstream: Upstream,
  { names, more }: NonNullable<Listing["ids"]>,
  models: readonly string[],
): RelayCheck {
  const missing = upstream.namesFor(models).filter((name) => !names.includes(name));
  if (missing.length === 0 || more || names.length === 0) return { ok: true, problem: undefined, models: names };
  return { ok: false, problem: upstream.failures.redacted(notListed(missing, names)), models: names };
}

/** Asks for one token, because the upstream lists no models. */
async function withToken(
  upstream: Upstream,
  ask: Asking["ask"],
  model: string,
  noList: string,
  signal: AbortSignal,
): Promise<RelayCheck> {
  try {
    const events = ask(tokenRequest(model), contextOf(signal))[Symbol.asyncIterator]();
    await events.next();
    await events.return?.();
    return { ok: true, problem: undefined, models: undefined };
  } catch (error) {
    if (signal.aborted) throw error;
    const told = upstream.failures.told(error);
    const words = wordsOf(told);
    if (isOfCredential(told)) return wrong(words);
    // The mistake of a refused credential has the words about the response below it.
    if (told.code === "backend_refused")
      return wrong(refusal(upstream, 401, mistakeOf(told) === undefined ? words : wordsOf(told.cause as Error)));
    if (told.code === "backend_unavailable") return wrong(unreached(upstream, told));
    return wrong(`${noList}, and it does not answer for the model ${JSON.stringify(model)}: ${words}`);
  }
}

const tokenRequest = (model: string): ChatRequest => ({
  model,
  messages: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
  system: [],
  tools: [],
  maxOutputTokens: 1,
  stopSequences: [],
  stream: false,
});

const contextOf = (signal: AbortSignal): CallContext => ({
  requestId: "check",
  context: undefined,
  headers: new Headers(),
  clientAddress: undefined,
  key: { id: "check", name: "check", unlimited: true, modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 },
  signal,
  reportConversions: () => {},
});

const refusal = (upstream: Upstream, status: number, words: string): string =>
  status === 401 || status === 403 ? `${credentialMistake(upstream)} ${words}` : words;

function unreached({ facts: { address, port }, failures }: Upstream, error: unknown): string {
  const told = failures.told(error);
  if (isOfCredential(told)) return wordsOf(told);
  if (told.code !== "backend_unavailable") return `${address}:${port} does not answer as it should: ${wordsOf(told)}`;
  const mistake = mistakeOf(told);
  if (mistake !== undefined) return mistake;
  const { code } = (told.cause ?? {}) as { code?: unknown };
  const why = typeof code === "string" ? code : wordsOf(told);
  return `${address}:${port} cannot be reached: ${why}. Check the relay's baseUrl.`;
}
