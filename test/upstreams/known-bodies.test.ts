/** A conversation that comes again, with more turns, is the same for every upstream as if the gateway had never seen its beginning. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { bedrockConverse } from "../../src/clouds/aws.ts";
import {
  type ChatRequest,
  createGateway,
  memoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
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

/** Writes the messages of a conversation's round, by format. The ids of a round may come again, and a call may lack its result. */
const ROUNDS: Readonly<Record<string, (id: number, text: string) => readonly string[]>> = {
  messages: (id, text) => [
    `{"role":"user","content":[{"type":"text","text":"${text}","cache_control":{"type":"ephemeral"}}]}`,
    `{"role":"assistant","content":[{"type":"thinking","thinking":"${text}","signature":"sig"},{"type":"text","text":"${text}"},{"type":"tool_use","id":"call ${id}","name":"look","input":${ODD}}]}`,
    '{"role":"assistant","content":null}',
    `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call ${id}","content":"${text}","is_error":true}]}`,
    `{"role":"user","content":"${text}"}`,
  ],
  "chat completions": (id, text) => [
    `{"role":"user","content":"${text}"}`,
    `{"role":"assistant","content":"${text}","tool_calls":[{"id":"call ${id}","type":"function","function":{"name":"look","arguments":${JSON.stringify(ODD)}}}]}`,
    `{"role":"tool","tool_call_id":"call ${id}","content":"${text}"}`,
    `{"role":"tool","tool_call_id":"call ${id}","content":[{"type":"text","text":"${text}"}]}`,
  ],
  responses: (id, text) => [
    `{"role":"user","content":"${text}"}`,
    `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"${text}"}]}`,
    `{"type":"function_call","call_id":"call ${id}","name":"look","arguments":${JSON.stringify(ODD)}}`,
    `{"type":"function_call_output","call_id":"call ${id}","output":"${text}"}`,
  ],
  "generate content": (id, text) => [
    `{"role":"user","parts":[{"text":"${text}"}]}`,
    `{"role":"model","parts":[{"text":"${text}","thought":true},{"functionCall":{"id":"call ${id}","name":"look","args":${ODD}}}]}`,
    `{"role":"user","parts":[{"functionResponse":{"id":"call ${id}","name":"look","response":{"found":"${text}"}}}]}`,
  ],
};

const UPSTREAMS = ["messages", "chat-completions", "responses", "generate-content", "converse"] as const;

/** Returns the functions of a store, as an object that others can be laid over. */
const methodsOf = (store: QuotaStore): QuotaStore => ({
  find: (apiKey) => store.find(apiKey),
  balance: (keyId) => store.balance(keyId),
  reserve: (hold, call) => store.reserve(hold, call),
  renew: (holdId, renewal) => store.renew(holdId, renewal),
  settle: (holdId, used) => store.settle(holdId, used),
});

/** Sends conversations one after another through a gateway. Returns the texts that its upstream got, the answers, and what was held for them. */
async function sent(
  upstream: (typeof UPSTREAMS)[number],
  path: string,
  bodies: readonly string[],
  maxKnownBodyBytes: number,
): Promise<{
  readonly received: readonly unknown[];
  readonly answers: readonly unknown[];
  readonly held: readonly unknown[];
}> {
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
  const quotas = memoryQuotaStore([{ apiKey: "sk-1", granted: 10_000_000 }]);
  const held: unknown[] = [];
  const gateway = createGateway({
    backend,
    quotas: {
      ...methodsOf(quotas),
      reserve: (hold, call) => {
        held.push([hold.atLeast, hold.atMost]);
        return quotas.reserve(hold, call);
      },
    },
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
  return { received, answers, held };
}

const PAIRS = Object.keys(BODIES).flatMap((client) => UPSTREAMS.map((upstream) => [client, upstream] as const));

it.each(PAIRS)("by %s for an upstream of %s", async (client, upstream) => {
  const [path, body] = BODIES[client] ?? ["", () => ""];
  const bodies = [body(1), body(3), body(3), body(2)];
  const known = await sent(upstream, path, bodies, 2 ** 26);
  expect(known.received).toHaveLength(bodies.length);
  // With one byte, no body is kept.
  expect(known).toEqual(await sent(upstream, path, bodies, 1));
});

const message = fc.record({
  id: fc.nat({ max: 3 }),
  place: fc.nat({ max: 4 }),
  text: fc.constantFrom("one", "zwei ä", "", " "),
});
/** Changes a conversation: replaces some messages at a place by others. */
const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  cut: fc.nat({ max: 2 }),
  put: fc.array(message, { maxLength: 3 }),
});

it.each(PAIRS)("by %s for an upstream of %s, however its messages change", async (client, upstream) => {
  const [path, body] = BODIES[client] ?? ["", () => ""];
  const write = ({ id, place, text }: { id: number; place: number; text: string }): string => {
    const round = ROUNDS[client]?.(id, text) ?? [];
    return round[place % round.length] ?? "";
  };
  const first = Array.from({ length: 8 }, (_, place) => write({ id: place >> 2, place, text: "one" }));
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 2, maxLength: 4 }), async (edits) => {
      const messages = [...first];
      const bodies = edits.flatMap(({ at, cut, put }) => {
        messages.splice(Math.floor(at * messages.length), cut, ...put.map(write));
        const text = body(0).replace(/\[[^[]*Hello[^]*\]/, () => listed(messages));
        return [text, text];
      });
      expect(await sent(upstream, path, bodies, 2 ** 26)).toEqual(await sent(upstream, path, bodies, 1));
    }),
    { numRuns: 3 },
  );
});

it("shares its turns and tools among later calls, where no host can change them", async () => {
  const asked: ChatRequest[] = [];
  const gateway = createGateway({
    backend: {
      async *chat(request) {
        asked.push(request);
        yield "Hello.";
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 10_000_000 }]),
  });
  const [path, body] = BODIES["messages"] ?? ["", () => ""];
  const headers = { "x-api-key": "sk-1", "content-type": "application/json", "anthropic-version": "2023-06-01" };
  for (const rounds of [2, 2, 3])
    await gateway.fetch(new Request(`http://gateway.test${path}`, { method: "POST", headers, body: body(rounds) }));
  await gateway.close();
  const [, second, third] = asked;
  expect(third?.tools[0]).toBe(second?.tools[0]);
  expect(third?.messages).toHaveLength(7);
  for (const index of [0, 1, 2, 3]) expect(third?.messages[index]).toBe(second?.messages[index]);
  const [part] = third?.messages[1]?.parts ?? [];
  expect(() => Object.assign(part ?? {}, { name: "other" })).toThrow(TypeError);
  expect(() => (third?.messages as unknown[] | undefined)?.push(part)).toThrow(TypeError);
});
