/** The routes of a gateway as an h3 app, which another h3 app mounts. */

import { H3, type HTTPError } from "h3";
import { NOT_FOUND, toResponse } from "./http/answer.ts";
import { type GatewayApp, plainPrefix, type Routes } from "./routes.ts";

const H3_OPTIONS = {
  silent: true,
  allowMalformedURL: true,
  // The default answer to an unknown route repeats the request's URL, which may hold a key.
  onError: (error: HTTPError) => (error.status === 404 ? toResponse(NOT_FOUND) : undefined),
} as const;

/** Returns a function that makes the app under a prefix. */
export function h3App(routes: Routes): (prefix: string) => GatewayApp {
  const app = new H3(H3_OPTIONS);
  for (const path of routes.paths)
    app.all(path, ({ req, context }) => routes.answerRouted(path, req, context.params?.["_"]));
  return (prefix) => (prefix === "" ? app : new H3(H3_OPTIONS).mount(plainPrefix(prefix), app));
}
