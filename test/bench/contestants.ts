/** The three servers to compare, as listeners for `http.createServer`, by their names in the table. */

import type { RequestListener, ServerResponse } from "node:http";
import { H3, toNodeHandler as toH3NodeHandler } from "h3/node";
import { toNodeHandler } from "../../adapters/node.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { API_KEY, backend, SCENARIOS, streamedAnswer, streamOf } from "./workload.ts";

const STREAM_HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };

/** The complete answers of the bare contestants, by path. */
const ANSWERS = new Map(Object.values(SCENARIOS).map(({ path, answer }) => [path, answer]));

export type ContestantName = "gateway" | "bare h3" | "bare node";

export const CONTESTANTS: Readonly<Record<ContestantName, () => RequestListener>> = {
  gateway: () => {
    const quotas = memoryQuotaStore([{ apiKey: API_KEY, granted: Number.MAX_SAFE_INTEGER }]);
    return toNodeHandler(createGateway({ backend, quotas }));
  },
  "bare h3": () => {
    const app = new H3();
    for (const [path, whole] of ANSWERS)
      app.post(path, async ({ req }) => {
        const { stream } = (await req.json()) as { stream?: boolean };
        return stream ? new Response(streamOf(streamedAnswer()), { headers: STREAM_HEADERS }) : whole();
      });
    return toH3NodeHandler(app);
  },
  "bare node": () => (req, res) => {
    const chunks: Buffer[] = [];
    req
      .on("data", (chunk: Buffer) => chunks.push(chunk))
      .on("end", () => void answer(req.url, Buffer.concat(chunks), res));
  },
};

async function answer(path: string | undefined, body: Buffer, res: ServerResponse): Promise<void> {
  const { stream } = JSON.parse(body.toString()) as { stream?: boolean };
  if (stream) {
    res.writeHead(200, STREAM_HEADERS);
    for await (const frame of streamedAnswer()) res.write(frame);
    res.end();
  } else {
    const body = JSON.stringify(ANSWERS.get(path ?? "")?.());
    res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(body);
  }
}
