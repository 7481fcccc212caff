/** The Redis store in each process, over a real server: the real scripts run by the clock of the world. */

import { createClient } from "redis";
import { type DurableQuotaStore, redisQuotaStore } from "../../../src/stores/redis/index.ts";
import { BUDGET_FIELDS, KEY_FIELDS } from "../../../src/stores/redis/scripts.ts";
import { REDIS } from "../../stores/redis/servers.ts";
import { command, underWay } from "./commands.ts";
import { ask, type Delivery, type Message } from "./messages.ts";
import { DAY_MS, REDIS_SCALE as SCALE } from "./plan.ts";
import type { Process } from "./process.ts";
import type { Audit, BudgetAudit, PeriodAudit, SimulatedStore } from "./store.ts";
import type { WorldParts } from "./world-parts.ts";

/** A placeholder for the lead of the world's clock, replaced when a command is sent. */
const AHEAD = -7_777_777;
const HOUR_MS = 3_600_000;

type Client = ReturnType<typeof createClient>;

/** The connection of all worlds of a thread. */
let connected: Promise<Client> | undefined;
let worlds = 0;

export async function openRedis(parts: WorldParts): Promise<SimulatedStore> {
  connected ??= createClient({ url: REDIS, socket: { reconnectStrategy: false } }).connect() as Promise<Client>;
  const client = await connected;
  const prefix = `polygate-simulated-${process.pid}-${parts.plan.seed}-${++worlds}`;
  const server = new RedisServer(parts, client, prefix);
  const store = redisQuotaStore({ client: { sendCommand: (args: string[]) => server.send(args) }, prefix });
  for (const budget of parts.plan.budgets) await store.addBudget(budget);
  for (const key of parts.plan.keys) await store.add(key);
  return server;
}

/** Closes the connection to the server. */
export async function closeRedis(): Promise<void> {
  (await connected)?.destroy();
  connected = undefined;
}

class RedisServer implements SimulatedStore {
  readonly inProcess = true;
  readonly #parts: WorldParts;
  readonly #client: Client;
  readonly #prefix: string;
  /** The names that a world has used in Redis, to remove. */
  readonly #names = new Set<string>();
  readonly #stores = new WeakMap<Process, DurableQuotaStore>();

  constructor(parts: WorldParts, client: Client, prefix: string) {
    this.#parts = parts;
    this.#client = client;
    this.#prefix = prefix;
  }

  carryOut(delivery: Delivery, process: Process): Promise<unknown> {
    return underWay.run(delivery, () => ask(this.#storeOf(process), scaled(delivery.message)));
  }

  died(): void {}

  audits(): Promise<readonly Audit[]> {
    return Promise.all(this.#parts.plan.keys.map(({ id }) => this.#audit(id)));
  }

  budgets(): Promise<readonly BudgetAudit[]> {
    return Promise.all(
      this.#parts.plan.budgets.map(async ({ id }) => {
        const found = await this.#client.hGetAll(`${this.#prefix}:budget:${id}`);
        const units = (field: string): number => Number(found[field]);
        const [granted, charged, held] = [units("granted"), units("charged"), units("held")];
        const books = { granted, charged, held, overdraft: units("overdraft"), estimated: units("estimated") };
        const closed = Object.entries(found).flatMap(([field, stored]) => closedIn(field, stored));
        return { id, current: { day: dayOf(found["starts"]), ...books }, closed };
      }),
    );
  }

  async verify(): Promise<undefined> {}

  async close(): Promise<void> {
    await this.#client.unlink([...this.#names]);
  }

  send(args: readonly string[]): Promise<unknown> {
    for (const arg of args) if (arg.startsWith(`${this.#prefix}:`)) this.#names.add(arg);
    return this.#client.sendCommand(args);
  }

  #storeOf(process: Process): DurableQuotaStore {
    let store = this.#stores.get(process);
    if (!store) {
      const client = { sendCommand: (args: string[]) => this.#command(process, args) };
      const retentionMs = HOUR_MS * SCALE;
      // Change the ledger for each verb, because the laws check each verb by itself.
      const options = { maxVerbsPerTransaction: 1, retentionMs, aheadMs: () => AHEAD };
      store = redisQuotaStore({ client, prefix: this.#prefix, ...options });
      this.#stores.set(process, store);
    }
    return store;
  }

  #command(process: Process, args: readonly string[]): Promise<unknown> {
    const delivery = underWay.getStore();
    return command(this.#parts, process, args.join(" ").slice(0, 200), async () => {
      const { now } = this.#parts.timeline;
      const ahead = String(now * SCALE - Date.now());
      const [script, text = "", , name = ""] = args;
      // The store adds the lead of its clock.
      if (script === "TIME") return timeAt(now * SCALE - AHEAD);
      const { mutant } = this.#parts;
      if (mutant?.script && script === "EVALSHA") throw new Error("NOSCRIPT: a mutant changes the text.");
      const changed = mutant?.script && script === "EVAL" ? args.with(1, mutant.script(text)) : args;
      const answer = await this.send(changed.map((arg) => (arg === String(AHEAD) ? ahead : arg)));
      // The scripts of a ledger, unlike those that look up the key of an id.
      if (delivery && script?.startsWith("EVAL") && name.endsWith(":ledger") && isWork(delivery, answer, now * SCALE))
        this.#parts.ledgerLaws.worked(delivery, await this.#audit(keyIdIn(name)), now, await this.budgets());
      return answer;
    });
  }

  async #audit(keyId: string): Promise<Audit> {
    const ledger = await this.#client.hGetAll(`${this.#prefix}:{${keyId}}:ledger`);
    const units = (field: string): number => Number(ledger[field]);
    const [granted, charged, held] = [units("granted"), units("charged"), units("held")];
    const liveHolds = Object.values(ledger).filter((value) => value.startsWith("live ")).length;
    return { keyId, granted, charged, held, liveHolds, overdraft: units("overdraft"), estimated: units("estimated") };
  }
}

/** A time in milliseconds since the Unix epoch, as Redis tells the time. */
const timeAt = (time: number): [seconds: string, micros: string] => [
  String(Math.floor(time / 1_000)),
  String((time % 1_000) * 1_000),
];

const dayOf = (starts = ""): number => Math.floor(Number(starts) / DAY_MS);

/** Reads a closed period from a field of a budget's hash. */
function closedIn(field: string, stored: string): PeriodAudit[] {
  const [, starts] = /^closed:(\d+)$/.exec(field) ?? [];
  if (starts === undefined) return [];
  const [granted = 0, charged = 0, held = 0, overdraft = 0, estimated = 0] = stored.split(" ").map(Number);
  return [{ day: dayOf(starts), granted, charged, held, overdraft, estimated }];
}

/** True for the answer of a script with which the work of a message is done. A fast verb that leaves it to the rules returns nothing. */
function isWork({ message }: Delivery, answer: unknown, now: number): boolean {
  if (!Array.isArray(answer)) return answer !== null;
  if (answer[0] === 1) return true;
  // What was read is the work of a message that changes nothing.
  const [, , [[values, due, holds]], budgets] = answer as unknown as Exchanged;
  const key = fieldsOf(KEY_FIELDS, values);
  const chain = budgets.map(([, values]) => fieldsOf(BUDGET_FIELDS, values));
  if (due > 0 || chain.some((budget) => Number(budget.get("ends")) <= now)) return false;
  const stored = (id: string): string => holds.find(([field]) => field === `hold:${id}`)?.[1] ?? "";
  switch (message.verb) {
    case "reserve": {
      const { id, atLeast } = message.hold;
      const limits = key.get("unlimited") === "1" ? chain : [key, ...chain];
      return stored(id) !== "" || limits.some((books) => availableIn(books) < atLeast);
    }
    case "renew":
      return !stored(message.life.id).startsWith("live ");
    case "settle":
      return !/^(live|expired) /.test(stored(message.life.id));
    default:
      return true;
  }
}

/** What a script has read: the fields of a key, the number of its expired holds, some holds, and the fields of budgets. */
type Exchanged = readonly [
  isWritten: 0,
  now: string,
  keys: readonly [
    readonly [
      values: readonly (string | null)[],
      due: number,
      holds: readonly (readonly [field: string, value: string | null])[],
    ],
  ],
  budgets: readonly (readonly [name: string, values: readonly (string | null)[]])[],
];

const fieldsOf = (names: readonly string[], values: readonly (string | null)[]): ReadonlyMap<string, string | null> =>
  new Map(names.map((name, index) => [name, values[index] ?? null]));

const availableIn = (books: ReadonlyMap<string, string | null>): number =>
  Number(books.get("granted")) - Number(books.get("charged")) - Number(books.get("held"));

const keyIdIn = (name: string): string => /\{(.*)\}/.exec(name)?.[1] ?? "";

const scaledLease = (leaseMs: number): number => leaseMs * SCALE - SCALE / 2;

function scaled(message: Message): Message {
  if (message.verb === "reserve")
    return { ...message, hold: { ...message.hold, leaseMs: scaledLease(message.hold.leaseMs) } };
  if (message.verb === "renew")
    return { ...message, renewal: { ...message.renewal, leaseMs: scaledLease(message.renewal.leaseMs) } };
  return message;
}
