/** The process of a contestant in Bun or Deno: the gateway in its mount, or a bare fetch handler. */

import process from "node:process";
import { toBunHandler } from "../../../adapters/bun.ts";
import { toDenoHandler } from "../../../adapters/deno.ts";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { answerParent } from "../../trial/child.ts";
import type { ServerState } from "../server.ts";
import { API_KEY, backend, completeAnswer, streamedAnswer, streamOf } from "../workload.ts";

const STREAM_HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };

/** The least work of a handler for the same answer. */
async function bare(request: Request): Promise<Response> {
  const { stream } = (await request.json()) as { stream: boolean };
  if (!stream) return Response.json(completeAnswer());
  return new Response(streamOf(streamedAnswer()), { headers: STREAM_HEADERS });
}

const isBare = process.argv.at(-1) === "bare";
const quotas = memoryQuotaStore([{ apiKey: API_KEY, granted: Number.MAX_SAFE_INTEGER }]);
const gateway = createGateway({ backend, quotas });
const listening = { hostname: "127.0.0.1", port: 0 };

function start(): number {
  if ("Bun" in globalThis)
    return Bun.serve({ ...listening, fetch: isBare ? bare : toBunHandler<Bun.Server>(gateway) }).port;
  return Deno.serve({ ...listening, onListen: () => {} }, isBare ? bare : toDenoHandler(gateway)).addr.port;
}

const port = start();

answerParent(async (_question: "state"): Promise<ServerState> => {
  const { user, system } = process.cpuUsage();
  return { port, cpuMicros: user + system };
});
