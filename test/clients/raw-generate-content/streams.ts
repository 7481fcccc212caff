/** Streams as bytes: events with alt=sse, and one JSON array without. */

import { expect, it } from "vitest";
import { type Answer, type Bytes, bytesOf, head, KEY, open, say, STREAM, textOf, type Url } from "./socket.ts";

/** The chunks of an event stream's body; an error is told once more beside its frame. */
const chunksOf = (body: Buffer): Answer[] =>
  body
    .toString()
    .split("\n\n")
    .slice(0, -1)
    .map((frame) => JSON.parse(frame.replace(/^data: /, "")) as Answer);

export function eventStreamSuite(url: Url): void {
  const streamed = (body: object): Promise<Bytes> =>
    bytesOf(url(), { path: `${STREAM}?alt=sse`, body: JSON.stringify(body) });

  it("is data alone: a line of JSON and an empty line, again and again", async () => {
    const { head, body } = await streamed(say("Hello there", { generationConfig: { candidateCount: 2 } }));
    // Deno answers in the version that it was asked in.
    expect(head).toMatch(/^HTTP\/1\.[01] 200 /);
    expect(head).toMatch(/^content-type: text\/event-stream/im);
    expect(body.toString()).toMatch(/^(?:data: \{[^\n\r]*\}\n\n)+$/);
  });

  it("has no character that a reader of lines could take for the end of one", async () => {
    const text = "a\u2028b\u2029c\nd\re\u0085f";
    const { body } = await streamed(say(text));
    expect(body.toString()).not.toMatch(/[\r\u2028\u2029]/);
    expect(
      body
        .toString()
        .split("\n")
        .every((line) => line === "" || line.startsWith("data: ")),
    ).toBe(true);
    expect(textOf(chunksOf(body))).toBe(`You said: ${text}`);
  });

  it("ends with reason, counts and an empty text in one chunk", async () => {
    const { body } = await streamed(say("Hello there"));
    const chunks = chunksOf(body);
    expect(chunks.at(-1)).toMatchObject({
      candidates: [{ content: { role: "model", parts: [{ text: "" }] }, finishReason: "STOP", index: 0 }],
      usageMetadata: { promptTokenCount: 2, candidatesTokenCount: 4, totalTokenCount: 6 },
    });
    expect(chunks.slice(0, -1).some(({ candidates }) => candidates?.[0]?.finishReason)).toBe(false);
  });

  it("ends cleanly after an error in its middle", async () => {
    const { body } = await streamed(say("/break 503 /repeat 4"));
    const chunks = chunksOf(body);
    expect(textOf(chunks)).toBe("word word");
    expect(chunks.at(-1)).toEqual({
      error: { code: 503, status: "UNAVAILABLE", message: expect.any(String) as unknown, details: [] },
    });
  });

  it("is no stream where it fails before it begins", async () => {
    const { head, body } = await streamed(say("/fail 503"));
    expect(head).toMatch(/^HTTP\/1\.[01] 503 /);
    expect(head).toMatch(/^content-type: application\/json/im);
    expect(JSON.parse(body.toString())).toMatchObject({ error: { code: 503, status: "UNAVAILABLE" } });
  });
}

export function arrayStreamSuite(url: Url): void {
  const streamed = async (body: object, query = ""): Promise<{ head: string; text: string }> => {
    const answer = await bytesOf(url(), { path: STREAM + query, body: JSON.stringify(body) });
    return { head: answer.head, text: answer.body.toString() };
  };

  it.each(["", "?alt=json", "?alt="])("is one JSON array (%o)", async (query) => {
    const { head, text } = await streamed(say("Hello there"), query);
    expect(head).toMatch(/^content-type: application\/json/im);
    const chunks = JSON.parse(text) as Answer[];
    expect(chunks.length).toBeGreaterThan(2);
    expect(textOf(chunks)).toBe("You said: Hello there");
    expect(chunks.at(-1)).toMatchObject({ candidates: [{ finishReason: "STOP" }], usageMetadata: {} });
  });

  it("has the same elements as the event stream", async () => {
    const { text } = await streamed(say("Hello there"));
    const events = await bytesOf(url(), { path: `${STREAM}?alt=sse`, body: JSON.stringify(say("Hello there")) });
    expect((JSON.parse(text) as Answer[]).map(({ candidates }) => candidates)).toEqual(
      chunksOf(events.body).map(({ candidates }) => candidates),
    );
  });

  it("comes element by element", async () => {
    const socket = await open(url());
    const body = JSON.stringify(say("/delay 600000 /repeat 2"));
    socket.write(head(url() + STREAM, { ...KEY, "content-length": String(body.length) }, "1.0") + body);
    let text = "";
    for await (const piece of socket.setEncoding("utf8")) {
      text += String(piece);
      if (text.includes('"word"')) break;
    }
    const element = text
      .slice(text.indexOf("\r\n\r\n") + 4)
      .replace(/^\[/, "")
      .trim();
    expect(textOf([JSON.parse(element) as Answer])).toBe("word");
  });

  it("is still an array after an error in its middle", async () => {
    const chunks = JSON.parse((await streamed(say("/break 503 /repeat 4"))).text) as Answer[];
    expect(textOf(chunks)).toBe("word word");
    expect(chunks.at(-1)).toMatchObject({ error: { code: 503, status: "UNAVAILABLE" } });
  });
}
