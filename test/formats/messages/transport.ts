/** Errors of a messages request before its fields are read, and the id of every answer. */

import { describe, expect, it } from "vitest";
import type { HostRequestInit } from "../../hosts/host.ts";
import { headersWith, KEY, type Mount, post, sharedStage, VERSION } from "../../hosts/stage.ts";
import { streamOf } from "../../http/byte-stream.ts";
import { having, MINIMAL } from "./bodies.ts";
import { refusalOf, requestIdOf } from "./refusal.ts";

const MAX_BYTES = 2_000;

const nested = (levels: number): string =>
  `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"x":${"[".repeat(levels)}${"]".repeat(levels)}}`;

/** A request whose JSON has the given length in bytes. */
function ofBytes(length: number): string {
  const bare = JSON.stringify(having({ pad: "" })).length;
  return JSON.stringify(having({ pad: "x".repeat(length - bare) }));
}

const sending = (body: string, headers: Readonly<Record<string, string | undefined>> = {}): HostRequestInit => ({
  method: "POST",
  headers: headersWith(headers),
  body,
});

/** A body in pieces, without a declared length. */
const chunked = (...pieces: readonly string[]): HostRequestInit => ({
  ...sending(""),
  duplex: "half",
  body: streamOf(pieces.map((piece) => new TextEncoder().encode(piece))),
});

const MALFORMED: readonly (readonly [name: string, init: () => HostRequestInit])[] = [
  ["an empty body", () => sending("")],
  ["a body of white space", () => sending(" \r\n")],
  ["a body that is no JSON", () => sending("model=m")],
  ["a body that breaks off", () => sending('{"model":"m"')],
  ["two bodies in one", () => sending("{}{}")],
  ["single quotes", () => sending("{'model':'m'}")],
  ["a body that is nested too deep", () => sending(nested(500))],
  ["an empty body in chunks", chunked],
];

const NO_OBJECT: readonly (readonly [name: string, body: string])[] = [
  ["an array", "[]"],
  ["null", "null"],
  ["a text", '"Hi"'],
  ["a number", "1"],
  ["a boolean", "true"],
];

const WRONG_TYPE: readonly (readonly [name: string, headers: Readonly<Record<string, string | undefined>>])[] = [
  ["a text", { "content-type": "text/plain" }],
  ["a form", { "content-type": "application/x-www-form-urlencoded" }],
  ["a type that only begins like JSON", { "content-type": "application/jsonlines" }],
  ["no type", { "content-type": "" }],
  ["gzip", { "content-encoding": "gzip" }],
  ["brotli", { "content-encoding": "br" }],
];

const RIGHT_TYPE: readonly (readonly [name: string, headers: Readonly<Record<string, string | undefined>>])[] = [
  ["a charset", { "content-type": "application/json; charset=utf-8" }],
  ["capitals", { "content-type": "Application/JSON" }],
  ["a suffix", { "content-type": "application/vnd.api+json" }],
  ["identity encoding", { "content-encoding": "identity" }],
];

const invalid = { type: "invalid_request_error", message: expect.any(String) as string } as const;

export function transportSuite(mount: Mount): void {
  const stage = sharedStage(mount, { limits: { maxJsonBytes: MAX_BYTES } });

  it.each(MALFORMED)("refuses %s", async (_name, init) => {
    expect(await refusalOf(await stage().request("/v1/messages", init()))).toEqual({
      ...invalid,
      status: 400,
      code: "malformed_body",
    });
  });

  it.each(NO_OBJECT)("refuses JSON that is %s", async (_name, body) => {
    expect(await refusalOf(await stage().request("/v1/messages", sending(body)))).toEqual({
      ...invalid,
      status: 400,
      code: "invalid_request",
    });
  });

  it("does not quote a body that it cannot read", async () => {
    const refusal = await refusalOf(await stage().request("/v1/messages", sending("sk-secret-in-the-body")));
    expect(refusal.message).not.toContain("secret");
  });

  it.each(WRONG_TYPE)("refuses a body of %s", async (_name, headers) => {
    expect(await refusalOf(await stage().request("/v1/messages", sending(JSON.stringify(MINIMAL), headers)))).toEqual({
      ...invalid,
      status: 415,
      code: "unsupported_media_type",
    });
  });

  it.each(RIGHT_TYPE)("takes JSON with %s", async (_name, headers) => {
    const response = await stage().request("/v1/messages", sending(JSON.stringify(MINIMAL), headers));
    expect(await response.json()).toMatchObject({ type: "message" });
  });

  it("takes a body in chunks that split a character", async () => {
    const text = "Grüße, 世界 𝄞";
    const bytes = new TextEncoder().encode(JSON.stringify(having({ messages: [{ role: "user", content: text }] })));
    const body = streamOf(Array.from(bytes, (byte) => Uint8Array.of(byte)));
    const response = await stage().request("/v1/messages", { ...chunked(), body });
    expect(response.status).toBe(200);
    expect(stage().backend.asked.messages).toEqual([{ role: "user", parts: [{ type: "text", text }] }]);
  });

  describe("size", () => {
    const tooLarge = { ...invalid, status: 413, code: "request_too_large" };

    it("takes a body as large as the limit", async () => {
      const response = await stage().request("/v1/messages", sending(ofBytes(MAX_BYTES)));
      expect(await response.json()).toMatchObject({ type: "message" });
      const inChunks = ofBytes(MAX_BYTES);
      const second = await stage().request("/v1/messages", chunked(inChunks.slice(0, 700), inChunks.slice(700)));
      expect(await second.json()).toMatchObject({ type: "message" });
    });

    it("refuses one byte more by its declared length", async () => {
      const response = await stage().request("/v1/messages", sending(ofBytes(MAX_BYTES + 1)));
      expect(await refusalOf(response)).toEqual(tooLarge);
    });

    it("refuses one byte more that comes in chunks without a length", async () => {
      const body = ofBytes(MAX_BYTES + 1);
      const response = await stage().request("/v1/messages", chunked(body.slice(0, 700), body.slice(700)));
      expect(await refusalOf(response)).toEqual(tooLarge);
    });

    it("counts bytes, not characters", async () => {
      const body = JSON.stringify(having({ pad: "€".repeat(MAX_BYTES / 2) }));
      expect(await refusalOf(await stage().request("/v1/messages", sending(body)))).toEqual(tooLarge);
      expect(await refusalOf(await stage().request("/v1/messages", chunked(body)))).toEqual(tooLarge);
    });

    it("refuses a declared length without waiting for the body", async () => {
      // The first byte makes the client send its headers; the second never comes.
      const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
      const headers = headersWith({ "content-length": "999999999999" });
      const response = await stage().request("/v1/messages", { method: "POST", headers, body, duplex: "half" });
      expect(await refusalOf(response)).toEqual(tooLarge);
    });
  });

  describe("method", () => {
    it.each(["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])("refuses %s and names POST", async (method) => {
      for (const path of ["/v1/messages", "/v1/messages/count_tokens"]) {
        const response = await stage().request(path, {
          method,
          headers: { "x-api-key": KEY, "compat-version": VERSION },
        });
        expect(response.headers.get("allow")).toBe("POST");
        expect(await refusalOf(response)).toEqual({ ...invalid, status: 405, code: "method_not_allowed" });
      }
    });

    it("refuses HEAD without a body", async () => {
      const response = await stage().request("/v1/messages", { method: "HEAD" });
      requestIdOf(response);
      expect(response.status).toBe(405);
      expect(await response.text()).toBe("");
    });
  });

  describe("request id", () => {
    it("is on every answer, and another one each time", async () => {
      const responses = await Promise.all([
        stage().send(MINIMAL),
        stage().send(MINIMAL),
        stage().send(having({ stream: true })),
        stage().request("/v1/messages/count_tokens", post(MINIMAL)),
        stage().send({}),
      ]);
      const ids = responses.map(requestIdOf);
      for (const response of responses) await response.text();
      expect(new Set(ids).size).toBe(responses.length);
    });

    it("is not on what is not the gateway's own", async () => {
      const { headers } = await stage().request("/v1/message", post(MINIMAL));
      expect([headers.get("request-id"), headers.get("x-request-id")]).toEqual([null, null]);
    });

    it("is not taken from the caller", async () => {
      const response = await stage().send(MINIMAL, {
        headers: headersWith({ "request-id": "mine", "x-request-id": "mine" }),
      });
      expect(requestIdOf(response)).not.toBe("mine");
    });
  });
}
