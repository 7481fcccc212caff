/** Every error of spec 7.3 with its exact body, thrown before the answer has begun, and what is told of a stranger's. */

import { describe, expect, it } from "vitest";
import { GatewayError, type GatewayErrorCode } from "../../../src/index.ts";
import { fails, type Mount, sharedStage } from "../../hosts/stage.ts";
import { MINIMAL, withFile, withPart } from "./bodies.ts";
import { GENERATE, METHODS, send } from "./calls.ts";
import { invalidField, refusal, refusalOf } from "./refusal.ts";
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

    it("tells no wait that is none", async () => {
      for (const retryAfterMs of [Number.NaN, Number.POSITIVE_INFINITY, -1]) {
        const response = await refusedWith(new GatewayError("rate_limited", "Later.", { retryAfterMs }));
        expect(response.headers.has("retry-after")).toBe(false);
        expect((await refusalOf(response)).details).toEqual([]);
      }
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
