/** What a backend's failure looks like: its true status before the answer has begun, an error and a clean end after. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/index.ts";
import { ask, type Driver, type Form, type Pieces, streamsOf } from "../drivers/driver.ts";
import { KEY, type Mount, openStage, type Stage } from "../hosts/stage.ts";

const fails = (error: unknown, ...before: readonly string[]): Pieces =>
  async function* () {
    yield* before;
    throw error;
  };

export function failuresSuite(mount: Mount, driver: Driver): void {
  const open = (pieces: Pieces): Promise<Stage> => openStage(mount, driver.plays(pieces));

  describe.each(driver.forms)("of an answer that was to be $name", (form) => {
    it.each(["invalid_request", "rate_limited", "backend_failed", "backend_unavailable", "deadline_exceeded"] as const)(
      "has the status of %s",
      async (code) => {
        await using stage = await open(fails(new GatewayError(code, "For the caller.")));
        const { status, error } = driver.refusal(code);
        const told = await driver.refusalOf(await ask(stage, driver, form));
        expect(told).toEqual({ status, error: { ...error, message: "For the caller." } });
      },
    );

    it("of a stranger keeps what it says to itself, but tells the host", async () => {
      await using stage = await open(fails(new Error(`connect to 10.0.0.7 with ${KEY}`)));
      const told = await driver.refusalOf(await ask(stage, driver, form));
      expect(told).toEqual(driver.refusal("backend_failed"));
      expect(JSON.stringify(told)).not.toContain("10.0.0.7");
      expect(stage.failures.at(-1)?.text).toContain("10.0.0.7");
      expect(stage.failures.at(-1)?.text).not.toContain(KEY);
    });

    it("tells how long to wait", async () => {
      await using stage = await open(fails(new GatewayError("rate_limited", "Later.", { retryAfterMs: 1_500 })));
      const { status, headers } = await ask(stage, driver, form);
      expect(status).toBe(driver.refusal("rate_limited").status);
      expect(headers.get("retry-after")).toBe("2");
      expect(headers.get("retry-after-ms")).toBe("1500");
      expect(headers.has("x-should-retry")).toBe(false);
    });
  });

  describe.each(streamsOf(driver))("in the middle of an answer that is $name", (form: Form) => {
    it.each([
      ["one that says what it is", new GatewayError("backend_unavailable", "Gone."), "backend_unavailable"],
      ["a stranger's", new Error("connect to 10.0.0.7"), "backend_failed"],
    ] as const)("is told, and then a clean end: %s", async (_name, thrown, code) => {
      await using stage = await open(fails(thrown, "One"));
      const reader = form.read?.(await ask(stage, driver, form));
      expect(await reader?.next()).toEqual({ type: "piece", text: "One" });
      const told = await reader?.next();
      expect(told).toEqual({ type: "error", error: driver.refusal(code).error });
      expect(JSON.stringify(told)).not.toContain("10.0.0.7");
      expect(await reader?.next()).toBeUndefined();
    });
  });
}
