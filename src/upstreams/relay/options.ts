/** The options of a relay, and their defaults; the headers that a host may set, and the secrets in them. */

import type { EmbeddingBatches, FormatUpstreamOptions } from "../../formats/module.ts";
import type { ReasoningControl } from "../../model/chat-request.ts";
import {
  assertOptions,
  assertText,
  type Check,
  CLOCK,
  fieldsOf,
  listOf,
  mapOf,
  quoted,
  type Shapes,
} from "../../options.ts";
import type { Clock } from "../../ports/clock.ts";
import { type HangUp, MODEL_SHAPES, type ModelBackend, type ModelInfo } from "../../ports/model-backend.ts";
import { type CheckOptions, HANG_UP_BY_MODEL } from "../backend.ts";
import type { TurnMemoryLimits } from "../turn-memory.ts";
import type { Fetch } from "./transport.fetch.ts";

/** The address of an upstream, and the rules for calling it. */
export interface UpstreamOptions extends Omit<FormatUpstreamOptions, "reasoning"> {
  /** The name of the upstream for records, metrics and failures. Default: the host name of `baseUrl`. */
  readonly name?: string;
  /**
   * The upstream's address, such as `https://api.example.com/v1`; `http` or `https`, without a query. The version may be missing where the
   * official clients of the format add it, and a whole address of a route is taken for the address above the route.
   */
  readonly baseUrl: string;
  /**
   * The upstream's secret, or a function that returns it, for secrets that expire. It is sent in a header, and never appears in an address,
   * log, error or record.
   */
  readonly apiKey?: string | ApiKeySource | undefined;
  /** Signs each request, for upstreams that check a signature over its bytes. */
  readonly sign?: SignRequest | undefined;
  /**
   * The control that requests have over the reasoning of the upstream's models: `none`, `budget`, `effort` or `any`, for all models or by
   * the upstream's name of a model. Default, also for undefined: by the names of models that are known.
   */
  readonly reasoning?: ReasoningControl | ((model: string) => ReasoningControl | undefined) | undefined;
  /** The models that callers may use. Default: the relay passes every name on, and the upstream decides. */
  readonly models?: RelayModels;
  /**
   * Headers of every request. They replace the headers of the format. The relay removes their values from errors, as it removes
   * `apiKey`, when their names suggest a secret, such as `authorization` or `x-access-token`.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** Overrides of `DEFAULT_RELAY_TIMEOUTS`. */
  readonly timeouts?: Partial<RelayTimeouts>;
  /** Overrides of `DEFAULT_RELAY_LIMITS`. */
  readonly limits?: Partial<RelayLimits>;
  /** The beta features that callers of the same format may use. Others are not sent to the upstream. Default: `pass`, which permits all. */
  readonly betas?: NamePolicy;
  /** The versions of the format that callers may choose in place of the relay's own version. Default: `pass`, which permits all. */
  readonly versions?: NamePolicy;
  /** Sends the requests in place of the runtime's own transport. */
  readonly fetch?: Fetch;
  /**
   * `websocket` takes the turns of a conversation over one WebSocket, and falls back to HTTP. Only for upstreams of Responses, and not beside
   * `fetch`. Default: `http`.
   */
  readonly transport?: "http" | "websocket";
  /**
   * Shows callers all error messages of the upstream but those of a 401 or 403 (true), or none (false). A message may contain details of
   * the host's account. Default: messages about the caller's request (statuses 400, 404, 413, 422), without addresses, account names and
   * secrets.
   */
  readonly showUpstreamMessages?: boolean;
  /** Shows callers the upstream's name of a model that they call by another name. Default: false. */
  readonly showUpstreamModel?: boolean;
  /**
   * `pass` leaves compactions to the upstream: `POST /v1/responses/compact` and `context_management`. Only the same upstream can read them
   * later. An upstream of Responses without the route gets a request for a summary instead. Default: `own`, the gateway's own compactions,
   * which every upstream takes.
   */
  readonly compaction?: "own" | "pass";
  /**
   * The end of a call after its client has disconnected: `cancel` (default) cuts it at once, and `{ drainMs }` lets the upstream go on for so
   * many milliseconds, to learn its exact counts. A function chooses by the requested model.
   */
  readonly hangUp?: HangUp | ((model: string) => HangUp);
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/**
 * Returns the upstream's key. The relay keeps a key until its `expiresAt`, and one without until the upstream refuses it with 401. It asks for the
 * next key up to five minutes before, and goes on with the old one meanwhile. Calls that need a key at the same time share one request for it.
 * After a 401, the relay asks once for another key, and sends the request once more with it. A function that throws, or takes longer than
 * `timeouts.credentialMs`, fails the calls that wait for it with `backend_unavailable`; a key that cannot be sent, with `backend_refused`.
 */
export type ApiKeySource = () => ApiKeyAnswer | Promise<ApiKeyAnswer>;

/** A key, or a key with the time at which it expires: a `Date`, or milliseconds since the Unix epoch. */
export type ApiKeyAnswer = string | { readonly apiKey: string; readonly expiresAt?: Date | number | undefined };

/**
 * Signs a request: returns headers to add to it. Called for each request, and once more when the upstream refuses the signature with 401 or 403.
 * A function that throws, or takes longer than `timeouts.credentialMs`, fails the call with `backend_unavailable`; headers that cannot be sent,
 * with `backend_refused`.
 */
export type SignRequest = (request: SignableRequest) => SignedRequest | undefined | Promise<SignedRequest | undefined>;

/** A request as it will be sent, apart from headers of the connection such as `host` and `content-length`. */
export interface SignableRequest {
  /** The method of HTTP. */
  readonly method: "GET" | "POST";
  /** The whole address. */
  readonly url: string;
  /** The headers, with names in lower case and with the key, but without `host`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The bytes of the body; empty for a request without one. */
  readonly body: Uint8Array;
  /** The headers of the same request as the upstream has refused it. Return undefined to let the refusal stand. */
  readonly refused: Readonly<Record<string, string>> | undefined;
}

/** The headers that sign a request, and the address to send it to. */
export interface SignedRequest {
  /** Headers to add. They replace others of the same name. */
  readonly headers: Headers | Readonly<Record<string, string>>;
  /** The address to ask, with another path or query than the request's. It must have the same origin. Default: the request's own. */
  readonly url?: string | undefined;
}

const assertPolicy: Check = (path, policy) => policy === "pass" || policy === "none" || listOf("string")(path, policy);

const assertModel: Check = (path, model) => typeof model === "string" || assertOptions(path, model, MODEL_SHAPES);

const assertModels: Check = (path, models) => {
  if (typeof models === "string") throw new TypeError(`${path} must be a list, such as ["a-model"], or an object.`);
  (Array.isArray(models) ? listOf(assertModel) : mapOf("string"))(path, models);
};

const CONTROLS: readonly ReasoningControl[] = ["none", "budget", "effort", "any"];

/** Checks a key, or a function that returns it. */
export const API_KEY: Check = (path, apiKey) => typeof apiKey === "function" || assertText(path, apiKey);

/** Returns the shapes of the options of a relay, with the check of its format. */
export const relayShapes = (format: Check): Shapes<UpstreamOptions & { readonly format: unknown }> => ({
  name: "string?",
  format,
  baseUrl: "string",
  apiKey: { optional: API_KEY },
  sign: "function?",
  reasoning: { optional: assertReasoning },
  models: { optional: assertModels },
  headers: { optional: mapOf("string") },
  timeouts: "object?",
  limits: "object?",
  betas: { optional: assertPolicy },
  versions: { optional: assertPolicy },
  fetch: "function?",
  transport: { optional: ["http", "websocket"] },
  compaction: { optional: ["own", "pass"] },
  strict: "boolean?",
  showUpstreamMessages: "boolean?",
  showUpstreamModel: "boolean?",
  imageOrigins: { optional: listOf("string") },
  embeddings: { optional: fieldsOf<Partial<EmbeddingBatches>>({ maxInputs: "number?", concurrency: "number?" }) },
  hangUp: HANG_UP_BY_MODEL,
  clock: CLOCK,
  outputLimitField: { optional: ["max_completion_tokens", "max_tokens"] },
  foreignReasoning: { optional: ["drop", "text", "pass"] },
  reasoningHistory: { optional: ["auto", "always", "never"] },
});

/** A list of the upstream's models, by its own names; or the upstream's name of each model, by the name that callers use. */
export type RelayModels = readonly (string | ModelInfo)[] | Readonly<Record<string, string>>;

/** Permits all names (`pass`), no names (`none`), or the names of a list. */
export type NamePolicy = "pass" | "none" | readonly string[];

/** The time limit of each phase of a call, in milliseconds. */
export interface RelayTimeouts {
  /** The wait for a key or a signature from a function of the host's. Beyond it, the call fails with `backend_unavailable`. */
  readonly credentialMs: number;
  /** The wait for a connection. Beyond it, the call fails with `backend_unavailable`. */
  readonly connectMs: number;
  /**
   * The wait for the headers of a streamed answer, once connected. Beyond this limit, and all limits below, the call fails with
   * `deadline_exceeded`.
   */
  readonly headersMs: number;
  /** The wait for the first event, once the headers have come. Comments and keep-alives do not count. */
  readonly firstEventMs: number;
  /** The wait between two events, or two pieces of a complete answer. A keep-alive of the format counts, a comment does not. */
  readonly betweenEventsMs: number;
  /** The wait for the headers of a complete answer, once connected. They come when the whole answer is made. */
  readonly completeMs: number;
  /** The time after which a WebSocket without a new turn is closed. */
  readonly socketIdleMs: number;
  /** The time for a picture that is fetched from its address, once connected. */
  readonly pictureMs: number;
}

/** The default timeouts. */
export const DEFAULT_RELAY_TIMEOUTS: RelayTimeouts = {
  credentialMs: 10_000,
  connectMs: 10_000,
  headersMs: 60_000,
  firstEventMs: 120_000,
  betweenEventsMs: 120_000,
  completeMs: 600_000,
  socketIdleMs: 300_000,
  pictureMs: 60_000,
};

/** The limits of an answer's size, and of the memory of earlier answers. A larger answer fails with `backend_failed`. */
export interface RelayLimits extends TurnMemoryLimits {
  /** The longest event of a stream, in characters. */
  readonly maxEventChars: number;
  /** The WebSockets that are open at a time. A turn without a place goes over HTTP. */
  readonly maxSockets: number;
  /** The body of a complete answer, decompressed, in bytes. */
  readonly maxBodyBytes: number;
  /** A picture that is fetched from its address, in bytes. */
  readonly maxPictureBytes: number;
  /** Deepest nesting of objects and arrays in the JSON of an event, of a complete answer, or of a tool call's arguments. */
  readonly maxJsonDepth: number;
  /** The most JSON values of an event, of a complete answer, or of the arguments of all tool calls of an answer. */
  readonly maxJsonValues: number;
  /** The most members of one object in this JSON. */
  readonly maxJsonKeys: number;
  /** The most elements of all arrays in this JSON. The limit is high, because an answer may have many token likelihoods. */
  readonly maxJsonItems: number;
  /** The most times that a model is asked again with the results of code that the gateway's code runner has run for it. */
  readonly maxCodeTurns: number;
}

const MIB = 1024 ** 2;

/** The default limits. */
export const DEFAULT_RELAY_LIMITS: RelayLimits = {
  maxEventChars: 16 * MIB,
  maxSockets: 128,
  maxBodyBytes: 64 * MIB,
  maxPictureBytes: 25 * MIB,
  maxJsonDepth: 200,
  // Enough for 20,000 tokens with 20 likelihoods each, and the bytes of each.
  maxJsonValues: 5_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 3_000_000,
  maxCodeTurns: 8,
  maxRememberedChars: 32 * MIB,
  rememberedMs: 6 * 60 * 60_000,
};

/** Returns the options for the format. A function for `reasoning` then throws a TypeError for a word that does not exist. */
export function codecOptions({ reasoning, ...others }: UpstreamOptions): FormatUpstreamOptions {
  if (reasoning === undefined) return others;
  if (typeof reasoning !== "function") return { ...others, reasoning: () => reasoning };
  return {
    ...others,
    reasoning(model) {
      const control = reasoning(model);
      if (control !== undefined) assertControl("relay: the result of reasoning", "", control);
      return control;
    },
  };
}

/** Function declarations, because `relayShapes` uses them before this line. */
function assertReasoning(path: string, control: unknown): void {
  if (typeof control !== "function") assertControl(path, ", or a function", control);
}

function assertControl(path: string, others: string, word: unknown): void {
  if (CONTROLS.some((known) => known === word)) return;
  const known = CONTROLS.map((one) => JSON.stringify(one)).join(", ");
  throw new TypeError(`${path} must be one of ${known}${others}, not ${quoted(word)}.`);
}

/** The result of a check of an upstream. */
export interface RelayCheck {
  /** True when the upstream answers and has the relay's models. */
  readonly ok: boolean;
  /** A sentence about the problem, without secrets; undefined when `ok` is true. */
  readonly problem: string | undefined;
  /** The upstream's names of the models that it lists, at most 1,000; undefined when it lists none. */
  readonly models: readonly string[] | undefined;
}

/** An upstream as a backend. */
export interface RelayBackend extends ModelBackend {
  readonly name: string;
  upstreamsOf: NonNullable<ModelBackend["upstreamsOf"]>;
  /** Returns the state of the upstream, with its last failure. A `route` tells the state of its own upstreams. */
  status: NonNullable<ModelBackend["status"]>;
  /**
   * Asks the upstream for its models, or for one token where it lists none, and says what is wrong: an address that does not answer, a
   * refused key, a missing model. Never rejects. Call it at the start of the server, or from a command.
   */
  check(options?: CheckOptions): Promise<RelayCheck>;
  /** Waits until running calls have ended, then closes the connections to the upstream. */
  close(): Promise<void>;
}

/**
 * Throws a TypeError for a key that cannot be sent.
 *
 * @param name The name of the key in messages. They contain no value, because a secret must not get into the host's log.
 */
export function assertKey(name: string, key: string): void {
  if (/^(?:bearer|basic)\s/i.test(key))
    throw new TypeError(`${name} must be the key alone; the relay adds what the header has before it.`);
  if (key === "") throw new TypeError(`${name} is empty: is its environment variable set?`);
  const at = key.search(INVISIBLE);
  if (at < 0) return;
  const what = /[\r\n]/.test(key[at] ?? "") ? "a line break" : key[at] === " " ? "a space" : "another character";
  const isEnd = /^[^!-~]+$/.test(key.slice(at));
  const where = at === 0 ? "begins with" : isEnd ? "ends with" : `has at position ${at + 1}`;
  throw new TypeError(`${name} must be visible ASCII characters, but ${where} ${what}.`);
}

const INVISIBLE = /[^!-~]/;

/** Headers that a host may not set, because the transport sets them, or because they change how the body is read. */
const RESERVED = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "transfer-encoding",
  "upgrade",
]);

/** Returns headers with names in lower case. Throws a TypeError for headers that cannot be sent. The message contains no value. */
export function validHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const valid: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (RESERVED.has(lower)) throw new TypeError(`relay: the header ${lower} is the relay's own.`);
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower)) throw new TypeError("relay: headers has a name that is none.");
    if (typeof value !== "string" || !/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value))
      throw new TypeError(`relay: the header ${lower} has no valid value.`);
    valid[lower] = value;
  }
  return valid;
}

/** Matches the names of headers whose values are probably secrets of the host. */
export const SECRET_HEADER: RegExp = /auth|cookie|credential|key|password|secret|signature|token/;

/** Returns the secret values without a scheme such as `Bearer`. The longest value comes first, because a value may be a part of another. */
export const secretsIn = (headers: Readonly<Record<string, string>>): string[] =>
  Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .map(([, value]) => value.replace(/^[A-Za-z]+ +(?=\S)/, ""))
    .toSorted((a, b) => b.length - a.length);
