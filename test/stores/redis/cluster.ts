/** Starts a Redis Cluster of three nodes, where `redis-server` is installed. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { createClient } from "redis";

export interface RunningCluster {
  readonly ports: readonly number[];
  stop(): Promise<void>;
}

interface Node {
  readonly port: number;
  readonly busPort: number;
  readonly child: ChildProcess;
}

/** Each node's share of the 16,384 slots. */
const SLOTS: readonly (readonly [from: string, to: string])[] = [
  ["0", "5460"],
  ["5461", "10922"],
  ["10923", "16383"],
];

export const clusterIsInstalled: boolean = await promisify(execFile)("redis-server", ["--version"]).then(
  ({ stdout }) => Number(/v=(\d+)/.exec(stdout)?.[1]) >= 7,
  () => false,
);

export async function startCluster(): Promise<RunningCluster> {
  const folder = await mkdtemp(join(tmpdir(), "polygate-cluster-"));
  const nodes = await Promise.all(SLOTS.map((_, index) => startNode(folder, index)));
  const [first] = nodes;
  for (const [index, { port }] of nodes.entries()) {
    await command(port, ["CLUSTER", "ADDSLOTSRANGE", ...(SLOTS[index] ?? [])]);
    await command(port, ["CLUSTER", "MEET", "127.0.0.1", String(first?.port), String(first?.busPort)]);
  }
  for (const { port } of nodes) while (!(await command(port, ["CLUSTER", "INFO"])).includes("cluster_state:ok"));
  // Each node must know all slots before clients are sent to it.
  for (const { port } of nodes)
    while (!/cluster_slots_ok:16384[^]*cluster_known_nodes:3/.test(await command(port, ["CLUSTER", "INFO"])));
  return {
    ports: nodes.map(({ port }) => port),
    async stop() {
      for (const { child } of nodes) {
        const exit = once(child, "exit");
        child.kill();
        await exit;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startNode(folder: string, index: number): Promise<Node> {
  const [port, busPort] = await Promise.all([freePort(), freePort()]);
  const options = {
    port: String(port),
    "cluster-port": String(busPort),
    bind: "127.0.0.1",
    "cluster-enabled": "yes",
    "cluster-config-file": `nodes-${index}.conf`,
    dir: folder,
    save: "",
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "inherit"] });
  if (!child.stdout) throw new Error("The node has no output.");
  for await (const line of createInterface(child.stdout)) if (line.includes("Ready to accept connections")) break;
  child.stdout.resume();
  return { port, busPort, child };
}

async function command(port: number, args: string[]): Promise<string> {
  const client = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
  const answer = await client.sendCommand<string>(args);
  client.destroy();
  return answer;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}
