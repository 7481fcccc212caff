/** Which chat-completions requests are answered, as what, and which are refused, with the field that is at fault. */

import { describe, expect, it } from "vitest";
import { ACCEPTED } from "./accepted.ts";
import { REFUSED } from "./refused.ts";
import { having, openStage, plays } from "./stage.ts";

describe("a request", () => {
  const { ask, received } = openStage(plays("Hello."));

  it.each(ACCEPTED)("is answered: %s", async (_name, body, asked, unsupported) => {
    const response = await ask(body);
    expect(await response.json()).toMatchObject({
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
    });
    expect(response.status).toBe(200);
    const request = received.at(-1);
    for (const [field, value] of Object.entries(asked)) expect(request?.[field as keyof typeof request]).toEqual(value);
    // Whatever the gateway understood of it, a backend that speaks the format gets the request as it came.
    const sent = JSON.parse(JSON.stringify(body)) as object;
    const native = {
      format: "chat-completions",
      body: sent,
      betas: [],
      unsupported: expect.any(Function),
      continuation: { prefills: false, body: expect.any(Function) },
    };
    expect(request?.native).toEqual(native);
    expect(request?.native?.unsupported?.()).toEqual(unsupported);
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

  it("that is no JSON is refused", async () => {
    const response = await ask("{");
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: expect.objectContaining({ type: "invalid_request_error", code: "malformed_body", param: null }) },
    ]);
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
