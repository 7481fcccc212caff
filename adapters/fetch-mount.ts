/** What a fetch host knows of a request that the request does not say. */

import type { Mounted, WaitUntil } from "../src/index.ts";

/** The host's context is made when the gateway takes up the call, and for no other route. */
export class FetchMount<Context> implements Mounted<Context> {
  readonly clientAddress: string | undefined;
  readonly waitUntil: WaitUntil | undefined;
  readonly #context: () => Context | undefined;

  constructor(context: () => Context | undefined, clientAddress: string | undefined, waitUntil?: WaitUntil) {
    this.#context = context;
    this.clientAddress = clientAddress;
    this.waitUntil = waitUntil;
  }

  get context(): Context | undefined {
    return this.#context();
  }
}

/**
 * On a server whose requests share one event loop, such as those of Bun and Deno. The request's signal is asked for when the call has
 * outlived a turn of the loop, because the signal costs more than many a short call's other steps. A client that is gone by then is
 * heard of at once.
 */
export class ServerMount<Context> extends FetchMount<Context> {
  readonly #request: Request;

  constructor(request: Request, context: () => Context | undefined, clientAddress: string | undefined) {
    super(context, clientAddress);
    this.#request = request;
  }

  onDisconnect(listener: () => void): () => void {
    const waiting = new Disconnect(this.#request, listener);
    if (begun.push(waiting) === 1) setImmediate(listenToAll);
    return () => waiting.stop();
  }
}

/** The calls that have begun in this turn of the event loop. */
let begun: Disconnect[] = [];

function listenToAll(): void {
  const calls = begun;
  begun = [];
  for (const call of calls) call.listen();
}

/** A call that wants to hear of its client's end. */
class Disconnect {
  /** Both are undefined once the call has ended. */
  #request: Request | undefined;
  #listener: (() => void) | undefined;

  constructor(request: Request, listener: () => void) {
    this.#request = request;
    this.#listener = listener;
  }

  listen(): void {
    const signal = this.#request?.signal;
    if (signal?.aborted) this.#listener?.();
    else signal?.addEventListener("abort", () => this.#listener?.(), { once: true });
  }

  stop(): void {
    this.#request = this.#listener = undefined;
  }
}
