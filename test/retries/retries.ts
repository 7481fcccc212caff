/** Many calls that are repeated after cut connections, over real sockets, and the account of what came of them. */

import { once } from "node:events";
import { Agent, createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../adapters/node.ts";
import {
  createGateway,
  type Gateway,
  memoryQuotaStore,
  type MemoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
  type ReplayStore,
} from "../../src/index.ts";
import { attempt, type Cut } from "./client.ts";

export interface Plan {
  readonly seed: number;
  /** How many calls are made, each under a key of its own. */
  readonly calls: number;
  /** How many of them are under way at once. */
  readonly atOnce: number;
  /** Gateways that share the stores: an attempt goes to any of them. */
  readonly gateways: number;
  /** What share of attempts is cut. */
  readonly cutShare: number;
}

/** What came of a run. Each violation is a sentence. */
export interface Account {
  readonly calls: number;
  readonly attempts: number;
  readonly cuts: number;
  readonly replayed: number;
  readonly backendCalls: number;
  readonly charges: number;
  readonly units: number;
  readonly expectedUnits: number;
  readonly violations: readonly string[];
}

const INPUT_TOKENS = 10;
const KEY_HEADER = "idempotency-key";
/** More often than this no connection breaks. */
const MAX_CUTS = 6;

/** Reproducible numbers from 0 to 1. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** How many tokens the answer of a call has, by its number. */
const tokensOf = (call: number): number => 1 + (call % 17);

const nameOf = (call: number): string => `call-${call};`;

/** Makes calls until each has been answered whole, and takes account. */
export async function retries(plan: Plan, replayStore: ReplayStore): Promise<Account> {
  const tally = new Tally();
  const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 2 ** 40 }]);
  const gateways = Array.from({ length: plan.gateways }, () => gatewayOf(tally, quotas, replayStore));
  const servers = await Promise.all(gateways.map(serve));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  const agent = new Agent({ keepAlive: true, maxSockets: 4 * plan.atOnce });
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let call = next++; call < plan.calls; call = next++) await complete(call, { plan, tally, ports, agent });
  };
  await Promise.all(Array.from({ length: plan.atOnce }, worker));
  agent.destroy();
  await Promise.all(gateways.map((gateway) => gateway.close()));
  for (const server of servers) server.close().closeAllConnections();
  return tally.account(plan.calls, quotas);
}

/** Counts what was done for each key. */
class Tally {
  attempts = 0;
  cuts = 0;
  replayed = 0;
  readonly backendCalls = new Map<string, number>();
  readonly charges = new Map<string, number>();
  readonly violations: string[] = [];

  account(calls: number, quotas: MemoryQuotaStore): Account {
    const { attempts, cuts, replayed, violations } = this;
    let expectedUnits = 0;
    for (let call = 0; call < calls; call++) {
      expectedUnits += INPUT_TOKENS + tokensOf(call);
      for (const [what, counts] of Object.entries({ backendCalls: this.backendCalls, charges: this.charges })) {
        const count = counts.get(nameOf(call)) ?? 0;
        if (count !== 1) violations.push(`${nameOf(call)} has ${count} ${what}`);
      }
    }
    const { used = 0, held = 0 } = quotas.report("one") ?? {};
    if (used !== expectedUnits) violations.push(`${used} units were charged, not ${expectedUnits}`);
    if (held !== 0) violations.push(`${held} units are still held`);
    return {
      calls,
      attempts,
      cuts,
      replayed,
      backendCalls: sum(this.backendCalls),
      charges: sum(this.charges),
      units: used,
      expectedUnits,
      violations,
    };
  }
}

const sum = (counts: Map<string, number>): number => [...counts.values()].reduce((one, other) => one + other, 0);

const count = (counts: Map<string, number>, name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1);

function gatewayOf(tally: Tally, quotas: QuotaStore, replayStore: ReplayStore): Gateway {
  const backend: ModelBackend = {
    async *chat(_request, { headers }) {
      const name = headers.get(KEY_HEADER) ?? "";
      count(tally.backendCalls, name);
      const tokens = tokensOf(Number(/\d+/.exec(name)?.[0]));
      for (let token = 0; token < tokens; token++) {
        // Some answers come in one turn of the event loop, some take a while.
        if (token % 3 === 0) await new Promise((resolve) => setTimeout(resolve, token % 2));
        yield `${name} word ${token} `;
      }
      yield { type: "finish", reason: "stop", usage: { inputTokens: INPUT_TOKENS, outputTokens: tokens } };
    },
  };
  return createGateway({
    backend,
    replayStore,
    quotas: {
      find: (apiKey) => quotas.find(apiKey),
      balance: (keyId) => quotas.balance(keyId),
      reserve: (hold) => quotas.reserve(hold),
      renew: (id, renewal) => quotas.renew(id, renewal),
      async settle(id, outcome, call) {
        if (outcome.used > 0) count(tally.charges, call?.headers.get(KEY_HEADER) ?? "");
        await quotas.settle(id, outcome);
      },
    },
    onFailure: ({ text }) => tally.violations.push(text),
  });
}

async function serve(gateway: Gateway): Promise<Server> {
  const server = createServer(toNodeHandler(gateway)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** The forms of a request; each call takes one, whole or streamed. */
const FORMS: readonly ((stream: boolean) => { readonly path: string; readonly body: object })[] = [
  (stream) => ({
    path: "/v1/messages",
    body: { model: "any", max_tokens: 50, stream, messages: [{ role: "user", content: "Hello" }] },
  }),
  (stream) => ({
    path: "/v1/chat/completions",
    body: { model: "any", stream, messages: [{ role: "user", content: "Hello" }] },
  }),
  (stream) => ({
    path: `/v1beta/models/any:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
  }),
];

interface Run {
  readonly plan: Plan;
  readonly tally: Tally;
  readonly ports: readonly number[];
  readonly agent: Agent;
}

/** Makes a call again and again until it is answered whole. */
async function complete(call: number, { plan, tally, ports, agent }: Run): Promise<void> {
  const random = randomOf(plan.seed * 1_000_003 + call);
  const { path, body } = (FORMS[call % FORMS.length] ?? FORMS[0])?.(random() < 0.5) ?? { path: "", body: {} };
  const text = JSON.stringify(body);
  const headers = {
    authorization: "Bearer sk-one",
    "compat-version": "2023-06-01",
    [KEY_HEADER]: nameOf(call),
  };
  const parts: string[] = [];
  for (let cuts = 0; ;) {
    const cut = cuts < MAX_CUTS && random() < plan.cutShare ? cutOf(random, text.length) : undefined;
    const port = ports[Math.floor(random() * ports.length)] ?? 0;
    tally.attempts++;
    const received = await attempt({ port, agent, path, headers, body: text, cut });
    if (received.replayed) tally.replayed++;
    if (received.status !== undefined && received.status !== 200)
      tally.violations.push(`${nameOf(call)} was answered with ${received.status}: ${received.text}`);
    if (!received.isWhole) {
      cuts++;
      tally.cuts++;
      parts.push(received.text);
      continue;
    }
    if (!received.text.includes(`${nameOf(call)} word ${tokensOf(call) - 1} `) || !ENDED.test(received.text))
      tally.violations.push(`${nameOf(call)} was answered with something else: ${received.text}`);
    for (const part of parts)
      if (!received.text.startsWith(part)) tally.violations.push(`${nameOf(call)} was answered in two ways`);
    return;
  }
}

/** What only an answer has that came to its end. */
const ENDED = /"type":"message"|message_stop|finish_reason":"stop"|"finishReason":"STOP"/;

function cutOf(random: () => number, length: number): Cut {
  const kind = random();
  if (kind < 0.5) return { after: "ms", ms: Math.floor(random() * 12) };
  if (kind < 0.9) return { after: "received", bytes: Math.floor(random() * 1_500) };
  return { after: "sent", bytes: 1 + Math.floor(random() * (length - 1)) };
}
