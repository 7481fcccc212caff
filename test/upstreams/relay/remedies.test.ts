/** A failure that only the operator can mend is told with its remedy: by the log, the record, the state of the upstream and its check. */

import { describe, expect, it } from "vitest";
import { nextSteps } from "../../../src/admin/call-admin.ts";
import { type CallRecord, createGateway, type Failure, memoryQuotaStore } from "../../../src/index.ts";
import type { ModelBackend } from "../../../src/ports/model-backend.ts";
import type { RecordedCall } from "../../../src/stores/calls.ts";
import { type RelayOptions, relay } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";

const KEY = "sk-upstream-0123456789";

/** A relay whose upstream gives each request the same answer. */
const relayed = (answer: () => Response, options: Partial<RelayOptions> = {}) =>
  relay({
    format: "messages",
    baseUrl: "https://up.example",
    apiKey: KEY,
    fetch: () => Promise.resolve(answer()),
    ...options,
  });

const says =
  (status: number, body: unknown, type = "application/json") =>
  (): Response =>
    new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers: { "content-type": type } });

/** Makes a call that fails, several times, and returns what caller and host are told. */
async function told(backend: ModelBackend, { stream = false, times = 3 } = {}) {
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const gateway = createGateway({
    messages: { ranges: "vendor" },
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-1" }]),
    onCall: (record) => records.push(record),
    onFailure: (failure) => failures.push(failure),
  });
  let answer = new Response();
  let text = "";
  for (let time = 0; time < times; time++) {
    answer = await gateway.fetch("https://gateway.example/v1/messages", {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": "sk-1", "anthropic-version": "2023-06-01" },
      body: JSON.stringify({ model: "m", max_tokens: 10, stream, messages: [{ role: "user", content: "Go." }] }),
    });
    text = await answer.text();
  }
  const { upstreams } = await gateway.health();
  await gateway.close();
  const record = records.at(-1) as unknown as RecordedCall;
  return {
    status: answer.status,
    shouldRetry: answer.headers.get("x-should-retry"),
    text,
    log: failures[0]?.text ?? "",
    mistake: record.attempts[0]?.mistake,
    why: nextSteps(record).map(({ sentence }) => sentence),
    failing: upstreams[0]?.failing?.mistake ?? upstreams[0]?.lastFailure?.mistake,
  };
}

const ACCOUNT =
  "The upstream refuses the relay's credential or account. Check its apiKey, what it may use, and its credit.";
const lacks = (model: string): string =>
  `The upstream up.example does not have the model ${model}. Correct this name in the route or in the models of the relay.`;

const billing = says(402, { type: "error", error: { type: "billing_error", message: "No credit." } });
const credit = says(400, { error: { type: "invalid_request_error", message: "Your credit balance is too low." } });
const forbidden = says(403, { type: "error", error: { type: "permission_error", message: "Not yours." } });
const unknown = says(404, { type: "error", error: { type: "not_found_error", message: "model: large" } });

const sse = (...frames: unknown[]): string =>
  frames.map((frame) => `data: ${typeof frame === "string" ? frame : JSON.stringify(frame)}\n\n`).join("");

describe("the remedy", () => {
  it.each<[string, ModelBackend, string]>([
    ["of an account without credit (402)", relayed(billing), ACCOUNT],
    ["of an account without credit (400)", relayed(credit), ACCOUNT],
    ["of an account that may not use the model", relayed(forbidden), ACCOUNT],
    ["of a misspelt model of the relay", relayed(unknown, { models: { m: "large" } }), lacks("large")],
    ["of a model that the relay lists", relayed(unknown, { models: ["m"] }), lacks("m")],
    [
      "of a misspelt model of a route",
      route({ routes: { m: { upstreams: [{ backend: relayed(unknown), model: "large" }] } } }),
      lacks("large"),
    ],
    ["of a route with the model's own name", route({ routes: { m: relayed(unknown) } }), lacks("m")],
  ])("%s is told everywhere alike, and not to the caller", async (_of, backend, remedy) => {
    const { log, mistake, why, failing, shouldRetry, text } = await told(backend);
    expect(log).toContain(`caused by SettingMistake: ${remedy}`);
    expect(log).toContain("caused by Error: The upstream answered 40");
    expect([mistake, why, failing]).toEqual([remedy, [remedy, "Until then, trying again does not help."], remedy]);
    expect(shouldRetry).toBe("false");
    expect(text).not.toContain("Correct");
    expect(text).not.toContain("account");
  });

  it("is none for a name of the caller's own", async () => {
    const { mistake, why } = await told(relayed(unknown));
    expect([mistake, why[0]]).toEqual([undefined, "The caller must choose another model."]);
  });

  it("is in the check of the relay, too", async () => {
    expect((await relayed(billing).check()).problem).toContain(`${ACCOUNT} The upstream answered 402`);
    const misspelt = relayed(unknown, { models: { m: "large" }, format: "messages" });
    expect((await misspelt.check()).problem).toContain(lacks("large"));
  });
});

const OPENAI = { id: "1", object: "chat.completion", model: "m", choices: [{ index: 0, message: { content: "Hi" } }] };
const ANTHROPIC = { id: "1", type: "message", role: "assistant", model: "m", content: [{ type: "text", text: "Hi" }] };
const GOOGLE = { candidates: [{ content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "STOP" }] };
const RESPONSE = { id: "1", object: "response", status: "completed", model: "m", output: [] };
const ANSWERS = { messages: ANTHROPIC, "chat-completions": OPENAI, "generate-content": GOOGLE, responses: RESPONSE };

const FORMATS = Object.keys(ANSWERS) as (keyof typeof ANSWERS)[];
const PAIRS = FORMATS.flatMap((format) =>
  [...FORMATS.filter((other) => other !== format).map((other) => ANSWERS[other]), { status: "ok" }].map(
    (body) => [format, Object.keys(body).join(", "), body] as const,
  ),
);

describe("an answer of another format", () => {
  it.each(PAIRS)("than %s, with the fields %s, leads to the relay's settings", async (format, fields, body) => {
    const { log, mistake, status, shouldRetry, text } = await told(relayed(says(200, body), { format }), { times: 1 });
    expect(mistake).toMatch(
      new RegExp(
        `^The upstream at https://up\\.example answers in another format than ${format}, with the fields ${fields}, to POST /v1\\S* Check the baseUrl and the format of the relay\\.$`.replace(
          "\\S* Check",
          "\\S*\\. Check",
        ),
      ),
    );
    expect([status, shouldRetry, log.includes("Hi")]).toEqual([500, "false", false]);
    expect(text).not.toContain("baseUrl");
  });

  it.each(FORMATS)("is told of a stream at %s", async (format) => {
    const frames = format === "chat-completions" ? [{ type: "message_start", message: ANTHROPIC }] : [OPENAI];
    const stream = frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join("");
    const { mistake } = await told(relayed(says(200, stream, "text/event-stream"), { format }), {
      stream: true,
      times: 1,
    });
    expect(mistake).toContain(`answers in another format than ${format}, with the fields `);
  });

  it("is told of a page that calls itself JSON, and of JSON that is no object", async () => {
    const page = await told(relayed(says(200, "<!doctype html><html>")), { times: 1 });
    expect([page.shouldRetry, page.mistake]).toEqual(["false", expect.stringContaining("answers with no JSON")]);
    const list = await told(relayed(says(200, "[]")), { times: 1 });
    expect(list.mistake).toContain("with no known field");
  });

  it("is none where an answer of the right format has a fault or breaks off", async () => {
    for (const body of ['{"type":"message","content":7}', '{"type":"message","con', "", '{"type":"ping"}']) {
      const { mistake, shouldRetry } = await told(relayed(says(200, body)), { times: 1 });
      expect([body, mistake, shouldRetry]).toEqual([body, undefined, null]);
    }
  });

  const start = { type: "message_start", message: { ...ANTHROPIC, content: [] } };
  const created = { type: "response.created", sequence_number: 0, response: { ...RESPONSE, status: "in_progress" } };

  it.each<[of: string, format: (typeof FORMATS)[number], frames: unknown[]]>([
    ["a vendor's own frame", "messages", [{ type: "vertex_event", usage: {} }, start]],
    ["a vendor's own frame", "responses", [{ type: "codex.rate_limits", plan: "pro" }, created]],
    [
      "counts",
      "chat-completions",
      [{ usage: { prompt_tokens: 1 } }, { ...OPENAI, choices: [{ index: 0, delta: { content: "H" } }] }],
    ],
    ["a keep-alive with a field", "messages", [{ type: "ping", cost: "0" }]],
    ["an empty object", "generate-content", [{}]],
    ["an empty object", "chat-completions", [{}]],
    ["the note of a filter", "chat-completions", [{ id: "", choices: [], prompt_filter_results: [] }]],
    ["an error with a text of another name", "chat-completions", [{ code: 1302, msg: "Too many.", success: false }]],
    ["an error with a text of another name", "generate-content", [{ detail: "Too many." }]],
    ["nothing that can be read", "responses", [{ type: "vertex_event", usage: {} }, '{"type":"resp']],
  ])("is none where a stream begins with %s at %s, and breaks off", async (_of, format, frames) => {
    const { log, mistake, text } = await told(relayed(says(200, sse(...frames), "text/event-stream"), { format }), {
      stream: true,
      times: 1,
    });
    expect([mistake, log.includes("another format"), text.includes("error")]).toEqual([undefined, false, true]);
  });

  it.each(FORMATS)("is none at %s where a complete answer is an error with a text of another name", async (format) => {
    for (const body of [{ code: 1302, msg: "Too many.", success: false }, { detail: "Too many." }]) {
      const { mistake, shouldRetry } = await told(relayed(says(200, body), { format }), { times: 1 });
      expect([body, mistake, shouldRetry]).toEqual([body, undefined, null]);
    }
  });

  it("names no secret of the relay", async () => {
    const { mistake, log } = await told(relayed(says(200, { [KEY.replaceAll("-", "_")]: 1, [KEY]: 1 })), { times: 1 });
    expect(mistake).toContain("answers in another format");
    expect(log).not.toContain(KEY);
  });
});

describe("an apiKey without a value", () => {
  const wants = says(401, { error: { message: "No key." } });
  const UNSET = "The relay's apiKey is undefined: is its environment variable set?";

  it("is told by the check, before a call needs it, and by the first call that fails", async () => {
    const listed = relayed(says(200, { data: [{ id: "m" }] }), { apiKey: undefined });
    const { ok, problem } = await listed.check();
    expect([ok, problem]).toEqual([false, `${UNSET} For an upstream without keys, leave apiKey out.`]);
    const { mistake } = await told(relayed(wants, { apiKey: undefined }), { times: 1 });
    expect(mistake).toBe(`The upstream wants a credential. ${UNSET}`);
  });

  it("is no mistake on this machine, with a header in its place, or where it is left out", async () => {
    const list = says(200, { data: [{ id: "m" }] });
    const withHeader = { apiKey: undefined, headers: { authorization: "Bearer one" } };
    for (const backend of [
      relayed(list, { apiKey: undefined, baseUrl: "http://localhost:8000" }),
      relayed(list, { apiKey: undefined, baseUrl: "http://[::1]:8000" }),
      relayed(list, withHeader),
      relay({ format: "messages", baseUrl: "https://up.example", fetch: () => Promise.resolve(list()) }),
    ])
      expect((await backend.check()).problem).toBeUndefined();
  });
});

it("a check knows a list without a name around it, and tells of JSON that is none", async () => {
  expect(await relayed(says(200, [{ id: "m" }]), { models: ["m"] }).check()).toMatchObject({ ok: true, models: ["m"] });
  const { ok, problem } = await relayed(says(200, { status: "ok" })).check();
  expect([ok, problem]).toEqual([
    false,
    "The upstream answers GET /v1/models?limit=1000 with no list of models. Check the relay's baseUrl and format.",
  ]);
});
