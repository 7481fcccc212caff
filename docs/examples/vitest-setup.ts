// vitest-setup.ts
import { type PolygateMatchers, polygateMatchers } from "polygate/testing";
import { expect } from "vitest";

expect.extend(polygateMatchers);

declare module "vitest" {
  interface Matchers<R, T> extends PolygateMatchers {}
}
