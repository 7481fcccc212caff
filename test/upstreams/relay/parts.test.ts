/** Parts of relays put together by their host: a relay's functions are its own. */

import { expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { CLEAR } from "../../formats/images/pictures.ts";

const PNG = Buffer.from(CLEAR).toString("base64");
const CHAT = { id: "c", model: "m", choices: [{ index: 0, message: { content: "Hello" }, finish_reason: "stop" }] };

const apiKey = "sk-upstream";
const [chat, pictures] = [
  relay({ format: "chat-completions", baseUrl: "http://up.test/v1", apiKey, fetch: async () => Response.json(CHAT) }),
  relay({
    format: "images",
    baseUrl: "http://up.test/v1",
    apiKey,
    fetch: async () => Response.json({ created: 1, data: [{ b64_json: PNG }] }),
  }),
];

it("a relay of chat and one of pictures make one backend", async () => {
  const gateway = createGateway({
    backend: { ...chat, image: (request, call) => pictures.image(request, call) },
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
  });
  const ask = async (path: string, body: object): Promise<unknown> => {
    const headers = { "content-type": "application/json", authorization: "Bearer sk-one" };
    const asked = new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return (await gateway.fetch(asked)).json();
  };
  const messages = [{ role: "user", content: "Hi" }];
  expect(await ask("/v1/chat/completions", { model: "m", messages })).toMatchObject(CHAT);
  expect(await ask("/v1/images/generations", { prompt: "A fox", response_format: "b64_json" })).toMatchObject({
    data: [{ b64_json: PNG }],
  });
});
