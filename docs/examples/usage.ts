// usage.ts
import { createGateway } from "polygate";
import { callAdmin } from "polygate/admin";
import { priceTable } from "polygate/prices";
import { openStores } from "polygate/stores";
import { myBackend } from "./backend.ts";

const stores = await openStores("sqlite::memory:");
const onCall = stores.recorder({ timeZone: "Europe/Berlin" });
const prices = priceTable({ "*": { input: 1, output: 5 } });
export const gateway = createGateway({ backend: myBackend, ...stores.ports, ...prices, onCall });

await stores.ports.quotas.add({ id: "anna", apiKey: "sk-anna", granted: 2, metadata: { group: "team-a" } });
const response = await gateway.fetch(
  new Request("http://host/v1/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer sk-anna", "content-type": "application/json" },
    body: JSON.stringify({ model: "any-model", messages: [{ role: "user", content: "Say something about rain." }] }),
  }),
);
await response.text();
await gateway.close();
await onCall.flush();

const calls = callAdmin(stores.calls);
const { rows } = await calls.usage({ by: ["group", "key"] });
for (const { group, key, refused, units } of rows) console.log(group, key, refused, units);
console.log((await calls.why(response.headers.get("request-id") ?? ""))?.reasons.join("\n"));
await stores.close();
