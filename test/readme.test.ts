/** The README's code, as it stands there: it compiles under the strictest settings, and its server serves its client. */

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = new URL("..", import.meta.url).pathname;
const run = promisify(execFile);
let folder: string;
let server: ChildProcess | undefined;

/** The blocks that name their file in their first line. */
async function readBlocks(): Promise<{ name: string; code: string }[]> {
  const readme = await readFile(join(root, "README.md"), "utf8");
  return [...readme.matchAll(/^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(([, name = "", code = ""]) => ({
    name,
    code,
  }));
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-readme-"));
  const polygate = join(folder, "node_modules/polygate");
  await mkdir(polygate, { recursive: true });
  for (const name of ["src", "adapters", "test"]) await symlink(join(root, name), join(polygate, name));
  for (const name of ["@anthropic-ai", "@types", "express", "fastify", "hono", "koa", "morgan", "vitest"])
    await symlink(join(root, "node_modules", name), join(folder, "node_modules", name));
  const adapters = ["bun", "deno", "edge", "express", "koa", "node"].map((name) => [
    `./${name}`,
    `./adapters/${name}.ts`,
  ]);
  const exports = { ".": "./src/index.ts", ...Object.fromEntries(adapters), "./testing": "./test/contracts/index.ts" };
  await writeFile(join(polygate, "package.json"), JSON.stringify({ name: "polygate", type: "module", exports }));
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const compilerOptions = {
    ...JSON.parse(await readFile(join(root, "tsconfig.json"), "utf8")).compilerOptions,
    isolatedDeclarations: false,
    declaration: false,
    tsBuildInfoFile: join(folder, "tsbuildinfo"),
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  await symlink(join(root, "test/hosts/runtimes.d.ts"), join(folder, "runtimes.d.ts"));
  // The reader's own store, which the README leaves to them.
  await writeFile(
    join(folder, "my-store.ts"),
    `import { memoryQuotaStore } from "polygate";
import type { OpenQuotaStore } from "polygate/testing";
export const openMyStore: OpenQuotaStore = async ({ keys, clock }) => memoryQuotaStore(keys, { clock });\n`,
  );
  for (const { name, code } of await readBlocks()) await writeFile(join(folder, name), code);
});

afterAll(async () => {
  server?.kill();
  await rm(folder, { recursive: true, force: true });
});

describe("the README", () => {
  it("names a file in every block of code", async () => {
    const readme = await readFile(join(root, "README.md"), "utf8");
    const blocks = await readBlocks();
    expect(blocks.map(({ name }) => name)).toContain("server.ts");
    expect(readme.match(/^```ts$/gm)).toHaveLength(blocks.length);
  });

  it("compiles", async () => {
    const { stdout } = await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder]).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe("");
  });

  it("keeps keys out of the log that it shows", async () => {
    const script = `
      import { once } from "node:events";
      import { app } from "./logged.ts";
      const server = app.listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = "http://127.0.0.1:" + server.address().port + "/ai/v1beta/models/any:generateContent";
      const body = JSON.stringify({ contents: "Hello" });
      const headers = { "content-type": "application/json" };
      await (await fetch(address + "?k%65y=sk-team-a", { method: "POST", headers, body })).text();
      server.close();
    `;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: folder });
    expect(stdout).toContain('"POST /ai/v1beta/models/any:generateContent HTTP/1.1" 200');
    expect(stdout).not.toContain("team-a");
  });

  it("runs: its server answers its client", async () => {
    const port = String(await freePort());
    server = spawn(process.execPath, ["server.ts"], {
      cwd: folder,
      env: { ...process.env, PORT: port },
      stdio: "inherit",
    });
    await listening(Number(port));
    const env = { ...process.env, BASE_URL: `http://127.0.0.1:${port}` };
    const { stdout } = await run(process.execPath, ["client.ts"], { cwd: folder, env });
    expect(stdout).toContain("You asked any-model something.");
  });
});

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** Resolves when something accepts connections; refused attempts are made again at once. */
async function listening(port: number): Promise<void> {
  for (;;) {
    const connected = await new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1");
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
    if (connected) return;
  }
}
