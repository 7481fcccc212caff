/** The details of a call that the host's functions receive. */

/** The platform's `waitUntil`: keeps the runtime alive until a promise settles, even after the response. The promise never rejects. */
export type WaitUntil = (work: Promise<unknown>) => unknown;

/** A call, as the host's functions see it. */
export interface CallInfo<Context = unknown> {
  /** The id of the call. The caller receives it as `request-id`. */
  readonly requestId: string;
  /** The host's own value for this request, from the mount's `context` option; undefined without that option. */
  readonly context: Context | undefined;
  /** The request's headers, as they arrived. They contain the caller's secret. */
  readonly headers: Headers;
  /** The address of the client, if the runtime tells it. Behind a proxy, this is the proxy's address. */
  readonly clientAddress: string | undefined;
}

/** The kinds of generation: `chat` answers conversations, `image` draws images, and `embedding` makes vectors of texts. */
export type ModelKind = "chat" | "image" | "embedding";
