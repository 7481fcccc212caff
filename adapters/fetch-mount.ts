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
