/** Failures before an answer begins (spec 7.2): the true status, streaming or not. */

import { describe, expect, it } from "vitest";
import { GatewayError, type GatewayErrorCode } from "../../../src/index.ts";
import { fails, KEY, type Mount, sharedStage } from "../../hosts/stage.ts";
import { having } from "./bodies.ts";
import { refusalOf, requestIdOf } from "./refusal.ts";

const THROWN: readonly (readonly [code: GatewayErrorCode, status: number, type: string, wireCode: string])[] = [
  ["invalid_request", 400, "invalid_request_error", "invalid_request"],
  ["model_not_found", 400, "invalid_request_error", "model_not_found"],
  ["model_not_allowed", 400, "invalid_request_error", "model_not_allowed"],
  ["body_too_large", 413, "invalid_request_error", "request_too_large"],
  ["rate_limited", 429, "rate_limit_error", "rate_limit_exceeded"],
  ["quota_exhausted", 429, "rate_limit_error", "insufficient_quota"],
  ["backend_failed", 500, "server_error", "backend_failed"],
  ["backend_refused", 500, "server_error", "backend_failed"],
  ["internal", 500, "server_error", "internal_error"],
  ["backend_unavailable", 503, "server_error", "backend_unavailable"],
  ["deadline_exceeded", 504, "server_error", "deadline_exceeded"],
];

const withCode = (code: string): Error => Object.assign(new Error("connect to 10.0.0.7"), { code });

const STRANGERS: readonly (readonly [name: string, thrown: unknown, status: number, code: string])[] = [
  ["an error", new Error("connect to 10.0.0.7"), 500, "backend_failed"],
  ["a text", "connect to 10.0.0.7", 500, "backend_failed"],
  ["undefined", undefined, 500, "backend_failed"],
  ["null", null, 500, "backend_failed"],
  ["a refused connection", withCode("ECONNREFUSED"), 503, "backend_unavailable"],
  ["a fetch that failed", new TypeError("fetch failed", { cause: withCode("ENOTFOUND") }), 503, "backend_unavailable"],
  ["a connection that timed out", withCode("ETIMEDOUT"), 504, "deadline_exceeded"],
  ["a signal that timed out", new DOMException("10.0.0.7", "TimeoutError"), 504, "deadline_exceeded"],
];

export function failuresSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  describe.each([
    ["complete", having({})],
    ["streamed", having({ stream: true })],
  ])("of an answer that was to be %s", (_form, body) => {
    const refusedWith = async (thrown: unknown): Promise<Response> => {
      const { backend, send } = stage();
      backend.play = fails(thrown);
      return send(body);
    };

    it.each(THROWN)("%s", async (code, status, type, wireCode) => {
      const refusal = await refusalOf(await refusedWith(new GatewayError(code, "For the caller.")));
      expect(refusal).toEqual({ status, type, code: wireCode, message: "For the caller." });
    });

    it.each(STRANGERS)("a stranger: %s", async (_name, thrown, status, code) => {
      const response = await refusedWith(thrown);
      const id = requestIdOf(response);
      const refusal = await refusalOf(response);
      expect(refusal).toEqual({ status, type: "server_error", code, message: expect.any(String) });
      expect(refusal.message).not.toContain("10.0.0.7");
      // A timeout too tells only the host which step took too long.
      expect(stage().failures.some(({ requestId }) => requestId === id)).toBe(true);
    });

    it("tells how long to wait", async () => {
      const thrown = new GatewayError("rate_limited", "Later.", { retryAfterMs: 1_500 });
      const { headers } = await refusedWith(thrown);
      expect(headers.get("retry-after")).toBe("2");
      expect(headers.get("retry-after-ms")).toBe("1500");
      expect(headers.has("x-should-retry")).toBe(false);
    });

    it("that is thrown before the first event can be asked for", async () => {
      const { backend, send } = stage();
      backend.play = () => {
        throw new GatewayError("backend_unavailable", "Closed.");
      };
      expect(await refusalOf(await send(body))).toMatchObject({ status: 503, message: "Closed." });
    });

    it("keeps the caller's key out of what the host is told", async () => {
      await refusedWith(new Error(`upstream said ${KEY}`));
      const bare = KEY.slice("sk-".length);
      expect(stage().failures.at(-1)?.text).toContain("upstream said");
      expect(stage().failures.at(-1)?.text).not.toContain(bare);
    });
  });

  it("in the middle of a complete answer has its true status", async () => {
    const { backend, send } = stage();
    backend.play = fails(new GatewayError("backend_unavailable", "Gone."), "Hel");
    expect(await refusalOf(await send(having({})))).toMatchObject({ status: 503, code: "backend_unavailable" });
  });
}
