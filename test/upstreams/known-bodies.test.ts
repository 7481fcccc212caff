/** A conversation that comes again, with more turns, is the same for every upstream as if the gateway had never seen its beginning. */

import { expect, it } from "vitest";
import { bedrockConverse } from "../../src/clouds/aws.ts";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";

const LONG = "ein langes Wort ".repeat(600);
/** Values that a parser could write in another way. */
const ODD = String.raw`{"a":1.0,"b":1e2,"c":"\u0041\/","d":{"__proto__":{"x":1}},"e":[],"f":"\ud83d\ude00","g":-0.0}`;
const SCHEMA = String.raw`{"type":"object","properties":{"city":{"type":"string","default":"\u004fslo"}},"x-odd":${ODD}}`;

const listed = (items: readonly string[]): string => `[${items.join(" , ")}]`;
const turnsOf = <Turn>(count: number, turn: (index: number) => Turn): Turn[] =>
  Array.from({ length: count }, (_, index) => turn(index));

/** Writes the body of a conversation with calls of tools, by format. */
const BODIES: Readonly<Record<string, readonly [path: string, body: (rounds: number) => string]>> = {
  messages: [
    "/v1/messages",
    (rounds) =>
      `{"model":"m","max_tokens":100,"system":"${LONG}","tools":[{"name":"look","input_schema":${SCHEMA}}],"messages":${listed(
        [
          '{"role":"user","content":"Hello"}',
          ...turnsOf(rounds, (at) => [
            `{"role":"assistant","content":[{"type":"tool_use","id":"call_${at}","name":"look","input":${ODD}}]}`,
            `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_${at}","content":"found ${at}"}]}`,
          ]).flat(),
        ],
      )}}`,
  ],
  "chat completions": [
    "/v1/chat/completions",
    (rounds) =>
      `{"tools":[{"type":"function","function":{"name":"look","parameters":${SCHEMA}}}],"model":"m","messages":${listed(
        [
          `{"role":"system","content":"${LONG}"}`,
          '{"role":"user","content":"Hello"}',
          ...turnsOf(rounds, (at) => [
            `{"role":"assistant","tool_calls":[{"id":"call_${at}","type":"function","function":{"name":"look","arguments":${JSON.stringify(ODD)}}}]}`,
            `{"role":"tool","tool_call_id":"call_${at}","content":"found ${at}"}`,
          ]).flat(),
        ],
      )}}`,
  ],
  responses: [
    "/v1/responses",
    (rounds) =>
      `{"instructions":"${LONG}","store":false,"tools":[{"type":"function","name":"look","strict":false,"parameters":${SCHEMA}}],"model":"m","input":${listed(
        [
          '{"role":"user","content":"Hello"}',
          ...turnsOf(rounds, (at) => [
            `{"type":"function_call","call_id":"call_${at}","name":"look","arguments":${JSON.stringify(ODD)}}`,
            `{"type":"function_call_output","call_id":"call_${at}","output":"found ${at}"}`,
          ]).flat(),
        ],
      )}}`,
  ],
  "generate content": [
    "/v1beta/models/m:generateContent",
    (rounds) =>
      `{"system_instruction":{"parts":[{"text":"${LONG}"}]},"tools":[{"function_declarations":[{"name":"look","parametersJsonSchema":${SCHEMA}}]}],"contents":${listed(
        [
          '{"role":"user","parts":[{"text":"Hello"}]}',
          ...turnsOf(rounds, (at) => [
            `{"role":"model","parts":[{"function_call":{"id":"call_${at}","name":"look","args":${ODD}}}]}`,
            `{"role":"user","parts":[{"functionResponse":{"id":"call_${at}","name":"look","response":{"found":${at}}}}]}`,
          ]).flat(),
        ],
      )}}`,
  ],
};

const UPSTREAMS = ["messages", "chat-completions", "responses", "generate-content", "converse"] as const;

/** Sends conversations one after another through a gateway. Returns the texts that its upstream got, and the answers. */
async function sent(
  upstream: (typeof UPSTREAMS)[number],
  path: string,
  bodies: readonly string[],
  maxKnownBodyBytes: number,
): Promise<unknown> {
  const received: (readonly [url: string, body: string])[] = [];
  const fetch = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(url, init);
    received.push([request.url, await request.text()]);
    return Response.json({ error: { message: "No." } }, { status: 400 });
  };
  const backend: ModelBackend =
    upstream === "converse"
      ? relay({ ...bedrockConverse({ region: "us-east-1", apiKey: "key", endpoint: "http://host.test" }), fetch })
      : relay({ format: upstream, baseUrl: "http://host.test/v1", apiKey: "sk-upstream", fetch });
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 10_000_000 }]),
    limits: { maxKnownBodyBytes },
    onFailure: () => {},
  });
  const headers = {
    authorization: "Bearer sk-1",
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
  };
  const answers: unknown[] = [];
  for (const body of bodies) {
    const response = await gateway.fetch(new Request(`http://gateway.test${path}`, { method: "POST", headers, body }));
    answers.push([response.status, (await response.text()).replaceAll(/req_\w+/g, "")]);
  }
  await gateway.close({ deadlineMs: 0 });
  expect(received).toHaveLength(bodies.length);
  return { received, answers };
}

const PAIRS = Object.keys(BODIES).flatMap((client) => UPSTREAMS.map((upstream) => [client, upstream] as const));

it.each(PAIRS)("by %s for an upstream of %s", async (client, upstream) => {
  const [path, body] = BODIES[client] ?? ["", () => ""];
  const bodies = [body(1), body(3), body(3), body(2)];
  const known = await sent(upstream, path, bodies, 2 ** 26);
  // With one byte, no body is kept.
  expect(known).toEqual(await sent(upstream, path, bodies, 1));
});
