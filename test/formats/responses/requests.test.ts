/** Which Responses requests are answered, as what, and which are refused, with the field that is at fault. */

import { describe, expect, it } from "vitest";
import { ACCEPTED } from "./accepted.ts";
import { REFUSED } from "./refused.ts";
import { having, openStage, plays } from "./stage.ts";

describe("a request", () => {
  const { ask, received } = openStage(plays("Hello."));

  it.each(ACCEPTED)("is answered: %s", async (_name, body, asked, unsupported) => {
    const response = await ask(body);
    expect(await response.json()).toMatchObject({
      object: "response",
      status: "completed",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello." }] }],
    });
    expect(response.status).toBe(200);
    const request = received.at(-1);
    for (const [field, value] of Object.entries(asked)) expect(request?.[field as keyof typeof request]).toEqual(value);
    // A backend that speaks the format gets the request as it came, whatever the gateway understood of it.
    expect(request?.native).toMatchObject({ format: "responses", body: JSON.parse(JSON.stringify(body)) as object });
    expect(request?.native?.unsupported?.().toSorted()).toEqual(unsupported.toSorted());
  });

  it.each(REFUSED)("is refused: %s", async (_name, body, param) => {
    const before = received.length;
    const response = await ask(body);
    expect(await response.json()).toEqual({
      error: { message: expect.any(String), type: "invalid_request_error", code: "invalid_value", param },
    });
    expect(response.status).toBe(400);
    expect(received).toHaveLength(before);
  });

  it("with a tool of an unknown type is refused by the name of the tool", async () => {
    const response = await ask(having({ tools: [{ type: "telepathy" }] }));
    expect(await response.json()).toMatchObject({
      error: {
        message: 'tools.0.type: must be "function", "custom" or a tool of the provider, not "telepathy"',
        param: "tools.0.type",
      },
    });
  });

  it.each(["{", "", "[", '{"input":'])("that is no JSON is refused: %j", async (body) => {
    const response = await ask(body);
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: expect.objectContaining({ type: "invalid_request_error", code: "malformed_body", param: null }) },
    ]);
  });

  it("names an earlier item that is nowhere", async () => {
    const items = [
      { role: "user", content: "Hi" },
      { type: "item_reference", id: "msg_0" },
    ];
    const response = await ask(having({ input: items }));
    expect([response.status, await response.json()]).toMatchObject([404, { error: { param: "input.1.id" } }]);
  });

  it.each([
    ["previous_response_id", { previous_response_id: "resp_0" }, "previous_response_not_found"],
    ["conversation", { conversation: "conv_0" }, "not_found"],
    ["conversation", { conversation: { id: "conv_0" } }, "not_found"],
  ])("names in %s what is nowhere: %j", async (param, changes, code) => {
    const response = await ask(having(changes));
    expect([response.status, await response.json()]).toMatchObject([404, { error: { param, code } }]);
  });

  it.each([
    ["no key", { authorization: "" }, "missing_api_key"],
    ["an unknown key", { authorization: "Bearer sk-nobody" }, "invalid_api_key"],
    ["another scheme", { authorization: "Basic abc" }, "invalid_api_key"],
  ])("with %s is 401", async (_name, headers, code) => {
    const response = await ask(having(), headers);
    expect([response.status, await response.json()]).toMatchObject([401, { error: { code, param: null } }]);
    expect(response.headers.get("x-request-id")).toMatch(/^req_\w+$/);
  });
});

describe("the count of a request", () => {
  const { ask, received } = openStage(plays("Hello."), { path: "/v1/responses/input_tokens" });

  async function count(input: unknown): Promise<number> {
    const counted = (await (await ask(having({ input }))).json()) as { object: string; input_tokens: number };
    expect(counted.object).toBe("response.input_tokens");
    return counted.input_tokens;
  }

  it("needs no backend, and grows with the input", async () => {
    const [one, more] = [await count("Hi"), await count([{ role: "user", content: "Hi, how are you today?" }])];
    expect(one).toBeGreaterThan(0);
    expect(more).toBeGreaterThan(one);
    expect(received).toEqual([]);
  });

  it("may name no model: the gateway then estimates it, and asks no backend", async () => {
    const { model: _, ...unnamed } = having({ input: "Hi" }) as { model?: string };
    for (const body of [unnamed, { ...unnamed, model: null }])
      expect(await (await ask(body)).json()).toEqual({
        object: "response.input_tokens",
        input_tokens: await count("Hi"),
      });
    expect(received).toEqual([]);
  });

  it.each(REFUSED.filter(([name]) => name !== "no model"))(
    "is refused as the request is: %s",
    async (_name, body, param) => {
      const response = await ask(body);
      expect([response.status, await response.json()]).toMatchObject([
        400,
        { error: { code: "invalid_value", param } },
      ]);
    },
  );
});

it("a conversation cannot be compacted", async () => {
  const { ask } = openStage(plays("Hello."), { path: "/v1/responses/compact" });
  const response = await ask(having());
  expect([response.status, await response.json()]).toEqual([
    404,
    {
      error: {
        message: "This service cannot compact conversations.",
        type: "invalid_request_error",
        code: "not_found",
        param: null,
      },
    },
  ]);
});
