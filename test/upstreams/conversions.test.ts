/** The headers that report a backend's conversions to callers. */

import { expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";

type Conversions = Parameters<Parameters<NonNullable<ModelBackend["chat"]>>[1]["reportConversions"]>[0];

async function headersOf(conversions: Conversions | undefined, stream: boolean): Promise<Headers> {
  const backend: ModelBackend = {
    async *chat(_request, call) {
      if (conversions) call.reportConversions(conversions);
      yield "Hello";
    },
  };
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-a", granted: 1_000 }]) });
  const response = await gateway.fetch(
    new Request("http://local/v1/messages", {
      method: "POST",
      headers: { "x-api-key": "sk-a", "anthropic-version": "2023-06-01", "content-type": "application/json" },
      body: JSON.stringify({ model: "m", max_tokens: 9, stream, messages: [{ role: "user", content: "Hi" }] }),
    }),
  );
  expect(response.status).toBe(200);
  await response.text();
  return response.headers;
}

const why = "It cannot say it.";

it.each([false, true])("names dropped and approximated fields in headers (stream: %s)", async (stream) => {
  const headers = await headersOf(
    [
      { field: "topK", conversion: "dropped", why },
      { field: "reasoning.effort", conversion: "approximated", why },
      { field: "tools.provider", conversion: "dropped", why },
      { field: "topK", conversion: "dropped", why },
      { field: "stopSequences", conversion: "emulated", why },
      { field: "a\r\nb: ä", conversion: "dropped", why },
    ],
    stream,
  );
  expect(headers.get("polygate-dropped")).toBe("topK, tools.provider, a__b___");
  expect(headers.get("polygate-approximated")).toBe("reasoning.effort");
});

it.each([undefined, []])("says nothing where nothing was dropped", async (conversions) => {
  const headers = await headersOf(conversions, false);
  expect([...headers.keys()].filter((name) => name.startsWith("polygate-"))).toEqual([]);
});

it("names no more fields than a header can hold", async () => {
  const conversions = Array.from(
    { length: 1_000 },
    (_, index) => ({ field: `field-${index}`, conversion: "dropped", why }) as const,
  );
  expect((await headersOf(conversions, false)).get("polygate-dropped")?.length).toBe(1_024);
});
