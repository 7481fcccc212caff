/** Replays the recorded generate-content cases through the gateway, byte for byte; `vitest -u` records them anew. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ChatRequest, createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { type Recorded, RECORDED_ANSWERS } from "./recorded.ts";

const RECORDINGS = join(import.meta.dirname, "..", "..", "recordings", "generate-content");

/** Ids are random; in a recording they are always the same. */
const withFixedIds = (text: string): string => text.replaceAll(/\b(req|resp)_[0-9a-f]{32}\b/g, "$1_0");

async function expectRecorded(text: string, file: string): Promise<void> {
  // The comparison would take other line breaks for the same.
  expect(text).not.toContain("\r");
  await expect(withFixedIds(text)).toMatchFileSnapshot(join(RECORDINGS, file));
}

const requestOf = async (name: string): Promise<object> =>
  JSON.parse(await readFile(join(RECORDINGS, `${name}.request.json`), "utf8")) as object;

interface Replay {
  readonly status: number;
  readonly text: string;
  readonly asked: readonly ChatRequest[];
}

async function replay(body: object, method: string, events: Recorded): Promise<Replay> {
  const asked: ChatRequest[] = [];
  const gateway = createGateway({
    quotas: memoryQuotaStore([{ apiKey: "sk-unlimited" }]),
    onFailure: () => {},
    backend: {
      models: () => [{ id: "model-a" }],
      async *chat(request) {
        asked.push(request);
        yield* replayed(events);
      },
    },
  });
  const headers = { "content-type": "application/json", "x-goog-api-key": "sk-unlimited" };
  const url = `http://gateway.test/v1beta/models/model-a:${method}`;
  const response = await gateway.fetch(new Request(url, { method: "POST", headers, body: JSON.stringify(body) }));
  return { status: response.status, text: await response.text(), asked };
}

it("has all its files and no other", async () => {
  const answered = Object.keys(RECORDED_ANSWERS).flatMap((name) =>
    ["request.json", "response.json", "events.txt"].map((kind) => `${name}.${kind}`),
  );
  expect((await readdir(RECORDINGS)).toSorted()).toEqual(answered.toSorted());
});

describe.each(Object.entries(RECORDED_ANSWERS))("%s", (name, events) => {
  const breaks = events.some((event) => event instanceof Error);

  it("complete", async () => {
    const body = await requestOf(name);
    const { status, text, asked } = await replay(body, "generateContent", events);
    expect(status).toBe(breaks ? 503 : 200);
    await expectRecorded(`${text}\n`, `${name}.response.json`);
    // What a backend of the same format would forward is what came.
    expect(asked.map(({ native }) => native?.body)).toEqual([body]);
  });

  it("streamed", async () => {
    const body = await requestOf(name);
    const { status, text, asked } = await replay(body, "streamGenerateContent?alt=sse", events);
    expect(status).toBe(200);
    await expectRecorded(text, `${name}.events.txt`);
    expect(asked.map(({ native }) => native?.body)).toEqual([body]);
    expect(asked).toMatchObject([{ stream: true }]);
  });

  it("streamed as an array of the same chunks", async () => {
    const body = await requestOf(name);
    const { status, text } = await replay(body, "streamGenerateContent", events);
    expect(status).toBe(200);
    const sse = (await replay(body, "streamGenerateContent?alt=sse", events)).text;
    // An error is told once more beside the frames.
    const frames = sse.split("\n\n").filter((frame) => frame.startsWith("data: "));
    const chunks: unknown[] = frames.map((frame) => JSON.parse(frame.slice("data: ".length)) as unknown);
    expect(JSON.parse(withFixedIds(text))).toEqual(JSON.parse(withFixedIds(JSON.stringify(chunks))));
  });
});

async function* replayed(events: Recorded) {
  for (const event of events) {
    if (event instanceof Error) throw event;
    yield event;
  }
}
