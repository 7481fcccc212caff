/** What a browser's page is told: whether it may call, before it calls and with every answer. */

import { describe, expect, it } from "vitest";
import type { TestHost } from "../hosts/host.ts";
import { having, MINIMAL } from "./messages/bodies.ts";
import { headersWith, type Mount, post, sharedStage } from "./stage.ts";

const ORIGIN = "https://page.test";
const ROUTES = ["/v1/messages", "/v1/messages/count_tokens", "/api/usage/token"];

const preflight = (origin: string): RequestInit => ({
  method: "OPTIONS",
  headers: {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "x-api-key,compat-version",
  },
});

export function corsSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`cors at ${prefix || "the root"}`, () => {
      suite({ host, prefix });
    });
}

const allowed = ({ headers }: Response): (string | null)[] =>
  ["access-control-allow-origin", "vary"].map((name) => headers.get(name));

function suite(mount: Mount): void {
  const stage = sharedStage(mount, { cors: { origin: [ORIGIN], exposeHeaders: ["request-id"], maxAge: "600" } });
  const silent = sharedStage(mount);

  it.each(ROUTES)("answers the preflight of %s", async (path) => {
    const response = await stage().request(path, preflight(ORIGIN));
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    expect(response.headers.get("access-control-allow-methods")).toBe("*");
    expect(response.headers.get("access-control-allow-headers")).toBe("x-api-key,compat-version");
    expect(response.headers.get("access-control-max-age")).toBe("600");
    expect(await response.text()).toBe("");
  });

  it.each(ROUTES)("does not let another origin call %s", async (path) => {
    const response = await stage().request(path, preflight("https://elsewhere.test"));
    expect(response.headers.has("access-control-allow-origin")).toBe(false);
  });

  it.each(ROUTES)("lets a page read what is wrong with its call of %s", async (path) => {
    const response = await stage().request(path, { method: "PUT", headers: { origin: ORIGIN } });
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(allowed(response)).toEqual([ORIGIN, "origin"]);
    expect(response.headers.get("access-control-expose-headers")).toBe("request-id");
    expect(response.headers.get("content-type")).toBe("application/json");
    await response.text();
  });

  it.each([false, true])("lets a page read its answer, stream: %s", async (stream) => {
    const response = await stage().send(having({ stream }), { headers: headersWith({ origin: ORIGIN }) });
    expect(response.status).toBe(200);
    expect(allowed(response)).toEqual([ORIGIN, "origin"]);
    expect(await response.text()).toContain("Hello.");
  });

  it("says nothing where it is off", async () => {
    const response = await silent().request("/v1/messages", preflight(ORIGIN));
    expect(response.status).toBe(405);
    expect(response.headers.has("access-control-allow-origin")).toBe(false);
    const answer = await silent().send(MINIMAL, { headers: headersWith({ origin: ORIGIN }) });
    expect(answer.headers.has("access-control-allow-origin")).toBe(false);
  });

  it("leaves the host's own routes to the host", async () => {
    const response = await stage().request("/v1/other", post({}, { origin: ORIGIN }));
    expect(response.headers.has("access-control-allow-origin")).toBe(false);
  });
}
