/** Replays the recorded cases of every format through the gateway, byte for byte; `vitest -u` records them anew. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createGateway, type ChatRequest, GatewayError, memoryQuotaStore } from "../../src/index.ts";
import { UNASKED } from "../pipeline/bench.ts";
import { type Recorded, RECORDED_KEYS, RECORDED_MESSAGES, RECORDED_TOKEN_USAGE } from "./recorded.ts";

const RECORDINGS = join(import.meta.dirname, "..", "recordings");

/** Ids are random; in a recording they are always the same. */
const withFixedIds = (text: string): string => text.replaceAll(/\b(req|msg)_[0-9a-f]{32}\b/g, "$1_0");

async function expectRecorded(text: string, ...path: readonly string[]): Promise<void> {
  // The comparison would take other line breaks for the same.
  expect(text).not.toContain("\r");
  await expect(withFixedIds(text)).toMatchFileSnapshot(join(RECORDINGS, ...path));
}

const filesOf = (cases: object, ...kinds: readonly string[]): string[] =>
  Object.keys(cases)
    .flatMap((name) => kinds.map((kind) => `${name}.${kind}`))
    .toSorted();

describe("messages", async () => {
  const dir = join(RECORDINGS, "messages");
  const files = await readdir(dir);

  it("has all its files and no other", () => {
    const kinds = ["request.json", "response.json", "events.txt"];
    expect(files.toSorted()).toEqual(filesOf(RECORDED_MESSAGES, ...kinds));
  });

  describe.each(Object.entries(RECORDED_MESSAGES))("%s", (name, events) => {
    async function replay(stream: boolean) {
      const wire = JSON.parse(await readFile(join(dir, `${name}.request.json`), "utf8")) as object;
      const asked: ChatRequest[] = [];
      const gateway = createGateway({
        quotas: memoryQuotaStore(RECORDED_KEYS),
        onFailure: () => {},
        backend: {
          async *chat(request) {
            asked.push(request);
            yield* replayed(events);
          },
        },
      });
      const body = { ...wire, stream };
      const headers = {
        "content-type": "application/json",
        "x-api-key": "sk-unlimited",
        "compat-version": "2026-10-21",
      };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await gateway.fetch(new Request("http://gateway.test/v1/messages", init));
      // What a backend of the same format would forward is what came.
      expect(asked.map(({ native }) => native?.body)).toEqual([body]);
      return { status: response.status, text: await response.text() };
    }

    const fails = events.some((event) => event instanceof GatewayError);

    it("complete", async () => {
      const { status, text } = await replay(false);
      expect(status).toBe(fails ? 503 : 200);
      await expectRecorded(`${text}\n`, "messages", `${name}.response.json`);
    });

    it("streamed", async () => {
      const { status, text } = await replay(true);
      expect(status).toBe(200);
      await expectRecorded(text, "messages", `${name}.events.txt`);
    });
  });
});

describe("token usage", async () => {
  const files = await readdir(join(RECORDINGS, "token-usage"));

  it("has all its files and no other", () => {
    expect(files.toSorted()).toEqual(filesOf(RECORDED_TOKEN_USAGE, "response.json"));
  });

  it.each(Object.entries(RECORDED_TOKEN_USAGE))("%s", async (name, authorization) => {
    const gateway = createGateway({ quotas: memoryQuotaStore(RECORDED_KEYS), backend: UNASKED });
    const headers = new Headers(authorization === undefined ? {} : { authorization });
    const response = await gateway.fetch(new Request("http://gateway.test/api/usage/token", { headers }));
    const text = await response.text();
    const { code } = JSON.parse(text) as { code?: true };
    expect(response.status).toBe(code ? 200 : 401);
    await expectRecorded(`${text}\n`, "token-usage", `${name}.response.json`);
  });
});

async function* replayed(events: Recorded) {
  for (const event of events) {
    if (event instanceof GatewayError) throw event;
    yield event;
  }
}
