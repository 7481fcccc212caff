/** The hosts to copy from: each starts by its script, serves the official client, answers by itself, and ends when told to. */

import { readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, it } from "vitest";
import { scripted } from "../clients/servers.ts";

/** Takes the demo model a while. */
const LAST = "/repeat 10 /delay 100";

const names = ["bun", "deno", "express", "fastify", "hono", "koa"];

it("are all there", () => {
  const { scripts } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    scripts: Record<string, string>;
  };
  expect(Object.keys(scripts).filter((name) => name.startsWith("host:"))).toEqual(names.map((name) => `host:${name}`));
});

describe.each(names.map(scripted))("npm run host:$name", ({ available, start }) => {
  it.skipIf(!available)("mounts the gateway", async () => {
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

      // Told to end, it ends once it has answered what it was asked.
      const last = { model: "demo-chat", max_tokens: 100, messages: [{ role: "user" as const, content: LAST }] };
      const whole = client.messages.create(last);
      const streamed = client.messages.stream(last);
      // By its first event the calls have begun.
      await new Promise((resolve) => streamed.once("connect", () => resolve(undefined)));
      const stopped = playground.stop();
      expect((await whole).stop_reason).toBe("end_turn");
      expect((await streamed.finalMessage()).stop_reason).toBe("end_turn");
      await stopped;
    } finally {
      playground.process.child.kill("SIGKILL");
    }
  });
});
