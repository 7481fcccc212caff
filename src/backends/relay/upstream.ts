/** One upstream: its address, its credential, and how a request is sent to it. */

import { openTransport as openOwnTransport } from "#transport";
import type { JsonLimits } from "../../model/json.ts";
import { overridden } from "../../overrides.ts";
import type { Clock } from "../../ports/clock.ts";
import { systemClock } from "../../ports/clock.ts";
import { type BaseAddress, baseAddress, pathBelow } from "./address.ts";
import type { Exchange, Phase } from "./exchange.ts";
import { connectionError, Failures } from "./failures.ts";
import { ModelNames } from "./models.ts";
import {
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  type RelayFormat,
  type RelayLimits,
  type RelayOptions,
  type RelayTimeouts,
} from "./options.ts";
import { fetchTransport } from "./transport.fetch.ts";
import type { Transport, UpstreamResponse } from "./transport.ts";

/** The header in which each format's credential travels. Never the address, which proxies log. */
const CREDENTIAL = {
  messages: (apiKey) => ({ "x-api-key": apiKey }),
  "generate-content": (apiKey) => ({ "x-goog-api-key": apiKey }),
  "chat-completions": (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  images: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
} as const satisfies Record<RelayFormat, (apiKey: string) => Record<string, string>>;

/** Headers that the transport makes itself, or that would change how the body is read. */
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

/** What is sent, beside what every request of the upstream has. */
export interface Sent {
  /** Below the base address. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly stream: boolean;
}

export class Upstream {
  readonly names: ModelNames;
  readonly failures: Failures;
  readonly clock: Clock;
  readonly timeouts: RelayTimeouts;
  readonly limits: RelayLimits;
  /** The bounds of the JSON in an answer. */
  readonly json: JsonLimits;
  /** Its host name, and its port. */
  readonly address: string;
  readonly port: number;
  readonly #base: BaseAddress;
  /** The path that was asked for last: most requests are for the same. */
  #lastPath = { below: "", whole: "" };
  readonly #openTransport: (origin: string) => Transport;
  /** By origin, each opened with its first request. */
  readonly #transports: Map<string, Transport> = new Map();
  /** The headers of every request, which take the place of others of the same name. */
  readonly #own: Readonly<Record<string, string>>;

  constructor(options: RelayOptions) {
    const { format, baseUrl, apiKey, models, headers = {}, fetch, showUpstreamMessages = false } = options;
    this.#base = baseAddress(baseUrl);
    this.names = new ModelNames(models, format === "images" ? "image" : undefined);
    this.timeouts = overridden("relay: timeouts", DEFAULT_RELAY_TIMEOUTS, options.timeouts);
    this.limits = overridden("relay: limits", DEFAULT_RELAY_LIMITS, options.limits);
    this.json = { ...this.limits, maxJsonBytes: this.limits.maxBodyBytes };
    this.clock = options.clock ?? systemClock;
    const credential = apiKey === undefined ? {} : CREDENTIAL[format](validKey(apiKey));
    const hostHeaders = validHeaders(headers);
    this.#own = {
      ...hostHeaders,
      ...credential,
      // Compression delays a stream. An upstream that compresses all the same is understood.
      "accept-encoding": "identity",
    };
    const secrets = [...(apiKey === undefined ? [] : [apiKey]), ...secretsIn(hostHeaders)];
    this.failures = new Failures({ secrets, showMessages: showUpstreamMessages });
    const { hostname, port, protocol } = new URL(this.#base.origin);
    this.address = hostname;
    this.port = Number(port || (protocol === "https:" ? 443 : 80));
    this.#openTransport = (origin) => (fetch ? fetchTransport(origin, fetch) : openOwnTransport(origin, this.timeouts));
  }

  /** Where the upstream is, such as `https://example.com`. */
  get origin(): string {
    return this.#base.origin;
  }

  /** Carries requests to an origin. The upstream's credential and headers are for its own requests alone. */
  transportTo(origin: string): Transport {
    const transport = this.#transports.get(origin) ?? this.#openTransport(origin);
    this.#transports.set(origin, transport);
    return transport;
  }

  /** Resolves with the response's beginning, whatever its status. */
  async send({ path, headers, body, stream }: Sent, exchange: Exchange): Promise<UpstreamResponse> {
    const { connectMs, headersMs, completeMs } = this.timeouts;
    const answer: Phase = stream
      ? { name: "headers", limitMs: headersMs }
      : { name: "complete answer", limitMs: completeMs };
    exchange.begin({ name: "connection", limitMs: connectMs }, answer);
    const request = {
      method: "POST",
      path: this.#wholePath(path),
      headers: {
        "content-type": "application/json",
        accept: stream ? "text/event-stream" : "application/json",
        "user-agent": "polygate",
        ...headers,
        ...this.#own,
      },
      body,
    } as const;
    try {
      return await this.transportTo(this.origin).send(request, exchange);
    } catch (error) {
      throw connectionError(error, exchange);
    }
  }

  #wholePath(below: string): string {
    if (this.#lastPath.below !== below) this.#lastPath = { below, whole: pathBelow(this.#base, below) };
    return this.#lastPath.whole;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#transports.values()].map((transport) => transport.close()));
  }
}

// The messages show no value: a host's log is no place for a secret.
function validKey(apiKey: string): string {
  if (!/^[\u0021-\u007e]+$/.test(apiKey)) throw new TypeError("relay: apiKey must be visible ASCII characters.");
  return apiKey;
}

function validHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const valid: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (RESERVED.has(lower)) throw new TypeError(`relay: the header ${lower} is the relay's own.`);
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower)) throw new TypeError("relay: headers has a name that is none.");
    if (!/^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(value))
      throw new TypeError(`relay: the header ${lower} has no valid value.`);
    valid[lower] = value;
  }
  return valid;
}

/** Headers whose values are a host's secrets, whichever service is behind them. */
const SECRET_HEADER = /auth|cookie|credential|key|password|secret|signature|token/;

/** Their values, the longest first: one may be a part of another. A scheme before one, such as `Bearer`, is none. */
const secretsIn = (headers: Readonly<Record<string, string>>): string[] =>
  Object.entries(headers)
    .filter(([name]) => SECRET_HEADER.test(name))
    .map(([, value]) => value.replace(/^[A-Za-z]+ +(?=\S)/, ""))
    .toSorted((a, b) => b.length - a.length);
