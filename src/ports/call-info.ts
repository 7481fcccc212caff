/** What every function of a host's is told about the call that it works for. */

/** One call, as the host may know it. */
export interface CallInfo<Context = unknown> {
  /** The id that the caller receives as `request-id`. */
  readonly requestId: string;
  /** The host's own, as the mount's `context` option made it for this request; undefined where the mount has none. */
  readonly context: Context | undefined;
  /** The request's headers, as they came: the caller's secret is among them. */
  readonly headers: Headers;
  /** The address that the connection came from, where the runtime tells it. Behind a proxy it is the proxy's. */
  readonly clientAddress: string | undefined;
}
