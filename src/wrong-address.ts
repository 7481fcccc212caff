/** Tells a caller which base URL is right, or that the gateway does not offer a route of the vendor. */

import { aboveVersion, assertEndpoints, nearest, oneLine } from "./options.ts";

/** The body of a 404, as the SDK of the client parses it: Anthropic's, Google's or OpenAI's. */
export type WrongAddress =
  | {
      readonly type: "error";
      readonly error: { readonly type: "not_found_error"; readonly message: string; readonly code: "not_found" };
      readonly request_id?: string;
    }
  | {
      readonly error: {
        readonly code: 404;
        readonly message: string;
        readonly status: "NOT_FOUND";
        readonly details: readonly [];
      };
    }
  | {
      readonly error: {
        readonly message: string;
        readonly type: "invalid_request_error";
        readonly param: null;
        readonly code: "not_found";
      };
    };

/** A gateway, as far as its addresses are concerned. */
export interface Addressed {
  readonly endpoints: readonly { readonly method: string; readonly path: string; readonly takesSockets?: true }[];
}

/** The headers of a request, of Fetch or of Node. */
type RequestHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** A longer path is cut in the message. */
const LONGEST_SHOWN = 100;
/** The most characters of a path's end that are compared with routes letter by letter. */
const LONGEST_COMPARED = 256;

/**
 * Returns the body of a 404 for a request that neither the gateway nor its host has a route for. The message names the base URLs that
 * clients need, and the route that was probably meant. For another route of a vendor at the right base URL, such as `/v1/files`, it says that
 * the gateway does not offer the route. Use it in the last handler of a server.
 *
 * @param url The path of the request, or its whole address.
 * @param mountedAt The path of the gateway, as the mount has it. Default: the root.
 * @param headers The headers of the request: they tell the client's SDK where the path does not. Default: none.
 * @example app.use((req, res) => void res.status(404).json(wrongAddress(gateway, req.method, req.url, "/ai", req.headers)));
 */
export function wrongAddress(
  gateway: Addressed,
  method: string = "GET",
  url: string = "/",
  mountedAt: string = "",
  headers: RequestHeaders = {},
): WrongAddress {
  assertEndpoints("wrongAddress", gateway);
  return notFoundBody(gateway, method, url, mountedAt, (name) =>
    headers instanceof Headers ? headers.get(name) : headers[name],
  );
}

/**
 * Returns the body of `wrongAddress`.
 *
 * @param header Returns a header of the request; undefined or null for one that it does not have.
 * @param requestId The id of the request, for the body that tells one. Default: the body has none.
 */
export function notFoundBody(
  gateway: Addressed,
  method: string,
  url: string = "/",
  mountedAt: string,
  header: (name: string) => string | readonly string[] | null | undefined,
  requestId?: string,
): WrongAddress {
  const has = (name: string): boolean => header(name) != null;
  const prefix = mountedAt.replace(/\/+$/, "");
  // A parser alone would take the first part behind two slashes for a host.
  const { pathname: path = "/" } = URL.parse(url.startsWith("/") ? `http://host${url}` : url, "http://host") ?? {};
  const shown = oneLine(path.length > LONGEST_SHOWN ? `${path.slice(0, LONGEST_SHOWN)}…` : path);
  const asked = `${oneLine(method)} ${shown}`;
  const protocol = String(header("upgrade") ?? "");
  const isSocket = /websocket/i.test(protocol);
  const meant = isSocket ? meantSocket(gateway, path) : meantRoute(gateway, method, path);
  // The words of the host's own prefix tell nothing about the client.
  const below = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : undefined;
  const message =
    !meant && RIGHT_BASE.test(below ?? "")
      ? `This gateway does not offer ${asked}.`
      : `There is no route ${asked}. ${remedy(method, path, prefix, meant, !isSocket && protocol !== "")}`;
  return BODIES[vendorOf(meant ?? below ?? path) ?? vendorOfKey(has, url)](message, requestId);
}

/**
 * Says what to change: the mount, where no client's address can be right, and otherwise the address.
 *
 * @param isUpgrade True for an upgrade to another protocol than that of WebSockets.
 */
function remedy(method: string, path: string, prefix: string, meant: string | undefined, isUpgrade: boolean): string {
  const above = aboveVersion(prefix);
  if (above !== undefined)
    return `The gateway is mounted at ${prefix}, but its routes begin with their version: mount it at ${above || "/"}. Then the ${baseUrlsAt(above)}`;
  const right = meant && prefix + meant;
  if (right === path.replace(/\/$/, ""))
    return isUpgrade
      ? "The address is right, but no route takes this upgrade: send the request without the header upgrade, as HTTP/1.1."
      : `The address is right, but this server does not pass it on to the gateway: mount the gateway at ${prefix || "/"}, and write this prefix only once.`;
  return `${right ? `Did you mean ${method} ${right}? ` : ""}The ${baseUrlsAt(prefix)}`;
}

const baseUrlsAt = (prefix: string): string =>
  `base URL is the address of this server${prefix && ` with ${prefix}`} for the SDKs of Anthropic and Google, and with ${prefix}/v1 for those of OpenAI.`;

/** Matches a path with a version behind the prefix: its base URL is right, and only the route is missing. */
const RIGHT_BASE = /^(?:\/upload)?\/v1(?:beta)?\/(?!v1|openai|anthropic)./;

type Vendor = "anthropic" | "google" | "openai";

const BODIES: Readonly<Record<Vendor, (message: string, requestId: string | undefined) => WrongAddress>> = {
  anthropic: (message, id) => ({
    type: "error",
    error: { type: "not_found_error", message, code: "not_found" },
    ...(id !== undefined && { request_id: id }),
  }),
  google: (message) => ({ error: { code: 404, message, status: "NOT_FOUND", details: [] } }),
  openai: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: "not_found" } }),
};

/** Tells the vendor by a word that only its clients send; undefined for a path of several vendors, such as the list of models. */
const vendorOf = (path: string): Vendor | undefined =>
  /v1beta|gemini|google|:[a-z]+[A-Z]\w*$/.test(path)
    ? "google"
    : /anthropic|messages/.test(path)
      ? "anthropic"
      : /openai|chat|completion|responses|embeddings|images/.test(path)
        ? "openai"
        : undefined;

/** Tells the vendor by the place of the key, as the list of models does. Without a key, Anthropic's body has what all SDKs show. */
const vendorOfKey = (has: (header: string) => boolean, url: string): Vendor =>
  /[?&]key=/.test(url) || has("x-goog-api-key")
    ? "google"
    : ["x-api-key", "anthropic-version", "compat-version"].some(has) || !["authorization", "api-key"].some(has)
      ? "anthropic"
      : "openai";

/** Returns a route without its version. */
const ending = (route: string): string => route.replace(/^\/[^/]+/, "");

const segmentsOf = (path: string): readonly string[] => path.match(/[^/]+/g) ?? [];

/** Tells whether a path ends in the end of a route, with slips of the pen: each of its segments is that of the route, or near. */
function isNearly(path: string, route: string): boolean {
  const meant = segmentsOf(ending(route));
  const written = segmentsOf(path.slice(-LONGEST_COMPARED)).slice(-meant.length);
  return (
    written.length === meant.length &&
    meant.every((segment, at) => written[at] === segment || nearest(written[at] ?? "", [segment]) !== undefined)
  );
}

/** Finds the route of WebSockets that was meant. It shares the path of a route for POST. */
const meantSocket = ({ endpoints }: Addressed, path: string): string | undefined =>
  meantRoute({ endpoints: endpoints.filter(({ takesSockets }) => takesSockets) }, "POST", path);

/** Finds the route whose end, behind its version, is the longest end of a path, or else nearly so. */
function meantRoute({ endpoints }: Addressed, method: string, path: string): string | undefined {
  const routes = endpoints.flatMap((endpoint) => (endpoint.method === method ? endpoint.path : []));
  // The routes of a model's methods have a wildcard, so the suggestion repeats the model.
  const [model] = /\/models\/[\w.-]{1,64}:\w{1,32}$/.exec(path) ?? [];
  if (model && routes.includes("/v1beta/models/**")) return `/v1beta${model}`;
  const fixed = routes
    .filter((route) => !route.endsWith("/**"))
    .toSorted((one, other) => ending(other).length - ending(one).length || one.length - other.length);
  return fixed.find((route) => path.endsWith(ending(route))) ?? fixed.find((route) => isNearly(path, route));
}
