/** The playground's slash commands: that each does what it says, alone and with others, and that a wrong one is refused. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Playground, startPlayground } from "./playground.ts";
import { type Frame, framesOf, nextText, post, type WireError } from "./wire.ts";

/** What became of a message, complete or streamed. */
interface Answer {
  readonly status: number;
  readonly text: string;
  readonly stopReason: string | undefined;
  readonly error: WireError | undefined;
}

interface CompleteAnswer {
  readonly content?: readonly { readonly text: string }[];
  readonly stop_reason?: string;
  readonly error?: WireError;
}

const words = (count: number): string => Array.from({ length: count }, () => "word").join(" ");

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

async function complete(content: string, body: object = {}): Promise<Answer> {
  const response = await post(playground.url, content, { body });
  const { content: blocks, stop_reason, error } = (await response.json()) as CompleteAnswer;
  const text = (blocks ?? []).map((block) => block.text).join("");
  return { status: response.status, text, stopReason: stop_reason, error };
}

async function streamed(content: string, body: object = {}): Promise<Answer> {
  const response = await post(playground.url, content, { body: { ...body, stream: true } });
  if (!response.ok) {
    const { error } = (await response.json()) as Frame;
    return { status: response.status, text: "", stopReason: undefined, error };
  }
  let [text, stopReason, error]: [string, string | undefined, WireError | undefined] = ["", undefined, undefined];
  for await (const frame of framesOf(response)) {
    text += frame.delta?.text ?? "";
    stopReason ??= frame.delta?.stop_reason;
    error ??= frame.error;
  }
  return { status: response.status, text, stopReason, error };
}

describe.each([
  ["complete", complete],
  ["streamed", streamed],
])("%s", (form, ask) => {
  it.each([0, 1, 2, 100, 999])("/repeat %i gives exactly so many words", async (count) => {
    expect(await ask(`/repeat ${count}`)).toEqual({
      status: 200,
      text: words(count),
      stopReason: "end_turn",
      error: undefined,
    });
  });

  it.each(["/block", "/block this", "/delay 1 /block\nthat"])("%o gives no answer", async (content) => {
    expect(await ask(content)).toEqual({ status: 200, text: "", stopReason: "refusal", error: undefined });
  });

  it("/repeat ends at max_tokens", async () => {
    expect(await ask("/repeat 100", { max_tokens: 7 })).toMatchObject({ text: words(7), stopReason: "max_tokens" });
  });

  it.each(["/delay 1", "/delay 0", "/silent 1", "/silent 0"])("%s loses no word of the answer", async (command) => {
    expect(await ask(`${command} Hello there`)).toMatchObject({ status: 200, text: "You said: Hello there" });
  });

  // Each format has its own status for a refusal: this one knows no 403 and 404 (spec 7.2).
  it.each([
    [403, 400, "invalid_request_error", "model_not_allowed"],
    [404, 400, "invalid_request_error", "model_not_found"],
    [429, 429, "rate_limit_error", "rate_limit_exceeded"],
    [503, 503, "server_error", "backend_unavailable"],
  ])("/fail %i fails before the first event", async (asked, status, type, code) => {
    const answer = await ask(`/fail ${asked} Hello`);
    expect(answer).toMatchObject({ status, text: "", error: { type, code } });
  });

  it.each([
    [429, "rate_limit_error", "rate_limit_exceeded"],
    [500, "server_error", "backend_failed"],
    [503, "server_error", "backend_unavailable"],
  ])("/break %i fails in the middle", async (status, type, code) => {
    expect(await ask(`/break ${status} /repeat 10`)).toEqual({
      // A stream has begun by then, with the status and the words that it had.
      ...(form === "streamed" ? { status: 200, text: words(5) } : { status, text: "" }),
      stopReason: undefined,
      error: { type, code, message: expect.any(String) as unknown },
    });
  });

  it.each([
    ["/delay 1 /repeat 3", { text: "word word word" }],
    ["/repeat 3 /delay 1 /silent 1", { text: "word word word" }],
    ["/repeat 3 /repeat 2", { text: "word word" }],
    ["/silent 1 /fail 503", { status: 503 }],
    ["/break 500 /fail 503", { status: 503 }],
    ["  /repeat 2", { text: "word word" }],
    ["/repeat 2\nand more", { text: "word word" }],
  ])("are combined: %o", async (content, expected) => {
    expect(await ask(content)).toMatchObject(expected);
  });

  it.each(["Say /repeat 3", "/repeated 3", "/blocked", "/block-me", "/unknown 3", "/ repeat 3"])(
    "%o is no command",
    async (content) => {
      expect(await ask(content)).toMatchObject({ status: 200, text: `You said: ${content}` });
    },
  );

  it.each([
    ["/repeat", "/repeat"],
    ["/repeat many", "/repeat"],
    ["/repeat -1", "/repeat"],
    ["/delay", "/delay"],
    ["/delay soon", "/delay"],
    ["/silent -5", "/silent"],
    ["/fail 418", "/fail"],
    ["/break 200", "/break"],
    ["/repeat 2 /delay x", "/delay"],
  ])("%o is a clear 400", async (content, command) => {
    const { status, error } = await ask(content);
    expect(status).toBe(400);
    expect(error).toMatchObject({ type: "invalid_request_error", code: "invalid_request" });
    expect(error?.message.split(" ")[0]).toBe(command);
  });
});

it("reads the commands of the last user message alone", async () => {
  const said = { role: "user", content: "/fail 503" };
  const answered = { role: "assistant", content: "/fail 504" };
  const messages = [said, answered, { role: "user", content: "/repeat 2" }];
  expect(await complete("", { messages })).toMatchObject({ status: 200, text: "word word" });
});

it("/delay keeps the next word back", async () => {
  const controller = new AbortController();
  const stream = await post(playground.url, "/delay 600000 /repeat 2", {
    body: { stream: true },
    signal: controller.signal,
  });
  const reader = framesOf(stream).getReader();
  expect(await nextText(reader)).toBe("word");
  // A whole other answer comes first.
  const next = nextText(reader).catch(() => "cut");
  expect(await Promise.race([next, complete("Hello").then(({ text }) => text)])).toBe("You said: Hello");
  controller.abort();
  expect(await next).toBe("cut");
});

it("/silent keeps everything back", async () => {
  const controller = new AbortController();
  const silent = post(playground.url, "/silent 600000 /fail 503", { signal: controller.signal }).then(
    ({ status }) => String(status),
    () => "cut",
  );
  expect(await Promise.race([silent, complete("Hello").then(({ text }) => text)])).toBe("You said: Hello");
  controller.abort();
  expect(await silent).toBe("cut");
});
