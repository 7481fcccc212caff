/** Holds the reading of credentials to its word. */

import { describe, expect, it } from "vitest";
import { bearerToken, redact, withoutPrefix } from "../../src/http/request.ts";

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

  it.each(["", "  "])("of an empty header, %j, is undefined", (header) => {
    expect(bearer(header)).toBeUndefined();
  });

  it.each(["Bearer", "Bearer ", "Bearersk-1", "Basic sk-1", "sk-1", "Token Bearer sk-1"])("refuses %j", (header) => {
    const message = "The header Authorization must begin with Bearer, a space, and the API key.";
    expect(() => bearer(header)).toThrow(expect.objectContaining({ code: "malformed_credential", message }));
  });
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
  it("blots a key out wherever it stands, with and without sk-", () => {
    expect(redact("a=s3cret-key&b=s3cret-key, sk-s3cret-key", "s3cret-key")).toBe(
      "a=[redacted]&b=[redacted], [redacted]",
    );
  });

  it("knows it as it was sent, too", () => {
    expect(redact("sk-s3cret-key and s3cret-key", "sk-s3cret-key")).toBe("[redacted] and [redacted]");
  });

  it.each([
    ["JSON", JSON.stringify({ key: 'sk-a"b\\c d/é+f' }), '{"key":"[redacted]"}'],
    ["a URL", `https://up.test/?key=${encodeURIComponent('a"b\\c d/é+f')}&a=1`, "https://up.test/?key=[redacted]&a=1"],
    ["PHP", '{"key":"sk-a\\"b\\\\c d\\/\\u00e9+f"}', '{"key":"[redacted]"}'],
    [".NET", '{"key":"a\\u0022b\\\\c d/\\u00E9\\u002Bf"}', '{"key":"[redacted]"}'],
  ])("knows it as %s writes it", (_name, text, redacted) => {
    expect(redact(text, 'a"b\\c d/é+f')).toBe(redacted);
  });

  it("leaves words alone of which a short key is a part", () => {
    expect(redact("The demo server knows sk-demo.", "demo")).toBe("The demo server knows [redacted].");
  });

  const KEY = "sk-Qx7RtB29vLmZ4KpW8sYd";

  it.each([
    ["in lower case", `key: ${KEY.toLowerCase()}!`, "key: [redacted]!"],
    ["in upper case", `key: ${KEY.toUpperCase()}!`, "key: [redacted]!"],
    ["cut behind its beginning", `key: ${KEY.slice(0, 9)}… is wrong`, "key: [redacted]… is wrong"],
    ["cut before its end", `key: …${KEY.slice(-8).toUpperCase()} is wrong`, "key: …[redacted] is wrong"],
    ["twice, one behind the other", `${KEY}${KEY.slice(-9)}`, "[redacted]"],
    ["behind a character whose lower case is longer", `İİ ${KEY.toUpperCase()}`, "İİ [redacted]"],
    ["cut to less than eight characters", `key: ${KEY.slice(0, 7)}…`, `key: ${KEY.slice(0, 7)}…`],
  ])("knows it %s", (_how, text, redacted) => {
    expect(redact(text, KEY)).toBe(redacted);
  });

  it("leaves a word alone with which a key begins", () => {
    expect(redact("The upstream-9 is away.", "sk-upstream-0123456789abcdef")).toBe("The upstream-9 is away.");
    expect(redact("Not upstream-0123.", "sk-upstream-0123456789abcdef")).toBe("Not [redacted].");
  });

  it("takes a key that is no text", () => {
    expect(redact("key \uD800 and some", "\uD800 and some")).toBe("key [redacted]");
  });

  it.each([undefined, "", "sk-"])("leaves a text alone where the key is %j", (apiKey) => {
    expect(redact("abc sk- def", apiKey)).toBe("abc sk- def");
  });
});
