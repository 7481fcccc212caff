/** Calls over requests: each is a request with a body of JSON, whose response is what the call came to. */

import { pack, unpack } from "./pack.ts";
import type { Call, Handlers } from "./peer.ts";

interface Body {
  json(): Promise<unknown>;
}

type Outcome = { readonly result: unknown } | { readonly thrown: unknown };

/** The caller's side, over whatever sends a body. */
export const callOver =
  (send: (body: string) => Promise<Body>): Call =>
  async <T>(method: string, ...args: readonly unknown[]): Promise<T> => {
    const response = await send(JSON.stringify({ method, args: pack(args) }));
    const outcome = (await response.json()) as Outcome;
    if ("thrown" in outcome) throw unpack(outcome.thrown);
    return unpack(outcome.result) as T;
  };

/** The other side: does what a request asks for. */
export async function outcomeOf(request: Body, handlers: Handlers): Promise<Outcome> {
  const { method, args } = (await request.json()) as { readonly method: string; readonly args: unknown };
  try {
    return { result: pack(await handlers[method]?.(...(unpack(args) as never[]))) };
  } catch (error) {
    return { thrown: pack(error) };
  }
}
