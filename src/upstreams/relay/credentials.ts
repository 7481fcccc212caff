/** Authorizes the requests of a relay by keys that renew, and by signatures over the bytes of a request. */

import { backendError, GatewayError } from "../../errors.ts";
import type { UpstreamFormat } from "../../formats/module.ts";
import { shown } from "../../options.ts";
import type { Clock } from "../../ports/clock.ts";
import { Pending } from "../backend.ts";
import { type Expiring, Renewing } from "../renewing.ts";
import {
  type ApiKeySource,
  assertKey,
  type RelayTimeouts,
  secretsIn,
  type SignableRequest,
  type SignedRequest,
  type SignRequest,
  type UpstreamOptions,
  validHeaders,
} from "./options.ts";
import { type Exchange, PhaseTimeout, UNREAD, type UpstreamRequest, type UpstreamResponse } from "./transport.ts";

/** The cause of an error of a host's function for credentials. */
class CredentialError extends Error {
  override readonly name = "CredentialError";
}

/** The part of an upstream that credentials need. */
interface AuthorizedUpstream {
  readonly origin: string;
  readonly clock: Clock;
  readonly timeouts: RelayTimeouts;
}

/**
 * Opens the credentials of an upstream.
 *
 * @param secrets The values that are removed from texts of the upstream. Those of the credentials are added to this list.
 */
export type OpenAuthorization = (
  format: Pick<UpstreamFormat, "credential">,
  options: Pick<UpstreamOptions, "apiKey" | "sign">,
  upstream: AuthorizedUpstream,
  secrets: string[],
) => Authorization;

export const openAuthorization: OpenAuthorization = (...args) => new Authorization(...args);

/**
 * The most secrets of credentials that are removed from texts: a signature is new with each request. An error of 64 KiB is searched for each of
 * them, which takes about half a millisecond.
 */
const MAX_SECRETS = 32;

export class Authorization {
  readonly #credential: UpstreamFormat["credential"];
  readonly #apiKey: Renewing<string> | undefined;
  readonly #sign: SignRequest | undefined;
  readonly #upstream: AuthorizedUpstream;
  readonly #secrets: string[];
  /** The secrets of credentials in the list, from the oldest to the newest. */
  readonly #added: Set<string> = new Set();

  constructor(...[format, { apiKey, sign }, upstream, secrets]: Parameters<OpenAuthorization>) {
    const { clock, timeouts } = upstream;
    this.#credential = format.credential;
    this.#upstream = upstream;
    this.#secrets = secrets;
    this.#sign = sign;
    if (typeof apiKey === "function")
      this.#apiKey = new Renewing(
        () => askKey(apiKey, clock),
        () => clock.now(),
        timeouts.credentialMs,
      );
  }

  /**
   * Sends a request with its credential. When the upstream refuses the credential, sends the request once more with another one: a request that
   * was refused has cost nothing, and no caller has seen a part of its answer.
   */
  async send(
    request: UpstreamRequest,
    exchange: Exchange,
    send: (request: UpstreamRequest) => Promise<UpstreamResponse>,
  ): Promise<UpstreamResponse> {
    const asked = await this.authorized(request, exchange);
    const response = await send(asked.request);
    const again = this.isRefusal(response.status) ? await this.reauthorized(request, asked, exchange) : undefined;
    if (!again) return response;
    // Release the connection of the refusal.
    exchange.carrier?.cut(UNREAD);
    exchange.carrier = undefined;
    return send(again.request);
  }

  /** Tells whether a status may refuse the credential. AWS refuses a session that has ended with 403. */
  isRefusal(status: number): boolean {
    return status === 401 || (status === 403 && this.#sign !== undefined);
  }

  /** Adds the credential to a request. */
  async authorized(request: UpstreamRequest, exchange: Exchange): Promise<Authorized> {
    const known = this.#apiKey?.get();
    const key = known instanceof Promise ? await this.#within("apiKey", exchange, () => known) : known;
    const keyed = this.#keyed(request, key);
    return {
      key,
      request: this.#sign ? this.#signed(keyed, await this.#signatureOf(keyed, undefined, exchange)) : keyed,
    };
  }

  /** Adds another credential than the refused one to a request. Resolves with undefined when there is no other. */
  async reauthorized(
    request: UpstreamRequest,
    refused: Authorized,
    exchange: Exchange,
  ): Promise<Authorized | undefined> {
    const { key: old } = refused;
    const next = old === undefined ? undefined : await this.#within("apiKey", exchange, () => this.#apiKey?.after(old));
    const key = next ?? old;
    const keyed = this.#keyed(request, key);
    if (!this.#sign) return next === undefined ? undefined : { key, request: keyed };
    const signature = await this.#signatureOf(keyed, refused.request.headers, exchange);
    return signature === undefined ? undefined : { key, request: this.#signed(keyed, signature) };
  }

  /** Adds the key. The body becomes the bytes that are signed and sent. */
  #keyed({ body, ...request }: UpstreamRequest, key: string | undefined): UpstreamRequest {
    if (key !== undefined) this.#remember([key]);
    return {
      ...request,
      headers: { ...request.headers, ...(key !== undefined && this.#credential(key)) },
      ...(body !== undefined && {
        body: this.#sign && typeof body === "string" ? new TextEncoder().encode(body) : body,
      }),
    };
  }

  /** Returns the result of `sign`, unchecked. */
  #signatureOf(
    { method, path, headers, body = "" }: UpstreamRequest,
    refused: SignableRequest["refused"],
    exchange: Exchange,
  ): Promise<unknown> {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const request = { method, url: this.#upstream.origin + path, headers: { ...headers }, body: bytes, refused };
    return this.#within("sign", exchange, async () => {
      try {
        return await this.#sign?.(request);
      } catch (cause) {
        throw failedBy("sign", cause);
      }
    });
  }

  #signed(request: UpstreamRequest, signature: unknown): UpstreamRequest {
    const { path = request.path, headers } = asLie(() => signedIn(signature, this.#upstream.origin));
    this.#remember([...secretsIn(headers), ...addedTo(request.path, path)]);
    return { ...request, path, headers: { ...request.headers, ...headers } };
  }

  /** Waits for a function of the host's, which may never settle, until the exchange is cut. Does not call it for one that is cut already. */
  async #within<Value>(
    name: "apiKey" | "sign",
    exchange: Exchange,
    ask: () => Promise<Value> | undefined,
  ): Promise<Value | undefined> {
    if (exchange.reason !== undefined) throw exchange.reason;
    const { credentialMs } = this.#upstream.timeouts;
    const { carrier } = exchange;
    const pending = new Pending();
    exchange.carrier = {
      cut(reason) {
        pending.fail(reason);
        carrier?.cut(reason);
      },
    };
    exchange.enter({ name: "credential", limitMs: credentialMs });
    try {
      return await pending.of(Promise.resolve(ask()));
    } catch (error) {
      const reason: unknown = exchange.reason;
      const isLate = reason instanceof GatewayError && reason.cause instanceof PhaseTimeout;
      if (!isLate) throw error;
      throw backendError(
        "unavailable",
        new CredentialError(`The relay's ${name} has not returned within ${credentialMs} ms.`),
      );
    } finally {
      exchange.carrier = carrier;
    }
  }

  /** Adds secrets to the list, where the longest comes first, because a value may be a part of another. */
  #remember(values: readonly string[]): void {
    for (const value of values) {
      if (!this.#added.delete(value) && !this.#secrets.includes(value)) {
        const at = this.#secrets.findIndex(({ length }) => length < value.length);
        this.#secrets.splice(at < 0 ? this.#secrets.length : at, 0, value);
      }
      this.#added.add(value);
    }
    for (const oldest of this.#added) {
      if (this.#added.size <= MAX_SECRETS) break;
      this.#added.delete(oldest);
      this.#secrets.splice(this.#secrets.indexOf(oldest), 1);
    }
  }
}

interface Authorized {
  readonly request: UpstreamRequest;
  /** Undefined for a request that is only signed. */
  readonly key: string | undefined;
}

/** A later time is no number of seconds, in the next thousand years. */
const MAX_SECONDS = 1e11;

async function askKey(apiKey: ApiKeySource, clock: Clock): Promise<Expiring<string>> {
  let answer: unknown;
  let given: { readonly apiKey?: unknown; readonly expiresAt?: unknown };
  try {
    answer = await apiKey();
    const isObject = typeof answer === "object" && answer !== null;
    const { apiKey: value, expiresAt } = isObject ? (answer as Partial<Record<string, unknown>>) : { apiKey: answer };
    given = { apiKey: value, expiresAt: expiresAt instanceof Date ? expiresAt.getTime() : expiresAt };
  } catch (cause) {
    throw failedBy("apiKey", cause);
  }
  const { apiKey: value, expiresAt } = given;
  if (typeof value !== "string" || value === "") throw lie(`apiKey must return a key, not ${shown(value || answer)}.`);
  asLie(() => assertKey("The result of apiKey", value));
  if (expiresAt === undefined) return { value, expiresAt };
  if (typeof expiresAt !== "number" || !Number.isFinite(expiresAt))
    throw lie("The expiresAt of apiKey must be a Date, or milliseconds since the Unix epoch.");
  const now = clock.now();
  if (expiresAt <= now) {
    const isInSeconds = expiresAt < MAX_SECONDS && expiresAt * 1_000 > now;
    const hint = isInSeconds ? ": it must be in milliseconds, not in seconds" : "";
    throw lie(`The apiKey had expired when it was returned${hint}.`);
  }
  return { value, expiresAt };
}

/** Reads the result of `sign`: the path and query of its address, and its headers with names in lower case. */
function signedIn(
  signed: unknown,
  origin: string,
): { readonly path: string | undefined; readonly headers: Readonly<Record<string, string>> } {
  if (typeof signed !== "object" || signed === null)
    throw lie(`sign must return an object with headers, not ${shown(signed)}.`);
  const { url, headers } = signed as Partial<SignedRequest>;
  if (typeof headers !== "object" || headers === null)
    throw lie(`The headers of sign must be an object, not ${shown(headers)}.`);
  // `Headers` may be another class than the runtime's, such as that of undici.
  const added = typeof headers.entries === "function" ? Object.fromEntries(headers.entries()) : headers;
  return {
    path: url === undefined ? undefined : pathIn(url, origin),
    headers: validHeaders(added as Readonly<Record<string, string>>),
  };
}

/** Returns the values of a query that another path lacks: a signature may stand there. */
function addedTo(before: string, path: string): string[] {
  if (path === before) return [];
  const [known, all] = [before, path].map((one) => new URLSearchParams(one.split("?")[1]));
  return [...(all ?? [])].filter(([name, value]) => known?.get(name) !== value).map(([, value]) => value);
}

function pathIn(url: unknown, origin: string): string {
  const read = typeof url === "string" && URL.canParse(url) ? new URL(url) : undefined;
  if (!read || read.origin !== origin || read.hash !== "" || read.username !== "" || read.password !== "")
    throw lie("The url of sign must be an address of the upstream's own origin.");
  return read.pathname + read.search;
}

/** The error for a function of the host's that has thrown. */
const failedBy = (name: "apiKey" | "sign", cause: unknown): GatewayError =>
  backendError("unavailable", new CredentialError(`The relay's ${name} failed.`, { cause }));

/** The error for a function of the host's that has returned what cannot be sent. */
const lie = (words: string): GatewayError => backendError("refused", new CredentialError(words));

function asLie<Value>(check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    throw lie(error instanceof Error ? error.message : "The credential cannot be sent.");
  }
}
