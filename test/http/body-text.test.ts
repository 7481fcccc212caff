/** A body that a middleware of the host has read before the gateway is taken from where it was left, or missed with a word. */

import { describe, expect, it, vi } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { readJson } from "./intake.ts";

const LIMITS = { maxJsonBytes: 1_000, maxJsonDepth: 5, maxJsonValues: 20, maxJsonKeys: 20, maxJsonItems: 20 };
const JSON_TYPE = { "content-type": "application/json" };

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
const arrays = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);

const codeOf = (reading: Promise<unknown>): Promise<string> =>
  reading.then(
    () => "no error",
    (error: unknown) => (error instanceof GatewayError ? error.code : String(error)),
  );

/** What a Node host hands on: its own request is in reach of the one that stands for it. */
const behind = (source: object, headers: Record<string, string> = {}): Request =>
  Object.assign(
    new Request("http://gateway.test/", { method: "POST", headers: { ...JSON_TYPE, ...headers }, body: "[1]" }),
    { runtime: { node: { req: source } } },
  );

describe("a body that another middleware has read", () => {
  it.each([
    ["an object", { a: [1, "x"] }, { a: [1, "x"] }],
    ["an array", [1], [1]],
    ["its text", '{"a":1}', { a: 1 }],
    ["its bytes", encode('{"a":"é"}'), { a: "é" }],
  ])("is taken where it left %s", async (_name, body, value) => {
    expect(await readJson(behind({ readableDidRead: true, body }), LIMITS)).toEqual(value);
  });

  it("is taken from the bytes that it kept", async () => {
    const source = { readableDidRead: true, rawBody: encode("[2]"), body: { parsed: "otherwise" } };
    expect(await readJson(behind(source), LIMITS)).toEqual([2]);
  });

  it("may have been compressed", async () => {
    const source = { readableDidRead: true, body: { a: 1 } };
    expect(await readJson(behind(source, { "content-encoding": "gzip" }), LIMITS)).toEqual({ a: 1 });
  });

  it("is written once", async () => {
    const toJSON = vi.fn<() => string>(() => "a");
    const body = { value: null, made: { toJSON } };
    expect(await readJson(behind({ readableDidRead: true, body }), LIMITS)).toEqual({ value: null, made: "a" });
    expect(toJSON).toHaveBeenCalledOnce();
  });

  it.each(["1e999", '{"a":[null,{"b":-1e999}]}', '[1,"null",[[1e999]]]'])("may not be %s", async (text) => {
    const body: unknown = JSON.parse(text);
    const read = readJson(behind({ readableDidRead: true, body }), LIMITS);
    await expect(read).rejects.toMatchObject({ code: "malformed_body" });
  });

  it("keeps every name as its own", async () => {
    const body: unknown = JSON.parse('{"__proto__": {"a": 1}}');
    expect(JSON.stringify(await readJson(behind({ readableDidRead: true, body }), LIMITS))).toBe(
      '{"__proto__":{"a":1}}',
    );
  });

  it.each([
    ["deeper than the limit", JSON.parse(arrays(LIMITS.maxJsonDepth + 1)), "malformed_body"],
    ["deeper than a stack", JSON.parse(arrays(100_000)), "malformed_body"],
    ["of more values than the limit", Array.from({ length: 21 }, () => 0), "malformed_body"],
    ["larger than the limit", ["x".repeat(LIMITS.maxJsonBytes)], "body_too_large"],
    ["no JSON", () => 1, "malformed_body"],
    ["a circle", Object.assign([], { 0: LIMITS }, { toJSON: () => 1n }), "malformed_body"],
  ])("is refused where it is %s", async (_name, body, code) => {
    expect(await codeOf(readJson(behind({ readableDidRead: true, body }), LIMITS))).toBe(code);
  });

  it("is refused unseen where its declared length is above the limit", async () => {
    const source = { readableDidRead: true, body: [] };
    const request = behind(source, { "content-length": String(LIMITS.maxJsonBytes + 1) });
    expect(await codeOf(readJson(request, LIMITS))).toBe("body_too_large");
  });

  it("is missed with a word to the host alone where nothing of it is left", async () => {
    const used = behind({});
    await used.text();
    for (const request of [behind({ readableDidRead: true }), used]) {
      const error = await Promise.resolve(readJson(request, LIMITS)).catch((thrown: unknown) => thrown);
      const cause: unknown = expect.objectContaining({ message: expect.stringContaining("Mount the gateway before") });
      expect(error).toMatchObject({ code: "internal", message: expect.not.stringContaining("middleware"), cause });
    }
  });

  it("may have been empty", async () => {
    const source = { readableDidRead: false, readableEnded: true, body: {} };
    await expect(readJson(behind(source), LIMITS)).rejects.toThrow("The request body is empty");
  });

  it("is not what some parsers leave where they have read nothing", async () => {
    expect(await readJson(behind({ readableDidRead: false, body: {} }), LIMITS)).toEqual([1]);
  });
});

it("a body of bytes that are no UTF-8 is held to its own length, not to that of what takes their place", async () => {
  const bytes = new Uint8Array(LIMITS.maxJsonBytes).fill(0xff);
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes);
      controller.close();
    },
  });
  const init = { method: "POST", headers: JSON_TYPE, body, duplex: "half" };
  const request = new Request("http://gateway.test/", init);
  expect(await codeOf(readJson(request, LIMITS))).toBe("malformed_body");
});
