/** Deno as a host of the suites. */

import { toDenoHandler } from "../../adapters/deno.ts";
import { answerByItself } from "./host.ts";
import { obey } from "./remote/child.ts";

obey((gateway, prefix) => {
  const end = new AbortController();
  const handler = toDenoHandler(gateway, { prefix, fallback: answerByItself });
  const options = { hostname: "127.0.0.1", port: 0, signal: end.signal, onListen: () => {} };
  const { addr } = Deno.serve(options, handler);
  return { port: addr.port, stop: async () => end.abort() };
});
