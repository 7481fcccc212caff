/** Errors of a messages request before its fields are read. What is true of every format stands in `test/suites/transport.ts`. */

import { expect, it } from "vitest";
import type { HostRequestInit } from "../../hosts/host.ts";
import { headersWith, type Mount, sharedStage } from "../../hosts/stage.ts";
import { MINIMAL } from "./bodies.ts";
import { refusalOf } from "./refusal.ts";

const nested = (levels: number): string =>
  `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"x":${"[".repeat(levels)}${"]".repeat(levels)}}`;

const sending = (body: string, headers: Readonly<Record<string, string>> = {}): HostRequestInit => ({
  method: "POST",
  headers: headersWith(headers),
  body,
});

const REFUSED: readonly (readonly [name: string, body: string, status: number, code: string])[] = [
  ["a body of white space", " \r\n", 400, "malformed_body"],
  ["two bodies in one", "{}{}", 400, "malformed_body"],
  ["single quotes", "{'model':'m'}", 400, "malformed_body"],
  ["a body that is nested too deep", nested(500), 400, "malformed_body"],
  ["an array", "[]", 400, "invalid_request"],
  ["null", "null", 400, "invalid_request"],
  ["a text", '"Hi"', 400, "invalid_request"],
  ["a number", "1", 400, "invalid_request"],
  ["a boolean", "true", 400, "invalid_request"],
];

export function transportSuite(mount: Mount): void {
  const stage = sharedStage(mount);
  const refused = async (init: HostRequestInit) => refusalOf(await stage().request("/v1/messages", init));

  it.each(REFUSED)("refuses %s", async (_name, body, status, code) => {
    const refusal = { status, type: "invalid_request_error", code, message: expect.any(String) };
    expect(await refused(sending(body))).toEqual(refusal);
  });

  it("does not quote a body that it cannot read", async () => {
    expect((await refused(sending("sk-secret-in-the-body"))).message).not.toContain("secret");
  });

  it.each([
    ["a type that only begins like JSON", { "content-type": "application/jsonlines" }],
    ["brotli", { "content-encoding": "br" }],
  ])("refuses a body of %s", async (_name, headers) => {
    const init = sending(JSON.stringify(MINIMAL), headers);
    expect(await refused(init)).toMatchObject({ status: 415, code: "unsupported_media_type" });
  });

  it("takes JSON with a suffix", async () => {
    const init = sending(JSON.stringify(MINIMAL), { "content-type": "application/vnd.api+json" });
    expect((await stage().request("/v1/messages", init)).status).toBe(200);
  });
}
