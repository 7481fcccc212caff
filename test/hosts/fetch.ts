/** A gateway with no host at all: its own fetch, for whatever speaks fetch. */

import { createGateway, type GatewayOptions } from "../../src/index.ts";
import type { HostRequestInit, RunningHost } from "./host.ts";

export async function inProcess(options: GatewayOptions, prefix = ""): Promise<RunningHost> {
  const gateway = createGateway(options);
  const { fetch } = gateway.at(prefix);
  return {
    url: undefined,
    gateway,
    request: (path, init) => fetch(withDeclaredLength(new Request(`http://gateway.test${path}`, init), init)),
    stop: async () => {},
  };
}

/** A client over a socket declares the length of a text; a bare Request does not. */
function withDeclaredLength(request: Request, init: HostRequestInit | undefined): Request {
  if (typeof init?.body === "string" && !request.headers.has("content-length"))
    request.headers.set("content-length", String(Buffer.byteLength(init.body)));
  return request;
}
