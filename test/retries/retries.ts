/** The retries trial: calls over real sockets, repeated after cut connections. Each costs one call of the backend and one charge. */

import { once } from "node:events";
import { Agent, createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../adapters/node.ts";
import {
  createGateway,
  type Gateway,
  memoryQuotaStore,
  memoryReplayStore,
  type MemoryQuotaStore,
  type ModelBackend,
  type QuotaStore,
  type ReplayStore,
} from "../../src/index.ts";
import { sqlReplayStore } from "../../src/stores/sql/index.ts";
import { drivers, redisAnswers, redisReplaysAt } from "../stores/redis/servers.ts";
import { databases } from "../stores/sql/databases.ts";
import type { Subject, Trial } from "../trial/frame.ts";
import { Random } from "../trial/random.ts";
import { attempt, type Cut } from "./client.ts";

export interface Plan {
  readonly seed: number;
  /** The number of calls. Each has its own idempotency key. */
  readonly calls: number;
  /** The number of calls at the same time. */
  readonly atOnce: number;
  /** The number of gateways that share the stores. An attempt goes to any of them. */
  readonly gateways: number;
  /** The share of attempts to cut, from 0 to 1. */
  readonly cutShare: number;
}

/** The counts of a run. Each violation is a sentence. */
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
/** The most cuts of one call. */
const MAX_CUTS = 6;

/** Returns the number of tokens in the answer to a call. */
const tokensOf = (call: number): number => 1 + (call % 17);

const nameOf = (call: number): string => `call-${call};`;

/** Makes each call until its answer is complete, and compares all counts. */
export async function retries(plan: Plan, replayStore: ReplayStore): Promise<Account> {
  const tally = new Tally();
  const quotas = memoryQuotaStore([{ apiKey: "sk-one", id: "one", granted: 2 ** 40 }]);
  const gateways = Array.from({ length: plan.gateways }, () => gatewayOf(tally, quotas, replayStore));
  const servers = await Promise.all(gateways.map(serve));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  const agent = new Agent({ keepAlive: true, maxSockets: 4 * plan.atOnce });
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let call = next++; call < plan.calls; call = next++) await complete(call, plan, tally, ports, agent);
  };
  await Promise.all(Array.from({ length: plan.atOnce }, worker));
  agent.destroy();
  await Promise.all(gateways.map((gateway) => gateway.close()));
  for (const server of servers) server.close().closeAllConnections();
  return tally.account(plan.calls, quotas);
}

/** Counts by idempotency key. */
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
        // Vary the pace: some pieces come in the same turn of the event loop, some a millisecond later.
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

/** The forms of a request. Each call has one of them, complete or streamed. */
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

/** Repeats a call until its answer is complete. */
async function complete(call: number, plan: Plan, tally: Tally, ports: readonly number[], agent: Agent): Promise<void> {
  const random = new Random(plan.seed * 1_000_003 + call);
  const { path, body } = (FORMS[call % FORMS.length] ?? FORMS[0])?.(random.chance(0.5)) ?? { path: "", body: {} };
  const text = JSON.stringify(body);
  const headers = {
    authorization: "Bearer sk-one",
    "compat-version": "2023-06-01",
    [KEY_HEADER]: nameOf(call),
  };
  const parts: string[] = [];
  for (let cuts = 0; ;) {
    const cut = cuts < MAX_CUTS && random.chance(plan.cutShare) ? cutOf(random, text.length) : undefined;
    const port = ports[random.int(0, ports.length - 1)] ?? 0;
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

/** The end of a complete answer, in any of the forms. */
const ENDED = /"type":"message"|message_stop|finish_reason":"stop"|"finishReason":"STOP"/;

function cutOf(random: Random, length: number): Cut {
  const kind = random.next();
  if (kind < 0.5) return { after: "ms", ms: random.int(0, 11) };
  if (kind < 0.9) return { after: "received", bytes: random.int(0, 1_499) };
  return { after: "sent", bytes: random.int(1, length - 1) };
}

/** A replay store of the full form. */
interface Store extends Subject {
  /** The number of calls, unless the command line sets it. */
  readonly calls: number;
  readonly gateways: number;
  open(): Promise<{ readonly store: ReplayStore; remove(): Promise<void> | void }>;
}

const CALLS = 20_000;

const stores: readonly Store[] = [
  {
    name: "memory",
    calls: CALLS,
    gateways: 1,
    open: async () => ({ store: memoryReplayStore({ maxEntries: 2 * CALLS }), remove: () => {} }),
  },
  {
    name: "Redis",
    available: redisAnswers,
    calls: CALLS,
    gateways: 2,
    async open() {
      const server = await drivers[0]?.place();
      if (!server) throw new Error("There is no driver.");
      const { store } = redisReplaysAt(server, { maxEntriesPerKey: 2 * CALLS });
      return { store, remove: () => server.remove() };
    },
  },
  ...databases.map((database) => ({
    name: database.name,
    available: database.available,
    calls: database.dialect === "sqlite" ? CALLS / 10 : CALLS,
    gateways: 2,
    async open() {
      const opened = await database.place();
      const store = sqlReplayStore({ ...opened.options, tables: {}, maxEntriesPerKey: 2 * CALLS });
      return { store, remove: () => opened.remove() };
    },
  })),
];

interface RetriesFlags extends Readonly<Record<string, number | undefined>> {
  readonly seed: number;
  readonly calls: number | undefined;
}

export const retriesTrial: Trial<Store, RetriesFlags> = {
  name: "retries",
  does: "Repeats calls over connections that are cut at random, on every store: one call of the backend and one charge each.",
  flags: { seed: Date.now() % 1e6, calls: undefined },
  subjects: stores,
  async run(store, { seed, calls = store.calls }) {
    const opened = await store.open();
    const { violations, ...account } = await retries(
      { seed, calls, atOnce: 64, gateways: store.gateways, cutShare: 0.6 },
      opened.store,
    );
    await opened.remove();
    return {
      rows: [{ store: store.name, ...account, violations: violations.length }],
      problems: violations.slice(0, 10),
    };
  },
};
