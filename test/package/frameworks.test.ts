/**
 * Nest, Next, SvelteKit and Elysia serve the official clients from the packed package, mounted as docs/mounting.md shows. Jest runs the tests of
 * docs/testing.md.
 */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CLEAR } from "../formats/images/pictures.ts";
import { BODY_SIZE_LIMIT, type FrameworkProject, frameworkProject } from "./frameworks.ts";

let project: FrameworkProject;
// Downloads and builds are slow on a busy machine.
beforeAll(async () => void (project = await frameworkProject()), 600_000);
afterAll(() => project?.[Symbol.asyncDispose]());

interface App {
  readonly name: string;
  /** The folder of the app, and the arguments of Node that start it. */
  readonly command: readonly [folder: string, ...args: string[]];
  /** The caller's address, as far as the framework tells it. */
  readonly address: string;
  /** The framework's own limit of a body, in bytes. */
  readonly maxBytes?: number;
  /** Whether the framework parses JSON before the gateway, and refuses bodies by itself. */
  readonly parses?: boolean;
}

const NEST = { address: "127.0.0.1" } as const;
const APPS: readonly App[] = [
  { name: "Nest", command: ["nest", "dist/main.js"], ...NEST },
  { name: "Nest on Fastify", command: ["nest", "dist/main.fastify.js"], ...NEST },
  { name: "a module of Nest", command: ["nest", "dist/main.modular.js"], ...NEST, maxBytes: 100_000, parses: true },
  { name: "Elysia", command: ["elysia", "server.ts"], address: "127.0.0.1" },
  { name: "Next", command: ["next", "../node_modules/next/dist/bin/next", "start"], address: "undefined" },
  { name: "SvelteKit", command: ["sveltekit", "build/index.js"], address: "127.0.0.1", maxBytes: BODY_SIZE_LIMIT },
  { name: "a server before SvelteKit", command: ["sveltekit-checked", "server.ts"], address: "127.0.0.1" },
];

const messages = [{ role: "user" as const, content: "Hello" }];
const asked = (model: string) => ({ model, max_tokens: 100, messages });

const bodyOf = (bytes: number): string =>
  JSON.stringify({ ...asked("any"), messages: [{ role: "user", content: "word ".repeat(bytes / 5) }] });

describe.each(APPS)(
  "the gateway in $name",
  ({ command, address, maxBytes = Number.POSITIVE_INFINITY, parses = false }) => {
    let root: string;
    let baseURL: string;
    beforeAll(async () => {
      root = await project.start(...command);
      baseURL = `${root}/ai`;
    });

    const anthropic = (apiKey = "sk-1"): Anthropic => new Anthropic({ apiKey, baseURL, maxRetries: 0 });
    const openai = (): OpenAI => new OpenAI({ apiKey: "sk-1", baseURL: `${baseURL}/v1`, maxRetries: 0 });
    const genai = (): GoogleGenAI => new GoogleGenAI({ apiKey: "sk-1", httpOptions: { baseUrl: baseURL } });

    /** Sends a body to the messages format. */
    const post = (body: string): Promise<Response> =>
      fetch(`${baseURL}/v1/messages`, {
        method: "POST",
        headers: { "x-api-key": "sk-1", "anthropic-version": "2023-06-01", "content-type": "application/json" },
        body,
      });

    async function usageOf(apiKey: string): Promise<Record<string, unknown>> {
      const headers = { authorization: `Bearer ${apiKey}` };
      const answer = (await (await fetch(`${baseURL}/api/usage/token`, { headers })).json()) as {
        data: Record<string, unknown>;
      };
      return answer.data;
    }

    it("gives complete answers", async () => {
      const message = await anthropic().messages.create(asked("any"));
      expect(message.content).toMatchObject([{ type: "text", text: "Hello there." }]);
      const completion = await openai().chat.completions.create({ model: "any", messages });
      expect(completion.choices[0]?.message.content).toBe("Hello there.");
      // The path of this call has a colon and encoded slashes.
      const answer = await genai().models.generateContent({ model: "publishers/any/models/any", contents: "Hello" });
      expect(answer.text).toBe("Hello there.");
      expect((await openai().models.list()).data).toEqual([]);
    });

    it("streams: the first event arrives before the end", async () => {
      const seen: string[] = [];
      const stream = anthropic().messages.stream(asked("waits"));
      stream.on("text", (text) => seen.push(text));
      await expect.poll(() => seen).toEqual(["Hello"]);
      await anthropic().messages.create(asked("cue"));
      await stream.done();
      expect(seen).toEqual(["Hello", " there."]);
    });

    it("settles a call whose caller hangs up", async () => {
      const stream = anthropic("sk-gone").messages.stream(asked("hangs"));
      for await (const event of stream) if (event.type === "content_block_delta") break;
      stream.abort();
      await expect.poll(async () => (await usageOf("sk-gone"))["total_used"]).toBeGreaterThan(0);
    });

    it("counts tokens by key", async () => {
      const { usage } = await anthropic("sk-counted").messages.create(asked("any"));
      const used = usage.input_tokens + usage.output_tokens;
      expect(used).toBeGreaterThan(0);
      expect(await usageOf("sk-counted")).toMatchObject({
        name: "sk-counted",
        total_granted: 10_000_000,
        total_used: used,
        total_available: 10_000_000 - used,
      });
    });

    it("refuses in the format's own shape", async () => {
      const refused = await anthropic("sk-none")
        .messages.create(asked("any"))
        .catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(Anthropic.AuthenticationError);
      expect(refused).toMatchObject({ error: { type: "error", error: { type: "authentication_error" } } });
      const wrong = await anthropic()
        .messages.create({ ...asked("any"), max_tokens: -1 })
        .catch((error: unknown) => error);
      expect(wrong).toBeInstanceOf(Anthropic.BadRequestError);
      expect(wrong).toMatchObject({ error: { error: { message: expect.stringContaining("max_tokens") as string } } });
    });

    it("answers malformed JSON, unless the framework parses it before", async () => {
      const malformed = await post('{"model":');
      const error = parses ? { statusCode: 400 } : { type: "error", error: { type: "invalid_request_error" } };
      expect([malformed.status, await malformed.json()]).toMatchObject([400, error]);
    });

    it("knows the caller's address as far as the framework tells it", async () => {
      const { content } = await anthropic().messages.create(asked("address"));
      expect(content).toMatchObject([{ text: address }]);
    });

    it("edits a picture that comes in a form", async () => {
      const image = new File([CLEAR], "clear.png", { type: "image/png" });
      const { data } = await openai().images.edit({ model: "gpt-image-1", image, prompt: "Nothing" });
      expect(data?.[0]?.b64_json).toBe(Buffer.from(CLEAR).toString("base64"));
    });

    it("takes a post without a body", async () => {
      // The refusal is the gateway's own: this gateway keeps no responses.
      await expect(openai().responses.cancel("resp_1")).rejects.toMatchObject({
        status: 404,
        message: expect.stringContaining("This service keeps no responses.") as string,
      });
    });

    it("leaves the other routes and their bodies to the framework", async () => {
      expect(await (await fetch(`${root}/own`)).text()).toBe("own");
      const headers = { "content-type": "application/json" };
      const own = await fetch(`${root}/own`, { method: "POST", headers, body: '{"text":"text"}' });
      expect(await own.text()).toBe("own text");
      expect((await fetch(`${root}/v1/models`, { headers: { "x-api-key": "sk-1" } })).status).toBe(404);
      expect((await fetch(`${baseURL}/own`)).status).toBe(404);
    });

    it("has the limits of bodies that the docs name", async () => {
      const within = await post(bodyOf(Math.min(2_000_000, maxBytes * 0.9)));
      expect([within.status, await within.json()]).toMatchObject([200, { type: "message" }]);
      if (maxBytes === Number.POSITIVE_INFINITY) return;
      const beyond = await post(bodyOf(maxBytes * 1.1));
      expect(beyond.status).toBe(413);
      const message = "The request body is larger than this server accepts.";
      const error = parses ? { statusCode: 413 } : { type: "error", error: { message } };
      expect(await beyond.json()).toMatchObject(error);
    });
  },
);

it.each([
  ["behind the gateway", "sveltekit-checked", "server.ts", 403],
  ["around the gateway's hook, where the docs switch the check off", "sveltekit", "build/index.js", 500],
])("SvelteKit checks the origin of a form: %s", async (_where, folder, file, status) => {
  const root = await project.start(folder, file);
  // Only the check refuses a form: the route itself fails, because a form is no JSON.
  const form = { method: "POST", body: new URLSearchParams({ text: "text" }) };
  expect((await fetch(`${root}/own`, form)).status).toBe(status);
});

it("a tracer of files, as of Vercel and of Next's standalone output, copies those that Node loads", async () => {
  const traced = `
    import { createRequire } from "node:module";
    const { nodeFileTrace } = createRequire(import.meta.url)("next/dist/compiled/@vercel/nft");
    const { fileList } = await nodeFileTrace(["dist/main.js"], { base: "/", processCwd: process.cwd() });
    for (const name of ["polygate", "polygate/express"])
      if (!fileList.has(new URL(import.meta.resolve(name)).pathname.slice(1))) console.log(name, "is missing.");`;
  expect(await project.run("nest", "--input-type=module", "--eval", traced)).toEqual({ code: 0, output: "" });
});

describe("the docs' tests for Jest", () => {
  const JEST = "../node_modules/jest/bin/jest.js";

  const FLAG = "--experimental-vm-modules";

  it.each([
    ["with the flag", "jest", [FLAG, JEST, "gateway.test.mjs", "compiled.test.cjs"], 2],
    ["by ts-jest", "jest", [FLAG, JEST, "--config", "typescript.config.mjs", "typed.test.ts"], 1],
    ["by swc", "jest", [FLAG, JEST, "--config", "swc.config.mjs", "typed.test.ts"], 1],
    ["by ts-jest in a project of CommonJS", "jest-commonjs", [FLAG, JEST], 1],
    [
      "in the environment that needs no flag",
      "jest",
      [JEST, "--env", "./polygate-environment.mjs", "gateway.test.cjs"],
      1,
    ],
  ])("pass %s", async (_how, folder, args, files) => {
    const { code, output } = await project.run(folder, ...args, "--json");
    expect([code, output]).toEqual([0, expect.stringContaining(`"numPassedTests":${files},`)]);
  });

  it.each(["gateway.test.mjs", "compiled.test.cjs"])("say without the flag what the page says: %s", async (file) => {
    const { code, output } = await project.run("jest", JEST, file);
    expect([code, output]).toEqual([1, expect.stringContaining("Must use import to load ES Module")]);
  });
});
