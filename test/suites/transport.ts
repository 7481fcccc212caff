/** What can be wrong with a request before its fields are looked at, how its bytes may come, and the id of every answer. */

import { describe, expect, it } from "vitest";
import { ask, type Asking, asking, type Driver, headersOf, type Refusal, type Sent } from "../drivers/driver.ts";
import { rawClient } from "../drivers/raw-client.ts";
import type { HostRequestInit } from "../hosts/host.ts";
import { KEY, type Mount, sharedStage } from "../hosts/stage.ts";
import { streamOf } from "../http/byte-stream.ts";

const MAX_BYTES = 2_000;

type Headers = NonNullable<Asking["headers"]>;

const WRONG_TYPE: readonly (readonly [name: string, headers: Headers])[] = [
  ["text", { "content-type": "text/plain" }],
  ["a form", { "content-type": "application/x-www-form-urlencoded" }],
  ["no type", { "content-type": "" }],
  ["gzip", { "content-encoding": "gzip" }],
];

const RIGHT_TYPE: readonly (readonly [name: string, headers: Headers])[] = [
  ["a charset", { "content-type": "application/json; charset=utf-8" }],
  ["capitals", { "content-type": "Application/JSON" }],
  ["identity encoding", { "content-encoding": "identity" }],
  ["an empty list of encodings", { "content-encoding": "" }],
];

/** The id under which both kinds of client look for it. */
function requestIdOf({ headers }: Response): string | null {
  expect(headers.get("request-id")).toMatch(/^req_[0-9a-f]{32}$/);
  expect(headers.get("x-request-id")).toBe(headers.get("request-id"));
  return headers.get("request-id");
}

export function transportSuite(mount: Mount, driver: Driver): void {
  const stage = sharedStage(mount, { limits: { maxJsonBytes: MAX_BYTES } });
  const [complete] = driver.forms;
  const body = asking(driver, complete).init.body;

  const sending = (text: string, headers?: Headers): Sent["init"] => ({
    method: "POST",
    headers: headersOf(driver, KEY, headers),
    body: text,
  });

  /** A body of no declared length, in pieces. */
  const chunked = (...pieces: readonly string[]): HostRequestInit => ({
    ...sending(""),
    duplex: "half",
    body: streamOf(pieces.map((piece) => new TextEncoder().encode(piece))),
  });

  /** A request whose JSON is as long as it is told to be, in bytes. */
  function ofBytes(length: number, filling = "x"): string {
    const bare = asking(driver, complete, { more: { pad: "" } }).init.body.length;
    return asking(driver, complete, { more: { pad: filling.repeat(length - bare) } }).init.body;
  }

  const MALFORMED: readonly (readonly [name: string, init: () => HostRequestInit])[] = [
    ["an empty body", () => sending("")],
    ["an empty body in chunks", () => chunked()],
    ["a body that is no JSON", () => sending("model=m")],
    ["a body that breaks off", () => sending(body.slice(0, -1))],
    ["a body that breaks off in chunks", () => chunked(body.slice(0, 20), body.slice(20, -1))],
  ];

  describe.each(driver.paths)("to %s", (path) => {
    const refused = async (init: HostRequestInit): Promise<Refusal> =>
      driver.refusalOf(await stage().request(path, init));

    it.each(MALFORMED)("refuses %s", async (_name, init) => {
      expect(await refused(init())).toEqual(driver.refusal("malformed_body"));
    });

    it.each(WRONG_TYPE)("refuses a body of %s", async (_name, headers) => {
      expect(await refused(sending(body, headers))).toEqual(driver.refusal("unsupported_media_type"));
    });

    it.each(RIGHT_TYPE)("takes JSON with %s", async (_name, headers) => {
      const response = await stage().request(path, sending(body, headers));
      await response.text();
      expect(response.status).toBe(200);
    });

    it("takes a body as large as the limit, of declared length and in chunks", async () => {
      const large = ofBytes(MAX_BYTES);
      for (const init of [sending(large), chunked(large.slice(0, 700), large.slice(700))]) {
        const response = await stage().request(path, init);
        await response.text();
        expect(response.status).toBe(200);
      }
    });

    it("refuses one byte more, of declared length and in chunks", async () => {
      const larger = ofBytes(MAX_BYTES + 1);
      expect(await refused(sending(larger))).toEqual(driver.refusal("body_too_large"));
      expect(await refused(chunked(larger.slice(0, 700), larger.slice(700)))).toEqual(driver.refusal("body_too_large"));
    });

    it("counts bytes, not characters", async () => {
      const text = ofBytes(MAX_BYTES, "€");
      expect(await refused(sending(text))).toEqual(driver.refusal("body_too_large"));
      expect(await refused(chunked(text))).toEqual(driver.refusal("body_too_large"));
    });

    it("refuses a declared length without waiting for the body", async () => {
      // The first byte makes the client send its headers; the second never comes.
      const first = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
      const init = sending("", { "content-length": "999999999999" });
      expect(await refused({ ...init, body: first, duplex: "half" })).toEqual(driver.refusal("body_too_large"));
    });
  });

  describe.each([...driver.paths, ...driver.otherPaths])("by another method to %s", (path) => {
    it.each(["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])("refuses %s and names POST", async (method) => {
      const headers = headersOf(driver, KEY, { "content-type": undefined });
      const response = await stage().request(path, { method, headers });
      expect(response.headers.get("allow")).toBe("POST");
      expect(await driver.refusalOf(response)).toEqual(driver.refusal("method_not_allowed"));
    });

    it("refuses HEAD without a body", async () => {
      const response = await stage().request(path, { method: "HEAD" });
      requestIdOf(response);
      expect(response.status).toBe(405);
      expect(await response.text()).toBe("");
    });
  });

  it("answers a refused client that reads only once it has sent all of its body", async () => {
    const client = rawClient(stage(), { path: driver.paths[0] ?? "", init: sending(ofBytes(1_000_000)) }, false);
    await client.sent;
    client.read();
    await expect(client.until(undefined)).resolves.toBeUndefined();
  });

  it("takes a body in chunks that split a character", async () => {
    const prompt = "Grüße, 世界 𝄞";
    const { path, init } = asking(driver, complete, { prompt });
    const bytes = streamOf(Array.from(new TextEncoder().encode(init.body), (byte) => Uint8Array.of(byte)));
    const response = await stage().request(path, { ...init, body: bytes, duplex: "half" });
    expect(response.status).toBe(200);
    await response.text();
    expect(driver.promptOf(stage().backend)).toBe(prompt);
  });

  describe("request id", () => {
    it("is on every answer, and another one each time", async () => {
      const responses = await Promise.all([
        ...driver.forms.flatMap((form) => [ask(stage(), driver, form), ask(stage(), driver, form)]),
        ask(stage(), driver, complete, {}, { body: "{}" }),
      ]);
      for (const response of responses) await response.text();
      expect(new Set(responses.map(requestIdOf)).size).toBe(responses.length);
    });

    it("is not on what is not the gateway's own, unless the gateway itself says so", async () => {
      const answer = await stage().request(driver.notOwned[0] ?? "", sending(body));
      const isOfGateway = /There is no route|does not offer/.test(await answer.text());
      const ids = ["request-id", "x-request-id"].map((name) => answer.headers.get(name)?.slice(0, 4));
      expect(ids).toEqual(isOfGateway ? ["req_", "req_"] : [undefined, undefined]);
    });

    it("is not taken from the caller", async () => {
      const headers = { "request-id": "mine", "x-request-id": "mine" };
      expect(requestIdOf(await ask(stage(), driver, complete, { headers }))).not.toBe("mine");
    });
  });
}
