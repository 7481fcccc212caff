/** Finds the endpoint that a request is meant for: by its path below the gateway's prefix, then by its method. */

import { addRoute, createRouter, findRoute, type RouterContext } from "rou3";
import type { Endpoint } from "./dialects/dialect.ts";
import { GatewayError } from "./errors.ts";

/** The endpoints of one path, and what its wildcard stands for. */
export interface Route {
  readonly endpoints: readonly [Endpoint, ...Endpoint[]];
  /** Still percent-encoded; empty where the path has no wildcard. */
  readonly tail: string;
}

export class Routes {
  readonly #router: RouterContext<Endpoint[]> = createRouter<Endpoint[]>();
  /** The endpoints by their path pattern, which is h3's too. */
  readonly byPath: ReadonlyMap<string, readonly Endpoint[]>;

  constructor(endpoints: readonly Endpoint[]) {
    const byPath = new Map<string, Endpoint[]>();
    for (const endpoint of endpoints) {
      const sharing = byPath.get(endpoint.path);
      if (sharing) sharing.push(endpoint);
      else byPath.set(endpoint.path, [endpoint]);
    }
    for (const [path, sharing] of byPath) addRoute(this.#router, "", path, sharing);
    this.byPath = byPath;
  }

  /** The route of a path, relative to the gateway's own; undefined for one that the gateway does not own. */
  find(path: string, request: Request): Route | undefined {
    const found = findRoute(this.#router, "", path);
    if (!found) return undefined;
    const tail = found.params?.["_"] ?? "";
    const [first, ...others] = found.data.filter((endpoint) => endpoint.owns?.(tail, request) ?? true);
    return first && { endpoints: [first, ...others], tail };
  }
}

/** The endpoint of a route for a method, if there is one. A HEAD is a GET whose body is not sent. */
export function endpointFor({ endpoints }: Route, method: string): Endpoint | undefined {
  const wanted = method === "HEAD" ? "GET" : method;
  return endpoints.find((candidate) => candidate.method === wanted);
}

/** The error for a method that no endpoint of a route takes. */
export function methodNotAllowed({ endpoints }: Route, method: string): GatewayError {
  // Several formats may share a path.
  const allow = [...new Set(endpoints.map((endpoint) => endpoint.method))];
  return new GatewayError("method_not_allowed", `This route takes ${allow.join(" and ")}, not ${method}.`, { allow });
}

/** A path without what h3 would take for a pattern. */
const PLAIN_PATH = /^\/[^*:(){}\\]*$/;

/** Whether paths come as this: with a slash before it, encoded, and without dots that lead elsewhere. */
const isPlain = (prefix: string): boolean =>
  PLAIN_PATH.test(prefix) && URL.parse(prefix, "http://host")?.pathname === prefix;

/** A prefix without the slash at its end; empty for the root. Throws a RangeError for one that is no plain path. */
export function checkedPrefix(prefix: string): string {
  if (prefix !== "" && !isPlain(prefix))
    throw new RangeError(
      `${JSON.stringify(prefix)} is no prefix: it must be a path as browsers send it, such as "/ai", and hold none of * : ? # ( ) { } \\`,
    );
  return prefix.replace(/\/+$/, "");
}

/** A path below a prefix; undefined for one beside it. */
export function below(prefix: string, path: string): string | undefined {
  if (prefix === "") return path;
  return path.startsWith(prefix) && path[prefix.length] === "/" ? path.slice(prefix.length) : undefined;
}

/**
 * The part of a path before a route's own: the place where another app has mounted the gateway's.
 *
 * @param own The route's own path, with what its wildcard stands for. The app's place may hold the same text, so the last
 * occurrence counts.
 * @param matched The path as the router has matched it: escapes that a path does not need are gone.
 * @param whole The same path as it was written. Both have the same number of segments.
 */
export function beforeOwn(own: string, matched: string, whole: string): string {
  const segments = matched.slice(0, Math.max(0, matched.lastIndexOf(own))).split("/").length;
  return whole.split("/").slice(0, segments).join("/");
}
