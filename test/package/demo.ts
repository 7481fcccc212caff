/** Tests of `polygate demo` and `polygate serve` in an installed copy: a host has no clone of the repository. */

import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callOf, type Playground, spawnPlayground, startPlayground } from "../clients/playground.ts";
import { hasBrowser, launchBrowser } from "../page/stage.ts";
import { startImage } from "./image.ts";
import { bareProject, freePort, OLDEST_NODE, type PackageStage, ROOT, runOrThrow } from "./stage.ts";

const NODES = [
  ["the Node of this test", process.execPath],
  ["the oldest Node that is promised", OLDEST_NODE],
] as const;

const CLI = "node_modules/polygate/dist/server/cli.js";

export function demoSuite(stage: () => PackageStage): void {
  describe("polygate demo, without the optional packages", () => {
    let bare: string;
    let demo: Playground;

    beforeAll(async () => {
      bare = await bareProject(stage(), "demo");
      demo = await startPlayground({}, ["npx", "--no-install", "polygate", "demo", "--port", "0"], bare);
    });
    afterAll(() => demo?.process.child.kill("SIGKILL"));

    const textOf = async (path: string): Promise<string> => (await fetch(demo.url + path)).text();

    it("prints its address, its keys, and a command that works", async () => {
      const [first = "", second, ...others] = demo.process.output().split("\n");
      expect(first).toMatch(/^polygate demo, its admin at \/admin: http:\/\/127\.0\.0\.1:\d+$/);
      expect(second).toMatch(/^The budgets, spend and refusals .*: npm install kysely$/);
      expect(others.join("\n")).toContain("sk-demo (unlimited)");
      const command = others.slice(others.findIndex((line) => line.startsWith("curl "))).join("\n");
      expect(command).toContain("anthropic-version: 2023-06-01");
      expect(await (await callOf(command)).json()).toMatchObject({
        content: [{ type: "text", text: "You said: Hello there" }],
      });
    });

    it("answers the official clients: text, JSON of a schema, vectors and images", async () => {
      const { url } = demo;
      const messages = [{ role: "user" as const, content: "Hello" }];
      const anthropic = new Anthropic({ apiKey: "sk-demo", baseURL: url });
      const message = await anthropic.messages.create({ model: "demo-chat", max_tokens: 100, messages });
      expect(message.content).toMatchObject([{ type: "text", text: "You said: Hello" }]);

      const genai = new GoogleGenAI({ apiKey: "sk-demo", httpOptions: { baseUrl: url } });
      const answer = await genai.models.generateContent({ model: "demo-chat", contents: "Hello" });
      expect(answer.text).toBe("You said: Hello");

      const openai = new OpenAI({ apiKey: "sk-demo", baseURL: `${url}/v1`, maxRetries: 0 });
      const schema = { type: "object", properties: { code: { type: "string", pattern: "^[A-Z]{3}-\\d{2}$" } } };
      const { choices } = await openai.chat.completions.create({
        model: "demo-chat",
        messages,
        response_format: { type: "json_schema", json_schema: { name: "code", schema } },
      });
      expect(JSON.parse(choices[0]?.message.content ?? "")).toEqual({
        code: expect.stringMatching(/^[A-Z]{3}-\d{2}$/),
      });
      const { data } = await openai.embeddings.create({ model: "demo-embedding", input: "Hello" });
      expect(data[0]?.embedding).toHaveLength(256);

      const image = { model: "image-model-multi", prompt: "A lighthouse", response_format: "b64_json" } as const;
      const [drawn] = (await openai.images.generate({ ...image, size: "1024x1024" })).data ?? [];
      const png = Buffer.from(drawn?.b64_json ?? "", "base64");
      expect([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual(["PNG", 1024, 1024]);
      await expect(openai.images.generate({ ...image, output_format: "webp" })).rejects.toThrow("npm install sharp");
    });

    it("has its docs, admin and document, and says what its metrics need", async () => {
      expect(await textOf("/page/docs/getting-started.md")).toMatch(/^# Getting started\n/);
      expect(await textOf("/admin")).toContain("<title>polygate demo</title>");
      expect(JSON.parse(await textOf("/openapi.json"))).toMatchObject({ info: { title: "polygate demo" } });
      const metrics = await fetch(`${demo.url}/metrics`);
      expect(metrics.status).toBe(404);
      expect(await metrics.text()).toMatch(
        /^The metrics need more packages: npx -y -p polygate .* -p @opentelemetry\/sdk-metrics .* polygate demo\n$/,
      );
    });

    describe.skipIf(!hasBrowser)("in a browser", () => {
      let browser: Browser;
      let page: Page;
      const problems: string[] = [];
      beforeAll(async () => {
        browser = await launchBrowser();
        page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
        page.on("pageerror", ({ message }) => problems.push(message));
        page.on("request", (request) => {
          if (!request.url().startsWith(demo.url) && !request.url().startsWith("blob:")) problems.push(request.url());
        });
      });
      afterAll(() => browser?.close());

      it("shows the page, which calls every chat format", async () => {
        await page.goto(demo.url);
        await page.locator("[data-format]").first().waitFor();
        await page.getByRole("button", { name: /^Send/ }).click();
        await expect.poll(() => page.getByText("You said:").count()).toBeGreaterThanOrEqual(4);
        expect(await page.getByRole("link", { name: "Reference" }).count()).toBe(0);
        await page.getByRole("link", { name: "Docs" }).click();
        await page.getByRole("heading", { name: "Documentation" }).waitFor();
        expect(problems).toEqual([]);
      });

      it("shows the admin", async () => {
        await page.goto(`${demo.url}/admin`);
        await page.getByRole("row").filter({ hasText: "metered" }).first().waitFor();
        expect(problems).toEqual([]);
      });
    });

    it("ends after npx is told to end", async () => {
      demo.process.child.kill("SIGTERM");
      // The output ends with the last process that writes to it.
      await demo.process.ended;
      await expect(fetch(demo.url)).rejects.toThrow("fetch failed");
      expect(demo.process.errors()).toBe("");
    });

    it.each(NODES)("ends by itself with code 0 when it is told to, on %s", async (_name, node) => {
      const started = await startPlayground({}, [node, CLI, "demo"], bare);
      expect((await fetch(started.url)).status).toBe(200);
      await started.stop();
    });

    it.each([
      [["--port", "70000"], 2, /^--port must be an integer from 0 to 65535, not 70000\.$/m],
      [["--host", "192.0.2.1"], 1, /^Cannot listen on 192\.0\.2\.1:0: this machine has no such address\./],
      [["--store", "oracle://x"], 1, /^The demo cannot use its store .* must be sqlite:FILE, postgres/],
      [["--store", "sqlite:demo.db"], 1, /This store needs the package "kysely": npm install kysely/],
    ])("says in a line what is wrong with %j", async (args, code, line) => {
      const started = spawnPlayground({ PORT: "0" }, [process.execPath, CLI, "demo", ...args], bare);
      expect(await started.ended).toEqual({ code, signal: null });
      expect(started.errors()).toMatch(line);
      expect(started.errors().trimEnd()).not.toContain("\n");
    });
  });

  describe("polygate serve", () => {
    it.each(NODES)("serves the gateway of a file on SQLite, on %s", async (_name, node) => {
      const { project } = stage();
      const name = `served-${NODES.findIndex(([, path]) => path === node)}`;
      await writeFile(
        join(project, `${name}.ts`),
        `import { defineServer } from "polygate/serve";
        import { demoModel } from "polygate/testing";
        export default defineServer({
          gateway: (stores) => ({ backend: demoModel(), hooks: stores ? [] : [] }),
          admin: { authorize: (): { name: string } => ({ name: "ann" }) },
        });`,
      );
      const store = `sqlite:${name}.db`;
      const server = await startPlayground({}, [node, CLI, "serve", `${name}.ts`, "--store", store], project);
      try {
        const keys = await runOrThrow(node, [CLI, "keys", "create", "--store", store, "--json"], project);
        const { apiKey } = JSON.parse(keys) as { apiKey: string };
        const openai = new OpenAI({ apiKey, baseURL: `${server.url}/v1` });
        const messages = [{ role: "user" as const, content: "Hello" }];
        const { choices } = await openai.chat.completions.create({ model: "demo-chat", messages });
        expect(choices[0]?.message.content).toBe("You said: Hello");
        expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
        expect(await (await fetch(`${server.url}/admin`)).text()).toContain('src="app.js"');
      } finally {
        await server.stop();
      }
    });

    it("serves from an image, as the page about production shows it", async () => {
      const folder = join(dirname(stage().project), "image");
      await mkdir(folder);
      const page = await readFile(join(ROOT, "docs/production.md"), "utf8");
      const [, example = ""] = /^```ts\n(\/\/ served\.ts\n[^]*?)^```$/m.exec(page) ?? [];
      const [, dockerfile = ""] = /^```dockerfile\n([^]*?)^```$/m.exec(page) ?? [];
      // The package is in no registry yet, and the demo's model needs no upstream.
      const served = example
        .replace(/import \{ relay \}.*/, 'import { demoModel } from "polygate/testing";')
        .replace(/relay\(.*\)/, "demoModel()");
      expect(served).toContain("backend: demoModel(),");
      await writeFile(join(folder, "served.ts"), served);
      await cp(stage().tarball, join(folder, "polygate.tgz"));
      await writeFile(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
      await runOrThrow("npm", ["install", "--package-lock-only", "./polygate.tgz", "kysely"], folder);
      const withPackage = dockerfile.replace("package-lock.json ./", "package-lock.json polygate.tgz ./");
      const store = `sqlite:/tmp/polygate-image-${process.pid}.db`;
      const listed = withPackage.replace(/^CMD \[(.*)\]$/m, `CMD [$1, "--store", "${store}"]`);
      const image = await startImage(folder, listed, {}, await freePort());
      try {
        await expect.poll(() => image.check()).toBe(0);
        const keys = ["node_modules/.bin/polygate", "keys", "create", "--store", store, "--json"];
        const { apiKey } = JSON.parse(await image.run(keys)) as { apiKey: string };
        const openai = new OpenAI({ apiKey, baseURL: `${image.url}/v1` });
        const messages = [{ role: "user" as const, content: "Hello" }];
        const { choices } = await openai.chat.completions.create({ model: "demo-chat", messages });
        expect(choices[0]?.message.content).toBe("You said: Hello");
      } finally {
        expect(await image.stop()).toBe(0);
        for (const end of ["", "-shm", "-wal"]) await rm(`${store.slice("sqlite:".length)}${end}`, { force: true });
      }
    });
  });
}
