/** The hosts to copy from: each starts by its script, serves the official client, answers by itself, and ends when told to. */

import Anthropic from "@anthropic-ai/sdk";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { scripted } from "../clients/servers.ts";

const names = ["bun", "deno", "express", "fastify", "hono", "koa"];

it("are all there", () => {
  const { scripts } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    scripts: Record<string, string>;
  };
  expect(Object.keys(scripts).filter((name) => name.startsWith("host:"))).toEqual(names.map((name) => `host:${name}`));
});

describe.each(names.map(scripted))("npm run host:$name", ({ available, start }) => {
  it.skipIf(!available)("mounts the gateway", { timeout: 30_000 }, async () => {
    const playground = await start();
    const { url } = playground;
    try {
      expect(await (await fetch(new URL("/", url))).text()).toMatch(/^\w+ is at home\.$/);
      expect((await fetch(`${url}/v1/message`)).status).toBe(404);

      const client = new Anthropic({ apiKey: "sk-demo", baseURL: url, maxRetries: 0 });
      const messages = [{ role: "user" as const, content: "Hello" }];
      const complete = await client.messages.create({ model: "demo-chat", max_tokens: 100, messages });
      expect(complete.content[0]).toMatchObject({ type: "text" });
      const stream = client.messages.stream({ model: "demo-chat", max_tokens: 100, messages });
      expect((await stream.finalMessage()).content).toEqual(complete.content);
      await playground.stop();
    } finally {
      playground.process.child.kill("SIGKILL");
    }
  });
});
