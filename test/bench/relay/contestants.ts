/** The contestants between a client and an upstream: nothing, the gateway with a relay, plain proxies over fetch and undici, nginx. */

import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { setImmediate } from "node:timers/promises";
import { Pool } from "undici";
import { toNodeHandler } from "../../../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { CONTESTANTS } from "../contestants.ts";
import { API_KEY, streamedAnswer } from "../workload.ts";

export type NodeContestant = "direct" | "relay" | "fetch proxy" | "undici proxy";

export type RelayContestant = NodeContestant | "nginx";

/** The pace of the upstream's frames: all at once, or the first piece of text before the others. */
export type Pace = "at once" | "paced";

/** @param upstream The address of the upstream. For the upstream itself, its pace. */
export function listenerOf(name: NodeContestant, upstream: string): RequestListener {
  if (name === "direct") return upstream === "paced" ? paced : CONTESTANTS["bare node"]();
  if (name === "undici proxy") return passing(upstream);
  return name === "relay" ? relaying(upstream) : proxying(upstream);
}

function relaying(upstream: string): RequestListener {
  const backend = relay({ format: "messages", baseUrl: `${upstream}/v1`, apiKey: "sk-upstream" });
  const quotas = memoryQuotaStore([{ apiKey: API_KEY, granted: Number.MAX_SAFE_INTEGER }]);
  return toNodeHandler(createGateway({ backend, quotas }));
}

/** The shortest proxy: it passes bodies on unread. */
const proxying =
  (upstream: string): RequestListener =>
  (req, res) => {
    const chunks: Buffer[] = [];
    const pass = async (): Promise<void> => {
      const body = Buffer.concat(chunks);
      const headers = { "content-type": "application/json", "x-api-key": "sk-upstream" };
      const response = await fetch(upstream + (req.url ?? ""), { method: "POST", headers, body });
      res.writeHead(response.status, { "content-type": response.headers.get("content-type") ?? "" });
      for await (const chunk of response.body ?? []) res.write(chunk);
      res.end();
    };
    req.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => void pass());
  };

/** The least work of a proxy in Node. A slower proxy loses its time by its own work, not by its connections. */
function passing(upstream: string): RequestListener {
  const pool = new Pool(upstream);
  return (req, res) => {
    const chunks: Buffer[] = [];
    const headers = { "content-type": "application/json", "x-api-key": "sk-upstream" };
    const pass = (): boolean =>
      pool.dispatch(
        { path: req.url ?? "", method: "POST", headers, body: Buffer.concat(chunks) },
        {
          onRequestStart() {},
          onResponseStart: (_controller, status, said) =>
            void res.writeHead(status, { "content-type": String(said["content-type"]) }),
          onResponseData: (_controller, chunk) => void res.write(chunk),
          onResponseEnd: () => void res.end(),
          onResponseError: () => void res.destroy(),
        },
      );
    req.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", pass);
  };
}

/** Sends the first words before it makes the next, as a model does. */
async function paced(_req: IncomingMessage, res: ServerResponse): Promise<void> {
  res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  for await (const frame of streamedAnswer()) {
    res.write(frame);
    if (frame.includes("piece 0 ")) await setImmediate();
  }
  res.end();
}

export const serverOf = (name: NodeContestant, upstream: string): ReturnType<typeof createServer> =>
  createServer(listenerOf(name, upstream));
