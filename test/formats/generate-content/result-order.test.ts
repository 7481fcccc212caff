/** Google wants the results of parallel calls in the order of the calls; other clients send them as their tools end. */

import { expect, it } from "vitest";
import { encodeMessages } from "../../../src/formats/generate-content/request.contents.ts";
import type { ChatMessage, Part } from "../../../src/model/chat-request.ts";

const call = (id: string): Part => ({ type: "tool-call", id, name: "read", input: {} });
const result = (callId: string): Part => ({ type: "tool-result", callId, parts: [{ type: "text", text: callId }] });
const turn = (role: ChatMessage["role"], ...parts: Part[]): ChatMessage => ({ role, parts });

it("sends results in the order of their calls, before all other parts of their turn", () => {
  const contents = encodeMessages([
    turn("user", { type: "text", text: "Read." }),
    turn("assistant", call("a"), call("b"), call("c")),
    turn("user", result("c"), { type: "text", text: "Go on." }, result("a"), result("b")),
    turn("assistant", call("d"), call("a")),
    turn("user", result("a"), result("d")),
  ]);
  const sent = contents.map(({ parts }) => parts.map((part) => part.functionResponse?.id ?? part.text ?? "call"));
  expect(sent).toEqual([["Read."], ["call", "call", "call"], ["a", "b", "c", "Go on."], ["call", "call"], ["d", "a"]]);
});
