/** Calls over requests: each is a request with a body of JSON, whose response is what the call came to. */

import { pack, unpack } from "./pack.ts";
import type { Call, Handlers } from "./peer.ts";

type Outcome = { readonly result: unknown } | { readonly thrown: unknown };

/** The caller's side, over whatever sends a body and answers with another. */
export const callOver =
  (send: (body: string) => Promise<string>): Call =>
  async <T>(method: string, ...args: readonly unknown[]): Promise<T> => {
    const outcome = JSON.parse(await send(JSON.stringify({ method, args: pack(args) }))) as Outcome;
    if ("thrown" in outcome) throw unpack(outcome.thrown);
    return unpack(outcome.result) as T;
  };

/** The other side: does what a body asks for. */
export async function outcomeOf(body: string, handlers: Handlers): Promise<string> {
  const { method, args } = JSON.parse(body) as { readonly method: string; readonly args: unknown };
  return JSON.stringify(await settled(method, unpack(args) as never[], handlers));
}

async function settled(method: string, args: never[], handlers: Handlers): Promise<Outcome> {
  try {
    return { result: pack(await handlers[method]?.(...args)) };
  } catch (error) {
    return { thrown: pack(error) };
  }
}
