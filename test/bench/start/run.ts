/**
 * The benchmark of the start: the CPU time that a process takes to import the packed package and to create a gateway, beside bare h3 in the
 * same runtime. Each sample is a new process. Words behind `start` choose runtimes: `npm run bench -- start bun`.
 */

import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundledWorker, linkPackages, packInto, ROOT, runOrThrow } from "../../package/stage.ts";
import type { BenchOptions } from "../options.ts";
import { row, spread } from "../report.ts";

/** The processes of each host. A start is short, so that one slow moment of the machine spoils a whole sample. */
const ROUNDS = { full: 41, quick: 15 } as const;

/** The command of each runtime. No flag of V8 may be added: the code of the runtime itself would then be compiled again. */
const RUNTIMES = {
  node: [process.execPath],
  bun: [join(ROOT, "node_modules/.bin/bun"), "run"],
  deno: [join(ROOT, "node_modules/.bin/deno"), "run", "--allow-all"],
} as const;
type RuntimeName = keyof typeof RUNTIMES;

const BACKEND = `{ async *chat() { yield "Hello."; } }`;
const QUOTAS = `memoryQuotaStore([{ apiKey: "sk-1" }])`;

/** A host on one runtime: the imports, and what it makes of them. Bare h3 is the measure of all others. */
type Host = (runtime: RuntimeName) => string;

const H3_ENTRY = { node: "h3/node", bun: "h3", deno: "h3" } as const;
const MOUNT = { node: "toNodeHandler", bun: "toBunHandler", deno: "toDenoHandler" } as const;

const HOSTS = {
  "bare h3": (runtime) => `
    import { H3${runtime === "node" ? ", toNodeHandler" : ""} } from "${H3_ENTRY[runtime]}";
    const app = new H3();
    app.post("/v1/messages", async ({ req }) => await req.json());
    export default ${runtime === "node" ? "toNodeHandler(app)" : "app.fetch"};`,
  polygate: (runtime) => `
    import { createGateway, memoryQuotaStore } from "polygate";
    import { ${MOUNT[runtime]} } from "polygate/${runtime}";
    export default ${MOUNT[runtime]}(createGateway({ backend: ${BACKEND}, quotas: ${QUOTAS} }));`,
  "polygate and a relay": (runtime) => `
    import { createGateway, memoryQuotaStore } from "polygate";
    import { relay } from "polygate/backends/relay";
    import { ${MOUNT[runtime]} } from "polygate/${runtime}";
    const backend = relay({ format: "messages", baseUrl: "http://127.0.0.1:1", apiKey: "sk-1" });
    export default ${MOUNT[runtime]}(createGateway({ backend, quotas: ${QUOTAS} }));`,
  "messages alone": (runtime) => `
    import { createGateway, memoryQuotaStore } from "polygate/core";
    import { messages } from "polygate/formats/messages";
    import { ${MOUNT[runtime]} } from "polygate/${runtime}";
    export default ${MOUNT[runtime]}(createGateway({ formats: [messages()], backend: ${BACKEND}, quotas: ${QUOTAS} }));`,
} as const satisfies Readonly<Record<string, Host>>;
type HostName = keyof typeof HOSTS;

/** The same in a Worker: one file, whose evaluation is the start. Node evaluates it, because V8 is the engine of both. */
const WORKERS: Readonly<Record<HostName, string>> = {
  "bare h3": `
    import { H3 } from "h3";
    const app = new H3();
    app.post("/v1/messages", async ({ req }) => await req.json());
    export default app.fetch;`,
  polygate: `
    import { createGateway, memoryQuotaStore, toEdgeHandler } from "polygate/edge";
    export default toEdgeHandler(createGateway({ backend: ${BACKEND}, quotas: ${QUOTAS} }));`,
  "polygate and a relay": `
    import { createGateway, memoryQuotaStore, relay, toEdgeHandler } from "polygate/edge";
    const backend = relay({ format: "messages", baseUrl: "http://127.0.0.1:1", apiKey: "sk-1" });
    export default toEdgeHandler(createGateway({ backend, quotas: ${QUOTAS} }));`,
  "messages alone": `
    import { createGateway, memoryQuotaStore, toEdgeHandler } from "polygate/core";
    import { messages } from "polygate/formats/messages";
    export default toEdgeHandler(createGateway({ formats: [messages()], backend: ${BACKEND}, quotas: ${QUOTAS} }));`,
};

/** Imports a host, and prints the CPU time of the import, in microseconds. */
const MEASURE = `
  const before = process.cpuUsage();
  const { default: host } = await import(process.argv.at(-1));
  const { user, system } = process.cpuUsage(before);
  if (typeof host !== "function") throw new Error("The host has no handler.");
  console.log(user + system);
  process.exit();
`;

/** Where the hosts start: a runtime, or the engine of Workers. */
const PLACES = ["node", "bun", "deno", "worker"] as const;
type Place = (typeof PLACES)[number];

/** Packs the package, and installs it in an empty project with its dependencies. Returns the folder of the project. */
async function installed(folder: string): Promise<string> {
  const project = join(folder, "project");
  const home = join(project, "node_modules/polygate");
  await mkdir(home, { recursive: true });
  await runOrThrow("tar", ["-xzf", await packInto(folder), "--strip-components=1", "-C", home], folder);
  const manifest = await readFile(join(home, "package.json"), "utf8");
  const { dependencies } = JSON.parse(manifest) as { readonly dependencies: Readonly<Record<string, string>> };
  await linkPackages(project, Object.keys(dependencies));
  await writeFile(join(project, "package.json"), JSON.stringify({ private: true, type: "module", dependencies }));
  await writeFile(join(project, "measure.mjs"), MEASURE);
  return project;
}

/** Writes the script of a host. Returns its path. */
async function written(project: string, place: Place, name: HostName): Promise<string> {
  const file = join(project, `${place}-${name.replaceAll(" ", "-")}.mjs`);
  const source =
    place === "worker"
      ? await bundledWorker(project, `bundle-${name.replaceAll(" ", "-")}`, WORKERS[name])
      : HOSTS[name](place);
  await writeFile(file, source);
  return file;
}

/** Returns the CPU time of one start, in microseconds. */
async function sampleOf(project: string, place: Place, file: string): Promise<number> {
  const [command, ...args] = RUNTIMES[place === "worker" ? "node" : place];
  return Number(await runOrThrow(command, [...args, "measure.mjs", file], project));
}

/** Measures all hosts of a place in each round. The order rotates, so that none always follows the same other. */
async function compare(project: string, place: Place, rounds: number): Promise<void> {
  const names = Object.keys(HOSTS) as HostName[];
  const hosts: (readonly [name: HostName, file: string])[] = [];
  for (const name of names) hosts.push([name, await written(project, place, name)]);
  const measured: ReadonlyMap<HostName, number>[] = [];
  // The first round fills the caches of the file system.
  for (let round = -1; round < rounds; round++) {
    const micros = new Map<HostName, number>();
    const first = Math.max(0, round) % hosts.length;
    for (const [name, file] of [...hosts.slice(first), ...hosts.slice(0, first)])
      micros.set(name, await sampleOf(project, place, file));
    if (round >= 0) measured.push(micros);
  }
  const of = (round: ReadonlyMap<HostName, number>, name: HostName): number => round.get(name) ?? Number.NaN;
  console.log(`start, ${place}, ${rounds} processes each: median (min–max)`);
  console.log(row("", "CPU ms", "× bare h3"));
  for (const name of names)
    console.log(
      row(
        name,
        spread(measured, (round) => of(round, name) / 1_000, 1),
        spread(measured, (round) => of(round, name) / of(round, "bare h3"), 2),
      ),
    );
  console.log();
}

export async function benchStart({ isQuick, only }: BenchOptions): Promise<void> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "polygate-start-")));
  try {
    const project = await installed(folder);
    const chosen = PLACES.filter((place) => only.length === 0 || only.includes(place));
    for (const place of chosen)
      if (place === "worker" || existsSync(RUNTIMES[place][0]))
        await compare(project, place, isQuick ? ROUNDS.quick : ROUNDS.full);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
