/** What the count of a request's tokens promises: the same rules, no charge, no model asked. */

import { describe, expect, it } from "vitest";
import { type Mount, openStage, sharedStage } from "../../hosts/stage.ts";
import { type Body, CLOCK, having, MINIMAL } from "./bodies.ts";
import { type Changes, COUNT, posting } from "./calls.ts";
import { invalidField, type Refusal, refusal, refusalOf } from "./refusal.ts";

const KEYS = [
  { apiKey: "sk-metered", granted: 500 },
  { apiKey: "sk-empty", granted: 100, used: 100 },
  { apiKey: "sk-expired", granted: 100, expiresAt: 1 },
];

const whole = (fields: Body): Body => ({ generateContentRequest: { model: "models/model-a", ...having(fields) } });

const REFUSED: readonly (readonly [name: string, body: Body, told: Refusal])[] = [
  ["nothing", {}, invalidField("contents")],
  ["contents that are a number", { contents: 1 }, invalidField("contents")],
  ["a bad part", { contents: [{ parts: [{ text: 1 }] }] }, invalidField("contents[0].parts[0].text")],
  ["a whole request that is a text", { generateContentRequest: "Hi" }, invalidField("generateContentRequest")],
  [
    "a whole request with a bad field",
    whole({ generationConfig: { topP: 2 } }),
    invalidField("generateContentRequest.generationConfig.topP"),
  ],
  [
    "a whole request with a bad field in snake_case",
    { generate_content_request: having({ generation_config: { top_p: 2 } }) },
    invalidField("generate_content_request.generation_config.top_p"),
  ],
  ["a bad field beside the contents", having({ generationConfig: { topP: 2 } }), invalidField("generationConfig.topP")],
  ["contents beside a whole request", { ...MINIMAL, ...whole({}) }, invalidField("contents")],
];

export function tokenCountSuite(mount: Mount): void {
  const stage = sharedStage(mount, { keys: KEYS });

  const count = (body: Body, changes: Changes = {}): Promise<Response> =>
    stage().request(COUNT, posting(body, changes));

  async function counted(body: Body): Promise<number> {
    const response = await count(body);
    expect(response.status).toBe(200);
    const answer = (await response.json()) as { totalTokens: number };
    expect(Object.keys(answer)).toEqual(["totalTokens"]);
    return answer.totalTokens;
  }

  it("is the same for contents, alone or in a whole request, in every form and spelling", async () => {
    const text = "How many tokens are these?";
    const contents = [{ role: "user", parts: [{ text }] }];
    const counts = await Promise.all(
      [
        { contents },
        { contents: text },
        { contents: contents[0] },
        { generateContentRequest: { contents } },
        { generate_content_request: { contents } },
        whole({ contents }),
      ].map(counted),
    );
    expect(new Set(counts).size).toBe(1);
  });

  it("counts what stands beside the contents as it does in a whole request", async () => {
    const fields = {
      systemInstruction: { parts: [{ text: "Be brief." }] },
      tools: [{ functionDeclarations: [CLOCK] }],
    };
    expect(await counted(having(fields))).toBe(await counted(whole(fields)));
    expect(await counted(having(fields))).toBeGreaterThan(await counted(MINIMAL));
  });

  it("costs nothing, and asks no model", async () => {
    const response = await count(MINIMAL, { "x-goog-api-key": "sk-metered" });
    expect(response.status).toBe(200);
    expect(stage().quotas.report("sk-metered")).toMatchObject({ used: 0, liveHolds: 0 });
    expect(stage().backend.received).toEqual([]);
  });

  it("is made for a key that is used up, not for one that has expired", async () => {
    expect((await count(MINIMAL, { "x-goog-api-key": "sk-empty" })).status).toBe(200);
    const told = await refusalOf(await count(MINIMAL, { "x-goog-api-key": "sk-expired" }));
    expect(told).toEqual(refusal(401, "UNAUTHENTICATED"));
  });

  it("is made where a limit of the output would be too high", async () => {
    await using own = await openStage(mount, { models: [{ id: "model-a", maxOutputTokens: 10 }] });
    const response = await own.request(COUNT, posting(whole({ generationConfig: { maxOutputTokens: 11 } })));
    expect(response.status).toBe(200);
  });

  describe("holds to the rules of a request", () => {
    it.each(REFUSED)("and refuses %s", async (_name, body, told) => {
      expect(await refusalOf(await count(body))).toEqual(told);
    });
  });
}
