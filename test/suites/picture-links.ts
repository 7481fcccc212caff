/** A picture at its own address: whole, in part, unchanged, for 60 minutes to the millisecond, then gone (spec 3, 8). */

import { describe, expect, it } from "vitest";
import { memoryQuotaStore } from "../../src/index.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import { anyText, refusalOf } from "../formats/images/refusal.ts";
import { as, generate, GENERATIONS, generating, jsonOf } from "../formats/images/requests.ts";
import { requestIdOf } from "../formats/messages/refusal.ts";
import { drawn, KEY, type Mount, openStage, type Stage, type StageOptions } from "../hosts/stage.ts";
import { UNASKED } from "../pipeline/bench.ts";

const HOUR_MS = 3_600_000;
const TEXT = "picture 0";
const { bytes: BYTES } = drawn(0);

interface Gallery extends Stage {
  readonly clock: ManualClock;
  /** Where the picture is. */
  readonly url: URL;
  /** Asks for the picture. */
  readonly look: (headers?: Record<string, string>, method?: string) => Promise<Response>;
}

/** A stage on which a picture was drawn. */
async function openGallery(mount: Mount, options: StageOptions = {}): Promise<Gallery> {
  const clock = manualClock();
  const stage = await openStage(mount, { clock, ...options });
  const { data } = (await (await generate(stage, generating())).json()) as { data: { url: string }[] };
  const url = new URL(data[0]?.url ?? "");
  const look = (headers: Record<string, string> = {}, method = "GET"): Promise<Response> =>
    stage.host.request(url.pathname, { method, headers });
  return { ...stage, clock, url, look };
}

const notThere = (status: number, code: string) => ({
  status,
  type: "invalid_request_error",
  code,
  param: null,
  message: anyText,
});

export function pictureLinksSuite(mount: Mount): void {
  const { host, prefix } = mount;

  it("is an absolute one, under the mount's prefix, at the address that the request came to", async () => {
    await using gallery = await openGallery(mount);
    expect(gallery.url.origin).toBe(new URL(gallery.host.url ?? "http://gateway.test").origin);
    expect(gallery.url.pathname.startsWith(`${prefix}/v1/images/files/`)).toBe(true);
    expect(gallery.url.search).toBe("");
  });

  it("serves the picture to whoever has it, without a key", async () => {
    await using gallery = await openGallery(mount);
    const response = await gallery.look();
    requestIdOf(response);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "image/png",
      "content-length": String(BYTES.length),
      "accept-ranges": "bytes",
      "cache-control": "private, max-age=3600",
      expires: new Date(gallery.clock.now() + HOUR_MS).toUTCString(),
      "x-content-type-options": "nosniff",
    });
    expect(response.headers.get("etag")).toMatch(/^"[\w-]+"$/);
    expect(await response.bytes()).toEqual(BYTES);
  });

  it("has the content type of what was drawn", async () => {
    for (const mediaType of ["image/jpeg", "image/webp"] as const) {
      await using gallery = await openGallery(mount, {
        async *imagePlay() {
          yield { ...drawn(0), mediaType };
        },
      });
      expect((await gallery.look()).headers.get("content-type")).toBe(mediaType);
    }
  });

  it("answers HEAD without a body", async () => {
    await using gallery = await openGallery(mount);
    const response = await gallery.look({}, "HEAD");
    requestIdOf(response);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-length")).toBe(String(BYTES.length));
    expect(response.headers.get("content-type")).toBe("image/png");
    expect(await response.text()).toBe("");
  });

  it.each(["POST", "PUT", "DELETE"])("refuses %s", async (method) => {
    await using gallery = await openGallery(mount);
    const response = await gallery.look(as(KEY), method);
    expect(response.headers.get("allow")).toBe("GET");
    expect(await refusalOf(response)).toEqual(notThere(405, "method_not_allowed"));
  });

  describe("in part", () => {
    it.each([
      ["bytes=0-0", "p", "0-0"],
      ["bytes=0-8", TEXT, "0-8"],
      ["bytes=0-", TEXT, "0-8"],
      ["bytes=3-5", "tur", "3-5"],
      ["bytes=8-", "0", "8-8"],
      ["bytes=-1", "0", "8-8"],
      ["bytes=-9", TEXT, "0-8"],
      ["bytes=-100", TEXT, "0-8"],
      ["bytes=5-100", "re 0", "5-8"],
    ])("serves %s", async (range, text, served) => {
      await using gallery = await openGallery(mount);
      const response = await gallery.look({ range });
      expect(response.status).toBe(206);
      expect(response.headers.get("content-range")).toBe(`bytes ${served}/${BYTES.length}`);
      expect(response.headers.get("content-length")).toBe(String(text.length));
      expect(response.headers.get("content-type")).toBe("image/png");
      expect(await response.text()).toBe(text);
    });

    it.each(["lines=0-1", "lines=9-", "bytes", "bytes=x-y", "bytes=0-1,4-5"])(
      "serves the whole for %s",
      async (range) => {
        await using gallery = await openGallery(mount);
        const response = await gallery.look({ range });
        expect([response.status, await response.text()]).toEqual([200, TEXT]);
      },
    );

    it.each(["bytes=9-", "bytes=100-200"])("refuses %s, which lies outside", async (range) => {
      await using gallery = await openGallery(mount);
      const response = await gallery.look({ range });
      expect(response.headers.get("content-range")).toBe(`bytes */${BYTES.length}`);
      expect(await refusalOf(response)).toEqual(notThere(416, "range_not_satisfiable"));
    });

    it("answers HEAD as it would GET without a range", async () => {
      await using gallery = await openGallery(mount);
      const response = await gallery.look({ range: "bytes=3-5" }, "HEAD");
      expect([200, 206]).toContain(response.status);
      expect(await response.text()).toBe("");
    });

    it("goes on with the same picture, and begins anew with another", async () => {
      await using gallery = await openGallery(mount);
      const etag = (await gallery.look()).headers.get("etag") ?? "";
      expect((await gallery.look({ range: "bytes=3-5", "if-range": etag })).status).toBe(206);
      const other = await gallery.look({ range: "bytes=3-5", "if-range": '"other"' });
      expect([other.status, await other.text()]).toEqual([200, TEXT]);
    });
  });

  it("is not served again to whoever has it", async () => {
    await using gallery = await openGallery(mount);
    const etag = (await gallery.look()).headers.get("etag") ?? "";
    for (const tags of [etag, `"other", ${etag}`, `W/${etag}`, "*"]) {
      const response = await gallery.look({ "if-none-match": tags });
      requestIdOf(response);
      expect([tags, response.status, await response.text()]).toEqual([tags, 304, ""]);
      expect(response.headers.get("etag")).toBe(etag);
      expect(response.headers.get("cache-control")).toBe("private, max-age=3600");
    }
    expect((await gallery.look({ "if-none-match": '"other"' })).status).toBe(200);
  });

  describe("in time", () => {
    it("lives for 60 minutes, is gone, and then unknown", async () => {
      await using gallery = await openGallery(mount);
      await gallery.clock.advance(HOUR_MS - 1_000);
      expect((await gallery.look()).headers.get("cache-control")).toBe("private, max-age=1");
      await gallery.clock.advance(999);
      const last = await gallery.look();
      expect([last.status, last.headers.get("cache-control")]).toEqual([200, "private, max-age=0"]);
      await gallery.clock.advance(1);
      for (const method of ["GET", "HEAD"]) expect((await gallery.look({}, method)).status).toBe(410);
      const gone = await gallery.look({ range: "bytes=0-1", "if-none-match": "*" });
      expect(gone.headers.get("cache-control")).toBe("no-store");
      expect(await refusalOf(gone)).toEqual(notThere(410, "image_expired"));
      await gallery.clock.advance(HOUR_MS - 1);
      expect((await gallery.look()).status).toBe(410);
      await gallery.clock.advance(1);
      expect(await refusalOf(await gallery.look())).toEqual(notThere(404, "image_not_found"));
    });
  });

  it.each(["x", "A".repeat(32), "A".repeat(129), "..", "%2e%2e%2fkeys", "%00", "%", "a%2Fb", "constructor"])(
    "that was never given is unknown: %s",
    async (id) => {
      await using gallery = await openGallery(mount);
      const response = await gallery.request(`/v1/images/files/${id}`);
      // What the address is by then is its host's, where dots have taken it elsewhere.
      if (id === ".." && response.status !== 404) return;
      expect(response.status).toBe(404);
    },
  );

  it.each(["https://example.com/ai", "https://example.com/ai/"])("begins as its host says: %s", async (publicUrl) => {
    await using gallery = await openGallery(mount, { images: { publicUrl } });
    expect(gallery.url.href).toMatch(/^https:\/\/example\.com\/ai\/v1\/images\/files\/[\w-]+$/);
    const id = gallery.url.pathname.split("/").at(-1) ?? "";
    expect(await (await gallery.request(`/v1/images/files/${id}`)).text()).toBe(TEXT);
  });

  it("is kept where its host says", async () => {
    const kept = new Map<string, { expiresAt: number }>();
    const clock = manualClock();
    await using stage = await openStage(mount, {
      clock,
      images: {
        store: {
          put: async (image) => void kept.set(image.id, image),
          get: async () => undefined,
        },
      },
    });
    await (await generate(stage, generating({ n: 2 }))).text();
    expect(Array.from(kept.values(), ({ expiresAt }) => expiresAt)).toEqual(
      [HOUR_MS, HOUR_MS].map((ms) => ms + clock.now()),
    );
    await (await generate(stage, generating({ response_format: "b64_json" }))).text();
    expect(kept.size).toBe(2);
  });

  it("that cannot be kept fails the call, and costs nothing", async () => {
    await using stage = await openStage(mount, {
      keys: [{ apiKey: "sk-metered", granted: 10_000 }],
      images: { store: { put: async () => Promise.reject(new Error("disk full")), get: async () => undefined } },
    });
    const refusal = await refusalOf(await generate(stage, generating(), as("sk-metered")));
    expect(refusal).toMatchObject({ status: 503, param: null });
    expect(refusal.message).not.toContain("disk");
    expect(stage.quotas.report("sk-metered")).toMatchObject({ used: 0, liveHolds: 0 });
    expect(stage.failures).toHaveLength(1);
  });

  it("is not there where the gateway has no images", async () => {
    const running = await host.start({ backend: UNASKED, quotas: memoryQuotaStore([{ apiKey: KEY }]) }, prefix);
    const response = await running.request(`${prefix}${GENERATIONS}`, jsonOf(generating()));
    expect(response.status).toBe(host.ownRoutes ? 200 : 404);
    expect(response.headers.get("request-id")).toBeNull();
    await running.stop();
  });
}
