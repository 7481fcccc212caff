/** The transport over `fetch`: of a runtime whose own fetch is its fastest way out, or one that the host gives. */

import { Pending } from "../pending.ts";
import type { Exchange } from "./exchange.ts";
import type { OpenTransport, Transport, UpstreamRequest, UpstreamResponse } from "./transport.ts";

/** As much of the standard's `fetch` as is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export const openTransport: OpenTransport = (origin) =>
  // Looked up when it is called: a host may have put its own in place since.
  fetchTransport(origin, (url, init) => fetch(url, init));

export const fetchTransport = (origin: string, fetch: Fetch): Transport => new FetchTransport(origin, fetch);

class FetchTransport implements Transport {
  readonly #origin: string;
  readonly #fetch: Fetch;

  constructor(origin: string, fetch: Fetch) {
    this.#origin = origin;
    this.#fetch = fetch;
  }

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
    // Fetch does not tell when it has connected: all until the headers is one wait.
    exchange.connected();
    const init: RequestInit = { method, headers, redirect: "manual", signal: abort.signal };
    if (body !== undefined) init.body = bodyOf(body);
    return new FetchResponse(await pending.of(this.#fetch(this.#origin + path, init)), pending);
  }

  // The runtime keeps the connections, and closes them.
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/**
 * The body as fetch is given it. Deno repeats a request whose connection ends before an answer, though the upstream may have read it,
 * unless the body is one that it does not copy.
 */
function bodyOf(body: string | Uint8Array): BodyInit {
  if ("Deno" in globalThis) return new Blob([typeof body === "string" ? body : new Uint8Array(body)]);
  // A copy typed as its own buffer's view, which is what the DOM's types ask for.
  return typeof body === "string" ? body : new Uint8Array(body);
}

class FetchResponse implements UpstreamResponse {
  readonly #response: Response;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #pending: Pending;

  constructor(response: Response, pending: Pending) {
    this.#response = response;
    this.#reader = response.body?.getReader();
    this.#pending = pending;
  }

  get status(): number {
    return this.#response.status;
  }

  header(name: string): string | undefined {
    return this.#response.headers.get(name) ?? undefined;
  }

  headers(): Headers {
    return this.#response.headers;
  }

  async read(): Promise<Uint8Array | undefined> {
    if (!this.#reader) return undefined;
    const step = await this.#pending.of(this.#reader.read());
    return step.done ? undefined : step.value;
  }
}
