/** Finds where a framework has mounted a handler, from what it has taken off the address and what it was before. */

import type { IncomingMessage } from "node:http";
import type { Mounted } from "../src/index.ts";

/** Connect, Express and Koa leave the whole address as `originalUrl`, beside the one that the handler is to see. */
export function mountedAt({ url = "" }: IncomingMessage, whole: object): Mounted {
  const { originalUrl = url } = whole as { readonly originalUrl?: string };
  const [rest, before] = [withoutOrigin(url), withoutOrigin(originalUrl)];
  return { path: before.endsWith(rest) ? before.slice(0, before.length - rest.length) : "" };
}

/** A proxy's client writes the origin into the request's target, which frameworks leave there. */
const withoutOrigin = (target: string): string => target.replace(/^https?:\/\/[^/?]*/i, "");
