/** Deno as a host of the soak. */

import { toDenoHandler } from "../../../adapters/deno.ts";
import { createGateway } from "../../../src/index.ts";
import { PREFIX } from "../calls.ts";
import { beSoaked } from "../served.ts";

await beSoaked(async (options) => {
  const gateway = createGateway(options);
  const handler = toDenoHandler(gateway, { prefix: PREFIX });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);
  return { url: `http://127.0.0.1:${server.addr.port}`, gateway, stop: () => server.shutdown() };
});
