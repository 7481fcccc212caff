/** The address of an upstream: from the base address that a host has written, in any usual spelling, to the path of a request. */

import { GatewayError } from "../../errors.ts";
import type { UpstreamFormat } from "../../formats/module.ts";
import { isJsonObject } from "../../model/json.ts";

export interface BaseAddress {
  /** Such as `https://example.com`. */
  readonly origin: string;
  /** The path above the routes, with the version. Without a slash at its end; empty for the root. */
  readonly path: string;
}

/** An address without `http://` is the commonest mistake: a URL parser takes the name of its host for a scheme. */
const EXAMPLE = "Write the whole address, such as http://localhost:8080/v1.";

/** Matches a path that goes on behind its version with the name of a vendor's route. */
const BEHIND_VERSION =
  /\/v\d+(?:(?:alpha|beta)\d*)?(\/(?:audio|batches|chat|completions|embeddings|files|images|messages|models|moderations|responses))(?:\/.*)?$/;

/**
 * Reads the base address of a host: with or without the version, with slashes too many, or the whole address of a route. Throws a TypeError
 * for any other address, also for that of a route of another format, and of a route that no relay asks, such as the list of models. The
 * message does not contain the address, which may include a secret.
 */
export function baseAddress(
  baseUrl: string,
  { name: format, address }: UpstreamFormat,
  others: readonly UpstreamFormat[],
): BaseAddress {
  if (!URL.canParse(baseUrl)) throw new TypeError(`relay: baseUrl is not a URL. ${EXAMPLE}`);
  const url = new URL(baseUrl);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw new TypeError(`relay: baseUrl must be http or https. ${EXAMPLE}`);
  if (url.username || url.password) throw new TypeError("relay: baseUrl must hold no user name or password.");
  if (url.search || url.hash || /[?#]/.test(baseUrl))
    throw new TypeError("relay: baseUrl must hold no query or fragment.");
  const { version, complete, route } = address;
  const written = url.pathname.replaceAll(/\/+/g, "/").replace(/\/$/, "");
  for (const { name: other, address: theirs } of others)
    if (other !== format && (theirs.ownRoute ?? theirs.route).test(written))
      throw new TypeError(
        `relay: baseUrl is the address of a route of ${other}, but the format is ${format}. It must be the address above the routes of ${format}, such as https://api.example.com${version}.`,
      );
  const [, behind] = (!route.test(written) && BEHIND_VERSION.exec(written)) || [];
  if (behind !== undefined)
    throw new TypeError(
      `relay: baseUrl goes on behind its version with ${behind}. It must end with the version, such as https://api.example.com${version}: the relay adds its routes.`,
    );
  // The address of a route has the version that its server wants, even if that is none.
  const path = route.test(written) ? written.replace(route, "") : complete.test(written) ? written : written + version;
  return { origin: url.origin, path };
}

/**
 * Returns the path of a request below the base address. Throws `model_not_found` for a path that a URL parser would change, because a
 * part of the path may come from the caller, such as a model's name.
 */
export function pathBelow({ origin, path }: BaseAddress, below: string): string {
  const whole = path + below;
  const isPlain = below.startsWith("/") && !below.startsWith("//") && /^[\u0021-\u007e]+$/.test(below);
  if (isPlain && !below.includes("#") && URL.canParse(origin + whole)) {
    const url = new URL(origin + whole);
    if (url.origin === origin && url.pathname + url.search === whole) return whole;
  }
  throw new GatewayError("model_not_found", "There is no model of this name.", { path: ["model"] });
}

/** The statuses of a server that has no such route. */
export const NO_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);

/**
 * Matches the words of servers about a route that they do not have: Go, FastAPI, Express, Fastify, Spring, Kong, Azure, llama.cpp, xAI,
 * OpenAI and those who imitate OpenAI, and polygate itself. Messages about a model do not match.
 */
const ABOUT_ROUTE =
  /^(?:404:? )?(?:(?:page|file|resource|path|route|url) )?not found\W*$|^(?:the )?(?:requested )?(?:url|route)\b.*\bnot found\b|^(?:invalid|unknown)(?: request)? url\b|^(?:there is )?no (?:route|static resource)\b|^the requested resource was not found\b|^cannot post\b|^this gateway does not offer\b|^url\.not_found$/i;

/** Matches the words of servers about a request over HTTP at a port for HTTPS: nginx, Go, Apache, Tomcat. */
const WANTS_TLS =
  /plain HTTP request was sent to HTTPS|HTTP request to an HTTPS server|speaking plain HTTP to an SSL|host and port requires TLS/;

/** Tells whether a 400, whose body is no JSON, wants HTTPS. */
export const wantsTls = (status: number, body: unknown): boolean =>
  status === 400 && typeof body === "string" && WANTS_TLS.test(body.slice(0, MAX_COMPARED_CHARS));

/** The most characters of a message that are compared. */
const MAX_COMPARED_CHARS = 500;

/**
 * Tells whether a 404 concerns the route, not the model: its body is no error object, or its message says so.
 *
 * @param body Parsed JSON, or a text.
 * @param path The end of the requested path, without the query. A message that names the path, and nothing of the caller's, concerns the route.
 * @param model The upstream's name of the model, which the caller may have written.
 */
export function isAboutRoute(status: number, body: unknown, path: string, model: string): boolean {
  if (status !== 404) return false;
  const [first] = Array.isArray(body) ? (body as unknown[]) : [body];
  if (!isJsonObject(first)) return true;
  const { error, message, detail } = first;
  const words = [isJsonObject(error) ? error["message"] : undefined, message, detail, error];
  const said = words.find((word) => typeof word === "string");
  if (said === undefined) return !isJsonObject(error);
  const compared = said.slice(0, MAX_COMPARED_CHARS);
  return ABOUT_ROUTE.test(compared) || (!model.includes(path) && namesOnlyPath(compared, path));
}

/** Words for what a caller names in a request. A caller may write the path there. */
const OF_CALLER = /\b(?:model|deployment|file|id|container|cached ?content)s?\b/i;

function namesOnlyPath(said: string, path: string): boolean {
  if (path.length < 2) return false;
  const [before = "", after, ...others] = said.split(path);
  // A longer path is another one. The path itself may hold the word that is looked for.
  if (after === undefined || /^[\w/-]/.test(after)) return false;
  return !OF_CALLER.test([before, after, ...others].join(" "));
}
