/** More stop sequences than an upstream's format takes: the gateway ends the answer at the others. */

import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, type Hook, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";

const quotas = memoryQuotaStore([{ apiKey: "sk-one" }]);
const upstream = createGateway({
  backend: {
    async *chat() {
      yield "AB ST";
      yield "OP CD";
    },
  },
  quotas,
});

const FORMATS: readonly [RelayFormat, version: string][] = [
  ["messages", "/v1"],
  ["generate-content", "/v1beta"],
  ["chat-completions", "/v1"],
  ["responses", "/v1"],
];

const send: typeof fetch = (input, init) => upstream.fetch(new Request(input, init));

function gatewayBefore(format: RelayFormat, version: string, hooks: readonly Hook[] = []): Gateway {
  const backend: ModelBackend = relay({ format, baseUrl: `http://up.test${version}`, apiKey: "sk-one", fetch: send });
  return createGateway({ backend, quotas, hooks });
}

function ask(gateway: Gateway, path: string, body: object): Promise<Response> {
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one", "anthropic-version": "1" };
  return gateway.fetch(
    new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
}

const SIX = ["1", "2", "3", "4", "5", "STOP"];

describe.each(FORMATS)("relayed as %s", (format, version) => {
  const gateway = gatewayBefore(format, version);

  it.each([true, false])("messages end at the last of six (streamed: %s)", async (stream) => {
    const messages = [{ role: "user", content: "Go on." }];
    const response = await ask(gateway, "/v1/messages", {
      model: "m",
      max_tokens: 99,
      stop_sequences: SIX,
      messages,
      stream,
    });
    const text = await response.text();
    expect(text.match(/(?<="text":")[^"]+/g)?.join("")).toBe("AB ");
    expect(text).toContain('"stop_reason":"stop_sequence","stop_sequence":"STOP"');
  });

  it.each(["streamGenerateContent?alt=sse", "generateContent"])(
    "generate-content ends at the last of five, by %s",
    async (verb) => {
      const generationConfig = { stopSequences: SIX.slice(1) };
      const response = await ask(gateway, `/v1beta/models/m:${verb}`, { contents: "Go on.", generationConfig });
      const text = await response.text();
      expect(text.match(/(?<="text":")[^"]+/g)?.join("")).toBe("AB ");
      expect(text).toContain('"finishReason":"STOP"');
    },
  );
});

describe("a request that a hook has changed", () => {
  const brief: Hook = {
    before: (request) =>
      "messages" in request ? { ...request, system: [{ type: "text", text: "Be brief." }] } : undefined,
  };

  it.each<[string, RelayFormat, string, object]>([
    ["white space", "messages", "/v1/messages", { max_tokens: 99, stop_sequences: [" "] }],
    ["a model that reasons", "chat-completions", "/v1/chat/completions", { model: "gpt-5", stop: " " }],
  ])("ends at a stop sequence that its upstream does not take: %s", async (_what, format, path, body) => {
    for (const stream of [true, false]) {
      const messages = [{ role: "user", content: "Go on." }];
      const asked = { model: "m", messages, stream, ...body };
      const answer = await ask(gatewayBefore(format, "/v1", [brief]), path, asked);
      const text = await answer.text();
      expect(text.match(/(?<="(?:text|content)":")[^"]+/g)?.join("")).toBe("AB");
    }
  });
});
