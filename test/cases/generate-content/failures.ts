/** Every error of spec 7.3 with its exact body, thrown before the answer has begun, and what is told of a stranger's. */

import { describe, expect, it } from "vitest";
import { GatewayError, type GatewayErrorCode } from "../../../src/index.ts";
import { fails, KEY, type Mount, sharedStage } from "../../hosts/stage.ts";
import { MINIMAL, withFile, withPart } from "./bodies.ts";
import { GENERATE, METHODS, send } from "./calls.ts";
import { invalidField, refusal, refusalOf, requestIdOf } from "./refusal.ts";
import { ERROR_ROWS } from "./spec-fields.ts";

const THROWN: readonly (readonly [code: GatewayErrorCode, status: number, name: string])[] = [
  ["invalid_request", 400, "INVALID_ARGUMENT"],
  ["malformed_body", 400, "INVALID_ARGUMENT"],
  ["unsupported_media_type", 400, "INVALID_ARGUMENT"],
  ["failed_precondition", 400, "FAILED_PRECONDITION"],
  ["missing_api_key", 401, "UNAUTHENTICATED"],
  ["malformed_credential", 401, "UNAUTHENTICATED"],
  ["invalid_api_key", 401, "UNAUTHENTICATED"],
  ["expired_api_key", 401, "UNAUTHENTICATED"],
  ["model_not_allowed", 403, "PERMISSION_DENIED"],
  ["quota_exhausted", 403, "PERMISSION_DENIED"],
  ["model_not_found", 404, "NOT_FOUND"],
  ["body_too_large", 413, "PAYLOAD_TOO_LARGE"],
  ["quota_insufficient", 429, "RESOURCE_EXHAUSTED"],
  ["rate_limited", 429, "RESOURCE_EXHAUSTED"],
  ["backend_failed", 500, "INTERNAL"],
  ["backend_refused", 500, "INTERNAL"],
  ["internal", 500, "INTERNAL"],
  ["backend_unavailable", 503, "UNAVAILABLE"],
  ["deadline_exceeded", 504, "DEADLINE_EXCEEDED"],
];

const withCode = (code: string): Error => Object.assign(new Error("connect to 10.0.0.7"), { code });

const STRANGERS: readonly (readonly [name: string, thrown: unknown, status: number, word: string])[] = [
  ["an error", new Error("connect to 10.0.0.7"), 500, "INTERNAL"],
  ["a text", "connect to 10.0.0.7", 500, "INTERNAL"],
  ["undefined", undefined, 500, "INTERNAL"],
  ["a refused connection", withCode("ECONNREFUSED"), 503, "UNAVAILABLE"],
  ["a fetch that failed", new TypeError("fetch failed", { cause: withCode("ENOTFOUND") }), 503, "UNAVAILABLE"],
  ["a connection that timed out", withCode("ETIMEDOUT"), 504, "DEADLINE_EXCEEDED"],
  ["a signal that timed out", new DOMException("10.0.0.7", "TimeoutError"), 504, "DEADLINE_EXCEEDED"],
];

const FILE = "contents[0].parts[0].fileData";

export function failuresSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  it("reach every row of the table", () => {
    const rows = new Set(THROWN.map(([, code, status]) => `${code} ${status}`));
    expect([...rows]).toEqual(ERROR_ROWS.map(([code, status]) => `${code} ${status}`));
  });

  describe.each(METHODS)("of an answer that was to be %s", (_form, path) => {
    const refusedWith = (thrown: unknown): Promise<Response> => {
      stage().backend.play = fails(thrown);
      return send(stage(), path, MINIMAL);
    };

    it.each(THROWN)("%s", async (code, status, name) => {
      const response = await refusedWith(new GatewayError(code, "For the caller."));
      expect(response.status).toBe(status);
      expect(await response.text()).toBe(
        `{"error":{"code":${status},"message":"For the caller.","status":"${name}","details":[]}}`,
      );
    });

    it.each(STRANGERS)("a stranger: %s", async (_name, thrown, status, word) => {
      const response = await refusedWith(thrown);
      const id = requestIdOf(response);
      const told = await refusalOf(response);
      expect(told).toEqual(refusal(status, word));
      expect(told.message).not.toContain("10.0.0.7");
      // Also of a timeout: what it was that took too long is for the host alone.
      expect(stage().failures.some(({ requestId }) => requestId === id)).toBe(true);
    });

    it("tells how long to wait", async () => {
      const response = await refusedWith(new GatewayError("rate_limited", "Later.", { retryAfterMs: 1_500 }));
      expect(response.headers.get("retry-after")).toBe("2");
      expect(response.headers.get("retry-after-ms")).toBe("1500");
      expect(response.headers.has("x-should-retry")).toBe(false);
      expect(await refusalOf(response)).toEqual({
        ...refusal(429, "RESOURCE_EXHAUSTED"),
        details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "1.5s" }],
      });
    });

    it("names the field that a backend found wrong", async () => {
      const path = ["contents", 0, "parts", 1, "text"];
      const told = await refusalOf(await refusedWith(new GatewayError("invalid_request", "is too sad", { path })));
      expect(told.details).toEqual([
        {
          "@type": "type.googleapis.com/google.rpc.BadRequest",
          fieldViolations: [{ field: "contents[0].parts[1].text", description: "is too sad" }],
        },
      ]);
    });

    it("keeps the caller's key out of what the host is told", async () => {
      await (await refusedWith(new Error(`upstream said ${KEY}`))).text();
      const bare = KEY.slice("sk-".length);
      expect(stage().failures.at(-1)?.text).toContain("upstream said");
      expect(stage().failures.at(-1)?.text).not.toContain(bare);
    });
  });

  it("that is thrown before the first event can be asked for", async () => {
    stage().backend.play = () => {
      throw new GatewayError("backend_unavailable", "Closed.");
    };
    const told = await refusalOf(await send(stage(), GENERATE, MINIMAL));
    expect(told).toEqual({ ...refusal(503, "UNAVAILABLE"), message: "Closed." });
  });

  it("in the middle of a complete answer has its true status", async () => {
    stage().backend.play = fails(new GatewayError("backend_unavailable", "Gone."), "Hel");
    expect(await refusalOf(await send(stage(), GENERATE, MINIMAL))).toEqual(refusal(503, "UNAVAILABLE"));
  });

  describe("a precondition that is not met", () => {
    it.each(["image/gif", "image/bmp", "image/svg+xml", "image/tiff"])("a file of %s", async (type) => {
      const told = await refusalOf(await send(stage(), GENERATE, withFile(type)));
      expect(told).toEqual({ ...invalidField(`${FILE}.mimeType`), status: "FAILED_PRECONDITION" });
    });

    it("names the field as its caller spelled it", async () => {
      const body = withPart({ file_data: { mime_type: "image/gif", file_uri: "https://example.com/a.gif" } });
      const told = await refusalOf(await send(stage(), GENERATE, body));
      const field = "contents[0].parts[0].file_data.mime_type";
      expect(told).toEqual({ ...invalidField(field), status: "FAILED_PRECONDITION" });
    });
  });
}
