/** An upstream: its address, its credential and the names of its models. Sends requests to it. */

import { GatewayError } from "../../errors.ts";
import type { RequestBelow, UpstreamFormat } from "../../formats/module.ts";
import { EMBEDDING } from "../../model/embedding.ts";
import type { JsonLimits } from "../../model/json.ts";
import { FROM_ZERO, overridden } from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import { type Clock, systemClock } from "../../ports/clock.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { AskedUpstream } from "../../ports/observer.ts";
import { type FailureNotes, LastFailures } from "../backend.ts";
import { type BaseAddress, baseAddress, pathBelow } from "./address.ts";
import type { Conversations, OpenConversations } from "./conversations.ts";
import type { Authorization, OpenAuthorization } from "./credentials.ts";
import { connectionError, Failures } from "./failures.ts";
import {
  assertKey,
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  type RelayBackend,
  type RelayLimits,
  type RelayModels,
  type RelayTimeouts,
  SECRET_HEADER,
  secretsIn,
  type UpstreamOptions,
  validHeaders,
} from "./options.ts";
import { fetchTransport, openTransport as openOverFetch } from "./transport.fetch.ts";
import { openTransport as openOnNode } from "./transport.node.ts";
import type { Exchange, Phase, Transport, UpstreamRequest, UpstreamResponse } from "./transport.ts";

/** Bun and Deno are fastest with their own fetch. The builds for runtimes without Node's modules replace `transport.node.ts`. */
const openOwnTransport = "Bun" in globalThis || "Deno" in globalThis ? openOverFetch : openOnNode;

export class Upstream {
  /** The name for records, metrics and failures. */
  readonly name: string;
  /** The upstream as the gateway's observer is told of it with each request. */
  readonly facts: Omit<AskedUpstream, "kind" | "model" | "stream"> & Required<Pick<AskedUpstream, "address">>;
  /** The path of the list of models below the base address. */
  readonly listPath: string | undefined;
  readonly failures: Failures;
  readonly clock: Clock;
  readonly timeouts: RelayTimeouts;
  readonly limits: RelayLimits;
  /** The bounds of the JSON in an answer. */
  readonly json: JsonLimits;
  /** The models that callers may use; undefined when every name is passed on. */
  readonly models: readonly ModelInfo[] | undefined;
  /** Such as `https://example.com`. */
  readonly origin: string;
  readonly #base: BaseAddress;
  /** The last path that was checked, kept because most requests have the same path. */
  #lastPath = { below: "", whole: "" };
  /** The upstream's name of each model, by the caller's name; undefined when every name is passed on. */
  readonly #modelNames: ReadonlyMap<string, string> | undefined;
  /** The transports by origin. Each is opened with its first request. */
  readonly #transports: Map<string, Transport> = new Map();
  readonly #openTransport: (origin: string) => Transport;
  /** The headers of every request. They replace others of the same name. */
  readonly #headers: Readonly<Record<string, string>>;
  /** Undefined where the credential of every request is the same. */
  readonly #authorization: Authorization | undefined;
  readonly #reframe: UpstreamFormat["reframe"];
  /** True when turns of conversations may go over WebSockets. */
  readonly takesSockets: boolean;
  /** Undefined where every request goes over HTTP. */
  readonly #conversations: Conversations | undefined;
  readonly #hangUp: UpstreamOptions["hangUp"];
  /** True when the upstream compacts conversations by itself. */
  readonly compacts: boolean;
  /** True where the options name an `apiKey` that is undefined, as the value of a missing environment variable is. */
  readonly lacksKey: boolean;
  readonly #load: UpstreamFormat["load"];
  readonly #showModel: boolean;
  readonly lastFailures: FailureNotes;

  /** @param parts Lacks `open` for a relay without the code of WebSockets, and `authorize` for one without that of credentials. */
  constructor(
    format: UpstreamFormat,
    options: UpstreamOptions,
    others: readonly UpstreamFormat[],
    {
      open,
      authorize,
      failures = LastFailures,
    }: {
      readonly open?: OpenConversations;
      readonly authorize?: OpenAuthorization;
      readonly failures?: new () => FailureNotes;
    },
  ) {
    this.lastFailures = new failures();
    const { apiKey, fetch, hangUp, sign } = options;
    this.listPath = format.listPath;
    this.#base = baseAddress(options.baseUrl, format, others);
    this.origin = this.#base.origin;
    const { hostname, port, protocol } = new URL(this.origin);
    this.name = options.name ?? hostname;
    this.#modelNames = options.models && namesOf(options.models);
    this.models = options.models && infosOf(options.models, format.modelKinds);
    this.facts = {
      name: this.name,
      format: format.name,
      telemetry: format.telemetry,
      modelListed: this.models !== undefined,
      address: hostname,
      port: Number(port || (protocol === "https:" ? 443 : 80)),
    };
    this.timeouts = overridden("relay: timeouts", DEFAULT_RELAY_TIMEOUTS, options.timeouts);
    this.limits = overridden("relay: limits", DEFAULT_RELAY_LIMITS, options.limits, {
      maxRememberedChars: FROM_ZERO,
      rememberedMs: FROM_ZERO,
    });
    this.json = { ...this.limits, maxJsonBytes: this.limits.maxBodyBytes };
    this.clock = options.clock ?? systemClock;
    this.#hangUp = hangUp;
    this.compacts = options.compaction === "pass";
    if (this.compacts && !format.makesCompactions)
      throw new TypeError("relay: compaction: upstreams of this format make no compactions.");
    this.#load = format.load;
    this.#reframe = format.reframe;
    this.#showModel = options.showUpstreamModel ?? false;
    const key = typeof apiKey === "function" ? undefined : apiKey;
    if (key !== undefined) assertKey("relay: apiKey", key);
    const hostHeaders = validHeaders(options.headers ?? {});
    this.#headers = {
      ...hostHeaders,
      ...(key === undefined ? {} : format.credential(key)),
      // Ask for no compression, because it delays a stream. The transport can still read compressed answers.
      "accept-encoding": "identity",
    };
    const secrets = [...(key === undefined ? [] : [key]), ...secretsIn(hostHeaders)];
    if (typeof apiKey === "function" || sign) {
      if (!authorize)
        throw new TypeError("relay: an apiKey that is a function, and sign, need withCredentials in features.");
      this.#authorization = authorize(format, options, this, secrets);
    }
    this.lacksKey = "apiKey" in options && apiKey === undefined && !this.hasCredential;
    this.failures = new Failures(secrets, { show: options.showUpstreamMessages });
    this.takesSockets = options.transport === "websocket";
    this.#conversations = this.takesSockets ? this.#openConversations(format, options, open) : undefined;
    this.#openTransport = (origin) => (fetch ? fetchTransport(origin, fetch) : openOwnTransport(origin, this.timeouts));
  }

  /** The members that the backends of all relays have. No function needs `this`, so a host may copy functions into another object. */
  get backend(): Omit<RelayBackend, "check"> {
    const { models, name } = this;
    return {
      name,
      takesUnknown: true,
      ...(models && { models: () => models }),
      status: () => this.lastFailures.status([name]),
      upstreamsOf: (model) => {
        const known = this.#modelNames ? this.#modelNames.get(model) : model;
        return known === undefined ? [] : [{ name, model: known }];
      },
      ...(this.#hangUp !== undefined && { hangUp: this.#hangUp }),
      ...(this.compacts && { compacts: true }),
      ...(this.#load && { load: this.#load }),
      close: async () => {
        const transports = [...this.#transports.values()].map((transport) => transport.close());
        await Promise.all([this.#conversations?.close(), ...transports]);
      },
    };
  }

  #openConversations(
    { takesSockets }: UpstreamFormat,
    { fetch }: UpstreamOptions,
    open: OpenConversations | undefined,
  ): Conversations {
    if (!open) throw new TypeError("relay: transport: only the relay of polygate/backends/relay opens WebSockets.");
    if (!takesSockets) throw new TypeError("relay: transport: upstreams of this format take no WebSockets.");
    if (fetch) throw new TypeError("relay: transport: a WebSocket cannot be opened by the fetch of the host.");
    const { clock, json, limits, timeouts } = this;
    const headers = { "user-agent": "polygate", ...this.#headers };
    const origin = this.origin.replace(/^http/, "ws");
    return open(origin, headers, { clock, json, ...limits, ...timeouts }, this.#authorization);
  }

  /** Returns the upstream's name of a model, given the caller's names, best first. Throws `model_not_found` for unknown names. */
  modelName(...names: readonly [string, ...string[]]): string {
    if (!this.#modelNames) return names[0];
    for (const name of names) {
      const known = this.#modelNames.get(name);
      if (known !== undefined) return known;
    }
    throw new GatewayError("model_not_found", `There is no model "${names[0]}".`, { path: ["model"] });
  }

  /** Returns the upstream's names of the relay's models, and of more models by the names of callers, each once. */
  namesFor(models: readonly string[]): readonly string[] {
    const more = models.map((name) => this.#modelNames?.get(name) ?? name);
    return [...new Set([...(this.#modelNames?.values() ?? []), ...more])];
  }

  /** True when requests carry a key or another secret of the host. */
  get hasCredential(): boolean {
    return this.#authorization !== undefined || Object.keys(this.#headers).some((name) => SECRET_HEADER.test(name));
  }

  /** Returns the failures of a call. Error messages name the model as the caller does, unless the host shows the upstream's name. */
  failuresFor(model: string, callerModel: string): Failures {
    return model === callerModel || this.#showModel ? this.failures : this.failures.renaming(model, callerModel);
  }

  /** Returns the whole path and query of a request below the base address. Throws `model_not_found` for a path that leads elsewhere. */
  pathOf(below: string): string {
    if (this.#lastPath.below !== below) this.#lastPath = { below, whole: pathBelow(this.#base, below) };
    return this.#lastPath.whole;
  }

  /** Sends a request below the base address. Resolves when the headers of the response have come, with any status. */
  async send({ path, headers, body, stream, turn }: RequestBelow, exchange: Exchange): Promise<UpstreamResponse> {
    const { headersMs, completeMs } = this.timeouts;
    const whole = this.pathOf(path);
    const answer: Phase = stream
      ? { name: "headers", limitMs: headersMs }
      : { name: "complete answer", limitMs: completeMs };
    const overSocket = turn && (await this.#conversations?.ask(turn, whole, exchange, answer));
    if (overSocket) return overSocket;
    const request: UpstreamRequest = {
      method: "POST",
      path: whole,
      headers: {
        "content-type": "application/json",
        accept: stream ? "text/event-stream" : "application/json",
        "user-agent": "polygate",
        ...headers,
        ...this.#headers,
      },
      body,
    };
    return this.#ask(request, answer, exchange);
  }

  /** Asks for something below the base address, with the upstream's credential. Resolves when the headers have come. */
  get(path: string, headers: Readonly<Record<string, string>>, exchange: Exchange): Promise<UpstreamResponse> {
    const whole = this.pathOf(path);
    const request: UpstreamRequest = {
      method: "GET",
      path: whole,
      headers: { accept: "application/json", "user-agent": "polygate", ...headers, ...this.#headers },
    };
    return this.#ask(request, { name: "headers", limitMs: this.timeouts.headersMs }, exchange);
  }

  /** @param answer The phase behind the connection. */
  #ask(request: UpstreamRequest, answer: Phase, exchange: Exchange): Promise<UpstreamResponse> {
    const response = this.#authorization
      ? this.#authorization.send(request, exchange, (asked) => this.#begin(asked, answer, exchange))
      : this.#begin(request, answer, exchange);
    return this.#reframe ? response.then(this.#reframe) : response;
  }

  #begin(request: UpstreamRequest, answer: Phase, exchange: Exchange): Promise<UpstreamResponse> {
    exchange.begin({ name: "connection", limitMs: this.timeouts.connectMs }, answer);
    return this.sendTo(this.origin, exchange, request);
  }

  /** Sends a request to an origin as it is, without the upstream's credential and headers. */
  async sendTo(origin: string, exchange: Exchange, request: UpstreamRequest): Promise<UpstreamResponse> {
    let transport = this.#transports.get(origin);
    if (!transport) this.#transports.set(origin, (transport = this.#openTransport(origin)));
    try {
      return await transport.send(request, exchange);
    } catch (error) {
      throw connectionError(error, exchange, origin === this.origin ? this : undefined);
    }
  }
}

function namesOf(models: RelayModels): ReadonlyMap<string, string> {
  const names = new Map(
    isList(models)
      ? models.map((model) => (typeof model === "string" ? [model, model] : [model.id, model.id]))
      : Object.entries(models),
  );
  for (const [caller, upstream] of names)
    if (typeof upstream !== "string" || upstream === "" || caller === "")
      throw new TypeError("relay: models must name each model by a text that is not empty.");
  return names;
}

/** Matches names of models that embed: `text-embedding-3-small`, `nomic-embed-text`. */
const EMBEDS = /(?:^|[^a-z])embed(?:ding)?s?(?:$|[^a-z])/i;

/**
 * Lists the models with the kinds of the format's models, unless the host declares other kinds. Without such kinds, a model whose name tells
 * that it embeds has the kind `embedding`.
 */
function infosOf(models: RelayModels, kinds: readonly ModelKind[] | undefined): readonly ModelInfo[] {
  const kindsOf = (name: string): Pick<ModelInfo, "kinds"> => {
    if (kinds) return { kinds };
    return EMBEDS.test(name) ? { kinds: [EMBEDDING] } : {};
  };
  if (!isList(models)) return Object.entries(models).map(([id, upstream]) => ({ ...kindsOf(upstream), id }));
  return models.map((model) => {
    const info = typeof model === "string" ? { id: model } : model;
    return { ...kindsOf(info.id), ...info };
  });
}

// `Array.isArray` alone does not narrow the type to exclude a readonly array.
const isList = (models: RelayModels): models is readonly (string | ModelInfo)[] => Array.isArray(models);
