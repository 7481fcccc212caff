/** The official clients before a gateway that relays to a second one, over a real socket, in every pair of formats. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../../adapters/node.ts";
import { demoModel } from "../../../src/demo/backend.ts";
import { withDuring } from "../../../src/hooks/index.ts";
import { createGateway, type Hook, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { relay, type RelayBackend, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { clientsOf } from "../../properties/backends-agree/clients.ts";
import { meaningOf, QUESTIONS, RESULT } from "../questions.ts";

const FORMATS: readonly [RelayFormat, version: string][] = [
  ["messages", "/v1"],
  ["generate-content", "/v1beta"],
  ["chat-completions", "/v1"],
  ["responses", "/v1"],
];

/** Each format, passed on as the upstream writes it, and through a hook that changes nothing. */
const WAYS = FORMATS.flatMap(([format, version]): [RelayFormat, way: string, version: string, readonly Hook[]][] => [
  [format, "as it comes", version, []],
  [format, "through a hook", version, [withDuring({ during: () => undefined })]],
]);

let server: Server;
const failures: string[] = [];

beforeAll(async () => {
  const upstream = createGateway({
    backend: talking(),
    quotas: memoryQuotaStore([{ apiKey: "sk-upstream-key" }]),
    onFailure: ({ text }) => failures.push(text),
  });
  server = createServer(toNodeHandler(upstream)).listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterAll(() => server.close());

/** The demo's model, under the caller's name and the upstream's. */
const talking = (): ModelBackend => ({ ...demoModel(), models: () => [{ id: "model-a" }, { id: "upstream-model" }] });

function relayTo(format: RelayFormat, version: string): RelayBackend {
  const { port } = server.address() as AddressInfo;
  const models = { "model-a": "upstream-model" };
  return relay({ format, baseUrl: `http://127.0.0.1:${port}${version}`, apiKey: "sk-upstream-key", models });
}

describe.each(WAYS)("relayed as %s, %s", (format, _way, version, hooks) => {
  let backend: RelayBackend;
  beforeAll(() => {
    backend = relayTo(format, version);
  });
  afterAll(() => backend.close());

  const direct = talking();

  describe.each(clientsOf(direct).map(({ name }, index) => ({ name, index })))("to a client of $name", ({ index }) => {
    const clients = () => [clientsOf(direct)[index], clientsOf(backend, hooks)[index]] as const;

    it.each(Object.entries(QUESTIONS))(
      "%s: complete and streamed, the answer is the one that it gets directly",
      async (_name, question) => {
        const [here, through] = clients();
        const [expected, complete] = [await here?.complete(question), await through?.complete(question)];
        const streamed = await through?.stream(question);
        if (!expected || !complete || !streamed) throw new Error("A client is missing.");
        expect(meaningOf(complete)).toEqual(meaningOf(expected));
        expect(meaningOf(streamed)).toEqual(meaningOf(expected));
        expect(streamed.tokens).toEqual(complete.tokens);
      },
    );

    it("a tool's result reaches the model", async () => {
      const [, through] = clients();
      // A text in the one format, an object in the other, with the same content.
      expect((await through?.complete(RESULT))?.text).toMatch(/^The tool get_weather answered: .*degrees.*7/);
    });

    it.each([
      ["429", 429],
      ["503", 503],
      ["400", 400],
    ])("the upstream's %s before its first event is one for the caller", async (code, status) => {
      const [, through] = clients();
      const question = { turns: [{ text: `/fail ${code}` }] };
      for (const ask of [through?.complete, through?.stream]) {
        const error: unknown = await ask?.(question).catch((thrown: unknown) => thrown);
        expect(through?.statusOf(error)).toBe(status);
      }
    });

    it("the upstream's error in mid-stream is one for the caller", async () => {
      const [, through] = clients();
      const pieces: string[] = [];
      await expect(
        through?.stream({ turns: [{ text: "/break 503 /repeat 9" }] }, (piece) => pieces.push(piece)),
      ).rejects.toBeInstanceOf(Error);
      expect(pieces.join("")).not.toBe("");
    });
  });

  it("to a client of chat completions: text, a stream, a tool and an error", async () => {
    const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
    const gateway = createGateway({ backend, quotas, hooks, onFailure: () => {} });
    const client = new OpenAI({
      apiKey: "sk-test",
      baseURL: "http://gateway.test/v1",
      maxRetries: 0,
      fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
    });
    const ask = { model: "model-a", messages: [{ role: "user" as const, content: "Hello there" }] };
    const complete = await client.chat.completions.create(ask);
    expect(complete.choices[0]?.message.content).toContain("Hello there");
    expect(complete.model).toBe("model-a");
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? "";
      expect(JSON.stringify(chunk)).not.toContain("upstream");
    }
    expect(text).toBe(complete.choices[0]?.message.content);
    const called = await client.chat.completions.create({
      ...ask,
      tools: [
        {
          type: "function",
          function: {
            name: "get_weather",
            parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
          },
        },
      ],
      tool_choice: "required",
    });
    expect(called.choices[0]?.finish_reason).toBe("tool_calls");
    expect(called.choices[0]?.message.tool_calls?.[0]).toMatchObject({
      type: "function",
      function: { name: "get_weather" },
    });
    const failing = client.chat.completions.create({ ...ask, messages: [{ role: "user", content: "/fail 429" }] });
    await expect(failing).rejects.toMatchObject({ status: 429 });
  });

  it("to a client of Responses: text, a stream, a tool and an error", async () => {
    const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
    const gateway = createGateway({ backend, quotas, hooks, onFailure: () => {} });
    const client = new OpenAI({
      apiKey: "sk-test",
      baseURL: "http://gateway.test/v1",
      maxRetries: 0,
      fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
    });
    const ask = { model: "model-a", input: "Hello there" };
    const complete = await client.responses.create(ask);
    expect(complete.output_text).toContain("Hello there");
    expect(complete.model).toBe("model-a");
    const stream = client.responses.stream(ask);
    let text = "";
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") text += event.delta;
      expect(JSON.stringify(event)).not.toContain("upstream");
    }
    expect(text).toBe(complete.output_text);
    expect((await stream.finalResponse()).output_text).toBe(text);
    const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const called = await client.responses.create({
      ...ask,
      tools: [{ type: "function", name: "get_weather", parameters, strict: false }],
      tool_choice: "required",
    });
    expect(called.output.find(({ type }) => type === "function_call")).toMatchObject({ name: "get_weather" });
    await expect(client.responses.create({ ...ask, input: "/fail 429" })).rejects.toMatchObject({ status: 429 });
  });
});

it("the upstream itself has failed only where it was told to", () => {
  expect(failures.filter((text) => !/asked to fail|\/(?:fail|break)|GatewayError: /.test(text))).toEqual([]);
});
