/** The first words of the playground: its keys, and a command that can be copied. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { demoKeys } from "../../playground/keys.ts";
import { type Playground, startPlayground } from "../clients/playground.ts";

const run = promisify(execFile);

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

it("names each key, and what it is there for", () => {
  for (const { apiKey } of demoKeys)
    expect(playground.process.output()).toMatch(new RegExp(`${String(apiKey)} \\([^)]+\\)`));
});

it("gives a command for a shell, which is answered", async () => {
  const [command = ""] = /^curl [^]*/m.exec(playground.process.output()) ?? [];
  // The shell reads the command; the call is made here, because not every machine has curl.
  const { stdout } = await run("sh", ["-c", `curl() { printf '%s\\0' "$@"; }\n${command}`]);
  const [url = "", ...options] = stdout.split("\0");
  const valuesOf = (option: string): string[] => options.filter((_, index) => options[index - 1] === option);
  const headers = valuesOf("-H").map((line) => line.split(": ") as [string, string]);
  const response = await fetch(url, { method: "POST", headers, body: valuesOf("-d")[0] ?? "" });
  expect(await response.json()).toMatchObject({ content: [{ type: "text", text: "You said: Hello there" }] });
});

it("ends after npm is told to end", async () => {
  const { url, process } = await startPlayground({}, ["npm", "start", "--silent"]);
  process.child.kill("SIGTERM");
  // The output ends with the last process that writes to it, and so not before the server.
  await process.ended;
  await expect(fetch(url)).rejects.toThrow("fetch failed");
});
