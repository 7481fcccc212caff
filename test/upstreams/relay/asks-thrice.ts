/** Asks each upstream of the addresses in the arguments three times, one after the other, and prints the statuses. Runs on any runtime. */

import { argv } from "node:process";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

async function askThrice(baseUrl: string): Promise<number[]> {
  const backend = relay({ format: "chat-completions", baseUrl, apiKey: "sk-upstream-key" });
  const quotas = memoryQuotaStore([{ apiKey: "sk-caller", granted: 100_000 }]);
  const gateway = createGateway({ backend, quotas, onFailure: () => {} });
  const statuses: number[] = [];
  for (let call = 0; call < 3; call++) {
    const response = await gateway.fetch(
      new Request("http://local/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer sk-caller", "content-type": "application/json" },
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] }),
      }),
    );
    await response.text();
    statuses.push(response.status);
  }
  await backend.close();
  return statuses;
}

const upstreams = argv.filter((argument) => argument.startsWith("http://"));
console.log(JSON.stringify(await Promise.all(upstreams.map(askThrice))));
