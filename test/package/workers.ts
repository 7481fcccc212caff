/** Bundles a Worker with the formats that it imports, as tools for Workers do; checks its size, and runs it in workerd. */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import Anthropic from "@anthropic-ai/sdk";
import { Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { type ChatRequest, createGateway, memoryQuotaStore } from "../../src/index.ts";
import { bundledWorker, type PackageStage, ROOT } from "./stage.ts";

/** The most bytes of a Worker that serves messages alone, minified. */
const MOST_BYTES = 365_000;

const WORKER = `
  import { createGateway, GatewayError, memoryQuotaStore, relay, toEdgeHandler } from "polygate/core";
  import { messages, messagesUpstream } from "polygate/formats/messages";
  import { tokenUsage } from "polygate/formats/token-usage";

  let handler;

  function mount({ UPSTREAM: baseUrl }) {
    const upstream = relay({ format: messagesUpstream, baseUrl, apiKey: "sk-upstream" });
    const backend = {
      ...upstream,
      chat(request, call) {
        if (request.model === "closed") throw new GatewayError("failed_precondition", "This model is closed.");
        return upstream.chat(request, call);
      },
    };
    const quotas = memoryQuotaStore([{ apiKey: "sk-1", granted: 1_000 }]);
    const gateway = createGateway({ formats: [messages({ ranges: "vendor" }), tokenUsage()], backend, quotas });
    return toEdgeHandler(gateway, { prefix: "/ai", fallback: () => new Response("The worker's own.") });
  }

  export default { fetch: (request, env, context) => (handler ??= mount(env))(request, env, context) };
`;

export function workersSuite(stage: () => PackageStage): void {
  describe("a Worker with the formats that it imports", () => {
    const resources = new AsyncDisposableStack();
    let bundle: string;
    let baseURL: string;
    const asked: ChatRequest[] = [];

    beforeAll(async () => {
      bundle = await bundledWorker(stage().project, "worker", WORKER);
      const upstream = createGateway({
        backend: {
          async *chat(request) {
            asked.push(request);
            yield "Hello from ";
            yield "the upstream.";
            yield { type: "finish", reason: "stop", usage: { inputTokens: 10, outputTokens: 5 } };
          },
        },
        quotas: memoryQuotaStore([{ apiKey: "sk-upstream" }]),
      });
      const server = createServer(toNodeHandler(upstream)).listen(0, "127.0.0.1");
      await once(server, "listening");
      resources.defer(() => {
        server.closeAllConnections();
        server.close();
      });
      const { port } = server.address() as AddressInfo;
      const miniflare = new Miniflare({
        modules: [{ type: "ESModule", path: "worker.js", contents: bundle }],
        bindings: { UPSTREAM: `http://127.0.0.1:${port}/v1` },
        compatibilityDate: "2026-07-01",
        compatibilityFlags: ["enable_request_signal"],
      });
      resources.defer(() => miniflare.dispose());
      baseURL = new URL("ai", await miniflare.ready).href;
    });

    afterAll(() => resources.disposeAsync());

    it("is small, imports nothing, and has the size that the docs tell", async ({ annotate }) => {
      const [bytes, gzipped] = [Buffer.byteLength(bundle), gzipSync(bundle).length];
      await annotate(`${bytes} bytes minified, ${gzipped} bytes gzipped`);
      expect(bundle).not.toMatch(/\bfrom\s*["']|\bimport\s*[("']|\brequire\(/);
      expect(bytes).toBeLessThanOrEqual(MOST_BYTES);
      const page = await readFile(join(ROOT, "docs/mounting.md"), "utf8");
      const told = Number(/messages alone: (\d+) kB/.exec(page)?.[1]) * 1000;
      expect(Math.abs(told - bytes)).toBeLessThan(5_000);
    });

    const ask = { model: "any", max_tokens: 100, messages: [{ role: "user" as const, content: "Hello" }] };
    const client = (apiKey = "sk-1"): Anthropic => new Anthropic({ apiKey, baseURL, maxRetries: 0 });

    it("relays a complete and a streamed call of the official client, and counts both", async () => {
      const text = "Hello from the upstream.";
      const { content, usage } = await client().messages.create(ask);
      expect([content, usage.output_tokens]).toEqual([[{ type: "text", text, citations: [] }], 5]);
      expect(await client().messages.stream(ask).finalText()).toBe(text);
      expect(asked.map(({ stream }) => stream)).toEqual([false, true]);
      const headers = { authorization: "Bearer sk-1" };
      const used = await (await fetch(`${baseURL}/api/usage/token`, { headers })).json();
      expect(used).toMatchObject({ data: { total_granted: 1_000, total_used: 30 } });
    });

    it("refuses a wrong key, and knows the error of its own backend by its class", async () => {
      await expect(client("sk-2").messages.create(ask)).rejects.toMatchObject({ status: 401 });
      const closed = client().messages.create({ ...ask, model: "closed" });
      await expect(closed).rejects.toMatchObject({ message: expect.stringContaining("This model is closed.") });
    });

    it("leaves the routes of other formats to the Worker", async () => {
      for (const path of ["/v1/images/generations", "/v1/chat/completions", "/v1/embeddings", "/nothing"]) {
        const answer = await fetch(baseURL + path, { method: "POST", headers: { authorization: "Bearer sk-1" } });
        expect([path, await answer.text()]).toEqual([path, "The worker's own."]);
      }
    });
  });
}
