/**
 * The contestants of the agent's benchmark. Before an upstream: a proxy over undici that parses nothing, a proxy over fetch that parses the
 * request, and the gateway with a relay. Without one: bare h3, which reads and parses the request, and the gateway with a backend.
 */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { setImmediate } from "node:timers/promises";
import { H3, toNodeHandler as toH3NodeHandler } from "h3/node";
import { toNodeHandler } from "../../../adapters/node.ts";
import { createGateway, type Limits, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { priceTable } from "../../../src/prices/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { listenerOf } from "../relay/contestants.ts";
import { API_KEY, streamOf } from "../workload.ts";
import { answerOf } from "./answers.ts";
import { CHAT_FORMATS, type ChatFormat } from "./requests.ts";

/** The streams that stay open. Without a reference, the garbage collector would take them with all that they hold. */
const waiting = new Set<() => void>();
const held = (): Promise<void> => new Promise((resolve) => void waiting.add(resolve));

export type AgentContestant =
  | "upstream"
  | "undici proxy"
  | "fetch proxy"
  | "relay"
  | "forgetful relay"
  | "bare h3"
  | "gateway";

/** @param format The format of the relay's upstream. */
export function agentListener(name: AgentContestant, upstream: string, format: ChatFormat): RequestListener {
  switch (name) {
    case "upstream":
      return (req, res) => void answer(req, res);
    case "undici proxy":
      return listenerOf("undici proxy", upstream);
    case "fetch proxy":
      return (req, res) => void parsed(req, res, upstream);
    case "relay":
    case "forgetful relay": {
      const version = format === "generate-content" ? "v1beta" : "v1";
      const limits = name === "relay" ? {} : { maxKnownBodyBytes: 1 };
      return served(relay({ format, baseUrl: `${upstream}/${version}`, apiKey: "sk-upstream" }), limits);
    }
    case "bare h3":
      return bareH3();
    case "gateway":
      return served(backend);
    default:
      throw new Error(`There is no contestant ${JSON.stringify(name satisfies never)}.`);
  }
}

/** The calls of one key at once: more than the most streams that are held open. */
const MOST_CALLS = 32_768;

/** The gateway as hosts run it: with a key, its quota, prices and metering. */
function served(answering: ModelBackend, others: Partial<Limits> = {}): RequestListener {
  const quotas = memoryQuotaStore([{ apiKey: API_KEY, granted: Number.MAX_SAFE_INTEGER }]);
  const limits = { maxCallsInFlight: MOST_CALLS, maxCallsPerKey: MOST_CALLS, ...others };
  const { price } = priceTable({ "bench-*": { input: 3, output: 15 } });
  return toNodeHandler(createGateway({ backend: answering, quotas, price, limits }));
}

/** What a request's model asks for: `bench-300-streamed`. */
const ASKED = /bench-(\d+)-(complete|streamed|held)/;

function asked(text: string): { readonly frames: number; readonly mode: "complete" | "streamed" | "held" } {
  const [, frames, mode] = ASKED.exec(text) ?? [];
  return { frames: Number(frames), mode: mode as "complete" | "streamed" | "held" };
}

async function bytesOf(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

const formatOf = (path: string): ChatFormat =>
  path.startsWith("/v1beta")
    ? "generate-content"
    : (CHAT_FORMATS.find((format) => path.endsWith(format.replace("-", "/"))) ?? "messages");

const STREAM_HEADERS = { "content-type": "text/event-stream; charset=utf-8" };

/** The frames that an upstream writes at once: a network joins some. */
const BURST = 10;
/** The frames in front of a held stream's silence: the first text is among them. */
const HELD = 6;

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const path = req.url ?? "";
  const body = await bytesOf(req);
  const at = body.indexOf("bench-");
  const { frames, mode } = asked(path.includes("bench-") ? path : body.toString("latin1", at, at + 32));
  const { frames: written, complete } = answerOf(formatOf(path), frames);
  if (mode === "complete") {
    res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(complete));
    return;
  }
  res.writeHead(200, STREAM_HEADERS);
  for (const [index, frame] of written.entries()) {
    if (mode === "held" && index === HELD) return;
    res.write(frame);
    if (index % BURST === 0) await setImmediate();
  }
  res.end();
}

async function parsed(req: IncomingMessage, res: ServerResponse, upstream: string): Promise<void> {
  const body = JSON.stringify(JSON.parse((await bytesOf(req)).toString()));
  const headers = { "content-type": "application/json", "x-api-key": "sk-upstream" };
  const response = await fetch(upstream + (req.url ?? ""), { method: "POST", headers, body });
  res.writeHead(response.status, { "content-type": response.headers.get("content-type") ?? "" });
  for await (const chunk of response.body ?? []) res.write(chunk);
  res.end();
}

function bareH3(): RequestListener {
  const app = new H3();
  app.post("/v1/messages", async ({ req }) => {
    const { frames, mode } = asked(((await req.json()) as { model: string }).model);
    const { frames: written, complete } = answerOf("messages", frames);
    if (mode === "complete") return complete;
    return new Response(streamOf(framesOf(written, mode === "held")), { headers: STREAM_HEADERS });
  });
  return toH3NodeHandler(app);
}

async function* framesOf(frames: readonly string[], isHeld: boolean): AsyncGenerator<string, void, undefined> {
  for (const [index, frame] of frames.entries()) {
    if (isHeld && index === HELD) await held();
    yield frame;
  }
}

/** Answers as bare h3 does: with as many pieces as the model's name says. */
const backend: ModelBackend = {
  async *chat({ model }) {
    const { frames, mode } = asked(model);
    for (let index = 0; index < frames; index++) {
      if (mode === "held" && index === HELD) await held();
      yield ` word${index % 10} of`;
    }
  },
};
