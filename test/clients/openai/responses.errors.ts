/** Errors of Responses: the SDK's class for each status, their codes and fields, and what is tried again. */

import { expect, it } from "vitest";
import { errorOf, type Stage } from "./sdk.ts";

const model = "demo-chat";

export function responseErrorsSuite({ sdk, connect }: Stage): void {
  const { OpenAI: Api } = sdk;

  it.each([
    ["/fail 400", 400, Api.BadRequestError],
    ["/fail 401", 401, Api.AuthenticationError],
    ["/fail 403", 403, Api.PermissionDeniedError],
    ["/fail 404", 404, Api.NotFoundError],
    ["/fail 413", 413, Api.APIError],
    ["/fail 429", 429, Api.RateLimitError],
    ["/fail 500", 500, Api.InternalServerError],
    ["/fail 503", 503, Api.InternalServerError],
    ["/fail 504", 504, Api.InternalServerError],
    ["/break 500", 500, Api.InternalServerError],
  ] as const)("%s is %i in its own class, before a stream as well", async (input, status, kind) => {
    const { responses } = connect();
    const calls: (() => Promise<unknown>)[] = [() => responses.create({ model, input })];
    if (input.startsWith("/fail")) calls.push(() => responses.stream({ model, input }).finalResponse());
    for (const call of calls) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status, requestID: expect.stringMatching(/^req_\w+$/) });
    }
  });

  it.each([
    ["a field", { temperature: 3 }, "sk-demo", 400, "invalid_value", "temperature"],
    ["an item", { input: [{ type: "smell" }] }, "sk-demo", 400, "invalid_value", "input.0.type"],
    ["a model", { model: "nobody" }, "sk-demo", 404, "model_not_found", "model"],
    ["a model that the key may not use", { model: "demo-draw" }, "sk-limited", 403, "model_not_allowed", "model"],
    ["an unknown key", {}, "sk-nobody", 401, "invalid_api_key", null],
    ["a key that has expired", {}, "sk-expired", 401, "expired_api_key", null],
    ["a key that is used up", {}, "sk-empty", 429, "insufficient_quota", null],
    [
      "a response that is not there",
      { previous_response_id: "resp_0" },
      "sk-demo",
      404,
      "previous_response_not_found",
      "previous_response_id",
    ],
  ])("name %s", async (_name, changes, apiKey, status, code, param) => {
    const error = await errorOf(connect({ apiKey }).responses.create({ model, input: "Hi", ...changes } as never));
    expect(error).toMatchObject({ status, code, param });
  });

  it("of a quota that is used up are not tried again, and of a server are", async () => {
    let sent = 0;
    const counting: typeof fetch = (input, init) => {
      sent++;
      return fetch(input, init);
    };
    const client = (apiKey: string) => connect({ apiKey, maxRetries: 1, fetch: counting }).responses;
    await errorOf(client("sk-empty").create({ model, input: "Hi" }));
    expect(sent).toBe(1);
    await errorOf(client("sk-demo").create({ model, input: "/fail 429" }));
    expect(sent).toBe(3);
  });

  it("come in the middle of a stream, after what was said before", async () => {
    const asked = { model, input: "/break 500 /repeat 4" };
    const stream = await connect().responses.create({ ...asked, stream: true });
    let said = "";
    const read = async (): Promise<void> => {
      for await (const event of stream) if (event.type === "response.output_text.delta") said += event.delta;
    };
    const snapshots: string[] = [];
    const help = () =>
      connect()
        .responses.stream(asked)
        .on("response.output_text.delta", ({ snapshot }) => void snapshots.push(snapshot))
        .finalResponse();
    for (const call of [read, help]) {
      const error = await errorOf(call());
      expect(error).toBeInstanceOf(Api.APIError);
      expect(error).toMatchObject({ code: "backend_failed", type: "server_error" });
    }
    expect(said).toBe("word word");
    expect(snapshots).toEqual(["word", "word word"]);
  });

  it("tell that nothing can be compacted", async () => {
    const error = await errorOf(connect().responses.compact({ model, input: "Hi" }));
    expect(error).toBeInstanceOf(Api.NotFoundError);
    expect(error).toMatchObject({ status: 404, type: "invalid_request_error", code: "not_found" });
    expect(error.message).toContain("compact");
  });
}
