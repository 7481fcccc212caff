/** Finds where a framework has mounted a handler, from what it has taken off the address and what it was before. */

import type { IncomingMessage } from "node:http";
import type { Mounted } from "../src/index.ts";

/** Connect, Express and Koa leave the whole address as `originalUrl`, beside the one that the handler is to see. */
export function mountedAt({ url = "" }: IncomingMessage, whole: object): Mounted {
  const { originalUrl = url } = whole as { readonly originalUrl?: string };
  // Where nothing is left of the path, a slash is put there that was not in the address.
  const rest = originalUrl.endsWith(url) ? url : url.slice(1);
  return {
    path: originalUrl.endsWith(rest) ? originalUrl.slice(0, originalUrl.length - rest.length).replace(/\/+$/, "") : "",
  };
}
