/** The process of a contestant: the upstream of chat completions, polygate's relay, a bare undici proxy, nginx or a peer. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { toNodeHandler } from "../../../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { answerParent } from "../../trial/child.ts";
import { listenerOf } from "../relay/contestants.ts";
import { startNginx } from "../relay/nginx.ts";
import { API_KEY } from "../workload.ts";
import { type PeerState, startPortkey } from "./fetched.ts";

const usageOf = (pieces: number): object => ({
  prompt_tokens: 48,
  completion_tokens: 7 * pieces,
  total_tokens: 48 + 7 * pieces,
});
const HEAD = { id: "chatcmpl-1", created: 1_700_000_000, model: "bench" } as const;

/** Answers in as many pieces as the model's name says: in one write, or with a write for each piece. */
async function upstream(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { model, stream } = (await json(req)) as { model: string; stream?: boolean };
  const pieces = Array.from({ length: Number(model.split("-")[1]) }, (_, index) => `piece ${index} of the answer, `);
  if (!stream) {
    const message = { role: "assistant", content: pieces.join("") };
    const choices = [{ index: 0, message, finish_reason: "stop", logprobs: null }];
    const body = JSON.stringify({ ...HEAD, object: "chat.completion", choices, usage: usageOf(pieces.length) });
    res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(body);
    return;
  }
  res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  const write = (delta: object, finish_reason: string | null): void => {
    const choices = [{ index: 0, delta, finish_reason, logprobs: null }];
    res.write(`data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices })}\n\n`);
  };
  write({ role: "assistant", content: "" }, null);
  for (const content of pieces) write({ content }, null);
  write({}, "stop");
  res.write(
    `data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices: [], usage: usageOf(pieces.length) })}\n\n`,
  );
  res.end("data: [DONE]\n\n");
}

function relaying(origin: string): RequestListener {
  const backend = relay({ format: "chat-completions", baseUrl: `${origin}/v1`, apiKey: "sk-upstream" });
  const quotas = memoryQuotaStore([{ apiKey: API_KEY, granted: Number.MAX_SAFE_INTEGER }]);
  return toNodeHandler(createGateway({ backend, quotas }));
}

async function start(name: string, origin: string): Promise<PeerState> {
  if (name === "nginx") {
    const { port, pid } = (await startNginx(origin))();
    return { port, pid };
  }
  if (name === "Portkey") return startPortkey();
  const listener: RequestListener =
    name === "upstream"
      ? (req, res) => void upstream(req, res)
      : name === "polygate"
        ? relaying(origin)
        : listenerOf("undici proxy", origin);
  const server = createServer(listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { port: (server.address() as AddressInfo).port, pid: process.pid };
}

const [name = "", origin = ""] = process.argv.slice(2);
const started = start(name, origin);
answerParent((_question: "state"): Promise<PeerState> => started);
