/** What a host is to the suites. */

import type { Gateway, GatewayOptions } from "../../src/index.ts";

/** Something that a gateway is mounted in. */
export interface TestHost {
  readonly name: string;
  /** False where its runtime or framework is missing: a reported skip. */
  readonly available: boolean;
  /** The prefixes under which it can mount a gateway; an empty one is its root. */
  readonly mounts: readonly string[];
  /** Whether it answers by itself, with `ownAnswer`, what the gateway does not own. */
  readonly ownRoutes: boolean;
  start(options: GatewayOptions, prefix?: string): Promise<RunningHost>;
}

export interface RunningHost {
  /** Sends a request; the path begins at the host's root, before the mount's prefix. */
  request(path: string, init?: HostRequestInit): Promise<Response>;
  /** Where it listens, for a test that needs a socket; undefined where there is none. */
  readonly url: string | undefined;
  readonly gateway: Pick<Gateway, "close">;
  stop(): Promise<void>;
}

/** `duplex` belongs to a body that is a stream; the DOM's type does not know it yet. */
export type HostRequestInit = RequestInit & { readonly duplex?: "half" };

/** What a host's own route says: proof that neither the path nor the body was touched by the gateway. */
export const ownAnswer = (path: string, body: string): string => `the host's own: ${path} ${body}`;

/** The same where a runtime has it as a response. */
export async function answerByItself(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  return new Response(ownAnswer(pathname + search, await request.text()));
}
