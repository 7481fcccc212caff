/** The playground before a real model: the environment names it, in one line or in a file, and a wrong one is told of plainly. */

import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { upstreamBackend } from "../../playground/upstream.ts";
import { type Playground, spawnPlayground, startPlayground, usageOf } from "../clients/playground.ts";

let folder: string;
let upstream: Playground;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-upstream-"));
  // Any model server that speaks one of the formats; this one is here.
  upstream = await startPlayground();
});

afterAll(async () => {
  await upstream.stop();
  await rm(folder, { recursive: true });
});

/** What the model says to a caller of the playground. */
async function said(playground: Playground, model: string): Promise<unknown> {
  const client = new Anthropic({ apiKey: "sk-demo", baseURL: playground.url, maxRetries: 0 });
  const { content } = await client.messages.create({
    model,
    max_tokens: 50,
    messages: [{ role: "user", content: "Hello" }],
  });
  return content[0];
}

/** The models that the playground lists with an upstream. */
async function listed(url: string): Promise<string[]> {
  const playground = await startPlayground({ POLYGATE_UPSTREAM: "chat-completions", POLYGATE_UPSTREAM_URL: url });
  const client = new OpenAI({ apiKey: "sk-demo", baseURL: `${playground.url}/v1`, maxRetries: 0 });
  const { data } = await client.models.list();
  await playground.stop();
  return data.map(({ id }) => id);
}

const LINE = /^The demo cannot use its upstream: [^\n]+\n?$/;
const HELLO = { type: "text", text: "You said: Hello", citations: [] };

async function written(name: string, content: unknown): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
}

describe("the playground", () => {
  it("fronts several upstreams of a file, by model and pattern, under other names", async () => {
    const file = await written("good.json", {
      "mine-*": { format: "messages", url: `${upstream.url}/v1`, key: "sk-demo", model: "demo-chat" },
      ours: { format: "responses", url: `${upstream.url}/v1`, key: "sk-demo", model: "demo-chat" },
      other: [
        { format: "generate-content", url: `${upstream.url}/v1beta`, key: "sk-demo", model: "demo-chat", weight: 0 },
        { format: "chat-completions", url: "http://127.0.0.1:9/v1", model: "demo-chat" },
      ],
    });
    const playground = await startPlayground({ POLYGATE_UPSTREAM_FILE: file });
    expect(await said(playground, "mine-1")).toEqual(HELLO);
    expect(await said(playground, "ours")).toEqual(HELLO);
    // Its first upstream is not there: the second answers.
    expect(await said(playground, "other")).toEqual(HELLO);
    await playground.stop();
  });

  it("fronts an upstream for pictures beside one for chat", async () => {
    const file = await written("pictures.json", {
      "*": { format: "messages", url: `${upstream.url}/v1`, key: "sk-demo" },
      "image-model-*": { format: "images", url: `${upstream.url}/v1`, key: "sk-metered" },
    });
    const playground = await startPlayground({ POLYGATE_UPSTREAM_FILE: file });
    const client = new OpenAI({ apiKey: "sk-demo", baseURL: `${playground.url}/v1`, maxRetries: 0 });
    const { data } = await client.images.generate({ prompt: "A lighthouse", size: "256x256" });
    expect(data?.[0]?.url).toContain(`${playground.url}/v1/images/files/`);
    expect((await usageOf(upstream.url, "sk-metered")).total_used).toBeGreaterThan(0);
    expect(await said(playground, "demo-chat")).toEqual(HELLO);
    await playground.stop();
  });

  it("fronts one upstream, which answers for every name but the demo's own", async () => {
    const playground = await startPlayground({
      POLYGATE_UPSTREAM: "messages",
      POLYGATE_UPSTREAM_URL: `${upstream.url}/v1`,
      POLYGATE_UPSTREAM_KEY: "sk-demo",
    });
    expect(await said(playground, "demo-chat")).toEqual(HELLO);
    await expect(said(playground, "none-of-it")).rejects.toThrow(/There is no model .*none-of-it/);
    expect(playground.process.errors()).not.toContain("sk-demo");
    // The key is also one of the playground's own: it is told as such, and nowhere else.
    expect(playground.process.output()).toBe(upstream.process.output().replaceAll(upstream.url, playground.url));
    await playground.stop();
  });

  it("lists what the upstream lists, beside its own models", async () => {
    const list = { object: "list", data: [{ id: "up-large" }, { id: "demo-chat" }] };
    const server = createServer((_req, res) => {
      res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(list));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const own = ["demo-chat", "image-model-2", "image-model-3", "image-model-multi", "demo-embedding"];
    expect(await listed(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)).toEqual(["up-large", ...own]);
    server.close().closeAllConnections();
    expect(await listed("http://127.0.0.1:9/v1")).toEqual(own);
  });

  it.each<[string, Record<string, string>, RegExp]>([
    [
      "a format that is none",
      { POLYGATE_UPSTREAM: "telepathy", POLYGATE_UPSTREAM_URL: "http://127.0.0.1:9" },
      /must be one of messages, generate-content, chat-completions, responses/,
    ],
    ["no address", { POLYGATE_UPSTREAM: "messages" }, /belong together/],
    ["no format", { POLYGATE_UPSTREAM_URL: "http://127.0.0.1:9" }, /belong together/],
    ["a key alone", { POLYGATE_UPSTREAM_KEY: "sk-secret" }, /belong together/],
    [
      "an address that is none",
      { POLYGATE_UPSTREAM: "messages", POLYGATE_UPSTREAM_URL: "localhost:9" },
      /baseUrl must be http or https/,
    ],
    [
      "a secret in the address",
      { POLYGATE_UPSTREAM: "messages", POLYGATE_UPSTREAM_URL: "http://u:sk-secret@127.0.0.1:9" },
      /no user name or password/,
    ],
    [
      "a key that would split headers",
      {
        POLYGATE_UPSTREAM: "messages",
        POLYGATE_UPSTREAM_URL: "http://127.0.0.1:9",
        POLYGATE_UPSTREAM_KEY: "sk-secret\nx: 1",
      },
      /apiKey must be visible ASCII/,
    ],
    ["a file and more", { POLYGATE_UPSTREAM_FILE: "x.json", POLYGATE_UPSTREAM: "messages" }, /stands alone/],
    ["a file that is not there", { POLYGATE_UPSTREAM_FILE: "/nowhere/x.json" }, /cannot be read: \/nowhere\/x\.json/],
  ])("says in one line what is wrong with %s, and ends", (_name, env, line) => {
    expect(refusal(env)).toMatch(line);
  });

  it.each<[string, unknown, RegExp]>([
    ["is no JSON", '{"a": sk-secret', /is not JSON/],
    ["holds no object", [], /must hold an object/],
    [
      "holds an unknown field",
      { a: { format: "messages", url: "http://127.0.0.1:9", apiKey: "sk-secret" } },
      /"apiKey" is no field/,
    ],
    [
      "holds a bad pattern",
      { "a*b": { format: "messages", url: "http://127.0.0.1:9", key: "sk-secret" } },
      /"a\*b" is neither/,
    ],
    ["holds nothing", {}, /routes is empty/],
  ])("says in one line that a file %s, and ends", async (_name, content, line) => {
    expect(refusal({ POLYGATE_UPSTREAM_FILE: await written("bad.json", content) })).toMatch(line);
  });

  it("says nothing but that line", async () => {
    const started = spawnPlayground({ PORT: "0", POLYGATE_UPSTREAM_KEY: "sk-secret" });
    expect(await started.ended).toEqual({ code: 1, signal: null });
    expect(started.output()).toBe("");
    expect(started.errors()).toMatch(LINE);
    expect(started.errors().trimEnd()).toBe(refusal({ POLYGATE_UPSTREAM_KEY: "sk-secret" }));
  });
});

/** The reason for which the playground refuses an environment, in one line. */
function refusal(env: Readonly<Record<string, string>>): string {
  let reason = "";
  try {
    upstreamBackend(undefined, env);
  } catch (error) {
    reason = (error as Error).message;
  }
  expect(reason).toMatch(LINE);
  expect(reason).not.toContain("sk-secret");
  return reason;
}
