/** Files in turns of the assistant, for the formats that take files from users alone. */

import { describe, expect, it } from "vitest";
import { converseCodec } from "../../src/clouds/converse/upstream.ts";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { responsesCodec } from "../../src/formats/responses/upstream.ts";
import { withFilesOfUsers } from "../../src/formats/shared/moved-files.ts";
import type { ChatMessage, ChatRequest, Part } from "../../src/index.ts";

const text = (said: string): Part => ({ type: "text", text: said });
const picture = (data: string): Part => ({
  type: "media",
  kind: "image",
  source: { type: "base64", mediaType: "image/png", data },
});
const says = (role: ChatMessage["role"], ...parts: Part[]): ChatMessage => ({ role, parts });
const user = (...parts: Part[]): ChatMessage => says("user", ...parts);
const model = (...parts: Part[]): ChatMessage => says("assistant", ...parts);
const CALL: Part = { type: "tool-call", id: "call_1", name: "draw", input: {} };
const RESULT: Part = { type: "tool-result", callId: "call_1", parts: [{ type: "text", text: "Drawn." }] };
const [ASK, FIRST, SECOND, MORE] = [user(text("Draw.")), picture("AAAA"), picture("BBBB"), text("Again.")];

describe("files of the assistant", () => {
  it.each<[where: string, before: ChatMessage[], after: ChatMessage[]]>([
    [
      "before the user's next words",
      [ASK, model(FIRST, text("Here."), SECOND), user(MORE)],
      [ASK, model(text("Here.")), user(FIRST, SECOND, MORE)],
    ],
    [
      "behind the results of tools",
      [ASK, model(FIRST, CALL), user(RESULT, MORE)],
      [ASK, model(CALL), user(RESULT, FIRST, MORE)],
    ],
    ["behind the only results", [ASK, model(FIRST, CALL), user(RESULT)], [ASK, model(CALL), user(RESULT, FIRST)]],
    [
      "behind all turns of the assistant",
      [ASK, model(FIRST), model(SECOND, CALL), user(RESULT)],
      [ASK, model(), model(CALL), user(RESULT, FIRST, SECOND)],
    ],
    [
      "behind instructions",
      [ASK, model(FIRST), says("system", MORE), user(MORE)],
      [ASK, model(), says("system", MORE), user(FIRST, MORE)],
    ],
    [
      "in a turn of their own before the assistant's next",
      [ASK, model(FIRST), says("system", MORE), model(MORE)],
      [ASK, model(), says("system", MORE), user(FIRST), model(MORE)],
    ],
    [
      "in a turn of their own behind instructions",
      [ASK, model(FIRST), says("system", MORE)],
      [ASK, model(), says("system", MORE), user(FIRST)],
    ],
  ])("stand %s", (_where, before, after) => {
    const fields = new Set<never>();
    expect(withFilesOfUsers(before, () => true, fields)).toEqual(after);
    expect([...fields]).toEqual(["messages.media.moved"]);
  });

  it("stand in a turn of their own at the end, which no answer continues", () => {
    const fields = new Set<never>();
    expect(withFilesOfUsers([ASK, model(MORE, FIRST)], () => true, fields)).toEqual([ASK, model(MORE), user(FIRST)]);
    expect([...fields]).toEqual(["messages.media.moved", "messages.prefill"]);
  });

  it("stay where no user may send them, and so does a conversation without any", () => {
    const drawn = [ASK, model(FIRST), user(SECOND)];
    const said = [ASK, model(MORE), user(SECOND)];
    expect(withFilesOfUsers(drawn, () => false, new Set())).toBe(drawn);
    expect(withFilesOfUsers(said, () => true, new Set())).toBe(said);
  });
});

const CODECS = {
  messages: messagesCodec(),
  converse: converseCodec({}, {}),
  "chat-completions": chatCompletionsCodec(),
  responses: responsesCodec(),
};

describe.each(Object.entries(CODECS))("an upstream of %s", (_format, codec) => {
  const encoded = (...messages: ChatMessage[]): readonly [body: string, told: readonly string[]] => {
    const request: ChatRequest = {
      model: "claude-3-haiku",
      messages,
      system: [],
      tools: [],
      stopSequences: [],
      maxOutputTokens: 100,
      stream: false,
    };
    const { body, conversions } = codec.encodeRequest(request);
    return [JSON.stringify(body), conversions.map(({ field, conversion }) => `${field}: ${conversion}`)];
  };

  it("gets the pictures of the assistant from the user, in their order", () => {
    const [body, told] = encoded(ASK, model(FIRST, text("Here."), SECOND), user(MORE));
    expect(body.match(/Draw\.|Here\.|AAAA|BBBB|Again\./g)).toEqual(["Draw.", "Here.", "AAAA", "BBBB", "Again."]);
    expect(told).toEqual(["messages.media.moved: approximated"]);
  });

  it("gets them in a turn of its own where no user's turn follows", () => {
    const [body, told] = encoded(ASK, model(text("Here."), FIRST));
    expect(body.match(/"role":"\w+"/g)).toEqual(['"role":"user"', '"role":"assistant"', '"role":"user"']);
    expect(told).toContain("messages.media.moved: approximated");
  });

  it("is told of a film, which it takes from nobody or from users", () => {
    const film: Part = { type: "media", kind: "video", source: { type: "url", url: "https://films.test/a.mp4" } };
    const [body, told] = encoded(ASK, model(text("Here."), film), user(MORE));
    expect(body).not.toContain("films.test");
    expect(told).toEqual([expect.stringMatching(/^messages\.media\.video: (?:dropped|rejected)$/)]);
  });
});
