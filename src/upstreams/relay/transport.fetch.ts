/** The transport over `fetch`: the runtime's own, or the host's. */

import { Pending } from "../backend.ts";
import type { Exchange, OpenTransport, Transport, UpstreamRequest, UpstreamResponse } from "./transport.ts";

/** The part of the standard `fetch` that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export const openTransport: OpenTransport = (origin) =>
  // Read the global `fetch` at each request, because a host may replace it.
  fetchTransport(origin, (url, init) => fetch(url, init));

export const fetchTransport = (origin: string, fetch: Fetch): Transport => ({
  async send({ method, path, headers, body }: UpstreamRequest, exchange: Exchange): Promise<UpstreamResponse> {
    if (exchange.reason !== undefined) throw exchange.reason;
    const abort = new AbortController();
    const pending = new Pending();
    exchange.carrier = {
      cut(reason) {
        pending.fail(reason);
        abort.abort(reason);
      },
    };
    // `fetch` does not say when it has connected, so the wait for the headers begins at once.
    exchange.connected();
    const init: RequestInit = { method, headers, redirect: "manual", signal: abort.signal };
    if (body !== undefined) init.body = bodyOf(body);
    const response = await pending.of(fetch(origin + path, init));
    const reader = response.body?.getReader();
    return {
      status: response.status,
      header: (name) => response.headers.get(name) ?? undefined,
      headers: () => response.headers,
      read: async () => (reader ? (await pending.of(reader.read())).value : undefined),
    };
  },

  // Nothing to close: the runtime manages the connections of `fetch`.
  close: () => Promise.resolve(),
});

/**
 * Returns the body for fetch. When a connection ends before the answer, Deno repeats the request, although the upstream may already
 * have read it. A Blob prevents this, because Deno cannot copy it.
 */
function bodyOf(body: string | Uint8Array): BodyInit {
  if ("Deno" in globalThis) return new Blob([typeof body === "string" ? body : new Uint8Array(body)]);
  // Copy the bytes to get a view of an ArrayBuffer, which the DOM's types require.
  return typeof body === "string" ? body : new Uint8Array(body);
}
