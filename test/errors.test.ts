/** Whatever is thrown becomes an error that every format can tell, and a description that ends. */

import { describe, expect, it } from "vitest";
import { describeError, GatewayError, toGatewayError } from "../src/errors.ts";

describe("describeError", () => {
  it("ends where a chain of causes leads back into itself", () => {
    const one = new Error("one");
    const other = new Error("other", { cause: one });
    one.cause = other;
    const text = describeError(one);
    expect(text.match(/Error: one/g)?.length).toBeLessThan(8);
    expect(text).toMatch(/\ncaused by …\nstack of Error:\n/);
    one.cause = one;
    expect(describeError(one)).toMatch(/\ncaused by …\nstack of Error:\n/);
  });

  it("ends where causes are made without end", () => {
    let made = 0;
    const endless = (): Error => Object.defineProperty(new Error(`number ${made++}`), "cause", { get: endless });
    expect(describeError(endless())).toMatch(/\ncaused by …\nstack of Error:\n/);
    expect(made).toBeLessThan(20);
  });

  it("says what it can where getters throw", () => {
    const broken = Object.defineProperties(new Error("broken"), {
      cause: {
        get: () => {
          throw new Error("cause");
        },
      },
    });
    expect(describeError(broken)).toContain("Error: broken");
    const hidden = Object.defineProperty(new Error("hidden"), "stack", {
      get: () => {
        throw new Error("stack");
      },
    });
    expect(describeError(hidden)).toBe("a value that cannot be shown");
  });

  it("leaves the stack to the cause of an error that the gateway makes of it", () => {
    for (const port of [undefined, "model-backend", "quota-store"] as const) {
      const [first, second] = describeError(toGatewayError(new Error("boom"), port)).split("\n");
      expect([first, second]).toEqual([expect.stringMatching(/^GatewayError: /), "caused by Error: boom"]);
      expect(toGatewayError("boom", port).stack).toMatch(/\n\s+at /);
    }
  });

  it.each([
    [null, "null, which is no Error"],
    ["a text", 'the string "a text", which is no Error'],
    ["a".repeat(2_000), `the string "${"a".repeat(999)}, which is no Error`],
    [Symbol("s"), "the symbol Symbol(s), which is no Error"],
    [{ status: 500 }, 'the object {"status":500}, which is no Error'],
    [Object.assign(Object.create(null), { self: 1n }), "a value that cannot be shown"],
  ])("says of %o what it is", (thrown, text) => {
    expect(describeError(thrown)).toBe(text);
  });

  it("tells each cause first, and then each stack", () => {
    const text = describeError(new GatewayError("internal", "outer", { cause: new Error("inner\nlines") }));
    expect(text).toMatch(
      /^GatewayError: outer\ncaused by Error: inner\nlines\nstack of GatewayError:\n {4}at [^]*\nstack of Error:\n {4}at /,
    );
  });
});

describe("toGatewayError", () => {
  it("lets a GatewayError be, but for a code that nobody knows", () => {
    const known = new GatewayError("busy", "Full.");
    expect(toGatewayError(known, "quota-store")).toBe(known);
    // Another version of the library may know more codes.
    const unknown = Object.assign(new GatewayError("busy", "secret"), { code: "weird" });
    expect(toGatewayError(unknown)).toMatchObject({ code: "internal", cause: unknown, port: undefined });
    expect(toGatewayError(unknown).message).not.toContain("secret");
  });

  it.each([
    ["rate_limit", 'there is no code "rate_limit". Did you mean "rate_limited"?'],
    ["weird", 'there is no code "weird". There are invalid_request, malformed_body,'],
    [undefined, "there is no code undefined. There are"],
  ])("says that there is no code %s", (code, words) => {
    const make = (): GatewayError => new GatewayError(code as "busy", "Full.");
    expect(make).toThrow(TypeError);
    expect(make).toThrow(words);
  });

  it.each([
    ["model-backend", "backend_failed"],
    ["quota-store", "store_unavailable"],
    ["image-store", "store_unavailable"],
    ["code-runner", "internal"],
  ] as const)("names the %s", (port, code) => {
    expect(toGatewayError(new Error("no"), port)).toMatchObject({ code, port });
  });
});
