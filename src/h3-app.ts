/** The routes of a gateway as an h3 app. */

import { H3Core, type H3CoreConfig, type H3Event, type H3Route, type MatchedRoute } from "h3";
import { NOT_FOUND, toResponse } from "./http/answer.ts";
import { type FoundPath, type GatewayApp, routerOf, type Routes } from "./routes.ts";

const H3_OPTIONS: H3CoreConfig = {
  silent: true,
  allowMalformedURL: true,
  // The default answer to an unknown route repeats the request's URL, which may hold a key.
  onError: (error) => (error.status === 404 ? toResponse(NOT_FOUND) : undefined),
};

/** An h3 app that finds its routes as the gateway does, without the code of h3's router. */
class App extends H3Core implements GatewayApp {
  readonly #routeOf: (path: string) => FoundPath | undefined;

  constructor(routes: Routes, prefix: string) {
    super(H3_OPTIONS);
    this.#routeOf = routerOf(routes.paths.map((path) => prefix + path));
    // An app that mounts this one takes these routes into its own router.
    for (const path of routes.paths)
      this["~addRoute"]({
        route: prefix + path,
        handler: ({ req, context }) => routes.answerRouted(path, req, context.params?.["_"]),
      });
  }

  override "~findRoute"({ url }: H3Event): MatchedRoute<H3Route> | undefined {
    const found = this.#routeOf(url.pathname);
    const data = found && this["~routes"].find(({ route }) => route === found.path);
    return data && { data, params: { _: found.wildcardPath } };
  }
}

/** Makes the app under a prefix. In a file of its own, so that the declarations of the package need no types of h3. */
export const appOf = (routes: Routes, prefix: string): GatewayApp => new App(routes, prefix);
