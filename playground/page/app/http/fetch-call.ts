/** Makes a call with `fetch`, and passes on each piece of the body when it arrives. */

import type { ApiCall } from "./call.ts";
import type { Listener } from "./listener.ts";

export async function fetchCall(call: ApiCall, signal: AbortSignal, listener: Listener): Promise<void> {
  const { method, path, headers, body } = call;
  const init = { method, headers, signal, cache: "no-store", ...(body && { body: JSON.stringify(body) }) } as const;
  const response = await fetch(path, init);
  listener.onHead(response.status, [...response.headers]);
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  for (;;) {
    const step = await reader?.read();
    const text = decoder.decode(step?.value, { stream: step?.done === false });
    if (text !== "") listener.onText(text);
    if (step?.done !== false) return;
  }
}
