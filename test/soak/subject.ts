/** The parent's side of the soak: the hosts, the process of one host, and the counts of it from inside and outside. */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Peer } from "../hosts/remote/peer.ts";
import { nowMs, type Policy, POLICIES } from "./calls.ts";
import type { Census } from "./served.ts";

/** The counts of a host's process, with those of the system. */
interface Look extends Census {
  /** Open files and sockets, where the system lists them. */
  readonly files: number | undefined;
}

/** The counts of a host at rest. */
export interface Rest extends Look {
  readonly heapBytes: number;
  /** Memory outside the heap, such as the bytes of bodies. */
  readonly bufferBytes: number;
}

/** The interval of looks at a host until it is at rest, and the most looks: 15 seconds in all. */
const LOOKS = { everyMs: 50, most: 300 };
/** The most looks at the memory of a host that is at rest: each collects all garbage. */
const MEMORY_LOOKS = 40;

/** The difference between two collections that counts as no growth, in bytes. */
export const TOLERANCE_BYTES: number = 2 * 2 ** 20;

/** The most by which the clocks of two processes may differ, in milliseconds. */
const SKEW_MS = 1;

export class Subject implements AsyncDisposable {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #peer: Peer;
  readonly #waiting = new Map<number, PromiseWithResolvers<void>>();
  readonly #firing = new Map<number, PromiseWithResolvers<void>>();
  #drains = { begun: 0, wanted: 0, all: Promise.withResolvers<void>() };
  #ports: readonly number[] = [];
  /** The times of `nowMs` at which signals fired, by the ids of their calls. */
  readonly fired: Map<number, number> = new Map();

  constructor({ name, command, args }: SoakHost) {
    this.#process = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.#peer = new Peer((line) => void this.#process.stdin.write(line), {
      waiting: (id: number) => this.#waiting.get(id)?.resolve(),
      fired: (id: number, atMs: number) => {
        this.fired.set(id, atMs);
        this.#firing.get(id)?.resolve();
      },
      draining: () => {
        if (++this.#drains.begun >= this.#drains.wanted) this.#drains.all.resolve();
      },
    });
    this.#process.stdin.on("error", () => {});
    createInterface({ input: this.#process.stdout }).on("line", this.#peer.receive);
    this.#process.on("exit", (code) =>
      this.#peer.end(new Error(`The process of ${name} has ended with code ${code}.`)),
    );
  }

  async open(): Promise<void> {
    this.#ports = await this.#peer.call("open");
  }

  /** Throws when the process has another time than this one, as after a change of the machine's clock. */
  async assertSameClock(): Promise<void> {
    const before = nowMs();
    const there = await this.#peer.call<number>("now");
    if (there < before - SKEW_MS || there > nowMs() + SKEW_MS)
      throw new Error("The clocks of the two processes differ: times measured between them would be wrong.");
  }

  /** Returns the port of a policy's gateway. */
  port(policy: Policy): number {
    return this.#ports[POLICIES.indexOf(policy)] ?? 0;
  }

  /** Resolves when the backend of a call pauses. Must be called before the call begins. */
  waiting(id: number): Promise<void> {
    return momentIn(this.#waiting, id);
  }

  /** Resolves when the signal of a call fires. Must be called before the call ends. */
  firing(id: number): Promise<void> {
    return momentIn(this.#firing, id);
  }

  /** Resolves when this many calls, counted from now, go on without their clients. */
  draining(calls: number): Promise<void> {
    this.#drains = { begun: 0, wanted: calls, all: Promise.withResolvers<void>() };
    if (calls === 0) this.#drains.all.resolve();
    return this.#drains.all.promise;
  }

  async goOn(ids: readonly number[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#peer.call("goOn", id)));
  }

  /** Drops all waiting promises. */
  forget(): void {
    this.#waiting.clear();
    this.#firing.clear();
  }

  async #look(): Promise<Look> {
    const census = await this.#peer.call<Census>("census");
    return { ...census, files: filesOf(this.#process.pid) };
  }

  /** Looks until the host is idle, still, and has no more open and in memory than before. Returns the last look when that takes too long. */
  async atRest(before?: Rest): Promise<Rest> {
    let [rest, still] = [await this.#look(), 0];
    for (let looks = 0; looks < LOOKS.most && !(isIdle(rest) && still > 5 && !exceeds(rest, before)); looks++) {
      await after(LOOKS.everyMs);
      const next = await this.#look();
      still = openIn(next) === openIn(rest) ? still + 1 : 0;
      rest = next;
    }
    return { ...rest, ...(await this.memory(before)) };
  }

  /** Returns the memory after a collection of all garbage, in bytes. Looks again for some time while there is more than before. */
  async memory(before?: Memory): Promise<Memory> {
    for (let looks = 0; ; looks++) {
      const heapBytes = await this.#peer.call<number>("heapBytes");
      const memory = { heapBytes, bufferBytes: await this.#peer.call<number>("bufferBytes") };
      // What a busy host had for its clients may be freed later than their connections. A leak is there at each look.
      if (looks === MEMORY_LOOKS || !isLarger(memory, before)) return memory;
      await after(LOOKS.everyMs);
    }
  }

  /** Closes the gateways. Returns, for each, true when it had no call to wait for. */
  close(): Promise<readonly boolean[]> {
    return this.#peer.call("close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, signalCode, stdin } = this.#process;
    if (exitCode !== null || signalCode !== null) return;
    stdin.end();
    await once(this.#process, "exit");
  }
}

function momentIn(moments: Map<number, PromiseWithResolvers<void>>, id: number): Promise<void> {
  const moment = Promise.withResolvers<void>();
  moments.set(id, moment);
  return moment.promise;
}

const isIdle = ({ ledgers, running, timers }: Look): boolean =>
  running === 0 && timers === 0 && Object.values(ledgers).every((ledger) => ledger?.liveHolds === 0);

type Memory = Pick<Rest, "heapBytes" | "bufferBytes">;

const isLarger = (memory: Memory, before: Memory = memory): boolean =>
  memory.heapBytes > before.heapBytes + TOLERANCE_BYTES || memory.bufferBytes > before.bufferBytes + TOLERANCE_BYTES;

const openIn = ({ handles, files }: Look): string => JSON.stringify({ handles, files });

export const handlesIn = ({ handles }: Pick<Census, "handles">): number =>
  Object.values(handles).reduce((sum, count) => sum + count, 0);

const exceeds = (rest: Look, before: Look = rest): boolean =>
  handlesIn(rest) > handlesIn(before) || (rest.files ?? 0) > (before.files ?? 0);

function filesOf(pid: number | undefined): number | undefined {
  const folder = `/proc/${pid}/fd`;
  return existsSync(folder) ? readdirSync(folder).length : undefined;
}

/** A host of the soak, in a process of its own. */
export interface SoakHost {
  readonly name: string;
  /** False where its runtime is not installed. */
  readonly available: boolean;
  readonly command: string;
  readonly args: readonly string[];
}

const root = fileURLToPath(new URL("../..", import.meta.url));

const script = (name: string): string => `${root}test/soak/hosts/${name}.ts`;

const onNode = (name: string): SoakHost => ({
  name,
  available: true,
  command: process.execPath,
  args: ["--expose-gc", script("node"), name],
});

function onRuntime(name: string, ...args: readonly string[]): SoakHost {
  const command = `${root}node_modules/.bin/${name}`;
  return { name, available: existsSync(command), command, args: [...args, script(name)] };
}

export const soakHosts: readonly SoakHost[] = [
  ...["node", "express 4", "express 5", "koa", "fastify", "hono"].map(onNode),
  onRuntime("bun", "--expose-gc"),
  onRuntime("deno", "run", "--allow-all", "--quiet", "--unstable-no-legacy-abort", "--v8-flags=--expose-gc"),
];
