/** A gateway whose route has two upstreams: the first breaks off, and the second goes on. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../../adapters/node.ts";
import { toUpgradeHandler } from "../../../adapters/websocket.ts";
import {
  type CallRecord,
  createGateway,
  type Failure,
  type GatewayOptions,
  type MemoryQuotaStore,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { type Route, route, type RouteUpstream } from "../../../src/upstreams/route/index.ts";
import { type RawAnswer, rawUpstream, type RawUpstream } from "../relay/raw-upstream.ts";
import type { ChatFormatName } from "./callers.ts";
import { lastTurns, type Said, type Script } from "./speakers.ts";

export const KEY = "sk-caller";
export const GRANTED = 1_000_000;

/** One upstream of the route. */
export interface Voice {
  readonly format: ChatFormatName;
  readonly answer: RawAnswer;
  readonly more?: Partial<RouteUpstream>;
}

export interface BreakStage extends AsyncDisposable {
  readonly url: string;
  readonly quotas: MemoryQuotaStore;
  readonly records: readonly CallRecord[];
  readonly failures: readonly Failure[];
  readonly upstreams: readonly RawUpstream[];
}

export interface BreakOptions {
  readonly granted?: number;
  readonly onBreak?: "fail" | "continue";
  /** More options of the route. */
  readonly target?: Partial<Route>;
  readonly gateway?: Partial<GatewayOptions>;
}

/** Opens the gateway. Its upstreams are asked in their order. */
export async function breakStage(voices: readonly Voice[], options: BreakOptions = {}): Promise<BreakStage> {
  const { granted = GRANTED, onBreak = "continue", target, gateway: more } = options;
  const stack = new AsyncDisposableStack();
  const upstreams: RawUpstream[] = [];
  const routed: RouteUpstream[] = [];
  for (const [index, { format, answer, more: given }] of voices.entries()) {
    const upstream = stack.use(await rawUpstream(answer));
    upstreams.push(upstream);
    const backend = relay({ format, baseUrl: upstream.url, apiKey: "sk-upstream" });
    stack.defer(() => backend.close());
    // The first upstream has all the weight.
    routed.push({ backend, name: `upstream-${index}`, model: `model-${index}`, weight: index === 0 ? 1 : 0, ...given });
  }
  const quotas = memoryQuotaStore([{ apiKey: KEY, id: "caller", granted }]);
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const backend = route({
    routes: { "*": { upstreams: routed, onBreak, ...target } },
    retry: { share: 1 },
    breaker: { failures: 1_000 },
  });
  const gateway = createGateway({
    backend,
    quotas,
    countTokens: (text) => text.length,
    onCall: (record) => void records.push(record),
    onFailure: (failure) => void failures.push(failure),
    ...more,
  });
  stack.defer(() => gateway.close());
  const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
  server.on("upgrade", toUpgradeHandler(gateway));
  await once(server, "listening");
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    quotas,
    records,
    failures,
    upstreams,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Returns the rest of an answer as a good model writes it: behind a prefill, or behind the words that it was told to repeat. */
export function restOf(script: Script, body: string): Script {
  const { said, instruction } = lastTurns(body);
  if (said === undefined) return script;
  const whole = script.parts.flatMap((part) => (part.type === "text" ? part.pieces : [])).join("");
  const rest = whole.slice(whole.startsWith(said) ? said.length : 0);
  const repeated = instruction?.split("Its last words:\n")[1] ?? "";
  const text: Said = { type: "text", pieces: (repeated + rest).match(/[^]{1,5}/gu) ?? [] };
  return { ...script, parts: [text, ...script.parts.filter(({ type }) => type === "call")] };
}
