/** Bun as a host of the soak. */

import { toBunHandler, toBunWebSocket } from "../../../adapters/bun.ts";
import { createGateway } from "../../../src/index.ts";
import { PREFIX } from "../calls.ts";
import { beSoaked } from "../served.ts";

await beSoaked(async (options) => {
  const gateway = createGateway(options);
  const fetch = toBunHandler<Bun.Server>(gateway, { prefix: PREFIX });
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch, websocket: toBunWebSocket() });
  return { url: `http://127.0.0.1:${server.port}`, gateway, stop: () => server.stop(true) };
});
