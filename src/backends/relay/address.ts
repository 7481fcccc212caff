/** The address of an upstream, which its host alone decides, and the paths below it. */

import { GatewayError } from "../../errors.ts";

export interface BaseAddress {
  /** Such as `https://example.com`. */
  readonly origin: string;
  /** Without a slash at its end; empty for the root. */
  readonly path: string;
}

/** Throws a TypeError for what is no address of an upstream; its message shows nothing that may be secret. */
export function baseAddress(baseUrl: string): BaseAddress {
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch {
    throw new TypeError("relay: baseUrl is not a URL.");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw new TypeError("relay: baseUrl must be http or https.");
  if (url.username || url.password) throw new TypeError("relay: baseUrl must hold no user name or password.");
  if (url.search || url.hash || /[?#]/.test(baseUrl))
    throw new TypeError("relay: baseUrl must hold no query or fragment.");
  return { origin: url.origin, path: url.pathname.replace(/\/+$/, "") };
}

/**
 * The path of a request below the base address. A part of it may be the caller's, such as a model's name: what would lead
 * anywhere but to the path as it is written is refused with `model_not_found`.
 */
export function pathBelow({ origin, path }: BaseAddress, below: string): string {
  const whole = path + below;
  const isPlain = below.startsWith("/") && !below.startsWith("//") && /^[\u0021-\u007e]+$/.test(below);
  if (isPlain && !below.includes("#")) {
    const url = URL.canParse(origin + whole) ? new URL(origin + whole) : undefined;
    if (url && url.origin === origin && url.pathname + url.search === whole) return whole;
  }
  throw new GatewayError("model_not_found", "There is no model of this name.", { path: ["model"] });
}
