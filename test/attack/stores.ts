/** Attacks by stores, limiters and runners: each verb throws, rejects, hangs or lies, for a while or for ever. */

import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type CallRecord,
  type GatewayOptions,
  type ImageStore,
  memoryImageStore,
  memoryReplayStore,
  type QuotaStore,
  type RateLimiter,
  type ReplayStore,
} from "../../src/index.ts";
import type { ManualClock } from "../../src/testing/laws/manual-clock.ts";
import { verbsOf } from "../testing/laws/faults.ts";
import type { Random } from "../trial/random.ts";
import type { Attack, Run } from "./frame.ts";
import { type Manner, MANNERS, misbehaving } from "./nonsense.ts";
import { judge, keyed, METERED, type Sent, Stage, RICH, answering } from "./stage.ts";

export const stores: Attack = {
  name: "stores",
  does: "Makes stores, limiters and code runners fail in each function, for a time or for ever",
  counts: { full: 10_000, short: 50 },
  open: (run) => ({ isMeasured: true, attempt: (random, index) => attempt(run, random, index) }),
};

/** A fault: the verb, the behaviour, the first call with the fault, and the number of such calls. */
interface Fault {
  readonly verb: string;
  readonly manner: Manner;
  readonly after: number;
  readonly times: number;
}

const VERBS = [
  "quotas.find",
  "quotas.balance",
  "quotas.reserve",
  "quotas.renew",
  "quotas.settle",
  "rates.begin",
  "rates.take",
  "rates.end",
  "replays.claim",
  "replays.record",
  "replays.release",
  "images.book",
  "images.put",
  "images.get",
  "runner.run",
  "onCall",
  "onFailure",
  "price",
  "imagePrice",
  "countTokens",
] as const;

type Verb = (typeof VERBS)[number];

/** Adds faults to ports. */
class Faults {
  readonly #faults: readonly Fault[];
  readonly #random: Random;
  readonly #asked = new Map<string, number>();

  constructor(faults: readonly Fault[], random: Random) {
    this.#faults = faults;
    this.#random = random;
  }

  /** Calls the port, or misbehaves. */
  around<Result>(verb: Verb, work: () => Result): Result {
    const asked = this.#asked.get(verb) ?? 0;
    this.#asked.set(verb, asked + 1);
    const fault = this.#faults.find(
      ({ verb: faulty, after, times }) => faulty === verb && asked >= after && asked < after + times,
    );
    return fault ? (misbehaving(fault.manner, this.#random) as Result) : work();
  }
}

const admitted = { limits: [{ kind: "requests", limit: 9, remaining: 8, resetMs: 1_000 }] } as const;

function rateLimiter(faults: Faults): RateLimiter {
  return {
    begin: () => faults.around("rates.begin", async () => admitted),
    take: () => faults.around("rates.take", async () => admitted),
    end: () => faults.around("rates.end", async () => {}),
  };
}

function replayStore(faults: Faults, clock: ManualClock): ReplayStore {
  const store = memoryReplayStore({ clock });
  return {
    claim: (claim) => faults.around("replays.claim", () => store.claim(claim)),
    record: (record) => faults.around("replays.record", () => store.record(record)),
    release: (holder) => faults.around("replays.release", () => store.release(holder)),
  };
}

function imageStore(faults: Faults, clock: ManualClock): ImageStore {
  const store = memoryImageStore({ clock });
  return {
    book: (room) => faults.around("images.book", async () => (await store.book?.(room)) ?? { release: () => {} }),
    put: (image, booking) => faults.around("images.put", () => store.put(image, booking)),
    get: (id) => faults.around("images.get", () => store.get(id)),
  };
}

/** Adds faults to the verbs of the ledger. Chance decides whether the ledger acts before a fault. */
function ledger(store: QuotaStore, faults: Faults, random: Random): QuotaStore {
  const verbs = verbsOf(store);
  const heard = <Result>(verb: Verb, work: () => Promise<Result>): Promise<Result> => {
    const isHeard = random.chance(0.4);
    const early = isHeard ? work() : undefined;
    early?.catch(() => {});
    return faults.around(verb, () => early ?? work());
  };
  return {
    find: (apiKey) => faults.around("quotas.find", () => verbs.find(apiKey)),
    balance: (keyId) => faults.around("quotas.balance", () => verbs.balance(keyId)),
    reserve: (hold) => heard("quotas.reserve", () => verbs.reserve(hold)),
    renew: (id, renewal) => heard("quotas.renew", () => verbs.renew(id, renewal)),
    settle: (id, outcome) => heard("quotas.settle", () => verbs.settle(id, outcome)),
  };
}

function optionsOf(faults: Faults, clock: ManualClock): Partial<GatewayOptions> {
  return {
    rateLimiter: rateLimiter(faults),
    replayStore: replayStore(faults, clock),
    images: { store: imageStore(faults, clock) },
    codeRunner: { run: () => faults.around("runner.run", async () => ({ outcome: "ok", output: "1" }) as const) },
    price: ({ inputTokens, outputTokens }) => faults.around("price", () => inputTokens + outputTokens),
    imagePrice: () => faults.around("imagePrice", () => 7),
    countTokens: (text) => faults.around("countTokens", () => text.length),
  };
}

/** Synchronous verbs. A promise is no valid answer of these, and the host must handle its rejection. */
const SYNCHRONOUS: ReadonlySet<Verb> = new Set<Verb>(["price", "imagePrice", "countTokens"]);
const AT_ONCE: [Manner, ...Manner[]] = ["throws", "returns nonsense"];

function faultOf(random: Random): Fault {
  const verb = random.pick([...VERBS]);
  const manner = random.pick(SYNCHRONOUS.has(verb) ? AT_ONCE : ([...MANNERS] as [Manner, ...Manner[]]));
  return { verb, manner, after: random.int(0, 2), times: random.pick([1, 2, 5, Number.POSITIVE_INFINITY]) };
}

/** The number of calls: enough to outlast a fault, and one more. */
const CALLS = 5;

async function attempt(run: Run, random: Random, index: number): Promise<void> {
  const all = Array.from({ length: random.int(1, 3) }, () => faultOf(random));
  const faults = new Faults(all, random);
  const about = JSON.stringify(all);
  const records: CallRecord[] = [];
  const stage = new Stage({
    backend: { ...answering, chat: random.chance(0.3) ? slowly : answering.chat },
    around: (store) => ledger(store, faults, random),
    onClock: (clock) => optionsOf(faults, clock),
    rateLimiterDown: random.pick(["open", "closed"]),
    replayStoreDown: random.pick(["open", "closed"]),
    onCall: (record) => faults.around("onCall", () => void records.push(record)),
    ...(random.chance(0.5) && { onFailure: () => faults.around("onFailure", () => {}) }),
  });
  for (let call = 0; call < CALLS; call++) {
    const answered = await stage.asking(run, requestBy(random, index), 1_000);
    if (answered) judge(run, answered, about);
  }
  await stage.clock.advance(DAY_MS);
  if (!all.some(({ verb }) => MONEY.test(verb))) judgeBooks(run, stage, records, about);
  // The gateway retries a failed settlement while the process lives: these timers are no leak.
  const isForEver = all.some(({ times }) => times === Number.POSITIVE_INFINITY);
  if (!isForEver) await stage.assertAtRest(run, about);
  else await leases(run, stage, about);
}

const DAY_MS = 86_400_000;

/** The functions that determine or report the cost of a call. */
const MONEY = /^(?:quotas\.(?:reserve|renew|settle)|price|imagePrice|countTokens|onCall)$/;

/** Checks that the charges agree with the records. */
function judgeBooks(run: Run, stage: Stage, records: readonly CallRecord[], about: string): void {
  const ledgers = [RICH, METERED].map((key) => stage.quotas.report(key));
  const charged = ledgers.reduce((sum, ledger) => sum + (ledger?.used ?? 0) + (ledger?.overdraft ?? 0), 0);
  const told = records.reduce((sum, { units }) => sum + units, 0);
  run.check(charged === told, "The ledger and the records do not agree", `${charged} ${told} ${about}`);
  run.check(records.length === CALLS, "A call has not one record", `${records.length} ${about}`);
}

/** Checks that no hold outlives its lease. */
async function leases(run: Run, stage: Stage, about: string): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await nextTurn();
  for (const key of [RICH, METERED])
    run.check(stage.quotas.report(key)?.liveHolds === 0, "A hold outlives its lease", about);
  run.check(stage.callsInFlight === 0, "A call is still in flight a day later", about);
}

/** A slow backend, whose hold must be renewed. */
async function* slowly(): AsyncGenerator<string> {
  for (let word = 0; word < 6; word++) {
    await nextTurn();
    yield "word ";
  }
}

function requestBy(random: Random, index: number): Sent {
  const stream = random.chance(0.5);
  const messages = [{ role: "user", content: "Hi" }];
  const [path, body] = random.pick<[string, object]>([
    ["/v1/messages", { model: "model-a", max_tokens: 50, stream, messages }],
    ["/v1/chat/completions", { model: "model-a", stream, messages }],
    [
      "/v1beta/models/model-a:generateContent",
      { contents: [{ parts: [{ text: "Hi" }] }], tools: [{ codeExecution: {} }] },
    ],
    ["/v1/images/generations", { prompt: "A hat", n: 2, response_format: "url" }],
    ["/v1/messages/count_tokens", { model: "model-a", messages }],
  ]);
  const headers: Record<string, string> = {
    ...keyed(random.pick([RICH, METERED])),
    "content-type": "application/json",
  };
  if (random.chance(0.4)) headers["idempotency-key"] = `once ${index}`;
  if (random.chance(0.1)) return { method: "GET", path: "/api/usage/token", headers };
  if (random.chance(0.1)) return { method: "GET", path: "/v1/images/files/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", headers };
  return { path, headers, body: JSON.stringify(body) };
}
