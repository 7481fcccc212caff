/** A request that an upstream may have read is sent once, whatever becomes of its connection: a second one would be paid again. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { rawUpstream, type RawUpstream, whole } from "./raw-upstream.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const ANSWER = whole(
  200,
  "application/json",
  JSON.stringify({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }),
);

const RUNTIMES: readonly [name: string, args: readonly string[]][] = [
  ["node", []],
  ["bun", []],
  ["deno", ["run", "--allow-all", "--quiet"]],
];

const DROPS: readonly [how: string, drop: (socket: Socket) => unknown][] = [
  ["closes", (socket) => socket.destroy()],
  ["resets", (socket) => socket.resetAndDestroy()],
  ["half closes", (socket) => socket.end()],
  ["breaks off its answer on", (socket) => socket.end(ANSWER.subarray(0, 9))],
];

/** Drops the connection behind the second request, once it has read the request. */
const dropping = async (drop: (socket: Socket) => unknown): Promise<RawUpstream> => {
  const upstream: RawUpstream = await rawUpstream((socket) =>
    upstream.requests.length === 2 ? drop(socket) : socket.write(ANSWER),
  );
  return upstream;
};

it.each(RUNTIMES)("has one POST for each call, however a kept connection is dropped (%s)", async (name, args) => {
  const command = `${root}node_modules/.bin/${name}`;
  expect(existsSync(command)).toBe(true);
  await using stack = new AsyncDisposableStack();
  const upstreams = await Promise.all(DROPS.map(([, drop]) => dropping(drop)));
  for (const upstream of upstreams) stack.use(upstream);
  const asking = [...args, `${root}test/upstreams/relay/asks-thrice.ts`, ...upstreams.map(({ url }) => url)];
  const { stdout } = await promisify(execFile)(command, asking, { cwd: root });
  for (const [index, [first, second, third]] of (JSON.parse(stdout) as number[][]).entries()) {
    const how = DROPS[index]?.[0];
    const { requests, connections } = upstreams[index] ?? {};
    const isFailed = second !== undefined && second >= 500;
    expect([how, first, isFailed, third, requests?.length]).toEqual([how, 200, true, 200, 3]);
    // The second call was made on the connection of the first.
    expect([how, connections?.made]).toEqual([how, 2]);
  }
});

describe.each(DROPS)("an upstream that %s a kept connection once it has read the request", (_how, drop) => {
  it("is asked again by a route, within its budget", async () => {
    await using upstream = await dropping(drop);
    const direct = relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: "sk-upstream-key" });
    const backend = route({ routes: { "*": direct }, retry: { pauseMs: 0 } });
    const quotas = memoryQuotaStore([{ apiKey: "sk-caller", granted: 100_000 }]);
    const gateway = createGateway({ backend, quotas, onFailure: () => {} });
    for (let call = 0; call < 2; call++) {
      const response = await gateway.fetch(
        new Request("http://local/v1/chat/completions", {
          method: "POST",
          headers: { authorization: "Bearer sk-caller", "content-type": "application/json" },
          body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] }),
        }),
      );
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("Hello")]);
    }
    expect(upstream.requests).toHaveLength(3);
    await direct.close();
  });
});
