/** Copied calls do what the page did: each is run as it was copied. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Locator, Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { copied, copyButton, panelOf, say, send, shownFormats, tab, untilText } from "./hands.ts";
import type { Stage } from "./stage.ts";

const run = promisify(execFile);
const CACHE = fileURLToPath(new URL("../../node_modules/.cache/", import.meta.url));
const PERMISSIONS = { permissions: ["clipboard-read", "clipboard-write"] };

/** A folder below the project's packages, so that what runs in it finds them. */
async function folder(): Promise<string> {
  await mkdir(CACHE, { recursive: true });
  const path = await mkdtemp(join(CACHE, "copied-"));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

/** Runs programs one after the other, in one process, and hands back what each prints. */
async function outputs(programs: readonly string[], cwd: string): Promise<string[]> {
  for (const [index, program] of programs.entries()) await writeFile(join(cwd, `${index}.mjs`), program);
  const all = programs.map((_, index) => {
    const file = JSON.stringify(`./${index}.mjs`);
    return `await import(${file});\nconsole.log(${JSON.stringify(END)});\n`;
  });
  await writeFile(join(cwd, "all.mjs"), all.join(""));
  const { stdout } = await run(process.execPath, ["all.mjs"], { cwd });
  return stdout.split(`${END}\n`).slice(0, -1);
}

const END = "-- the end --";

async function code(panel: Locator, name: string): Promise<string> {
  await tab(panel, "Code");
  await tab(panel, name);
  return copied(panel, name);
}

/** What a shell hands to curl. */
async function curlArguments(command: string): Promise<string[]> {
  const { stdout } = await run("sh", ["-c", `curl() { printf '%s\\0' "$@"; }\n${command}`]);
  return stdout.split("\0").slice(0, -1);
}

/** The values of an option of curl. */
const valuesOf = (parameters: readonly string[], option: string): string[] =>
  parameters.filter((_, index) => parameters[index - 1] === option);

/** Makes the call that curl would make. */
async function curl(command: string): Promise<Response> {
  const parameters = await curlArguments(command);
  const url = parameters.find((parameter) => parameter.startsWith("http")) ?? "";
  const headers = valuesOf(parameters, "-H").map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]);
  return fetch(url, { method: "POST", headers, body: valuesOf(parameters, "-d")[0] ?? "" });
}

/** Sends a text to the playground's socket as it is, and reads until its answer ends. */
async function http(url: string, request: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const [head = "", body = ""] = request.split(/\n\n(.*)/s);
  socket.write(`${head.replaceAll("\n", "\r\n")}\r\nconnection: close\r\n\r\n${body}`);
  return text(socket);
}

/** What each SDK is called. */
const SDKS: Readonly<Record<string, string>> = {
  messages: "@anthropic-ai/sdk",
  "generate-content": "@google/genai",
  "chat-completions": "openai",
  responses: "openai",
};

const PROMPT = `It's "quoted", isn't it? $HOME \\ 'so' äöü`;

export function copyingSuite({ url, visit }: Stage): void {
  it("copies each chat call as the official SDK's code, curl and HTTP, which all run", async () => {
    const page = await visit("/", PERMISSIONS);
    const programs: string[] = [];
    for (const stream of [true, false]) {
      await page.getByLabel("Stream", { exact: true }).setChecked(stream);
      await say(page, PROMPT);
      for (const format of await shownFormats(page)) {
        const panel = panelOf(page, format);
        programs.push(await code(panel, SDKS[format] ?? ""));
        if (stream) continue;
        const response = await curl(await code(panel, "curl"));
        expect(response.status).toBe(200);
        expect(await response.text()).toContain("äöü");
        const answer = await http(url(), await code(panel, "HTTP"));
        expect(answer).toMatch(/^HTTP\/1\.1 200[^]*äöü/);
      }
    }
    const printed = await outputs(programs, await folder());
    expect(printed).toHaveLength(programs.length);
    for (const output of printed) expect(output).toContain("You said: It");
  });

  it("copies a later turn of a conversation, which runs with all that was before it", async () => {
    const page = await visit("/", PERMISSIONS);
    await page.getByLabel("Weather tool").check();
    await page.getByLabel("Stream", { exact: true }).uncheck();
    await say(page, "What is the weather in Paris?");
    await send(page);
    await page.getByLabel("The weather tool answers").fill("Hail");
    await page.getByRole("button", { name: "Send the result" }).click();
    const programs: string[] = [];
    for (const format of await shownFormats(page)) {
      const panel = panelOf(page, format);
      await untilText(panel.locator(".prose"), /^The tool get_weather answered/);
      programs.push(await code(panel, SDKS[format] ?? ""));
      expect(await (await curl(await code(panel, "curl"))).text()).toContain("The tool get_weather answered");
    }
    const printed = await outputs(programs, await folder());
    expect(printed).toHaveLength(programs.length);
    for (const output of printed) expect(output).toMatch(/The tool get_weather answered: .*Hail/);
  });

  it("copies the call of embeddings, which runs", async () => {
    const page = await visit("/#nearness", PERMISSIONS);
    const panel = page.getByRole("article", { name: "Embeddings" });
    await page.getByLabel("Sentences, one on each line").fill("One\nTwo");
    const response = await curl(await code(panel, "curl"));
    expect(await response.json()).toMatchObject({ data: [{ index: 0 }, { index: 1 }] });
    const [printed] = await outputs([await code(panel, "openai")], await folder());
    expect(printed).toMatch(/^1\.00 (-?0\.\d\d)\n\1 1\.00\n/);
  });

  it("leaves the key that was typed to the environment", async () => {
    const page = await visit("/", PERMISSIONS);
    await page.getByLabel("Key", { exact: true }).selectOption("other");
    await page.getByLabel("Your key").fill("sk-metered");
    const command = await code(panelOf(page, "messages"), "curl");
    expect(command).not.toContain("sk-metered");
    const parameters = await curlArguments(`POLYGATE_API_KEY=sk-metered\n${command}`);
    expect(valuesOf(parameters, "-H")).toContain("x-api-key: sk-metered");
  });

  it("says that it has copied, for a while after the last time", async () => {
    const page = await visit("/", PERMISSIONS);
    const panel = panelOf(page, "messages");
    await tab(panel, "Code");
    await tab(panel, "curl");
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 60_000);
    const button = copyButton(panel, "curl");
    const copy = async (): Promise<void> => {
      // What the button says is no sign of it: it may say so of the last time.
      await copied(panel, "curl");
      await button.getByText("Copied").waitFor();
    };
    await copy();
    await page.clock.runFor(1_500);
    await copy();
    await page.clock.runFor(1_500);
    expect(await button.innerText()).toBe("Copied");
    await page.clock.runFor(500);
    expect(await button.innerText()).toBe("Copy");
  });

  it("copies the calls of pictures, which run on files that are saved", async () => {
    const page = await visit("/#pictures", PERMISSIONS);
    const cwd = await folder();
    const panel = page.locator(".studio .panel");
    await page.getByLabel("Size", { exact: true }).selectOption("256x256");
    const programs = [await code(panel, "openai")];
    await page.getByRole("button", { name: "Draw", exact: true }).click();
    await page.locator(".easel").waitFor();
    await page.getByText("Add a rectangle by numbers").click();
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await save(page, page.getByRole("link", { name: "Save picture" }), cwd);
    await save(page, page.getByRole("button", { name: "Save mask" }), cwd);
    await page.getByLabel("What to draw there").focus();
    programs.push(await code(panel, "openai"));
    const parameters = await curlArguments(await code(panel, "curl"));
    expect(valuesOf(parameters, "-F")).toEqual([
      "image=@picture-1.png;type=image/png",
      "mask=@mask.png;type=image/png",
    ]);
    await page.getByLabel("How many variations").focus();
    programs.push(await code(panel, "openai"));
    const names = programs.map((program) => /client\.images\.(\w+)/.exec(program)?.[1]);
    expect(names).toEqual(["generate", "edit", "createVariation"]);
    const links = (await outputs(programs, cwd)).map((output) => output.match(/\/v1\/images\/files\//g)?.length);
    expect(links).toEqual([1, 1, 2]);
  });
}

async function save(page: Page, control: Locator, folder: string): Promise<void> {
  const [download] = await Promise.all([page.waitForEvent("download"), control.click()]);
  await download.saveAs(join(folder, download.suggestedFilename()));
}
