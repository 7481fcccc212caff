/** createGateway with every format, and with its routes as an h3 app: the gateway of `polygate`. */

import { H3, type HTTPError } from "h3";
import { withCors, withHooks, withReplays, withSockets } from "./features.ts";
import { SERVED } from "./formats/all.ts";
import { COMMON_SHAPES, type Gateway, gatewayOf, type GatewayOptions } from "./gateway.ts";
import { NOT_FOUND, toResponse } from "./http/answer.ts";
import { type AnyShape, assertOptions, fieldsOf, type Shapes } from "./options.ts";
import { type GatewayApp, plainPrefix, type Routes } from "./routes.ts";

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
 * @example const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
 */
export function createGateway<Context = unknown>(options: GatewayOptions<Context>): Gateway<Context> {
  assertOptions<GatewayOptions>("createGateway", options, GATEWAY_SHAPES);
  const given: Readonly<Record<string, unknown>> = { ...options };
  const formats = Object.entries(SERVED).map(([name, format]) =>
    format.serve(format.options && (given[name] as object | undefined)),
  );
  const features = { ...withCors, ...withHooks, ...withReplays, ...withSockets };
  const { gateway, routes } = gatewayOf(options, formats, features);
  const app = h3App(routes);
  return { ...gateway, app: app(""), at: (prefix) => ({ ...gateway.at(prefix), app: app(prefix) }) };
}

const H3_OPTIONS = {
  silent: true,
  allowMalformedURL: true,
  // The default answer to an unknown route repeats the request's URL, which may hold a key.
  onError: (error: HTTPError) => (error.status === 404 ? toResponse(NOT_FOUND) : undefined),
} as const;

/** Returns a function that makes the app under a prefix. */
function h3App(routes: Routes): (prefix: string) => GatewayApp {
  const app = new H3(H3_OPTIONS);
  for (const path of routes.paths)
    app.all(path, ({ req, context }) => routes.answerRouted(path, req, context.params?.["_"]));
  return (prefix) => (prefix === "" ? app : new H3(H3_OPTIONS).mount(plainPrefix(prefix), app));
}
