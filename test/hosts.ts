/** The hosts that the conformance suites run on, each over the gateway's public names alone; a new host is one row. */

import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../adapters/node.ts";
import type { Gateway } from "../src/index.ts";

/** Something that a gateway is mounted in. */
export interface TestHost {
  readonly name: string;
  /** False where its runtime or framework is missing: a reported skip. */
  readonly available: boolean;
  /** The prefixes under which it can mount a gateway; an empty one is its root. */
  readonly mounts: readonly string[];
  /** Whether it answers by itself, with `ownAnswer`, what the gateway does not own. */
  readonly ownRoutes: boolean;
  start(gateway: Gateway, prefix?: string): Promise<RunningHost>;
}

export interface RunningHost {
  /** Sends a request; the path begins at the host's root, before the mount's prefix. */
  request(path: string, init?: HostRequestInit): Promise<Response>;
  /** Where it listens, for a test that needs a socket. */
  readonly url?: string;
  stop(): Promise<void>;
}

/** `duplex` belongs to a body that is a stream; the DOM's type does not know it yet. */
export type HostRequestInit = RequestInit & { readonly duplex?: "half" };

/** What a host's own route says: proof that neither the path nor the body was touched by the gateway. */
export const ownAnswer = (path: string, body: string): string => `the host's own: ${path} ${body}`;

export const hosts: readonly TestHost[] = [
  { name: "fetch", available: true, mounts: [""], ownRoutes: false, start: inProcess },
  { name: "node", available: true, mounts: ["", "/ai"], ownRoutes: true, start: overSocket(listenOnNode) },
];

async function inProcess(gateway: Gateway): Promise<RunningHost> {
  return {
    request: (path, init) => gateway.fetch(withDeclaredLength(new Request(`http://gateway.test${path}`, init), init)),
    stop: async () => {},
  };
}

/** A client over a socket declares the length of a text; a bare Request does not. */
function withDeclaredLength(request: Request, init: HostRequestInit | undefined): Request {
  if (typeof init?.body === "string" && !request.headers.has("content-length"))
    request.headers.set("content-length", String(Buffer.byteLength(init.body)));
  return request;
}

type Listening = Required<Pick<RunningHost, "url" | "stop">>;

/** A host that listens on loopback, asked by the platform's own client. */
function overSocket(listen: (gateway: Gateway, prefix: string) => Promise<Listening>): TestHost["start"] {
  return async (gateway, prefix = "") => {
    const { url, stop } = await listen(gateway, prefix);
    return { url, stop, request: (path, init) => fetch(`${url}${path}`, init) };
  };
}

/** Node's http server, with the prefix taken off the way Connect takes it off. */
async function listenOnNode(gateway: Gateway, prefix: string): Promise<Listening> {
  const handler = toNodeHandler(gateway);
  return listenWith((req, res) => {
    const path = req.url ?? "/";
    const own = (): void => void textOf(req).then((body) => res.end(ownAnswer(path, body)));
    if (!isUnder(prefix, path)) return own();
    const inner = path.slice(prefix.length);
    req.url = inner.startsWith("/") ? inner : `/${inner}`;
    Object.assign(req, { originalUrl: path });
    handler(req, res, own);
  });
}

const isUnder = (prefix: string, path: string): boolean =>
  path.startsWith(prefix) && ["", "/", "?"].includes(prefix === "" ? "" : path.charAt(prefix.length));

/** A Node server on a free port of loopback, for every host that is a request listener. */
function listenWith(listener: RequestListener): Promise<Listening> {
  const server = createServer(listener);
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      resolve({ url: `http://127.0.0.1:${port}`, stop: () => close(server) });
    });
  });
}

const close = (server: Server): Promise<void> =>
  new Promise((resolve, reject) => {
    server.close((error) => (error ? reject(error) : resolve()));
    server.closeAllConnections();
  });

async function textOf(req: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of req.setEncoding("utf8")) text += String(chunk);
  return text;
}
