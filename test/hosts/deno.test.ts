/** What Deno says of the mount: nothing; and whether the mount hears of hang-ups all the same. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { MINIMAL } from "../formats/messages/bodies.ts";
import { post } from "./stage.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

interface Host extends AsyncDisposable {
  readonly url: string;
  /** The next line of the host's standard output. */
  line(): Promise<string>;
  /** Ends the host; what it has written on standard error. */
  end(): Promise<string>;
}

async function host(flags: readonly string[]): Promise<Host> {
  const args = ["run", "--allow-all", "--quiet", ...flags, `${ROOT}test/hosts/hang-ups.deno.ts`];
  const child = spawn(`${ROOT}node_modules/.bin/deno`, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  const [lines, told, exit] = [
    createInterface(child.stdout)[Symbol.asyncIterator](),
    text(child.stderr),
    once(child, "exit"),
  ];
  const line = async (): Promise<string> => {
    const step = await lines.next();
    return step.done ? `ended: ${await told}` : step.value;
  };
  const end = async (): Promise<string> => {
    child.kill();
    await exit;
    return told;
  };
  return {
    url: `http://127.0.0.1:${await line()}/v1/messages`,
    line,
    end,
    [Symbol.asyncDispose]: async () => void (await end()),
  };
}

describe.each([
  ["as the docs start it", ["--unstable-no-legacy-abort"], /^$/],
  ["without the flag", [], /^Deno\.serve: request\.signal aborts on successful responses[^\n]*\n$/],
])("Deno, %s", (_how, flags, told) => {
  it.each([false, true])("has the mount hear of a hang-up before the answer begins (stream: %s)", async (stream) => {
    await using deno = await host(flags);
    const client = new AbortController();
    const waiting = fetch(deno.url, { ...post({ ...MINIMAL, model: "waits", stream }), signal: client.signal });
    expect(await deno.line()).toBe("waits");
    client.abort();
    await expect(waiting).rejects.toThrow("aborted");
    expect(await deno.line()).toBe("stopped");
  });

  it("answers calls, and says no more than it must", async () => {
    await using deno = await host(flags);
    for (const stream of [false, true, false]) {
      const answer = await fetch(deno.url, post({ ...MINIMAL, stream }));
      expect(await answer.text()).toContain("Hello.");
    }
    expect(await deno.end()).toMatch(told);
  });
});
