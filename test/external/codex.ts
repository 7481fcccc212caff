/** Sessions of the Codex CLI against a scripted model: tools in parallel, a cut connection, remote compaction, and the fallback by 426. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Duplex } from "node:stream";
import { promisify } from "node:util";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import { type ChatRequest, createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";

const KEY = "sk-codex";
/** More than `model_auto_compact_token_limit`, so that Codex compacts before the next turn. */
const LONG = { inputTokens: 5_000, outputTokens: 5 };
const SHORT = { inputTokens: 50, outputTokens: 5 };

interface Session extends AsyncDisposable {
  /** The formats of the requests that the model got. */
  readonly formats: string[];
  readonly upgrades: Duplex[];
  /** Runs Codex. Returns its items, as it tells them. */
  run(...args: readonly string[]): Promise<readonly Item[]>;
}

interface Item {
  readonly type: string;
  readonly text?: string;
  readonly aggregated_output?: string;
}

async function open(folder: string, takesSockets: boolean): Promise<Session> {
  const formats: string[] = [];
  const upgrades: Duplex[] = [];
  const isCut = { already: false };
  const backend: ModelBackend = {
    async *chat(request) {
      formats.push(request.native?.format ?? "");
      const last = request.messages.at(-1)?.parts ?? [];
      const results = last.flatMap((part) => (part.type === "tool-result" ? part.parts : []));
      const asked = textIn(request);
      if (asked.includes("be cut") && !isCut.already) {
        yield "The first half ";
        isCut.already = true;
        for (const socket of upgrades) socket.destroy();
      }
      if (asked.includes("run both") && results.length === 0)
        for (const word of ["one", "two"])
          yield { type: "tool-call", id: `call_${word}`, name: "exec_command", input: { cmd: `echo said-${word}` } };
      else yield `Done: ${request.messages.length} messages, ${results.length} results.`;
      yield { type: "finish", reason: "stop", usage: asked.includes("be long") ? LONG : SHORT };
    },
  };
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    responses: { compaction: { keys: [{ name: "codex", secret: new Uint8Array(32).fill(7) }] } },
  });
  const server = createServer(toNodeHandler(gateway));
  if (takesSockets)
    server.on("upgrade", (_req, socket) => void upgrades.push(socket)).on("upgrade", toUpgradeHandler(gateway));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const home = mkdtempSync(join(tmpdir(), "polygate-codex-"));
  writeFileSync(join(home, "config.toml"), configOf(port));
  const command = resolve(folder, "node_modules/.bin/codex");
  return {
    formats,
    upgrades,
    async run(...args) {
      // Codex reaches nothing but the gateway: every other address goes to a proxy that is not there.
      const env = {
        PATH: process.env["PATH"],
        HOME: home,
        CODEX_HOME: home,
        GATEWAY_KEY: KEY,
        HTTPS_PROXY: "http://127.0.0.1:9",
        HTTP_PROXY: "http://127.0.0.1:9",
        NO_PROXY: "127.0.0.1",
      };
      const running = promisify(execFile)(command, ["exec", "--json", "--skip-git-repo-check", ...args], {
        cwd: home,
        env,
        timeout: 120_000,
      });
      running.child.stdin?.end();
      const { stdout } = await running;
      const events = stdout
        .split("\n")
        .filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line) as { readonly type: string; readonly item?: Item });
      return events.flatMap(({ type, item }) => (type === "item.completed" && item ? [item] : []));
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      for (const socket of upgrades) socket.destroy();
      await gateway.close({ deadlineMs: 0 });
      rmSync(home, { recursive: true, maxRetries: 5 });
    },
  };
}

/** Codex compacts remotely with the provider of this name alone. */
const configOf = (port: number): string => `
model = "demo-chat"
model_provider = "gateway"
model_context_window = 100000
model_auto_compact_token_limit = 3000
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.gateway]
name = "OpenAI"
base_url = "http://127.0.0.1:${port}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
supports_websockets = true
`;

const textIn = ({ messages }: ChatRequest): string =>
  (messages.findLast(({ role, parts }) => role === "user" && parts.some(({ type }) => type === "text"))?.parts ?? [])
    .flatMap((part) => (part.type === "text" ? part.text : []))
    .slice(-1)
    .join("");

/** Runs all sessions. Returns the number of checks, and what failed. */
export async function runCodex(folder: string): Promise<{ checks: number; problems: readonly string[] }> {
  const problems: string[] = [];
  let checks = 0;
  const check = (holds: boolean, what: string, detail: unknown): void => {
    checks++;
    if (!holds) problems.push(`${what}: ${JSON.stringify(detail)}`);
  };
  for (const takesSockets of [true, false]) {
    const name = takesSockets ? "over a WebSocket" : "over HTTP, behind 426";
    await using session = await open(folder, takesSockets);
    const both = await session.run("Please run both");
    const outputs = both.flatMap((item) => item.aggregated_output?.trim() ?? []);
    check(outputs.toSorted().join() === "said-one,said-two", `${name}, tools in parallel`, both);
    check(saidLast(both).endsWith("2 results."), `${name}, the answer behind the tools`, both);
    const long = await session.run("resume", "--last", "Now be long");
    check(saidLast(long).startsWith("Done: "), `${name}, a long turn`, long);
    const compacted = await session.run("resume", "--last", "Go on");
    check(session.formats.at(-2) === "compaction_trigger", `${name}, remote compaction`, session.formats);
    check(saidLast(compacted).startsWith("Done: "), `${name}, the turn behind the compaction`, compacted);
    check(session.upgrades.length > 0 === takesSockets, `${name}, the transport`, session.upgrades.length);
    if (!takesSockets) continue;
    const before = session.formats.length;
    const cut = await session.run("resume", "--last", "Now be cut");
    check(saidLast(cut).includes("Done: "), `${name}, a connection that is cut`, cut);
    check(session.formats.length - before >= 2, `${name}, a second request behind the cut`, session.formats);
  }
  return { checks, problems };
}

const saidLast = (items: readonly Item[]): string => items.findLast(({ type }) => type === "agent_message")?.text ?? "";
