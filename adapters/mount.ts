/** Checks the arguments of every mount. */

import { A_GATEWAY, assertOptions, hasMethod, lacking, type Shapes } from "../src/options.ts";

/** Throws a TypeError for a gateway that is none, and for an option that does not exist or has a wrong shape. */
export function assertMount<Options extends object>(
  factory: string,
  gateway: unknown,
  options: Options,
  shapes: Shapes<Options>,
): void {
  const hint = Object.hasOwn(Object(gateway) as object, "backend")
    ? ". Call createGateway with these options first"
    : "";
  if (!hasMethod(gateway, "at"))
    throw new TypeError(`${factory}: the first argument must be ${A_GATEWAY}, ${lacking(gateway, ["at"])}${hint}.`);
  assertOptions(factory, options, shapes);
}
