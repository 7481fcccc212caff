/** The option `ranges` of the messages format: the length of a tool's name, in characters. */

import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore, type MessagesOptions } from "../../src/index.ts";

const gateway = (ranges: NonNullable<MessagesOptions["ranges"]>): Gateway =>
  createGateway({
    messages: { ranges },
    backend: {
      async *chat() {
        yield "Hello.";
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });

async function refusalOf(host: Gateway, name: string): Promise<string | undefined> {
  const response = await host.fetch(
    new Request("http://gateway.test/v1/messages", {
      method: "POST",
      headers: { "x-api-key": "sk-test", "compat-version": "1", "content-type": "application/json" },
      body: JSON.stringify({
        model: "m",
        max_tokens: 10,
        messages: [{ role: "user", content: "Hi" }],
        tools: [{ name, input_schema: { type: "object" } }],
      }),
    }),
  );
  const { error } = (await response.json()) as { error?: { message: string } };
  return error?.message;
}

describe.each([
  ["spec", 64],
  ["vendor", 128],
] as const)("ranges: %s", (ranges, most) => {
  const host = gateway(ranges);

  it.each(["a", "😀"])(`take a tool's name of ${most} times %s, and no more`, async (character) => {
    expect(await refusalOf(host, character.repeat(most))).toBeUndefined();
    expect(await refusalOf(host, character.repeat(most + 1))).toBe(
      `tools.0.name: must be at most ${most} characters long`,
    );
  });

  it("take no empty name", async () => {
    expect(await refusalOf(host, "")).toBe("tools.0.name: must not be empty");
  });
});
