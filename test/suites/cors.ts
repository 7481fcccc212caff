/** What a browser's page is told: whether it may call, before it calls and with every answer. */

import { expect, it } from "vitest";
import { ask, asking, type Driver } from "../drivers/driver.ts";
import { type Mount, sharedStage } from "../hosts/stage.ts";

const ORIGIN = "https://page.test";

const preflight = (origin: string): RequestInit => ({
  method: "OPTIONS",
  headers: {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "x-api-key,compat-version",
  },
});

const allowed = ({ headers }: Response): (string | null)[] =>
  ["access-control-allow-origin", "vary"].map((name) => headers.get(name));

export function corsSuite(mount: Mount, driver: Driver): void {
  const routes = [...driver.paths, ...driver.otherPaths, "/api/usage/token"];
  const [complete] = driver.forms;
  const stage = sharedStage(mount, { cors: { origin: [ORIGIN], exposeHeaders: ["request-id"], maxAge: "600" } });
  const silent = sharedStage(mount);

  it.each(routes)("answers the preflight of %s", async (path) => {
    const response = await stage().request(path, preflight(ORIGIN));
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    expect(response.headers.get("access-control-allow-methods")).toBe("*");
    expect(response.headers.get("access-control-allow-headers")).toBe("x-api-key,compat-version");
    expect(response.headers.get("access-control-max-age")).toBe("600");
    expect(await response.text()).toBe("");
  });

  it.each(routes)("does not let another origin call %s", async (path) => {
    const response = await stage().request(path, preflight("https://elsewhere.test"));
    expect(response.headers.has("access-control-allow-origin")).toBe(false);
  });

  it.each(routes)("lets a page read what is wrong with its call of %s", async (path) => {
    const response = await stage().request(path, { method: "PUT", headers: { origin: ORIGIN } });
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(allowed(response)).toEqual([ORIGIN, "origin"]);
    expect(response.headers.get("access-control-expose-headers")).toBe("request-id");
    expect(response.headers.get("content-type")).toBe("application/json");
    await response.text();
  });

  it.each(driver.forms)("lets a page read its answer: $name", async (form) => {
    const response = await ask(stage(), driver, form, { headers: { origin: ORIGIN } });
    expect(response.status).toBe(200);
    expect(allowed(response)).toEqual([ORIGIN, "origin"]);
    await response.text();
  });

  it("says nothing where it is off", async () => {
    const response = await silent().request(complete.path(driver.models.one), preflight(ORIGIN));
    expect(response.status).toBe(405);
    expect(response.headers.has("access-control-allow-origin")).toBe(false);
    const answer = await ask(silent(), driver, complete, { headers: { origin: ORIGIN } });
    expect(answer.headers.has("access-control-allow-origin")).toBe(false);
  });

  it("leaves the host's own routes to the host, and lets a page read that there is no route where no host answers", async () => {
    const response = await stage().request("/v1/other", asking(driver, complete, { headers: { origin: ORIGIN } }).init);
    expect(response.headers.has("access-control-allow-origin")).toBe(!mount.host.ownRoutes);
    await response.text();
  });
}
