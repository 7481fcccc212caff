/**
 * A project with the packed package, and an app of each framework from the registry: the code of docs/mounting.md and what surrounds it. Also the
 * tests of docs/testing.md for Jest.
 */

import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { blocks, fileOf, pages } from "../docs/pages.ts";
import { type Ended, packInto, ROOT, run, runOrThrow } from "./stage.ts";

const PACKAGES = {
  "@jest/globals": "30.5.2",
  "@nestjs/common": "12.5.1",
  "@nestjs/core": "12.5.1",
  "@nestjs/platform-express": "12.5.1",
  "@nestjs/platform-fastify": "12.5.0",
  "@sveltejs/adapter-node": "6.0.1",
  "@sveltejs/kit": "3.2.0",
  "@sveltejs/vite-plugin-svelte": "7.3.1",
  "@swc/core": "1.16.22",
  "@swc/jest": "0.2.39",
  "@types/jest": "30.0.0",
  "@types/node": "24.19.2",
  "@types/react": "19.3.0",
  elysia: "1.4.30",
  expect: "30.5.2",
  jest: "30.5.2",
  "jest-environment-node": "30.5.2",
  next: "16.4.6",
  openai: "7.57.0",
  react: "19.3.1",
  "react-dom": "19.3.1",
  "reflect-metadata": "0.2.2",
  rxjs: "7.8.2",
  svelte: "5.57.3",
  "ts-jest": "29.4.15",
  // The newest one that SvelteKit and ts-jest support.
  typescript: "6.0.3",
  vite: "8.3.8",
} as const;

/** The most bytes of a body in the app of SvelteKit. */
export const BODY_SIZE_LIMIT = 4_000_000;

/**
 * Every app's gateway. The model `waits` stops after its first word until the model `cue` is called, `hangs` until its caller is gone, and
 * `address` tells the caller's address.
 */
const GATEWAY = `
import { createGateway, memoryQuotaStore, type ModelBackend } from "polygate";

const cue = Promise.withResolvers<void>();
const backend: ModelBackend = {
  async *chat({ model }, call) {
    if (model === "cue") cue.resolve();
    if (model === "address") return yield String(call.clientAddress);
    yield "Hello";
    if (model === "waits") await cue.promise;
    if (model === "hangs") await new Promise((resolve) => call.signal.addEventListener("abort", resolve));
    yield " there.";
  },
  async *image({ images: [image] }) {
    if (image) yield { type: "image", bytes: image.bytes, mediaType: image.mediaType };
  },
};
const keys = ["sk-1", "sk-counted", "sk-gone"].map((apiKey) => ({ apiKey, name: apiKey, granted: 10_000_000 }));
export const gateway = createGateway({ backend, quotas: memoryQuotaStore(keys) });
`;

const MANIFEST = JSON.stringify({ private: true, type: "module", dependencies: { polygate: "*" } });

const NEST_OPTIONS = {
  target: "es2024",
  module: "nodenext",
  strict: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  rootDir: "src",
  outDir: "dist",
  types: ["node"],
};

const NEST_MODULE = `
import { Body, Controller, Get, Module, Post } from "@nestjs/common";

@Controller("own")
class OwnController {
  @Get() get(): string {
    return "own";
  }
  @Post() post(@Body() { text }: { text: string }): string {
    return \`own \${text}\`;
  }
}

@Module({ controllers: [OwnController] })
export class AppModule {}
`;

const JEST_OPTIONS = {
  target: "esnext",
  module: "nodenext",
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  isolatedModules: true,
  types: ["node"],
};

const OWN_IMPORT = 'import { LIMIT } from "./own.js";';

/** A test in TypeScript. `expect` and `test` are globals, or come from `@jest/globals`. */
const JEST_TYPED = `
import { polygateMatchers, testGateway } from "polygate/testing";
${OWN_IMPORT}

expect.extend(polygateMatchers);

test("the matchers have types", async () => {
  const gateway = testGateway();
  const headers = { "x-api-key": gateway.apiKey, "anthropic-version": "2023-06-01", "content-type": "application/json" };
  const body = JSON.stringify({ model: "small", max_tokens: LIMIT, messages: [{ role: "user", content: "Hello" }] });
  await gateway.fetch("/v1/messages", { method: "POST", headers, body });
  await expect(gateway).toHaveRecorded({ status: 200, endMs: expect.any(Number), key: expect.objectContaining({ id: "test" }) });
  // @ts-expect-error The types must refuse this text, because a charge is a number of units.
  await expect(expect(gateway).toHaveCharged("1")).rejects.toThrow(TypeError);
  await gateway.close();
});
`;

/** What `next build` would write by itself, and the alias of `create-next-app`. */
const NEXT_OPTIONS = {
  target: "es2024",
  lib: ["dom", "dom.iterable", "esnext"],
  strict: true,
  noEmit: true,
  module: "esnext",
  moduleResolution: "bundler",
  jsx: "react-jsx",
  plugins: [{ name: "next" }],
  paths: { "@/*": ["./*"] },
};

/** The example `file` of the docs with other lines, for a sentence of the docs that names only these lines. */
function variantOf(file: string, lines: Readonly<Record<string, string>>): string {
  const example = blocks.find((block) => fileOf(block) === file);
  return Object.entries(lines).reduce((code, [line, other]) => {
    if (!code.includes(line)) throw new Error(`${file} has no "${line}".`);
    return code.replace(line, () => other);
  }, example?.code ?? "");
}

/** Returns a text that stands in backticks in the docs. */
function told(code: string): string {
  if (!pages.some(({ text }) => text.includes(`\`${code}\``))) throw new Error(`The docs do not tell of \`${code}\`.`);
  return code;
}

const FILES: Readonly<Record<string, string>> = {
  "jest/package.json": MANIFEST,
  "jest/tsconfig.json": JSON.stringify({ compilerOptions: JEST_OPTIONS, include: ["*.ts"] }),
  "jest/own.ts": "export const LIMIT: number = 100;",
  "jest/typed.test.ts": `import { expect, test } from "@jest/globals";${JEST_TYPED}`,
  "jest/swc.config.mjs": [
    "export default {",
    `  ${told('extensionsToTreatAsEsm: [".ts"]')},`,
    `  ${told('transform: { "\\\\.ts$": "@swc/jest" }')},`,
    '  moduleNameMapper: { "own.js$": "./own.ts" },',
    "};",
  ].join("\n"),
  "jest-commonjs/package.json": JSON.stringify({ private: true }),
  "jest-commonjs/tsconfig.json": JSON.stringify({
    compilerOptions: { ...JEST_OPTIONS, types: ["node", "jest"] },
    include: ["*.ts"],
  }),
  "jest-commonjs/jest.config.js": `
module.exports = { ${told('preset: "ts-jest"')}, moduleNameMapper: { "own.js$": "./own.ts" } };
`,
  "jest-commonjs/matchers.d.ts": `
import type { PolygateMatchers } from "polygate/testing";

${told("declare global { namespace jest { interface Matchers<R> extends PolygateMatchers {} } }")}
`,
  "jest-commonjs/own.ts": "export const LIMIT: number = 100;",
  "jest-commonjs/typed.test.ts": JEST_TYPED,
  "jest/compiled.test.cjs": `
const { testGateway } = require("polygate/testing");
test("nothing is charged", async () => expect(await testGateway().charged()).toBe(0));
`,
  "jest/gateway.test.cjs": `
${told("const { reply, scriptedBackend, testGateway } = globalThis.polygate;")}
test("an answer is charged", async () => {
  const backend = scriptedBackend([reply("Hi", { usage: { inputTokens: 12, outputTokens: 3 } })]);
  const gateway = testGateway({ backend });
  const headers = {
    "x-api-key": gateway.apiKey,
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
  };
  const body = JSON.stringify({ model: "small", max_tokens: 100, messages: [{ role: "user", content: "Hello" }] });
  const answer = await gateway.fetch("/v1/messages", { method: "POST", headers, body });
  expect((await answer.json()).content).toMatchObject([{ type: "text", text: "Hi" }]);
  expect(await gateway.charged()).toBe(15);
  await gateway.close();
});
`,
  "elysia/package.json": MANIFEST,
  "elysia/gateway.ts": GATEWAY,
  "elysia/server.ts": variantOf("bun.ts", {
    "import { toBunHandler }": 'import { Elysia } from "elysia";\nimport { toBunHandler }',
    'const fallback = () => new Response("The server\'s own routes.");': `
const app = new Elysia().get("/own", () => "own").post("/own", ({ body }) => \`own \${(body as { text: string }).text}\`);
${told("const fallback = (request: Request) => app.fetch(request);")}`,
  }),
  "nest/package.json": MANIFEST,
  "nest/tsconfig.json": JSON.stringify({ compilerOptions: NEST_OPTIONS, include: ["src"] }),
  "nest/src/gateway.ts": GATEWAY,
  "nest/src/app.module.ts": NEST_MODULE,
  "nest/src/main.fastify.ts": variantOf("nest/src/main.ts", {
    'import { toExpressHandler } from "polygate/express";': [
      'import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";',
      'import { toNodeHandler } from "polygate/node";',
    ].join("\n"),
    "NestFactory.create(AppModule)": `NestFactory.create<NestFastifyApplication>(AppModule, ${told("new FastifyAdapter()")})`,
    'app.use("/ai", toExpressHandler(gateway));': told('app.use(toNodeHandler(gateway, { prefix: "/ai" }));'),
  }),
  "nest/src/ai.module.ts": [
    'import { type MiddlewareConsumer, Module, type NestModule } from "@nestjs/common";',
    'import { toExpressHandler } from "polygate/express";',
    'import { gateway } from "./gateway.js";',
    "@Module({})",
    "export class AiModule implements NestModule {",
    "  configure(consumer: MiddlewareConsumer): void {",
    `    ${told('consumer.apply(toExpressHandler(gateway)).forRoutes("ai");')}`,
    "  }",
    "}",
  ].join("\n"),
  "nest/src/main.modular.ts": [
    'import { Module } from "@nestjs/common";',
    'import { NestFactory } from "@nestjs/core";',
    'import { AiModule } from "./ai.module.js";',
    'import { AppModule } from "./app.module.js";',
    "@Module({ imports: [AppModule, AiModule] }) class ModularModule {}",
    "await (await NestFactory.create(ModularModule)).listen(3000);",
  ].join("\n"),
  "next/package.json": MANIFEST,
  "next/tsconfig.json": JSON.stringify({ compilerOptions: NEXT_OPTIONS, include: ["**/*.ts", ".next/types/**/*.ts"] }),
  "next/gateway.ts": GATEWAY,
  "next/app/own/route.ts": `
export const GET = () => new Response("own");
export const POST = async (request: Request) => new Response(\`own \${((await request.json()) as { text: string }).text}\`);
`,
  "sveltekit/package.json": MANIFEST,
  "sveltekit/tsconfig.json": JSON.stringify({
    extends: "./node_modules/$app/tsconfig.json",
    compilerOptions: { strict: true },
    include: ["src", "vite.config.ts"],
  }),
  "sveltekit/src/app.html": "<html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>",
  "sveltekit/vite.config.ts": [
    'import adapter from "@sveltejs/adapter-node";',
    'import { sveltekit } from "@sveltejs/kit/vite";',
    'import { defineConfig } from "vite";',
    "export default defineConfig({",
    `  plugins: [${told('sveltekit({ adapter: adapter(), csrf: { trustedOrigins: ["*"] } })')}],`,
    "});",
  ].join("\n"),
  "sveltekit/src/gateway.ts": GATEWAY,
  "sveltekit/server.ts": variantOf("node.ts", {
    'from "./gateway.ts"': `from "./src/gateway.ts";\nimport { handler } from "${told("./build/handler.js")}"`,
    'res.end("The server\'s own routes.")': told("handler(req, res)"),
  }),
  "sveltekit/src/routes/own/+server.ts": `
import type { RequestHandler } from "@sveltejs/kit";

export const GET: RequestHandler = () => new Response("own");
export const POST: RequestHandler = async ({ request }) => new Response(\`own \${(await request.json()).text}\`);
`,
  "sveltekit/src/routes/about/+server.ts": `
export const prerender = true;
export const GET = () => new Response("about");
`,
};

/** The commands that build each app, in its folder. */
const BUILDS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  jest: [["typescript/bin/tsc", "-p", "."]],
  "jest-commonjs": [["typescript/bin/tsc", "-p", "."]],
  nest: [["typescript/bin/tsc", "-p", "."]],
  next: [["next/dist/bin/next", "build"]],
  sveltekit: [
    ["vite/bin/vite.js", "build", "--logLevel", "warn"],
    ["typescript/bin/tsc", "-p", "."],
  ],
  "sveltekit-checked": [["vite/bin/vite.js", "build", "--logLevel", "warn"]],
};

/** The environment of a user's shell, without what Vitest adds. */
const ENVIRONMENT: NodeJS.ProcessEnv = {
  ...process.env,
  NODE_ENV: "production",
  VITEST: undefined,
  NEXT_TELEMETRY_DISABLED: "1",
  BODY_SIZE_LIMIT: String(BODY_SIZE_LIMIT),
};

const BUN = join(ROOT, "node_modules/.bin/bun");

const inModules = ([bin = "", ...args]: readonly string[]): string[] => [join("..", "node_modules", bin), ...args];

export interface FrameworkProject extends AsyncDisposable {
  /** Starts a built app with Node, or Elysia's with Bun. Resolves with its address. */
  start(app: string, ...args: readonly string[]): Promise<string>;
  /** Runs a command of Node in the folder of an app. Resolves with its exit code and output. */
  run(app: string, ...args: readonly string[]): Promise<Ended>;
}

/** Copies an app of SvelteKit, and leaves out the option that switches off the check of origins. */
async function withOriginCheck(app: string, copy: string): Promise<void> {
  await cp(app, copy, { recursive: true });
  const config = join(copy, "vite.config.ts");
  const [before, after = ""] = (await readFile(config, "utf8")).split(', csrf: { trustedOrigins: ["*"] }');
  await writeFile(config, `${before}${after}`);
}

/** Installs the packed package and the frameworks from the registry in a new folder, and builds the apps side by side. */
export async function frameworkProject(): Promise<FrameworkProject> {
  await using stack = new AsyncDisposableStack();
  const folder = await realpath(await mkdtemp(join(tmpdir(), "polygate-frameworks-")));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const dependencies = { ...PACKAGES, polygate: `file:${await packInto(folder)}` };
  const project = join(folder, "project");
  const examples = blocks.map((block): [string | undefined, string] => [fileOf(block), block.code]);
  const files = [
    ["package.json", JSON.stringify({ private: true, dependencies })] as const,
    ...Object.entries(FILES),
    ...examples.filter((example): example is [string, string] => example[0]?.includes("/") ?? false),
  ];
  for (const [path, text] of files) {
    await mkdir(dirname(join(project, path)), { recursive: true });
    await writeFile(join(project, path), text);
  }
  await withOriginCheck(join(project, "sveltekit"), join(project, "sveltekit-checked"));
  await runOrThrow("npm", "install --ignore-scripts --no-audit --no-fund --prefer-offline".split(" "), project);
  await Promise.all(
    Object.entries(BUILDS).map(async ([app, commands]) => {
      for (const command of commands)
        await runOrThrow(process.execPath, inModules(command), join(project, app), ENVIRONMENT);
    }),
  );
  const owned = stack.move();
  return {
    async start(app, ...args) {
      const [runtime, flag] = app === "elysia" ? [BUN, "--preload"] : [process.execPath, "--import"];
      const child = spawn(runtime, [flag, join(ROOT, "test/docs/any-port.mjs"), ...args], {
        cwd: join(project, app),
        env: ENVIRONMENT,
        stdio: ["ignore", "pipe", "pipe"],
      });
      owned.defer(() => void child.kill());
      let said = "";
      child.stderr.on("data", (text: Buffer) => (said += text.toString()));
      for await (const line of createInterface(child.stdout)) {
        said += `${line}\n`;
        const [, port] = /^listening at (\d+)$/.exec(line) ?? [];
        if (port !== undefined) return `http://127.0.0.1:${port}`;
      }
      throw new Error(`${app} ${args.join(" ")} has ended.\n${said}`);
    },
    run: (app, ...args) => run(process.execPath, args, join(project, app), { ...ENVIRONMENT, NODE_ENV: "test" }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
