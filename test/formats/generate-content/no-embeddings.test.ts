/** The methods of embeddings at a gateway whose backend has none. */

import { expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { UNASKED } from "../../pipeline/bench.ts";

it.each([
  ["models/a:embedContent", "This gateway offers no embeddings."],
  ["models/a:batchEmbedContents", "This gateway offers no embeddings."],
  ["tunedModels/a:embedContent", 'A model has no method "embedContent".'],
])("are refused in %s: %s", async (path, message) => {
  const gateway = createGateway({ backend: UNASKED, quotas: memoryQuotaStore([{ apiKey: "sk-one" }]) });
  const response = await gateway.fetch(`http://host/v1beta/${path}?key=sk-one`, { method: "POST", body: "{}" });
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ error: { code: 404, status: "NOT_FOUND", message } });
  await gateway.close();
});
