/** A gateway that relays to a second one, which has the demo's model: what a client's suites run on in each pair of formats. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../../adapters/node.ts";
import { demoBackend } from "../../../playground/demo/backend.ts";
import { demoKeys } from "../../../playground/keys.ts";
import { pythonRunner } from "../../../playground/python/runner.ts";
import {
  type CallRecord,
  createGateway,
  type Gateway,
  type GatewayOptions,
  memoryQuotaStore,
  memoryReplayStore,
} from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import type { Site } from "../playground.ts";

/** Each chat format, with the version in its addresses. */
export const FORMATS = [
  ["messages", "/v1"],
  ["generate-content", "/v1beta"],
  ["chat-completions", "/v1"],
] as const;

export type Format = (typeof FORMATS)[number][0];

const UPSTREAM_KEY = "sk-upstream-0123456789";

interface Served extends Site, AsyncDisposable {}

async function served(gateway: Gateway): Promise<Served> {
  const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await gateway.close({ deadlineMs: 0 });
    },
  };
}

export interface Relayed extends Site, AsyncDisposable {
  /** Of the calls of both gateways, in the order of their ends. */
  readonly records: readonly CallRecord[];
}

/**
 * Starts both gateways, as the playground would: every model's name is let through, and the upstream's own words are shown. The
 * upstream takes what the official services take.
 */
export async function relayed(format: Format, version: string): Promise<Relayed> {
  const records: CallRecord[] = [];
  const codeRunner = pythonRunner();
  const options: Omit<GatewayOptions, "backend" | "quotas"> = {
    codeRunner,
    onCall: (record) => void records.push(record),
    onFailure: () => {},
  };
  const upstream = await served(
    createGateway({
      ...options,
      backend: demoBackend(),
      quotas: memoryQuotaStore([{ apiKey: UPSTREAM_KEY }]),
      messages: { ranges: "vendor", imageSources: "vendor" },
    }),
  );
  const backend = relay({
    format,
    baseUrl: `${upstream.url}${version}`,
    apiKey: UPSTREAM_KEY,
    showUpstreamMessages: true,
  });
  const front = await served(
    createGateway({ ...options, backend, quotas: memoryQuotaStore(demoKeys), replayStore: memoryReplayStore() }),
  );
  return {
    url: front.url,
    records,
    async [Symbol.asyncDispose]() {
      await front[Symbol.asyncDispose]();
      await backend.close();
      await upstream[Symbol.asyncDispose]();
      await codeRunner[Symbol.asyncDispose]();
    },
  };
}
