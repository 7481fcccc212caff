/** Generate-content requests as a law: what is said in the format is understood as it was meant. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeRequest, encodeRequest } from "../../src/formats/generate-content/request.ts";
import type { ChatRequest, Part } from "../../src/model/chat-request.ts";
import { readBody } from "../formats/generate-content/read-body.ts";
import { chatRequest } from "./generate-content.arbitraries.request.ts";
import { RUNS } from "./generate-content.arbitraries.ts";

it("decode(encode(x)) = x, through JSON and validation", () => {
  fc.assert(
    fc.property(chatRequest, (request) => {
      const wire: unknown = JSON.parse(JSON.stringify(encodeRequest(request)));
      const { model, stream } = request;
      const { native, ...decoded } = decodeRequest(readBody(wire), { model, stream, defaultMaxOutputTokens: 1 });
      expect(withSortedResults(decoded)).toEqual(withSortedResults(request));
      // Equality does not see every key that a user may choose.
      expect(sorted(withSortedResults(decoded))).toBe(sorted(withSortedResults(request)));
      expect(native?.body).toEqual(wire);
    }),
    RUNS,
  );
});

/** A request whose results stand in one order: they are sent in the order of their calls, before all else of their turn. */
const withSortedResults = <Request extends Pick<ChatRequest, "messages">>(request: Request): Request => ({
  ...request,
  messages: request.messages.map((message) => {
    const results = message.parts.filter((part) => part.type === "tool-result").map((part) => JSON.stringify(part));
    const others = message.parts.filter((part) => part.type !== "tool-result");
    return { ...message, parts: [...results.toSorted().map((result) => JSON.parse(result) as Part), ...others] };
  }),
});

/** JSON with the keys of every object in one order. */
const sorted = (value: unknown): string =>
  JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
