/** createGateway with every format, and with its routes as an h3 app: the gateway of `polygate`. */

import { withCors, withHooks, withReplays, withSockets } from "./features.ts";
import { SERVED } from "./formats/all.ts";
import { COMMON_SHAPES, type Gateway, gatewayOf, type GatewayOptions } from "./gateway.ts";
import { appOf } from "./h3-app.ts";
import { type AnyShape, assertOptions, fieldsOf, type Shapes } from "./options.ts";
import { plainPrefix } from "./routes.ts";

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
  const at: Gateway<Context>["at"] = (prefix) => ({ ...gateway.at(prefix), app: appOf(routes, plainPrefix(prefix)) });
  return { ...gateway, app: appOf(routes, ""), at };
}
