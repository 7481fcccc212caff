/** The gateway as an h3 app mounts it, by types that are the package's own. */

import { type CorsOptions as H3CorsOptions, H3, withBase } from "h3";
import { describe, expect, expectTypeOf, it } from "vitest";
import { type CorsOptions, createGateway, memoryQuotaStore } from "../src/index.ts";
import { drawn } from "./hosts/stage.ts";

const backend = {
  async *chat() {
    yield "Hello from another app.";
  },
};

it("mounts in another h3 app", async () => {
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000 }]) });
  const host = new H3().mount("/ai", gateway.app).get("/", () => "The host's own.");
  const headers = { "x-api-key": "sk-1", "compat-version": "2023-06-01", "content-type": "application/json" };
  const body = JSON.stringify({ model: "any", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] });
  const answer = await host.request("/ai/v1/messages", { method: "POST", headers, body });
  expect(await answer.json()).toMatchObject({ content: [{ text: "Hello from another app." }] });
  expect(await (await host.request("/")).text()).toBe("The host's own.");
});

it("answers alone, and behind a handler of another h3 app", async () => {
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
  const host = new H3().all("/ai/**", withBase("/ai", gateway.app as H3));
  for (const [app, prefix] of [
    [gateway.app, ""],
    [host, "/ai"],
  ] as const) {
    const asked = async (path: string): Promise<unknown> => {
      const request = new Request(`http://host${prefix}${path}`, { headers: { authorization: "Bearer sk-1" } });
      const answer = await app.fetch(request);
      return [answer.status, await answer.text()];
    };
    expect(await asked("/v1/models/?limit=1")).toEqual([200, expect.stringContaining('"object":"list"')]);
    expect(await asked("/v1/models/none")).toEqual([404, expect.stringContaining("no model")]);
  }
  // The default of h3 repeats the address.
  const unknown = await gateway.app.fetch(new Request("http://host/v2/models?key=sk-1"));
  expect([unknown.status, await unknown.text()]).toEqual([404, expect.not.stringContaining("sk-1")]);
});

const ENDPOINT = "/v1/messages";

/** The id of the first model that is listed. */
async function firstModel(host: H3, path: string): Promise<unknown> {
  const answer = await host.request(path, { headers: { "x-api-key": "sk-1", "anthropic-version": "2023-06-01" } });
  return answer.status === 200 ? ((await answer.json()) as { id?: unknown }).id : answer.status;
}

describe("another h3 app mounts it where a route's own path occurs already", () => {
  const models = [{ id: "v1/models/one" }, { id: "two" }];
  const gateway = createGateway({
    backend: { ...backend, models: () => models },
    quotas: memoryQuotaStore([{ apiKey: "sk-1" }]),
  });

  it.each([
    ["/v1/messages"],
    ["/v1/messages-proxy"],
    ["/v1/models/x"],
    ["/v1/models"],
    ["/teams/v1/messages/v1/messages"],
    ["/:team?/v1/messages"],
  ])("%s", async (base) => {
    const host = new H3().mount(base, gateway.app);
    const place = base.replace(":team?", "red");
    // A caller without a key is refused by the gateway itself.
    expect((await host.request(`${place}${ENDPOINT}`, { method: "POST" })).status).toBe(401);
    expect((await host.request(`${place}${ENDPOINT}/`, { method: "POST" })).status).toBe(401);
    expect(await firstModel(host, `${place}/v1/models/two`)).toBe("two");
    expect(await firstModel(host, `${place}/v1/models/two/`)).toBe("two");
    expect(await firstModel(host, `${place}/v1/models/v1%2Fmodels%2Fone`)).toBe("v1/models/one");
    expect(await firstModel(host, `${place}/v1/models/v1/models/one`)).toBe("v1/models/one");
    // An escape that a path does not need has the length of three characters.
    expect(await firstModel(host, `${place.replace("v1", "%761")}/v1/models/two`)).toBe("two");
  });
});

const draws = async function* () {
  yield drawn(0);
};

it("tells the address of a picture as it is under the mount", async () => {
  const gateway = createGateway({
    backend: { image: draws },
    quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000_000 }]),
  });
  const path = "/v1/images/generations";
  const headers = { authorization: "Bearer sk-1", "content-type": "application/json" };
  const body = JSON.stringify({ prompt: "A dot.", model: "dall-e-2" });
  const host = new H3().mount(path, gateway.app);
  const answer = await host.request(`${path}${path}`, { method: "POST", headers, body });
  const { data } = (await answer.json()) as { data?: { url: string }[] };
  expect(data?.[0]?.url).toMatch(/\/v1\/images\/generations\/v1\/images\/files\/[^/]+$/);
  expect((await host.request(data?.[0]?.url ?? "")).status).toBe(200);
});

it("takes the rules for CORS that h3 takes, and no others", () => {
  expectTypeOf<Partial<CorsOptions>>().toEqualTypeOf<H3CorsOptions>();
});
