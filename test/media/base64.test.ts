/** Base64 in its two alphabets: what is valid, what it becomes, and that a whole body of it needs little memory. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  ANY_BASE64_FORMAT,
  BASE64_FORMAT,
  fromBase64,
  inStandardAlphabet,
  isAnyBase64,
  isBase64,
  textOfBase64,
  toBase64,
} from "../../src/media/base64.ts";

/** Large enough for several of the pieces that are worked on at a time. */
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 60 }),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 9 }), fc.integer({ min: 20_000, max: 40_000 }))
    .map(([some, length]) => Uint8Array.from({ length }, (_, index) => some[index % some.length] ?? 0)),
);
const RUNS = { numRuns: 60 } as const;

/** In the alphabet for URLs, with its padding. */
const forUrls = (data: Uint8Array): string =>
  Buffer.from(data).toString("base64").replaceAll("+", "-").replaceAll("/", "_");

afterEach(() => {
  vi.unstubAllGlobals();
});

describe("base64", () => {
  it("of either alphabet is the same in the standard one, on every piece of it", () => {
    fc.assert(
      fc.property(bytes, (data) => {
        const standard = Buffer.from(data).toString("base64");
        expect(inStandardAlphabet(forUrls(data))).toBe(standard);
        expect(inStandardAlphabet(standard)).toBe(standard);
      }),
      RUNS,
    );
  });

  it.each(["natively", "without Buffer and the newer methods"])("becomes the bytes again, %s", (way) => {
    if (way !== "natively") vi.stubGlobal("Buffer", undefined);
    fc.assert(
      fc.property(bytes, (data) => {
        const plain = new Uint8Array(data);
        if (way !== "natively") Object.defineProperty(plain, "toBase64", { value: undefined });
        expect([...fromBase64(toBase64(plain))]).toEqual([...data]);
      }),
      { numRuns: 20 },
    );
  });

  it("is valid exactly where the patterns of JSON Schema say so", () => {
    const almost = fc.oneof(
      fc.base64String(),
      bytes.map(forUrls),
      fc.string({ unit: fc.constantFrom("A", "b", "=", "-", "_", "+", "/", " ", "é"), maxLength: 12 }),
    );
    fc.assert(
      fc.property(almost, (text) => {
        expect(isBase64(text)).toBe(text !== "" && new RegExp(BASE64_FORMAT.pattern).test(text));
        expect(isAnyBase64(text)).toBe(text !== "" && new RegExp(ANY_BASE64_FORMAT.pattern).test(text));
      }),
      { numRuns: 500 },
    );
  });

  it("is read as UTF-8, or not at all", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(textOfBase64(forUrls(new TextEncoder().encode(text)))).toBe(text);
      }),
      RUNS,
    );
    expect(textOfBase64(Buffer.from([0x61, 0xff]).toString("base64"))).toBeUndefined();
  });
});

const run = promisify(execFile);
const SOURCE = new URL("../../src/", import.meta.url).href;
const READ_BODY = new URL("../formats/generate-content/read-body.ts", import.meta.url).href;

/** Reads a body in a process that has no more than 160 MiB of heap, and prints how long the data is that a backend gets. */
const program = (body: string, read: string): string => `
  const { isAnyBase64, isBase64 } = await import("${SOURCE}media/base64.ts");
  const { assertValid } = await import("${SOURCE}http/validation.ts");
  const { messagesRequest } = await import("${SOURCE}formats/messages/schema.ts");
  const content = await import("${SOURCE}formats/generate-content/request.ts");
  const { readBody } = await import("${READ_BODY}");
  const target = { model: "m", stream: false, defaultMaxOutputTokens: 1 };
  const data = (unit) => unit.repeat(${24 * 1024 * 1024} / unit.length);
  const body = ${body};
  console.log((${read})(body));
`;

describe("24 MiB of base64 in a heap of 160 MiB", () => {
  it.each<[what: string, body: string, read: string]>([
    [
      "an image in the alphabet for URLs",
      `{ contents: [{ parts: [{ inlineData: { mimeType: "image/png", data: data("-_") } }] }] }`,
      `(body) => content.decodeRequest(readBody(body), target).messages[0].parts[0].source.data.length`,
    ],
    [
      "a token count of a document in the alphabet for URLs",
      `{ contents: [{ parts: [{ inline_data: { mime_type: "application/pdf", data: data("-_") } }] }] }`,
      `(body) => content.decodeRequest(readBody(body, true), target).messages[0].parts[0].source.data.length`,
    ],
    [
      "media in a function's response",
      `{ contents: [{ parts: [{ functionResponse: { name: "f", response: {}, parts: [
        { inlineData: { mimeType: "image/png", data: data("__-A") } }] } }] }] }`,
      `(body) => content.decodeRequest(readBody(body), target).messages[0].parts[0].parts[1].source.data.length`,
    ],
    [
      "an image of the messages format",
      `{ model: "m", max_tokens: 2, messages: [{ role: "user", content: [
        { type: "image", source: { type: "base64", media_type: "image/png", data: data("/+") } }] }] }`,
      `(body) => {
        assertValid(messagesRequest({ vendorRanges: false, vendorSources: false }), body);
        return body.messages[0].content[0].source.data.length;
      }`,
    ],
  ])("is read: %s", async (_what, body, read) => {
    const heap = ["--max-old-space-size=160", "--input-type=module"];
    const { stdout } = await run(process.execPath, [...heap, "--eval", program(body, read)]);
    expect(stdout.trim()).toBe(`${24 * 1024 * 1024}`);
  });
});
