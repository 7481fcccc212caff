/** The caches trial: sessions of agents over fleets of vendors' caches, with affinity, beside an all-knowing chooser and round robin. */

import { GatewayError } from "../../../../src/errors.ts";
import type { CallContext, ChatRequest, Clock, ModelBackend } from "../../../../src/index.ts";
import { priceTable } from "../../../../src/prices/index.ts";
import { type PrefixMemory, promptCache, type PromptCacheOptions } from "../../../../src/upstreams/affinity/index.ts";
import { LocalPrefixes } from "../../../../src/upstreams/affinity/prompt-cache.ts";
import { route } from "../../../../src/upstreams/route/index.ts";
import type { Outcome, Row, Trial } from "../../../trial/frame.ts";
import { Random } from "../../../trial/random.ts";
import { callContext } from "../../relay/stage.ts";
import {
  blocksOf,
  oneSession,
  OUTPUT_TOKENS,
  PROGRAM_TOKENS,
  type Session,
  type SessionCall,
  sessionCalls,
} from "./sessions.ts";
import { Vendor, type VendorOptions } from "./vendor.ts";

interface CachesFlags extends Readonly<Record<string, number>> {
  readonly seed: number;
  readonly calls: number;
}

/** A fleet of upstreams, and the processes before it. */
export interface Fleet {
  readonly name: string;
  readonly vendors: readonly VendorOptions[];
  /** The shortest and the longest time between two turns of one session, in milliseconds. Default: many sessions of many agents. */
  readonly gapsMs?: readonly [least: number, most: number];
  /** The processes between which the calls are drawn. Default: 1. */
  readonly processes?: number;
  /** True when the processes share a memory. */
  readonly isShared?: boolean;
  readonly options?: PromptCacheOptions;
  /** The highest bill with affinity, over that of the all-knowing chooser. */
  readonly most: number;
}

const MINUTE = 60_000;

const claude = (name: string, more: Partial<VendorOptions> = {}): VendorOptions => ({
  name,
  lifetimeMs: 5 * MINUTE,
  minTokens: 1_024,
  evictedAfterMs: 240 * MINUTE,
  missChance: 0.01,
  rates: { input: 3, cacheRead: 0.3, cacheWrite: 3.75, output: 15 },
  countsWrites: true,
  ...more,
});

const automatic = (name: string, more: Partial<VendorOptions> = {}): VendorOptions => ({
  ...claude(name),
  lifetimeMs: 10 * MINUTE,
  evictedAfterMs: 60 * MINUTE,
  missChance: 0.05,
  rates: { input: 2.5, cacheRead: 0.625, cacheWrite: 2.5, output: 10 },
  countsWrites: false,
  ...more,
});

const outages = (fromMs: number): NonNullable<VendorOptions["outages"]> => ({
  everyMs: 60 * MINUTE,
  lengthMs: 3 * MINUTE,
  fromMs,
});
const regions = [claude("one"), claude("two"), claude("three")];

/** Without misses and evictions: of 100 calls, few would have bad luck, and their number would decide. */
const steady = ["one", "two"].map((name) => claude(name, { missChance: 0, evictedAfterMs: 1e12 }));

export const FLEETS: readonly Fleet[] = [
  { name: "three equal regions", vendors: regions, most: 1.1 },
  {
    name: "outages of three minutes an hour",
    vendors: regions.map((one, at) => ({ ...one, outages: outages((7 + 20 * at) * MINUTE) })),
    most: 1.1,
  },
  {
    name: "prices, lifetimes and sizes that differ",
    vendors: [
      claude("marked"),
      automatic("automatic", { minTokens: 2_048 }),
      automatic("small cache", { lifetimeMs: 3 * MINUTE, evictedAfterMs: 5 * MINUTE }),
    ],
    most: 1.1,
  },
  {
    name: "one upstream without a cache",
    vendors: [claude("cached"), claude("uncached", { lifetimeMs: 0 }), claude("also cached")],
    most: 1.1,
  },
  { name: "one agent, 100 quick turns", vendors: steady, gapsMs: [5_000, 40_000], most: 1.1 },
  { name: "one agent, 100 slow turns", vendors: steady, gapsMs: [1 * MINUTE, 4 * MINUTE], most: 1.1 },
  { name: "four processes alone", vendors: regions, processes: 4, most: 1.1 },
  { name: "four processes, shared memory", vendors: regions, processes: 4, isShared: true, most: 1.1 },
];

export const cachesTrial: Trial<Fleet, CachesFlags> = {
  name: "caches",
  does: "Runs agents' sessions over fleets of prompt caches, in virtual time, for the figures of docs/routes.md.",
  flags: { seed: 1, calls: 100_000 },
  subjects: FLEETS,
  run: runFleet,
};

/** The bill of one way to choose. */
interface Bill {
  cost: number;
  read: number;
  input: number;
}

/** Answers a call by one of the vendors. */
type Choose = (call: SessionCall, number: number) => Promise<void>;

/** @returns The bills of all ways, and a problem if affinity costs too much. */
async function runFleet(fleet: Fleet, { seed, calls: count }: CachesFlags): Promise<Outcome> {
  const calls = fleet.gapsMs ? oneSession(seed, fleet.gapsMs) : sessionCalls(seed, count, 20);
  const world = (): [vendors: Vendor[], bill: Bill] => [
    fleet.vendors.map((options, at) => new Vendor(options, seed * 1_000_003 + at)),
    { cost: 0, read: 0, input: 0 },
  ];
  const bills: Record<string, Bill> = {};
  for (const [name, chooser] of Object.entries({
    "all-knowing": allKnowing(true),
    "all-knowing, a call ahead": allKnowing(false),
    affinity: routed(fleet, seed, true),
    "round robin": roundRobin,
    "by weight": routed(fleet, seed, false),
  })) {
    const [vendors, bill] = world();
    const choose = chooser(vendors, bill);
    for (const [number, call] of calls.entries()) await choose(call, number);
    bills[name] = bill;
  }
  const { affinity, "round robin": robin, "all-knowing": far, "all-knowing, a call ahead": near } = bills;
  const best = (far?.cost ?? 0) < (near?.cost ?? 0) ? far : near;
  if (!affinity || !robin || !best) throw new Error("A bill is missing.");
  const ratio = (bill: Bill): string => `${((100 * bill.cost) / best.cost).toFixed(1)} %`;
  const hits = (bill: Bill): string => `${((100 * bill.read) / bill.input).toFixed(1)} %`;
  const row: Row = {
    fleet: fleet.name,
    "affinity / all-knowing": ratio(affinity),
    "round robin / all-knowing": ratio(robin),
    "cached, all-knowing": hits(best),
    "cached, affinity": hits(affinity),
    "cached, round robin": hits(robin),
  };
  const problems = affinity.cost > fleet.most * best.cost ? [`Affinity costs ${ratio(affinity)} of the best.`] : [];
  const notes = Object.entries(bills).map(
    ([name, bill]) => `${name}: ${ratio(bill)}, ${(bill.cost / 1e6).toFixed(2)} $, cached ${hits(bill)}`,
  );
  return { rows: [row], problems, notes };
}

function charge(bill: Bill, vendor: Vendor, call: SessionCall, number: number): ReturnType<Vendor["use"]> {
  const usage = vendor.use(blocksOf(call), call.at, number, OUTPUT_TOKENS);
  bill.cost += vendor.costOf(usage.inputTokens, usage.cacheReadTokens, OUTPUT_TOKENS);
  bill.read += usage.cacheReadTokens;
  bill.input += usage.inputTokens;
  return usage;
}

function roundRobin(vendors: readonly Vendor[], bill: Bill): Choose {
  let turn = 0;
  return async (call, number) => {
    for (let tried = 0; tried < vendors.length; tried++) {
      const vendor = vendors[turn++ % vendors.length];
      if (!vendor || vendor.isOut(call.at)) continue;
      charge(bill, vendor, call, number);
      return;
    }
  };
}

/**
 * Knows what each cache holds, and which calls miss it. Takes the upstream at which this call costs least, with the further calls of the
 * session if it looks ahead: their times are known, too, and they stay at the upstream.
 */
const allKnowing =
  (looksAhead: boolean) =>
  (vendors: readonly Vendor[], bill: Bill): Choose =>
  async (call, number) => {
    const blocks = blocksOf(call);
    let best: { readonly vendor: Vendor; readonly cost: number } | undefined;
    for (const vendor of vendors) {
      if (vendor.isOut(call.at)) continue;
      const input = blocks.at(-1)?.upTo ?? 0;
      let cost = vendor.costOf(input, vendor.readable(blocks, call.at, number), OUTPUT_TOKENS);
      if (looksAhead) cost += later(vendor, call);
      if (!best || cost < best.cost) best = { vendor, cost };
    }
    if (best) charge(bill, best.vendor, call, number);
  };

/** Returns the cost of the further calls of a session that stays at a vendor. */
function later(vendor: Vendor, { session, turn, at }: SessionCall): number {
  const { lifetimeMs, minTokens } = vendor.options;
  const program = vendor.cached(session.blocks.slice(0, 1), at);
  let sum = 0;
  for (const call of session.calls.slice(turn + 1)) {
    const before = session.calls[call.turn - 1];
    const previous = session.blocks[call.turn]?.upTo ?? 0;
    const isWarm = before && call.at - before.at < lifetimeMs && previous >= minTokens;
    sum += vendor.costOf(session.blocks[call.turn + 1]?.upTo ?? 0, isWarm ? previous : program, OUTPUT_TOKENS);
  }
  return sum;
}

/** Calls through routes, one for each process. */
const routed =
  ({ vendors: all, processes = 1, isShared = false, options }: Fleet, seed: number, hasAffinity: boolean) =>
  (vendors: readonly Vendor[], bill: Bill): Choose => {
    const random = new Random(seed);
    const clock: Clock & { time: number } = {
      time: 0,
      now: () => clock.time,
      after: () => () => {},
      every: () => () => {},
    };
    let current: { readonly call: SessionCall; readonly number: number } | undefined;
    const { price } = priceTable(Object.fromEntries(all.map(({ name, rates }) => [name, rates])));
    const memory: PrefixMemory = new LocalPrefixes(100_000, clock);
    const affinity = promptCache({ price, ...(isShared && { memory }), ...options });
    const backends = Array.from({ length: processes }, () =>
      route({
        routes: {
          model: {
            upstreams: vendors.map((vendor) => ({
              backend: backendOf(vendor, () => current, bill),
              name: vendor.options.name,
              model: vendor.options.name,
            })),
            ...(hasAffinity && { affinity }),
          },
        },
        retry: { rounds: 0 },
        clock,
        random: () => random.next(),
      }),
    );
    return async (call, number) => {
      current = { call, number };
      clock.time = call.at;
      const backend = backends[random.int(0, processes - 1)];
      const context: CallContext = { ...callContext(), key: { ...callContext().key, id: call.session.key } };
      // A copy has no signal of its own.
      for await (const _ of backend?.chat?.(requestOf(call), context) ?? []);
    };
  };

function backendOf(
  vendor: Vendor,
  current: () => { readonly call: SessionCall; readonly number: number } | undefined,
  bill: Bill,
): ModelBackend {
  return {
    async *chat() {
      const now = current();
      if (!now) throw new Error("There is no call.");
      if (vendor.isOut(now.call.at)) throw new GatewayError("backend_unavailable", "Out.");
      yield { type: "start", usage: charge(bill, vendor, now.call, now.number) };
      yield { type: "finish", reason: "stop" };
    },
  };
}

/** A text of so many characters: a character stands for a token. */
const textOf = (name: string, tokens: number): string => name.padEnd(tokens, "word ").slice(0, tokens);

const messagesOf = new WeakMap<Session, ChatRequest["messages"][number][]>();

function requestOf({ session, turn }: SessionCall): ChatRequest {
  let messages = messagesOf.get(session);
  if (!messages) messagesOf.set(session, (messages = []));
  for (let at = (messages.length + 1) / 2; at <= turn; at++) {
    const before = Math.floor(at);
    const tokens = (session.blocks[before + 1]?.upTo ?? 0) - (session.blocks[before]?.upTo ?? 0);
    if (before > 0) messages.push({ role: "assistant", parts: [{ type: "text", text: "Yes." }] });
    messages.push({ role: "user", parts: [{ type: "text", text: textOf(`${session.id} ${before} `, tokens) }] });
  }
  return {
    model: "model",
    messages: messages.slice(0, 2 * turn + 1),
    system: [{ type: "text", text: textOf(`program ${session.program} `, PROGRAM_TOKENS[session.program] ?? 0) }],
    tools: [],
    maxOutputTokens: 1_000,
    stopSequences: [],
    stream: true,
  };
}
