/**
 * Runs an agent through a gateway before a strict upstream, and tells what the upstream has refused:
 * `node test/agents/serve.ts --upstream messages -- claude -p "Read the files."`. The command finds the gateway's address in
 * `POLYGATE_URL`, the key in `POLYGATE_KEY`, and the files in the folder `POLYGATE_FILES`, where it starts. Without a command, it serves
 * until it is interrupted. `--log` prints each request.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { route } from "../../src/upstreams/route/index.ts";
import { agentScript } from "./agents.ts";
import { KEY, MAKER_NAMES, type MakerName, relayedMaker, serveGateway } from "./stage.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    upstream: { type: "string", default: "messages" },
    port: { type: "string", default: "0" },
    log: { type: "boolean", default: false },
  },
});
const name = values.upstream as MakerName;
if (!MAKER_NAMES.includes(name)) throw new TypeError(`--upstream must be one of ${MAKER_NAMES.join(", ")}`);

const folder = await mkdtemp(join(tmpdir(), "agents-"));
const files = new Map(
  ["one", "two", "three", "four"].map((file) => [join(folder, `${file}.txt`), `The text of ${file}`]),
);
for (const [path, text] of files) await writeFile(path, `${text}\n`);

const maker = await relayedMaker(name, { script: agentScript(files), onSocket: true });
// Whatever the model is called that the agent asks for, it is the maker's.
const backend = route({
  routes: { "*": { upstreams: [{ backend: maker.backend, model: name }] } },
  retry: { rounds: 0 },
});
const gateway = await serveGateway(backend, Number(values.port));
const { upstream } = maker;
process.stdout.write(`gateway ${gateway.url}, key ${KEY}, files in ${folder}\n`);

const [command, ...parameters] = positionals;
let status: unknown = 0;
if (command === undefined) {
  await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
} else {
  const env = { ...process.env, POLYGATE_URL: gateway.url, POLYGATE_KEY: KEY, POLYGATE_FILES: folder };
  const child = spawn(command, parameters, { env, cwd: folder, stdio: ["ignore", "inherit", "inherit"] });
  [status] = (await once(child, "exit")) as unknown[];
}

if (values.log)
  for (const { path, body } of upstream.requests) {
    // The agents' own prompts and tools are long.
    const { tools, system, systemInstruction, ...rest } = body;
    const omitted = { tools: tools && "…", system: system && "…", systemInstruction: systemInstruction && "…" };
    process.stdout.write(`${path} ${JSON.stringify({ ...rest, ...omitted })}\n`);
  }
process.stdout.write(`\n${name}: ${upstream.requests.length} requests, exit ${String(status)}\n`);
for (const violation of upstream.violations) process.stdout.write(`violation: ${violation}\n`);
await gateway[Symbol.asyncDispose]();
await maker[Symbol.asyncDispose]();
await rm(folder, { recursive: true });
process.exit(upstream.violations.length > 0 || upstream.requests.length === 0 ? 1 : 0);
