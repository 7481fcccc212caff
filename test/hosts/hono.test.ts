/** The gateway behind Hono's middleware that reads the body: what is left for it, and who hears where nothing is. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Writable } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import { Hono, type HonoRequest } from "hono";
import { streamHandle } from "hono/aws-lambda";
import { afterEach, expect, it, vi } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { MINIMAL } from "../formats/messages/bodies.ts";
import { KEY, plays, post } from "./stage.ts";

let stop: (() => void) | undefined;
afterEach(() => {
  stop?.();
  vi.unstubAllGlobals();
});

const gatewayTelling = (heard: string[]): Gateway =>
  createGateway({
    backend: { chat: plays("Hello.") },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    onFailure: ({ text }) => heard.push(text),
  });

/** An app whose middleware reads before the gateway does. */
function appOf(gateway: Gateway, read: (request: HonoRequest) => Promise<unknown>): Hono {
  const ai = gateway.at("/ai");
  return new Hono()
    .use(async ({ req }, next) => (await read(req), next()))
    .use("/ai/*", async ({ req }, next) => (await ai.handle(req.raw)) ?? next());
}

async function askOnNode(app: Hono): Promise<Response> {
  const listener = getRequestListener(app.fetch);
  const server = createServer((req, res) => void listener(req, res)).listen(0, "127.0.0.1");
  stop = () => server.close().closeAllConnections();
  await once(server, "listening");
  return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/ai/v1/messages`, post(MINIMAL));
}

const RUNTIMES = [
  ["fetch", async (app: Hono): Promise<Response> => app.request("/ai/v1/messages", post(MINIMAL))],
  ["Node", askOnNode],
] as const;

it.each(RUNTIMES)("tells the host, not the caller, of middleware that leaves no body: on %s", async (_runtime, ask) => {
  const heard: string[] = [];
  const response = await ask(appOf(gatewayTelling(heard), (request) => request.json()));
  expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining("middleware")]);
  expect(heard).toEqual([expect.stringContaining("Mount the gateway before that middleware")]);
});

it.each(RUNTIMES)("serves behind middleware that reads a clone: on %s", async (_runtime, ask) => {
  const heard: string[] = [];
  const response = await ask(appOf(gatewayTelling(heard), ({ raw }) => raw.clone().json()));
  expect([response.status, heard]).toEqual([200, []]);
});

it("streams on AWS Lambda, and has settled before the function ends and may be frozen", async () => {
  const written: string[] = [];
  let isRecorded = false;
  // The global of the runtime of Lambda, and its stream.
  vi.stubGlobal("awslambda", {
    streamifyResponse: (handler: unknown) => handler,
    HttpResponseStream: {
      from(stream: Writable, { statusCode }: { readonly statusCode: number }) {
        written.push(`${statusCode}`);
        return stream;
      },
    },
  });
  const gateway = createGateway({
    backend: { chat: plays("Hello.") },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    onCall() {
      isRecorded = true;
    },
  });
  const { method, headers, body } = post({ ...MINIMAL, stream: true });
  const event = {
    version: "2.0",
    rawPath: "/ai/v1/messages",
    rawQueryString: "",
    requestContext: { http: { method }, domainName: "gateway.example" },
    headers,
    body,
    isBase64Encoded: false,
  };
  const stream = new Writable({
    write(chunk: Uint8Array, _encoding, done) {
      written.push(new TextDecoder().decode(chunk));
      done();
    },
  });
  // Hono's type is that of a function without a stream.
  const handler: unknown = streamHandle(appOf(gateway, async () => undefined));
  await (handler as (event: object, to: Writable) => Promise<void>)(event, stream);
  expect(written[0]).toBe("200");
  expect(written.join("")).toContain("event: message_stop");
  expect(isRecorded).toBe(true);
});
