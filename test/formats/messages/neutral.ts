/** The request that a backend gets for a messages request: every field in the neutral model, and the request as it came. */

import { describe, expect, it } from "vitest";
import type { ChatRequest } from "../../../src/index.ts";
import { type Mount, sharedStage, VERSION } from "../../hosts/stage.ts";
import { type Body, CLOCK, having, MINIMAL } from "./bodies.ts";
import { CHOICES, FIELDS, HI, PARTS, TOOLS } from "./carried.ts";

export function neutralSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  async function asked(body: Body): Promise<ChatRequest> {
    const { backend, send } = stage();
    const response = await send(body);
    expect(response.status).toBe(200);
    return backend.asked;
  }

  it("fills nothing in that was not said", async () => {
    expect(await asked(MINIMAL)).toEqual({
      model: "model-a",
      maxOutputTokens: 100,
      messages: [HI],
      system: [],
      tools: [],
      stopSequences: [],
      stream: false,
      native: {
        format: "messages",
        body: MINIMAL,
        version: VERSION,
        betas: [],
        unsupported: expect.any(Function),
        continuation: { prefills: true, body: expect.any(Function) },
      },
    });
  });

  it.each(FIELDS)("carries %s", async (_name, body, expected) => {
    const request: Partial<ChatRequest> = await asked(body);
    for (const [field, value] of Object.entries(expected)) expect(request).toHaveProperty(field, value);
  });

  it("carries stream", async () => {
    const { backend, send } = stage();
    const response = await send(having({ stream: true }));
    await response.text();
    expect(backend.asked.stream).toBe(true);
  });

  it.each(PARTS)("carries %s as a part", async (_name, body, expected) => {
    const { messages } = await asked(body);
    expect(messages.at(-1)?.parts).toEqual([expected]);
  });

  it.each(TOOLS)("carries %s", async (_name, body, expected) => {
    expect((await asked(body)).tools).toEqual([expected]);
  });

  describe("tool_choice", () => {
    it.each(CHOICES)("%s", async (_name, tool_choice, expected) => {
      expect((await asked(having({ tools: [CLOCK], tool_choice }))).toolChoice).toEqual(expected);
    });
  });

  it("keeps in the native body what the neutral model has no word for", async () => {
    const body = having({
      service_tier: "auto",
      container: null,
      nested: { deep: [1, { x: null }] },
      messages: [{ role: "user", content: [{ type: "text", text: "Hi", citations: [{ type: "x" }] }], id: "m1" }],
      tools: [{ ...CLOCK, strict: true }],
      metadata: { user_id: "u", team: "t" },
    });
    expect((await asked(body)).native?.body).toEqual(body);
  });
}
