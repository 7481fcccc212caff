/** The Responses format as laws: requests and answers survive the wire and back, wherever a stream is cut. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeRequest, encodeRequest } from "../../src/formats/responses/request.ts";
import { ResponsesRequest } from "../../src/formats/responses/schema.ts";
import { assertValid } from "../../src/http/validation.ts";
import { isOfOpenAI, throughOpenAI } from "./codecs.lossy.ts";
import { chatRequest, NOTHING_BEFORE } from "./responses.arbitraries.request.ts";

describe("Responses requests", () => {
  it("decode(encode(x)) = x, through JSON and validation, and nothing is lost", () => {
    fc.assert(
      fc.property(chatRequest, (request) => {
        const { body, conversions } = encodeRequest(request);
        const wire: unknown = JSON.parse(JSON.stringify(body));
        assertValid(ResponsesRequest, wire);
        const { native, ...decoded } = decodeRequest({ body: wire, own: NOTHING_BEFORE }, 1);
        expect(decoded).toEqual(throughOpenAI(request, conversions, false));
        expect(native.body).toEqual(wire);
        expect(conversions.filter((told) => !isOfOpenAI(told))).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});
