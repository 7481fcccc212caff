/** The first words of the playground: its keys, and a command that can be copied. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { demoKeys } from "../../playground/keys.ts";
import { callOf, type Playground, startPlayground } from "../clients/playground.ts";

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
  expect(await (await callOf(command)).json()).toMatchObject({
    content: [{ type: "text", text: "You said: Hello there" }],
  });
});

it("ends after npm is told to end", async () => {
  const { url, process } = await startPlayground({}, ["npm", "start", "--silent"]);
  process.child.kill("SIGTERM");
  // The output ends with the last process that writes to it, and so not before the server.
  await process.ended;
  await expect(fetch(url)).rejects.toThrow("fetch failed");
});
