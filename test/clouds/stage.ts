/** A gateway before an upstream in a cloud, and a mock of the cloud, on loopback sockets. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../adapters/node.ts";
import { type CallRecord, createGateway, type Failure, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";

/** A request that a cloud has received. */
export interface Received {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly bytes: Buffer;
  readonly body: Readonly<Record<string, unknown>>;
}

interface Served extends AsyncDisposable {
  readonly url: string;
}

async function listening(handle: (req: IncomingMessage, res: ServerResponse) => unknown): Promise<Served> {
  const server = createServer((req, res) => void handle(req, res)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await Promise.resolve();
    },
  };
}

export interface Cloud extends Served {
  readonly received: Received[];
}

/** Serves a mock of a cloud. */
export async function cloud(answer: (request: Received, res: ServerResponse) => unknown): Promise<Cloud> {
  const received: Received[] = [];
  const served = await listening(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    const isJson = (req.headers["content-type"] ?? "").startsWith("application/json") && bytes.length > 0;
    const request: Received = {
      method: req.method ?? "",
      path: req.url ?? "",
      headers: req.headers as Received["headers"],
      bytes,
      body: isJson ? (JSON.parse(bytes.toString()) as Received["body"]) : {},
    };
    received.push(request);
    await answer(request, res);
  });
  return { ...served, received };
}

export const json = (
  res: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void => {
  res.writeHead(status, { "content-type": "application/json", ...headers });
  res.end(JSON.stringify(body));
};

export interface Front extends Served {
  readonly records: CallRecord[];
  readonly failures: Failure[];
}

/** Serves a gateway for the key `sk-1` before a backend. */
export async function front(backend: ModelBackend): Promise<Front> {
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const gateway = createGateway({
    backend,
    quotas: memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000_000 }]),
    onCall: (record) => void records.push(record),
    onFailure: (failure) => void failures.push(failure),
  });
  const served = await listening(toNodeHandler(gateway));
  return {
    ...served,
    records,
    failures,
    async [Symbol.asyncDispose]() {
      await served[Symbol.asyncDispose]();
      await gateway.close({ deadlineMs: 0 });
    },
  };
}

/** A complete answer of the messages format, and the same answer as events. */
export const MESSAGE = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5",
  content: [{ type: "text", text: "Bonjour, 世界!" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 12, output_tokens: 5 },
} as const;

export const MESSAGE_EVENTS: readonly Readonly<Record<string, unknown>>[] = [
  {
    type: "message_start",
    message: { ...MESSAGE, content: [], stop_reason: null, usage: { input_tokens: 12, output_tokens: 1 } },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Bonjour, " } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "世界!" } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 5 } },
  { type: "message_stop" },
];

export const TEXT = "Bonjour, 世界!";
