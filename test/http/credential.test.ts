/** Holds the reading of credentials to its word. */

import { describe, expect, it } from "vitest";
import { bearerToken, redact, withoutPrefix } from "../../src/http/credential.ts";

const bearer = (authorization: string): string | undefined => bearerToken(new Headers({ authorization }));

describe("bearerToken", () => {
  it.each([
    ["Bearer sk-1", "sk-1"],
    ["bearer sk-1", "sk-1"],
    ["BEARER   sk-1", "sk-1"],
    ["  Bearer sk-1  ", "sk-1"],
    ["Bearer a b", "a b"],
  ])("of %j is %j", (header, token) => {
    expect(bearer(header)).toBe(token);
  });

  it("of no header is undefined", () => {
    expect(bearerToken(new Headers())).toBeUndefined();
  });

  it.each(["", "Bearer", "Bearer ", "Bearersk-1", "Basic sk-1", "sk-1", "Token Bearer sk-1"])(
    "refuses %j",
    (header) => {
      expect(() => bearer(header)).toThrow(expect.objectContaining({ code: "malformed_credential" }));
    },
  );
});

describe("withoutPrefix", () => {
  it.each([
    ["sk-1", "1"],
    ["1", "1"],
    ["sk-sk-1", "sk-1"],
    ["SK-1", "SK-1"],
    ["sk-", ""],
  ])("of %j is %j", (key, bare) => {
    expect(withoutPrefix(key)).toBe(bare);
  });
});

describe("redact", () => {
  it("blots a secret out wherever it stands", () => {
    expect(redact("a=s3cret&b=s3cret", "s3cret")).toBe("a=[redacted]&b=[redacted]");
  });

  it.each([undefined, ""])("leaves a text alone where the secret is %j", (secret) => {
    expect(redact("abc", secret)).toBe("abc");
  });
});
