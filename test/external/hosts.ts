/** A suite against the gateway on each host, and before upstreams of all chat formats. */

import { demoModel } from "../../src/demo/backend.ts";
import { type GatewayOptions, memoryQuotaStore, memoryResponseStore, type ModelBackend } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import type { RunningHost, TestHost } from "../hosts/host.ts";
import { hostsOnNode, runtimes } from "../hosts/index.ts";

/** The base address of each format, below the address of the upstream. */
const BASES = { messages: "/v1", "generate-content": "/v1beta", "chat-completions": "/v1", responses: "/v1" } as const;

const PREFIX = "/ai";

/** Runs a suite against each host, and against relays to each chat format. Returns true when all pass. */
export async function onEachHost(suite: (url: string) => Promise<boolean>): Promise<boolean> {
  const failed: string[] = [];
  const [node] = hostsOnNode as [TestHost];
  const upstream = await start(node, demoModel());
  const runs: [name: string, host: TestHost, backend: ModelBackend][] = [
    ...[...hostsOnNode, ...runtimes].map((host): [string, TestHost, ModelBackend] => [host.name, host, demoModel()]),
    ...Object.entries(BASES).map(([format, path]): [string, TestHost, ModelBackend] => {
      const baseUrl = `${upstream.url}${PREFIX}${path}`;
      return [`relay to ${format}`, node, relay({ format: format as keyof typeof BASES, baseUrl, apiKey: "sk-demo" })];
    }),
  ];
  for (const [name, host, backend] of runs) {
    console.log(`\n${name}`);
    const running = await start(host, backend);
    if (!(await suite(`${running.url}${PREFIX}/v1`))) failed.push(name);
    await running.stop();
  }
  await upstream.stop();
  console.log(failed.length === 0 ? "\nAll passed." : `\nFailed: ${failed.join(", ")}`);
  return failed.length === 0;
}

function start(host: TestHost, backend: ModelBackend): Promise<RunningHost> {
  const options: GatewayOptions = {
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-demo" }]),
    responses: { compaction: { keys: [{ name: "test", secret: new Uint8Array(32).fill(1) }] } },
    // A store of a test lives beside its host: the runtimes of their own do without.
    ...(hostsOnNode.includes(host) && { responseStore: memoryResponseStore() }),
  };
  return host.start(options, PREFIX);
}
