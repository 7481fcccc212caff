/** What a backend says it could not pass on, as callers are told. */

import { expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";

type Fates = Parameters<Parameters<NonNullable<ModelBackend["chat"]>>[1]["reportFates"]>[0];

async function headersOf(fates: Fates | undefined, stream: boolean): Promise<Headers> {
  const backend: ModelBackend = {
    async *chat(_request, call) {
      if (fates) call.reportFates(fates);
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
      { field: "topK", fate: "dropped", why },
      { field: "reasoning.effort", fate: "approximated", why },
      { field: "tools.provider", fate: "dropped", why },
      { field: "topK", fate: "dropped", why },
      { field: "stopSequences", fate: "emulated", why },
      { field: "a\r\nb: ä", fate: "dropped", why },
    ],
    stream,
  );
  expect(headers.get("polygate-dropped")).toBe("topK, tools.provider, a__b___");
  expect(headers.get("polygate-approximated")).toBe("reasoning.effort");
});

it.each([undefined, []])("says nothing where nothing was dropped", async (fates) => {
  const headers = await headersOf(fates, false);
  expect([...headers.keys()].filter((name) => name.startsWith("polygate-"))).toEqual([]);
});

it("names no more fields than a header can hold", async () => {
  const fates = Array.from(
    { length: 1_000 },
    (_, index) => ({ field: `field-${index}`, fate: "dropped", why }) as const,
  );
  expect((await headersOf(fates, false)).get("polygate-dropped")?.length).toBe(1_024);
});
