/** What can be wrong with a generate-content request before its fields are looked at, and the id that every answer carries. */

import { describe, expect, it } from "vitest";
import type { HostRequestInit } from "../../hosts/host.ts";
import { KEY, type Mount, sharedStage } from "../../hosts/stage.ts";
import { streamOf } from "../../http/byte-stream.ts";
import { having, MINIMAL } from "./bodies.ts";
import { type Changes, COUNT, GENERATE, headersWith, METHODS, posting } from "./calls.ts";
import { refusal, refusalOf, requestIdOf } from "./refusal.ts";

const MAX_BYTES = 2_000;

const nested = (levels: number): string =>
  `{"contents":[{"parts":[{"text":"Hi"}]}],"x":${"[".repeat(levels)}${"]".repeat(levels)}}`;

/** A request whose JSON is as long as it is told to be, in bytes. */
function ofBytes(length: number): string {
  const bare = JSON.stringify(having({ pad: "" })).length;
  return JSON.stringify(having({ pad: "x".repeat(length - bare) }));
}

const sending = (body: string, changes: Changes = {}): HostRequestInit => ({
  method: "POST",
  headers: headersWith(changes),
  body,
});

/** A body of no declared length, in pieces. */
const chunked = (...pieces: readonly string[]): HostRequestInit => ({
  ...sending(""),
  duplex: "half",
  body: streamOf(pieces.map((piece) => new TextEncoder().encode(piece))),
});

const MALFORMED: readonly (readonly [name: string, init: () => HostRequestInit])[] = [
  ["an empty body", () => sending("")],
  ["a body of white space", () => sending(" \r\n")],
  ["a body that is no JSON", () => sending("contents=Hi")],
  ["a body that breaks off", () => sending('{"contents":"Hi"')],
  ["two bodies in one", () => sending("{}{}")],
  ["a body that is nested too deep", () => sending(nested(500))],
  ["an empty body in chunks", chunked],
  ["JSON that is an array", () => sending("[]")],
  ["JSON that is null", () => sending("null")],
  ["JSON that is a text", () => sending('"Hi"')],
  ["JSON that is a number", () => sending("1")],
  ["a body of text", () => sending(JSON.stringify(MINIMAL), { "content-type": "text/plain" })],
  ["a form", () => sending(JSON.stringify(MINIMAL), { "content-type": "application/x-www-form-urlencoded" })],
  ["a body of no type", () => sending(JSON.stringify(MINIMAL), { "content-type": "" })],
  ["a compressed body", () => sending(JSON.stringify(MINIMAL), { "content-encoding": "gzip" })],
];

const RIGHT_TYPE: readonly (readonly [name: string, changes: Changes])[] = [
  ["a charset", { "content-type": "application/json; charset=utf-8" }],
  ["capitals", { "content-type": "Application/JSON" }],
  ["identity encoding", { "content-encoding": "identity" }],
];

const PATHS: readonly (readonly [name: string, path: string])[] = [...METHODS, ["a count of tokens", COUNT]];

export function transportSuite(mount: Mount): void {
  const stage = sharedStage(mount, { limits: { maxJsonBytes: MAX_BYTES } });

  describe.each(PATHS)("of %s", (_name, path) => {
    it.each(MALFORMED)("refuses %s", async (_name, init) => {
      expect(await refusalOf(await stage().request(path, init()))).toEqual(refusal(400, "INVALID_ARGUMENT"));
    });

    it("refuses a body that is too large", async () => {
      const tooLarge = refusal(413, "PAYLOAD_TOO_LARGE");
      const body = ofBytes(MAX_BYTES + 1);
      expect(await refusalOf(await stage().request(path, sending(body)))).toEqual(tooLarge);
      const inChunks = chunked(body.slice(0, 700), body.slice(700));
      expect(await refusalOf(await stage().request(path, inChunks))).toEqual(tooLarge);
    });

    it("takes a body as large as the limit", async () => {
      const response = await stage().request(path, sending(ofBytes(MAX_BYTES)));
      await response.text();
      expect(response.status).toBe(200);
    });

    it.each(["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])("refuses %s and names POST", async (method) => {
      const response = await stage().request(path, { method, headers: { "x-goog-api-key": KEY } });
      expect(response.headers.get("allow")).toBe("POST");
      expect(await refusalOf(response)).toMatchObject({ code: 405, status: "METHOD_NOT_ALLOWED" });
    });
  });

  it("does not quote a body that it cannot read", async () => {
    const { message } = await refusalOf(await stage().request(GENERATE, sending("sk-secret-in-the-body")));
    expect(message).not.toContain("secret");
  });

  it.each(RIGHT_TYPE)("takes JSON with %s", async (_name, changes) => {
    const response = await stage().request(GENERATE, sending(JSON.stringify(MINIMAL), changes));
    expect(await response.json()).toMatchObject({ candidates: [{ finishReason: "STOP" }] });
  });

  it("takes a body in chunks that split a character", async () => {
    const text = "Grüße, 世界 𝄞";
    const bytes = new TextEncoder().encode(JSON.stringify({ contents: text }));
    const body = streamOf(Array.from(bytes, (byte) => Uint8Array.of(byte)));
    const response = await stage().request(GENERATE, { ...chunked(), body });
    expect(response.status).toBe(200);
    expect(stage().backend.asked.messages).toEqual([{ role: "user", parts: [{ type: "text", text }] }]);
  });

  describe("request id", () => {
    it("is on every answer, and another one each time", async () => {
      const responses = await Promise.all([
        ...PATHS.map(([, path]) => stage().request(path, posting(MINIMAL))),
        stage().request(GENERATE, posting({})),
      ]);
      const ids = responses.map(requestIdOf);
      for (const response of responses) await response.text();
      expect(new Set(ids).size).toBe(responses.length);
    });

    it("is not taken from the caller", async () => {
      const response = await stage().request(
        GENERATE,
        posting(MINIMAL, { "request-id": "mine", "x-request-id": "mine" }),
      );
      expect(requestIdOf(response)).not.toBe("mine");
    });
  });
}
