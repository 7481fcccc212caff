/** Errors of Responses: the SDK's class for each status, their codes and fields, and what is tried again. */

import { expect, it } from "vitest";
import { errorOf, type Stage } from "./sdk.ts";

const model = "demo-chat";

export function responseErrorsSuite({ sdk, connect }: Stage): void {
  const { OpenAI: Api } = sdk;

  it.each([
    ["/fail 400", 400, Api.BadRequestError],
    ["/fail 429", 429, Api.RateLimitError],
    ["/fail 503", 503, Api.InternalServerError],
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
}
