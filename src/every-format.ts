/** createGateway with every format, and with its routes as an h3 app: the gateway of `polygate`. */

import { H3Core, type H3Event, type H3Route, type MatchedRoute } from "h3";
import { withCors, withHooks, withReplays, withSockets } from "./features.ts";
import { SERVED } from "./formats/all.ts";
import { COMMON_SHAPES, type Gateway, gatewayOf, type GatewayOptions } from "./gateway.ts";
import { NOT_FOUND, toResponse } from "./http/answer.ts";
import { type AnyShape, assertOptions, fieldsOf, type Shapes } from "./options.ts";
import { repeatsPrinter } from "./pipeline/printed.ts";
import { type FoundPath, type GatewayApp, plainPrefix, routerOf, type Routes } from "./routes.ts";

/** The options of the formats that have some, by the formats' names. */
const FORMAT_SHAPES: Readonly<Record<string, AnyShape>> = Object.fromEntries(
  Object.entries(SERVED).flatMap(([name, { options }]) => (options ? [[name, { optional: fieldsOf(options) }]] : [])),
);

/** The options of `createGateway`. */
export const GATEWAY_SHAPES: Shapes<GatewayOptions> = { ...COMMON_SHAPES, ...FORMAT_SHAPES } as Shapes<GatewayOptions>;

/**
 * Creates a gateway.
 *
 * @throws RangeError for a limit that is not a positive integer, and a TypeError for an option that does not exist or has a wrong shape.
 * @example
 * import { createGateway, memoryQuotaStore } from "polygate";
 * import { relay } from "polygate/backends/relay";
 *
 * const apiKey = process.env["UPSTREAM_KEY"];
 * const backend = relay({ format: "messages", baseUrl: "https://api.example.com/v1", apiKey });
 * export const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-team-a" }]) });
 */
export function createGateway<Context = unknown>(options: GatewayOptions<Context>): Gateway<Context> {
  assertOptions<GatewayOptions>("createGateway", options, GATEWAY_SHAPES);
  const given: Readonly<Record<string, unknown>> = { ...options };
  const formats = Object.entries(SERVED).map(([name, format]) =>
    format.serve(format.options && (given[name] as object | undefined)),
  );
  const features = { ...withCors, ...withHooks, ...withReplays, ...withSockets };
  const { gateway, routes } = gatewayOf(options, formats, features, repeatsPrinter);
  const at: Gateway<Context>["at"] = (prefix) => ({ ...gateway.at(prefix), app: new App(routes, plainPrefix(prefix)) });
  return { ...gateway, app: new App(routes, ""), at };
}

/** An h3 app that finds its routes as the gateway does, without the code of h3's router. */
class App extends H3Core implements GatewayApp {
  readonly #routeOf: (path: string) => FoundPath | undefined;

  constructor(routes: Routes, prefix: string) {
    super({
      silent: true,
      allowMalformedURL: true,
      // The default answer to an unknown route repeats the request's URL, which may hold a key.
      onError: ({ status }, { req }) => (status === 404 ? routes.at(prefix).fetch(req) : undefined),
    });
    this.#routeOf = routerOf(routes.paths.map((path) => prefix + path));
    // An app that mounts this one takes these routes into its own router.
    for (const path of routes.paths)
      this["~addRoute"]({
        route: prefix + path,
        handler: ({ req, context }) => routes.answerRouted(path, req, context.params?.["_"]),
      });
  }

  /** Answers 404 where h3 throws: a client chooses the host header, which may make no URL with the path. */
  override fetch(request: Request): Response | Promise<Response> {
    try {
      return super.fetch(request);
    } catch {
      return toResponse(NOT_FOUND);
    }
  }

  override "~findRoute"({ url }: H3Event): MatchedRoute<H3Route> | undefined {
    const found = this.#routeOf(url.pathname);
    const data = found && this["~routes"].find(({ route }) => route === found.path);
    return data && { data, params: { _: found.wildcardPath } };
  }
}
