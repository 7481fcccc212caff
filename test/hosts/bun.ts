/** Bun as a host of the suites. */

import { toBunHandler, toBunWebSocket } from "../../adapters/bun.ts";
import { answerByItself } from "./host.ts";
import { obey } from "./remote/child.ts";

obey((gateway, prefix) => {
  const handler = toBunHandler<Bun.Server>(gateway, { prefix, fallback: answerByItself });
  // Bun refuses a larger body by itself, in its own words; the gateway is to be asked.
  const maxRequestBodySize = Number.MAX_SAFE_INTEGER;
  const websocket = toBunWebSocket();
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, maxRequestBodySize, fetch: handler, websocket });
  return { port: server.port, stop: () => server.stop(true) };
});
