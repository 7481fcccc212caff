/** Generate-content requests as a law: what is said in the format is understood as it was meant. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeRequest, encodeRequest } from "../../src/formats/generate-content/request.ts";
import { readBody } from "../cases/generate-content/read-body.ts";
import { chatRequest } from "./generate-content.arbitraries.request.ts";
import { RUNS } from "./generate-content.arbitraries.ts";

it("decode(encode(x)) = x, through JSON and validation", () => {
  fc.assert(
    fc.property(chatRequest, (request) => {
      const wire: unknown = JSON.parse(JSON.stringify(encodeRequest(request)));
      const { model, stream } = request;
      const { native, ...decoded } = decodeRequest(readBody(wire), { model, stream, defaultMaxOutputTokens: 1 });
      expect(decoded).toEqual(request);
      // Equality does not see every key that a user may choose.
      expect(sorted(decoded)).toBe(sorted(request));
      expect(native?.body).toEqual(wire);
    }),
    RUNS,
  );
});

/** JSON with the keys of every object in one order. */
const sorted = (value: unknown): string =>
  JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
