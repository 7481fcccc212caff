/** The count of a request's tokens: the same rules as for the request, no charge, no call of the model. */

import { expect, it } from "vitest";
import { type Mount, post, sharedStage } from "../../hosts/stage.ts";
import { type Body, CLOCK, having, MINIMAL } from "./bodies.ts";
import { invalidField, refusalOf } from "./refusal.ts";

const KEYS = [
  { apiKey: "sk-metered", granted: 500 },
  { apiKey: "sk-empty", granted: 100, used: 100 },
  { apiKey: "sk-expired", granted: 100, expiresAt: 1 },
];

const UNCOUNTED = having({ max_tokens: undefined });

export function tokenCountSuite(mount: Mount): void {
  const stage = sharedStage(mount, { keys: KEYS });

  const count = (body: Body, headers: Record<string, string | undefined> = {}): Promise<Response> =>
    stage().request("/v1/messages/count_tokens", post(body, headers));

  async function counted(body: Body): Promise<number> {
    const response = await count(body);
    expect(response.status).toBe(200);
    const answer = (await response.json()) as { input_tokens: number };
    expect(Object.keys(answer)).toEqual(["input_tokens"]);
    return answer.input_tokens;
  }

  it("needs no max_tokens", async () => {
    expect(await counted(UNCOUNTED)).toSatisfy((tokens: number) => Number.isInteger(tokens) && tokens > 0);
    expect(await counted(MINIMAL)).toBe(await counted(UNCOUNTED));
  });

  it("grows with the input", async () => {
    const system = "Be brief, be kind, be clear.";
    const [bare, withSystem, withTool] = [
      await counted(MINIMAL),
      await counted(having({ system })),
      await counted(having({ system, tools: [CLOCK] })),
    ];
    expect(withSystem).toBeGreaterThan(bare);
    expect(withTool).toBeGreaterThan(withSystem);
  });

  it("takes a budget for thinking without max_tokens", async () => {
    const thinking = { type: "enabled", budget_tokens: 30_000 };
    expect(await counted(having({ max_tokens: undefined, thinking }))).toBe(await counted(UNCOUNTED));
  });

  it("costs nothing, and asks no model", async () => {
    const response = await count(UNCOUNTED, { "x-api-key": "sk-metered" });
    expect(response.status).toBe(200);
    expect(stage().quotas.report("sk-metered")).toMatchObject({ used: 0, liveHolds: 0 });
    expect(stage().backend.received).toEqual([]);
  });

  it("is made for a key that is used up, not for one that has expired", async () => {
    expect((await count(UNCOUNTED, { "x-api-key": "sk-empty" })).status).toBe(200);
    expect(await refusalOf(await count(UNCOUNTED, { "x-api-key": "sk-expired" }))).toMatchObject({ status: 401 });
  });

  it("holds to the rules of a request", async () => {
    expect(await refusalOf(await count(having({ messages: undefined })))).toEqual(invalidField("messages"));
    expect(await refusalOf(await count(having({ max_tokens: 1 })))).toEqual(invalidField("max_tokens"));
    const versionless = await count(UNCOUNTED, { "compat-version": undefined });
    expect(await refusalOf(versionless)).toEqual(invalidField("anthropic-version"));
    const keyless = await count(UNCOUNTED, { "x-api-key": undefined });
    expect(await refusalOf(keyless)).toMatchObject({ status: 401, code: "missing_api_key" });
  });
}
