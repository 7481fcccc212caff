/** `npm run external -- NAME` runs a suite that others wrote, from its folder in `.external`. test/README.md says how to get each. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { runAimock } from "./aimock.ts";
import { CALLERS, type ChatFormat } from "./callers.ts";
import { exchangesOf, sameProblems, translatedProblems } from "./cassettes.ts";
import { runCodex } from "./codex.ts";
import { onEachHost } from "./hosts.ts";

const [name = "", folder = `.external/${name}`] = process.argv.slice(2);

/** Each suite prints its own findings, and returns true when it found nothing. */
const SUITES: Readonly<Record<string, () => Promise<boolean>>> = {
  "open-responses": async () => {
    const passed = await againstPlayground((url) => compliance(`${url}/v1`));
    return (await onEachHost(compliance)) && passed;
  },
  "llm-comply": () =>
    againstPlayground(async (url) => {
      let passed = true;
      for (const [format, path, ...header] of [
        ["open-responses", "/v1"],
        ["openai-chat", "/v1"],
        ["anthropic", "/v1", "--auth-header", "x-api-key", "--no-bearer", "-H", "anthropic-version:2023-06-01"],
        ["google-genai", "", "--auth-header", "x-goog-api-key", "--no-bearer"],
      ] as const) {
        const args = [
          "-m",
          "llm_comply.cli",
          "--format",
          format,
          "-u",
          url + path,
          "-k",
          "sk-demo",
          "-m",
          "demo-chat",
          ...header,
        ];
        passed = (await run("python3", args)) && passed;
      }
      return passed;
    }),
  aimock: async () => {
    const { cases, problems } = await runAimock(folder);
    return told(cases, problems);
  },
  codex: async () => {
    const { checks, problems } = await runCodex(folder);
    return told(checks, problems);
  },
  cassettes: runCassettes,
  "openai-python": () => againstPlayground((url) => run("bin/python", [fileURLToPath(SESSION), `${url}/v1`])),
};

const SESSION = new URL("openai-python.py", import.meta.url);

/** Prints the problems and their count. Returns true when there are none. */
function told(cases: number, problems: readonly string[]): boolean {
  console.log([...problems, `${name}: ${cases - problems.length} of ${cases}`].join("\n"));
  return problems.length === 0;
}

/** Runs the compliance suite of Open Responses. Its bar of progress is left out. */
async function compliance(url: string): Promise<boolean> {
  return run("bun", ["bin/compliance-test.ts", "-u", url, "-k", "sk-demo", "-m", "demo-chat"]);
}

async function runCassettes(): Promise<boolean> {
  const rows: Record<string, { exchanges: number; problems: number }> = {};
  for (const exchange of exchangesOf(folder))
    for (const caller of Object.keys(CALLERS) as ChatFormat[]) {
      const isSame = caller === exchange.format;
      const problems = isSame ? await sameProblems(exchange) : await translatedProblems(exchange, caller);
      const row = (rows[`${caller} → ${exchange.format}`] ??= { exchanges: 0, problems: 0 });
      row.exchanges++;
      if (problems.length === 0) continue;
      row.problems++;
      console.log(
        `${caller} → ${exchange.format}, ${exchange.name}:\n  ${problems.slice(0, 3).join("\n  ").slice(0, 600)}`,
      );
    }
  console.table(rows);
  return Object.values(rows).every(({ problems }) => problems === 0);
}

/** Starts the playground on a free port for one run. */
async function againstPlayground(suite: (url: string) => Promise<boolean>): Promise<boolean> {
  const server = spawn(process.execPath, ["playground/server.ts"], {
    env: { ...process.env, PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    return await suite(await addressOf(server));
  } finally {
    server.kill();
    await once(server, "exit");
  }
}

/** Reads the playground's address from its first line. */
async function addressOf(server: ChildProcess & { readonly stdout: NodeJS.ReadableStream }): Promise<string> {
  for await (const line of createInterface(server.stdout)) {
    const [address] = line.match(/http:\/\/\S+/) ?? [];
    if (address) return address;
  }
  throw new Error("The playground ended before it was ready.");
}

async function run(command: string, args: readonly string[]): Promise<boolean> {
  const child = spawn(command, args, { cwd: folder, stdio: "inherit", env: { ...process.env, PYTHONPATH: "src" } });
  const [code] = (await once(child, "exit")) as [number | null];
  return code === 0;
}

const suite = SUITES[name];
if (!suite) {
  console.error(`npm run external -- NAME [FOLDER], with one of: ${Object.keys(SUITES).join(", ")}`);
  process.exitCode = 2;
} else if (!existsSync(folder)) {
  console.error(`${folder} does not exist. test/README.md says how to get ${name}.`);
  process.exitCode = 2;
} else process.exitCode = (await suite()) ? 0 : 1;
