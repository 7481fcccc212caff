/** Tells a caller which base URL is right, or that the gateway does not offer a route of the vendor. */

import type { Mountable } from "./gateway.ts";
import { aboveVersion, assertEndpoints, nearest, oneLine } from "./options.ts";

/** The body of a 404, as the SDK of the client parses it: Anthropic's, Google's or OpenAI's. */
export type WrongAddress =
  | { readonly type: "error"; readonly error: { readonly type: "not_found_error"; readonly message: string } }
  | { readonly error: { readonly code: 404; readonly message: string; readonly status: "NOT_FOUND" } }
  | {
      readonly error: {
        readonly message: string;
        readonly type: "invalid_request_error";
        readonly param: null;
        readonly code: "not_found";
      };
    };

/** The headers of a request, of Fetch or of Node. */
type RequestHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** A longer path is cut in the message. */
const LONGEST_SHOWN = 100;

/**
 * Returns the body of a 404 for a request that neither the gateway nor its host has a route for. The message names the base URLs that
 * clients need, and the route that was probably meant. For another route of a vendor at the right base URL, such as `/v1/files`, it says that
 * the gateway does not offer the route. Use it in the last handler of a server.
 *
 * @param url The path of the request, or its whole address.
 * @param prefix The path of the gateway, as the mount has it.
 * @param headers The headers of the request: they tell the client's SDK where the path does not. Default: none.
 * @example app.use((req, res) => void res.status(404).json(wrongAddress(gateway, req.method, req.url, "/ai", req.headers)));
 */
export function wrongAddress(
  gateway: Pick<Mountable, "endpoints">,
  method: string = "GET",
  url: string = "/",
  prefix: string = "",
  headers: RequestHeaders = {},
): WrongAddress {
  assertEndpoints("wrongAddress", gateway);
  const { pathname: path = "/", searchParams } = URL.parse(url, "http://host") ?? {};
  const shown = oneLine(path.length > LONGEST_SHOWN ? `${path.slice(0, LONGEST_SHOWN)}…` : path);
  const isMissing = isMissingRoute(gateway, prefix, path);
  const meant = isMissing ? undefined : meantRoute(gateway, method, path);
  const asked = `${oneLine(method)} ${shown}`;
  const sentences = isMissing
    ? [`This gateway does not offer ${asked}.`]
    : [`There is no route ${asked}.`, ...remedy(method, path, prefix, meant)];
  // The words of the host's own prefix tell nothing about the client.
  const belowPrefix = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path;
  const vendor =
    vendorOfRoute(gateway, method, meant) ??
    VENDOR_OF_PATH.find(([, words]) => words.test(belowPrefix))?.[0] ??
    vendorOfCredential(headers, searchParams?.has("key") ?? false);
  return BODIES[vendor](sentences.join(" "));
}

/** Says what to change: the mount, where no client's address can be right, and otherwise the address. */
function remedy(method: string, path: string, prefix: string, meant: string | undefined): readonly string[] {
  const above = aboveVersion(prefix);
  if (above !== undefined)
    return [
      `The gateway is mounted at ${prefix}, but its routes begin with their version: mount it at ${above || "/"}.`,
      `Then the ${baseUrlsAt(above)}`,
    ];
  const right = meant && `${prefix}${meant}`;
  if (right === path.replace(/\/$/, ""))
    return [
      `The address is right, but this server does not pass it on to the gateway: mount the gateway at ${prefix || "/"}, and write this prefix only once.`,
    ];
  const baseUrls = `The ${baseUrlsAt(prefix)}`;
  return right ? [`Did you mean ${method} ${right}?`, baseUrls] : [baseUrls];
}

const baseUrlsAt = (prefix: string): string =>
  `base URL is the address of this server${prefix && ` with ${prefix}`} for the SDKs of Anthropic and Google, and with ${prefix}/v1 for those of OpenAI.`;

type Vendor = "anthropic" | "google" | "openai";

const BODIES: Readonly<Record<Vendor, (message: string) => WrongAddress>> = {
  anthropic: (message) => ({ type: "error", error: { type: "not_found_error", message } }),
  google: (message) => ({ error: { code: 404, message, status: "NOT_FOUND" } }),
  openai: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: "not_found" } }),
};

const VENDOR_OF_FORMAT: Readonly<Record<string, Vendor>> = {
  messages: "anthropic",
  "generate-content": "google",
  "chat-completions": "openai",
  responses: "openai",
  embeddings: "openai",
  images: "openai",
};

/** Words in the paths of each vendor's clients. */
const VENDOR_OF_PATH: readonly (readonly [vendor: Vendor, words: RegExp])[] = [
  ["google", /\/v1(?:alpha|beta)(?:\/|$)|:[a-z]+[A-Z]\w*$|\/(?:gemini|google)\//],
  ["anthropic", /\/(?:anthropic|complete|messages?)(?:\/|$)/i],
  [
    "openai",
    /\/(?:openai|assistants|audio|batches|chat|completions|conversations|embeddings|files|fine_tuning|images|moderations|realtime|responses|threads|uploads|vector_stores|videos)(?:\/|$)/i,
  ],
];

/** The routes of the vendors, by what follows their version: a first word for all routes below it, or a whole route that a gateway may have. */
const ROUTES_OF_VENDORS: readonly (readonly [version: string, routes: RegExp])[] = [
  [
    "/v1/",
    /^(?:(?:assistants|audio|batches|chatkit|complete|completions|containers|conversations|evals|files|fine_tuning|messages\/batches|moderations|organizations?|realtime|skills|threads|uploads|vector_stores|videos)(?:\/|$)|(?:chat\/completions|embeddings|images\/(?:edits|generations|variations)|messages|messages\/count_tokens|responses)$)/,
  ],
  [
    "/v1beta/",
    /^(?:(?:batches|cachedContents|corpora|fileSearchStores|files|interactions|tunedModels)(?:\/|$)|models\/[^/:]+:[a-zA-Z]+$)/,
  ],
  ["/upload/v1beta/", /^(?:files|fileSearchStores)(?:\/|$)/],
];

/** Tells whether a path is the route of a vendor at the right base URL that the gateway does not have. */
function isMissingRoute({ endpoints }: Pick<Mountable, "endpoints">, prefix: string, path: string): boolean {
  if (!path.startsWith(`${prefix}/`)) return false;
  const route = path.slice(prefix.length);
  const isOfVendor = ROUTES_OF_VENDORS.some(
    ([version, routes]) => route.startsWith(version) && routes.test(route.slice(version.length)),
  );
  const isOffered = (own: string): boolean =>
    own === route || (own.endsWith("/**") && route.startsWith(own.slice(0, -"**".length)));
  return isOfVendor && !endpoints.some((endpoint) => isOffered(endpoint.path));
}

/** Returns the vendor of a route; undefined for a route of several vendors, such as the list of models. */
function vendorOfRoute(
  { endpoints }: Pick<Mountable, "endpoints">,
  method: string,
  meant: string | undefined,
): Vendor | undefined {
  if (meant?.startsWith("/v1beta/")) return "google";
  const own = endpoints.filter((endpoint) => endpoint.method === method && endpoint.path === meant);
  const vendors = new Set(own.map(({ format }) => VENDOR_OF_FORMAT[format]));
  return vendors.size === 1 ? [...vendors][0] : undefined;
}

/** Tells the vendor by the place of the key, as the list of models does. Without a key, Anthropic's body has what all SDKs show. */
function vendorOfCredential(headers: RequestHeaders, hasKeyInQuery: boolean): Vendor {
  const has = (name: string): boolean => (headers instanceof Headers ? headers.has(name) : headers[name] !== undefined);
  if (has("x-goog-api-key") || hasKeyInQuery) return "google";
  if (["x-api-key", "anthropic-version", "compat-version"].some(has)) return "anthropic";
  return has("authorization") ? "openai" : "anthropic";
}

/** Returns a route without its version. */
const ending = (route: string): string => route.replace(/^\/[^/]+/, "");

const segmentsOf = (path: string): string[] => path.split("/").filter((segment) => segment !== "");

/** Tells whether a path ends in the end of a route, with slips of the pen: each of its segments is that of the route, or near. */
function isNearly(path: string, route: string): boolean {
  const meant = segmentsOf(ending(route));
  const written = segmentsOf(path).slice(-meant.length);
  return (
    written.length === meant.length &&
    meant.every((segment, at) => written[at] === segment || nearest(written[at] ?? "", [segment]) !== undefined)
  );
}

/** Finds the route whose end, behind its version, is the longest end of a path, or else nearly so. */
function meantRoute({ endpoints }: Pick<Mountable, "endpoints">, method: string, path: string): string | undefined {
  const routes = endpoints.filter((endpoint) => endpoint.method === method).map((endpoint) => endpoint.path);
  // The routes of a model's methods have a wildcard, so the suggestion repeats the model.
  const model = /\/(models\/[\w.-]{1,64}:\w{1,32})$/.exec(path)?.[1];
  if (model !== undefined && routes.includes("/v1beta/models/**")) return `/v1beta/${model}`;
  const fixed = routes
    .filter((route) => !route.endsWith("/**"))
    .toSorted((one, other) => ending(other).length - ending(one).length || one.length - other.length);
  return fixed.find((route) => path.endsWith(ending(route))) ?? fixed.find((route) => isNearly(path, route));
}
