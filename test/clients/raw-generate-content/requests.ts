/** Requests as bytes: how a body may arrive, what it may hold, and what is refused. */

import { expect, it } from "vitest";
import { ask, COMPLETE, head, KEY, open, readAll, say, textOf, type Url } from "./socket.ts";

/** Sends a body in chunks of so many bytes, and reads the answer to its end. */
async function chunked(url: string, body: string, size: number): Promise<string> {
  const socket = await open(url);
  socket.write(head(url + COMPLETE, { ...KEY, "transfer-encoding": "chunked", connection: "close" }));
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size);
    socket.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")]));
  }
  socket.write("0\r\n\r\n");
  return (await readAll(socket)).toString();
}

export function requestSuite(url: Url): void {
  it.each([1, 2, 7, 1_000])("may come in chunks of %i bytes", async (size) => {
    const answer = await chunked(url(), JSON.stringify(say("naïve 😀")), size);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toContain("You said: naïve 😀");
  });

  it("may follow another on one connection", async () => {
    const socket = await open(url());
    const one = JSON.stringify(say("one"));
    const two = JSON.stringify(say("two"));
    socket.write(head(url() + COMPLETE, { ...KEY, "content-length": String(one.length) }) + one);
    socket.write(head(url() + COMPLETE, { ...KEY, "content-length": String(two.length), connection: "close" }) + two);
    expect((await readAll(socket)).toString()).toMatch(/You said: one[\s\S]*You said: two/);
  });

  it.each<[string, unknown]>([
    ["a single Content", { contents: { parts: [{ text: "Hi" }] } }],
    ["a bare string", { contents: "Hi" }],
    ["a list of strings", { contents: ["Hi"] }],
    [
      "nulls for what may be left out",
      { contents: [{ role: null, parts: [{ text: "Hi", thought: null }] }], tools: null, generationConfig: null },
    ],
    ["an empty role", { contents: [{ role: "", parts: [{ text: "Hi" }] }] }],
    ["the name of its model in the body", { model: "models/demo-chat", contents: "Hi" }],
  ])("may hold %s", async (_what, body) => {
    const answer = await ask(url(), body);
    expect(answer).toMatchObject({ status: 200 });
    expect(textOf([answer])).toBe("You said: Hi");
  });

  it.each([
    ["nothing", ""],
    ["no JSON", "{"],
    ["a list", "[]"],
    ["null", "null"],
    ["no contents", "{}"],
    ["contents of nothing", '{"contents":[]}'],
    ["a part of nothing", '{"contents":[{"parts":[{}]}]}'],
    ["a part of two kinds", '{"contents":[{"parts":[{"text":"a","functionCall":{"name":"b"}}]}]}'],
    ["a role of no kind", '{"contents":[{"role":"king","parts":[{"text":"a"}]}]}'],
    ["one field in both spellings", '{"contents":"a","generationConfig":{"topP":0.5,"top_p":0.5}}'],
  ])("is refused with %s", async (_what, body) => {
    expect(await ask(url(), body)).toMatchObject({ status: 400, error: { code: 400, status: "INVALID_ARGUMENT" } });
  });

  it.each([
    ["contents", { contents: "Think of me" }],
    ["a whole request", { generateContentRequest: { model: "models/demo-chat", contents: "Think of me" } }],
    [
      "a whole request in the other spelling",
      { generate_content_request: { contents: { parts: { text: "Think of me" } } } },
    ],
  ])("is counted with %s, and no more is said", async (_what, body) => {
    const path = "/v1beta/models/demo-chat:countTokens";
    expect(await ask(url(), body, { path })).toEqual({ status: 200, totalTokens: 3 });
  });

  it("is refused where it is too large", async () => {
    const answer = await ask(url(), say("x".repeat(33 * 1024 * 1024)));
    expect(answer).toMatchObject({ status: 413, error: { code: 413, status: "PAYLOAD_TOO_LARGE" } });
  });
}
