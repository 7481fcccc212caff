/** Explains to a caller with a wrong base URL which base URL is right. */

import type { Mountable } from "./gateway.ts";
import { aboveVersion, nearest, oneLine } from "./options.ts";

/** The body of a 404. The SDKs of all vendors show its message. */
export interface WrongAddress {
  readonly type: "error";
  readonly error: { readonly type: "not_found_error"; readonly message: string };
}

/** A longer path is cut in the message. */
const LONGEST_SHOWN = 100;

/**
 * Returns the body of a 404 for a request that neither the gateway nor its host has a route for. The message names the base URLs that
 * clients need, and the route that was probably meant. Use it in the last handler of a server.
 *
 * @param url The path of the request, or its whole address.
 * @param prefix The path of the gateway, as the mount has it.
 * @example app.use((req, res) => void res.status(404).json(wrongAddress(gateway, req.method, req.url, "/ai")));
 */
export function wrongAddress(
  gateway: Pick<Mountable, "endpoints">,
  method: string = "GET",
  url: string = "/",
  prefix: string = "",
): WrongAddress {
  const path = URL.parse(url, "http://host")?.pathname ?? "/";
  const shown = oneLine(path.length > LONGEST_SHOWN ? `${path.slice(0, LONGEST_SHOWN)}…` : path);
  const meant = meantRoute(gateway, method, path);
  const above = aboveVersion(prefix);
  const sentences = [
    `There is no route ${oneLine(method)} ${shown}.`,
    ...(meant === undefined ? [] : [`Did you mean ${method} ${prefix}${meant}?`]),
    ...(above === undefined
      ? []
      : [`The gateway is mounted at ${prefix}, but its routes begin with their version: mount it at ${above || "/"}.`]),
    `The base URL is the address of this server${prefix && ` with ${prefix}`} for the SDKs of Anthropic and Google, and with ${prefix}/v1 for those of OpenAI.`,
  ];
  return { type: "error", error: { type: "not_found_error", message: sentences.join(" ") } };
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
