/** The playground's process: where it listens, what it says when it is ready, and how it ends. */

import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { expect, it } from "vitest";
import { portOf } from "../../src/serve/process.ts";
import { spawnPlayground, startPlayground } from "./playground.ts";
import { framesOf, nextText, post } from "./wire.ts";

/** Listens on an address, or undefined where another process does. */
async function listen(port: number, host: string): Promise<Server | undefined> {
  const server = createServer().listen(port, host);
  try {
    await once(server, "listening");
    return server;
  } catch {
    return undefined;
  }
}

async function freePort(): Promise<number> {
  const server = await listen(0, "127.0.0.1");
  const address = server?.address();
  server?.close();
  if (typeof address !== "object" || !address) throw new Error("No port is free.");
  return address.port;
}

it("says where it is in its first line, and nothing but its keys and a command besides", async () => {
  const port = await freePort();
  const playground = await startPlayground({ PORT: String(port) });
  try {
    expect(playground.url).toBe(`http://127.0.0.1:${port}`);
    expect((await post(playground.url, "Hello")).status).toBe(200);
  } finally {
    await playground.stop();
  }
  expect(playground.process.output()).toMatch(
    /^[^\n]*http:\/\/127\.0\.0\.1:\d+\n\nApi keys: [^\n]*\n\ncurl [^\n]*(?: \\\n {2}[^\n]*)*\n$/,
  );
  expect(playground.process.errors()).toBe("");
});

// Every address of 127.0.0.0/8 is the machine's own on Linux alone.
it.skipIf(process.platform !== "linux")("listens on HOST and nowhere else", async () => {
  const playground = await startPlayground({ HOST: "127.0.0.2" });
  try {
    const { hostname, port } = new URL(playground.url);
    expect(hostname).toBe("127.0.0.2");
    expect((await post(playground.url, "Hello")).status).toBe(200);
    await expect(post(`http://127.0.0.1:${port}`, "Hello")).rejects.toThrow("fetch failed");
  } finally {
    await playground.stop();
  }
});

it("goes to 127.0.0.1:3000 where nothing is set, and says plainly that the place is taken", async () => {
  // Taken here, unless it was taken before.
  const blocker = await listen(3000, "127.0.0.1");
  const { child, ended, output, errors } = spawnPlayground({});
  try {
    expect(await ended).toEqual({ code: 1, signal: null });
    expect(output()).toBe("");
    expect(errors()).toContain("127.0.0.1:3000");
  } finally {
    child.kill("SIGKILL");
    blocker?.close();
  }
});

it("says in one line that PORT is none", async () => {
  const { ended, output, errors } = spawnPlayground({ PORT: "abc" });
  expect(await ended).toEqual({ code: 1, signal: null });
  expect(output()).toBe("");
  expect(errors()).toBe(`PORT must be an integer from 0 to 65535, not "abc".\n`);
});

it.each(["-1", "65536", "3000.5", "0x10", " ", ""])("takes %j for no port", (text) => {
  expect(() => portOf("PORT", text)).toThrow(RangeError);
});

it("says in one line that HOST is none of its own", async () => {
  const { ended, errors } = spawnPlayground({ PORT: "0", HOST: "192.0.2.1" });
  expect(await ended).toEqual({ code: 1, signal: null });
  expect(errors()).toMatch(/^Cannot listen on 192\.0\.2\.1:0: this machine has no such address\. .*\n$/);
});

it("takes an empty HOST and PORT for none", async () => {
  const blocker = await listen(3000, "127.0.0.1");
  const { ended, errors } = spawnPlayground({ PORT: "", HOST: "" });
  expect(await ended).toEqual({ code: 1, signal: null });
  expect(errors()).toContain("127.0.0.1:3000");
  blocker?.close();
});

it.each(["SIGTERM", "SIGINT"] as const)(
  "ends by itself at %s, and tells callers whose calls it cuts",
  async (signal) => {
    const { url, process } = await startPlayground();
    try {
      const stream = await post(url, "/delay 600000 /repeat 2", { body: { stream: true } });
      const reader = framesOf(stream).getReader();
      expect(await nextText(reader)).toBe("word");
      // May arrive after the signal.
      const silent = post(url, "/silent 600000").then(
        ({ status }) => status,
        () => "too late",
      );
      process.child.kill(signal);
      expect(await nextText(reader)).toBeUndefined();
      expect([503, "too late"]).toContain(await silent);
      expect(await process.ended).toEqual({ code: 0, signal: null });
    } finally {
      process.child.kill("SIGKILL");
    }
  },
);
