/** Checks the arguments of every mount. */

import { assertMethods, assertOptions, type Shapes } from "../src/options.ts";

/** Throws a TypeError for a gateway that is none, and for an option that does not exist or has a wrong shape. */
export function assertMount<Options extends object>(
  factory: string,
  gateway: unknown,
  options: Options,
  shapes: Shapes<Options>,
): void {
  assertMethods(factory, "the first argument", gateway, ["at"], "a gateway of createGateway");
  assertOptions(factory, options, shapes);
}
