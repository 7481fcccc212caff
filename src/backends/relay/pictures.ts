/**
 * Fetches pictures from the addresses that an upstream answers with. An answer is a stranger's word: only an origin that the host
 * has named is asked, nothing is followed from there, and no credential goes along.
 */

import { GatewayError } from "../../errors.ts";
import { readBytes } from "./body.ts";
import { Exchange, LEFT } from "./exchange.ts";
import { brokenOff, connectionError } from "./failures.ts";
import type { UpstreamResponse } from "./transport.ts";
import type { Upstream } from "./upstream.ts";

/** The longest address that is looked at, in characters: those that carry a signature are long. */
const MAX_URL_CHARS = 8_192;

export class Pictures {
  readonly #upstream: Upstream;
  readonly #origins: ReadonlySet<string>;

  /** Throws a TypeError for an origin that is none. */
  constructor(upstream: Upstream, imageOrigins: readonly string[]) {
    this.#upstream = upstream;
    this.#origins = new Set([upstream.origin, ...imageOrigins.map(validOrigin)]);
  }

  /** The bytes at an address. Throws `backend_failed` for one that may not be asked, and for all but a 200. */
  async fetch(address: string, signal: AbortSignal): Promise<Uint8Array> {
    const { clock, limits } = this.#upstream;
    const url = this.#permitted(address);
    const exchange = new Exchange(clock, signal);
    try {
      const response = await this.#asked(url, exchange);
      if (response.status !== 200) throw failed(`The upstream's picture was answered with ${response.status}.`);
      const bytes = await readBytes(response, limits.maxPictureBytes);
      exchange.end();
      return bytes;
    } catch (error) {
      throw brokenOff(error);
    } finally {
      exchange.cut(LEFT);
    }
  }

  async #asked({ origin, pathname, search }: URL, exchange: Exchange): Promise<UpstreamResponse> {
    const { connectMs, pictureMs } = this.#upstream.timeouts;
    exchange.begin({ name: "connection", limitMs: connectMs }, { name: "picture", limitMs: pictureMs });
    const headers = { accept: "image/*", "accept-encoding": "identity", "user-agent": "polygate" };
    try {
      const transport = this.#upstream.transportTo(origin);
      return await transport.send({ method: "GET", path: pathname + search, headers }, exchange);
    } catch (error) {
      throw connectionError(error, exchange);
    }
  }

  #permitted(address: string): URL {
    const url = address.length <= MAX_URL_CHARS && URL.canParse(address) ? new URL(address) : undefined;
    if (!url) throw failed("The upstream's picture has an address that is none.");
    // The origin of `blob:` is that of an address in it, and its path is no path.
    const isWeb = url.protocol === "http:" || url.protocol === "https:";
    if (!isWeb || !this.#origins.has(url.origin) || url.username !== "" || url.password !== "")
      throw failed(`The upstream's picture is at ${url.origin}, which is none of the relay's imageOrigins.`);
    return url;
  }
}

const failed = (why: string): GatewayError =>
  new GatewayError("backend_failed", "The model backend's picture cannot be fetched.", {
    port: "model-backend",
    cause: new Error(why),
  });

function validOrigin(origin: string): string {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isOrigin = url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
  if (!isOrigin)
    throw new TypeError("relay: imageOrigins must be origins alone, such as https://pictures.example.com.");
  return url.origin;
}
