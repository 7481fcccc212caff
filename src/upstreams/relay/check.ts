/** Checks an upstream before calls need it: asks for its models, or else for one token, and says in words what is wrong. */

import { mistakeOf } from "../../errors.ts";
import { wholeOf } from "../../formats/shared/lazy.ts";
import { parseAnswer } from "../../formats/shared/upstream.ts";
import { CHAT, type ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { oneLine } from "../../options.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { assertCheckOptions, CHECK_MS, type CheckOptions, notListed } from "../backend.ts";
import { NO_ROUTE } from "./address.ts";
import type { RelayCheck } from "./options.ts";
import { type Asking, assertCoreOptions, type CoreRelayOptions, openRelay, partsIn } from "./relay.ts";
import { isOfCredential, isOfType, JSON_TYPE, LACKS_KEY, readBytes, refusalMistake } from "./relayed.ts";
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
  // Some upstreams list their models without a key, and then refuse each call.
  if (upstream.lacksKey && !LOOPBACK.test(upstream.facts.address))
    return wrong(`${LACKS_KEY} For an upstream without keys, leave apiKey out.`);
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

/** Matches the names of this machine, on which model servers need no key. */
const LOOPBACK = /^(?:localhost|127\.[\d.]+|\[::1\])$/;

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
    const ids = namesIn(parseAnswer(text, upstream.json));
    const problem = `The upstream answers GET ${upstream.pathOf(path)} with no list of models. Check the relay's baseUrl and format.`;
    return { status, ids, problem: ids ? undefined : problem };
  } finally {
    exchange.cut(UNREAD);
  }
}

/** Returns the words about an unexpected response, without secrets. */
const wordsOf = ({ cause, message }: Error): string => (cause instanceof Error ? cause.message : message);

/** Reads the names from a list of any format; undefined for another answer. */
function namesIn(answer: unknown): Listing["ids"] {
  const { data, models, object, has_more: hasMore, nextPageToken } = isJsonObject(answer) ? answer : ({} as JsonObject);
  const entries = [answer, data, models].find((list) => Array.isArray(list)) as readonly unknown[] | undefined;
  if (!entries && object !== "list") return undefined;
  const names = (entries ?? []).flatMap((entry) => {
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
    const mistake = mistakeOf(told);
    // The words about the response stand below the mistake.
    const why = mistake === undefined ? words : `${mistake} ${wordsOf(told.cause as Error)}`;
    if (told.code === "backend_refused") return wrong(why);
    if (told.code === "backend_unavailable") return wrong(unreached(upstream, told));
    return wrong(`${noList}, and it does not answer for the model ${JSON.stringify(model)}: ${why}`);
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
  REFUSES.has(status) ? `${refusalMistake(upstream, status)} ${words}` : words;

/** The statuses with which an upstream refuses this service. */
const REFUSES: ReadonlySet<number> = new Set([401, 402, 403]);

function unreached({ facts: { address, port }, failures }: Upstream, error: unknown): string {
  const told = failures.told(error);
  if (isOfCredential(told)) return wordsOf(told);
  const mistake = mistakeOf(told);
  if (mistake !== undefined) return mistake;
  if (told.code !== "backend_unavailable") return `${address}:${port} does not answer as it should: ${wordsOf(told)}`;
  const { code } = (told.cause ?? {}) as { code?: unknown };
  const why = typeof code === "string" ? code : wordsOf(told);
  return `${address}:${port} cannot be reached: ${why}. Check that it runs, and the relay's baseUrl.`;
}
