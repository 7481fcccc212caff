/** Message threads, which only the newer major has: the gateway keeps no conversations and says so. */

import { expect, it } from "vitest";
import { errorOf, type Stage } from "./sdk.ts";

export function threadsSuite({ sdk, connect }: Stage): void {
  // Taken in silence, the next turn would come without the conversation before it.
  it("are refused by the name that the SDK knows", async () => {
    const thread = connect().beta.messages.thread({ model: "demo-chat", max_tokens: 100 });
    const error = await errorOf(thread.send({ role: "user", content: "Remember me" }));
    expect(error).toBeInstanceOf(sdk.Anthropic.ThreadUnsupportedRequestError);
    expect(error.status).toBe(400);
  });

  it("are gone on without where the caller allows it", async () => {
    const thread = connect().beta.messages.thread({
      model: "demo-chat",
      max_tokens: 100,
      unsupportedRequestBehavior: "continue_unthreaded",
    });
    await thread.send({ role: "user", content: "one two" });
    const second = await thread.send({ role: "user", content: "three" });
    expect(second.content).toMatchObject([{ type: "text", text: "You said: three" }]);
    // The whole conversation arrived, not its last message alone.
    expect(second.usage.input_tokens).toBe(2 + 4 + 1);
  });
}
