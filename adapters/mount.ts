/** Checks the arguments of every mount. */

import type { Mountable, MountOptions } from "../src/index.ts";
import { A_GATEWAY, assertOptions, hasMethod, lacking, type Shapes } from "../src/options.ts";

/**
 * Returns the routes of a gateway under the prefix of its mount. Throws a TypeError for a gateway that is none, for an option that does not
 * exist or has a wrong shape, and for a prefix that is no path.
 */
export function mountedRoutes<Context, Options extends MountOptions>(
  factory: string,
  gateway: Mountable<Context>,
  options: Options,
  shapes: Shapes<Options>,
): ReturnType<Mountable<Context>["at"]> {
  const hint = Object.hasOwn(Object(gateway) as object, "backend")
    ? ". Call createGateway with these options first"
    : "";
  if (!hasMethod(gateway, "at"))
    throw new TypeError(`${factory}: the first argument must be ${A_GATEWAY}, ${lacking(gateway, ["at"])}${hint}.`);
  assertOptions(factory, options, shapes);
  try {
    return gateway.at(options.prefix ?? "");
  } catch (error) {
    throw error instanceof TypeError ? new TypeError(`${factory}: ${error.message}`, { cause: error }) : error;
  }
}
