/** The token usage endpoint on its host: its methods, its address, and a balance that counts live holds (spec 2.5). */

import { expect, it } from "vitest";
import type { ApiKeyOptions } from "../../src/index.ts";
import { headersWith, type Mount, openStage, sharedStage, type Stage } from "../hosts/stage.ts";

const PATH = "/api/usage/token";

const KEYS: readonly ApiKeyOptions[] = [{ apiKey: "sk-metered", name: "metered", granted: 1000, used: 250 }];

const METERED = {
  object: "token_usage",
  name: "metered",
  total_granted: 1000,
  total_used: 250,
  total_available: 750,
  unlimited_quota: false,
  model_limits: {},
  model_limits_enabled: false,
  expires_at: 0,
};

const ask = ({ request }: Stage, authorization: string): Promise<Response> =>
  request(PATH, { headers: { authorization } });

async function balanceOf(stage: Stage, authorization: string): Promise<object> {
  const body = (await (await ask(stage, authorization)).json()) as { data: object };
  return body.data;
}

/** What is true of every answer. */
function expectIds(response: Response): void {
  expect(response.headers.get("request-id")).toMatch(/^req_[0-9a-f]{32}$/);
  expect(response.headers.get("x-request-id")).toBe(response.headers.get("request-id"));
  expect(response.headers.get("content-type")).toBe("application/json");
}

export function tokenUsageSuite(mount: Mount): void {
  const stage = sharedStage(mount, { keys: KEYS });

  it("tells a key its quota", async () => {
    const response = await ask(stage(), "Bearer sk-metered");
    expect(response.status).toBe(200);
    expectIds(response);
    expect(await response.json()).toEqual({ code: true, message: "ok", data: METERED });
  });

  it("refuses a request without a key", async () => {
    const response = await stage().request(PATH);
    expect(response.status).toBe(401);
    expectIds(response);
    expect(await response.json()).toEqual({ success: false, message: "No Authorization header" });
  });

  it("answers with a slash at the end", async () => {
    const response = await stage().request(`${PATH}/`, { headers: { authorization: "Bearer sk-metered" } });
    expect(await response.json()).toEqual({ code: true, message: "ok", data: METERED });
  });

  it("answers with a query", async () => {
    const response = await stage().request(`${PATH}?t=1`, { headers: { authorization: "Bearer sk-metered" } });
    expect(await response.json()).toEqual({ code: true, message: "ok", data: METERED });
  });

  it("answers HEAD without a body", async () => {
    const init = { method: "HEAD", headers: { authorization: "Bearer sk-metered" } };
    const response = await stage().request(PATH, init);
    expect(response.status).toBe(200);
    expectIds(response);
    expect(await response.text()).toBe("");
    expect((await stage().request(PATH, { method: "HEAD" })).status).toBe(401);
  });

  it.each(["POST", "PUT", "DELETE"])("refuses %s and names GET", async (method) => {
    const response = await stage().request(PATH, { method, headers: { authorization: "Bearer sk-metered" } });
    expect(response.status).toBe(405);
    expectIds(response);
    expect(response.headers.get("allow")).toMatch(/\bGET\b/);
    expect(await response.json()).toEqual({ success: false, message: expect.any(String) });
  });

  it("counts a live hold as used, and what it did not need no longer", async () => {
    const running = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    await using own = await openStage(mount, {
      keys: KEYS,
      async *play() {
        running.resolve();
        await done.promise;
        yield { type: "finish", reason: "stop", usage: { inputTokens: 3, outputTokens: 4 } };
      },
    });
    const body = { model: "model-a", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] };
    const answer = own.send(body, { headers: headersWith({ "x-api-key": "sk-metered" }) });
    await running.promise;

    const during = (await balanceOf(own, "Bearer sk-metered")) as { total_used: number; total_available: number };
    expect(during).toMatchObject({ total_granted: 1000 });
    expect(during.total_used).toBeGreaterThan(250 + 100);
    expect(during.total_used + during.total_available).toBe(1000);

    done.resolve();
    expect((await answer).status).toBe(200);
    expect(await balanceOf(own, "Bearer sk-metered")).toEqual({
      ...METERED,
      total_used: 257,
      total_available: 743,
    });
  });
}
