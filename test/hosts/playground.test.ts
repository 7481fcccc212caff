/** The hosts to copy from: each starts by its script, serves the official client, answers by itself, and ends when told to. */

import Anthropic from "@anthropic-ai/sdk";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const bin = `${root}node_modules/.bin`;
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { scripts: Record<string, string> };
const hostScripts = Object.entries(scripts).filter(([name]) => name.startsWith("host:"));

it("are all there", () => {
  const names = hostScripts.map(([name]) => name.replace("host:", ""));
  expect(names).toEqual(["bun", "deno", "express", "fastify", "hono", "koa"]);
});

describe.each(hostScripts)("npm run %s", (_name, script) => {
  const [command = "", ...args] = script.split(" ");

  it.skipIf(!existsSync(`${bin}/${command}`))("mounts the gateway", { timeout: 30_000 }, async () => {
    const env = { ...process.env, PORT: "0", HOST: "127.0.0.1" };
    const child = spawn(`${bin}/${command}`, args, { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
    try {
      const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
      const baseURL = /http:\S+/.exec(line)?.[0] ?? "";
      expect(await (await fetch(new URL("/", baseURL))).text()).toMatch(/^\w+ is at home\.$/);

      const client = new Anthropic({ apiKey: "sk-demo", baseURL, maxRetries: 0 });
      const messages = [{ role: "user" as const, content: "Hello" }];
      const complete = await client.messages.create({ model: "demo-chat", max_tokens: 100, messages });
      expect(complete.content[0]).toMatchObject({ type: "text" });
      const stream = client.messages.stream({ model: "demo-chat", max_tokens: 100, messages });
      expect((await stream.finalMessage()).content).toEqual(complete.content);

      child.kill("SIGTERM");
      expect(await once(child, "exit")).toEqual([0, null]);
    } finally {
      child.kill("SIGKILL");
    }
  });
});
