/** The side of the soak: the process of one host, what it tells of its calls, and what is counted of it from outside. */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout as after } from "node:timers/promises";
import { Peer } from "../hosts/remote/peer.ts";
import { nowMs, type Policy, POLICIES } from "./calls.ts";
import type { SoakHost } from "./hosts.ts";
import type { Census } from "./served.ts";

/** What there is in a host's process, with what the system knows of it. */
interface Look extends Census {
  /** Open files, sockets among them, where the system lists them. */
  readonly files: number | undefined;
}

/** The same of a host that is at rest. */
export interface Rest extends Look {
  readonly heapBytes: number;
  /** Memory that the heap's objects hold outside of it: bodies above all. */
  readonly bufferBytes: number;
}

/** How often, and how many times, a host is looked at until it is at rest; a quarter of a minute. */
const LOOKS = { everyMs: 50, most: 300 };

/** How far the clocks of two processes may be apart, in milliseconds. */
const SKEW_MS = 1;

export class Subject implements AsyncDisposable {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #peer: Peer;
  readonly #waiting = new Map<number, PromiseWithResolvers<void>>();
  readonly #firing = new Map<number, PromiseWithResolvers<void>>();
  #drains = { begun: 0, wanted: 0, all: Promise.withResolvers<void>() };
  #ports: readonly number[] = [];
  /** When the signals of calls fired, by `nowMs`. */
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

  /** Throws where its process tells another time than this one, as it may where the machine's clock was set in between. */
  async assertSameClock(): Promise<void> {
    const before = nowMs();
    const there = await this.#peer.call<number>("now");
    if (there < before - SKEW_MS || there > nowMs() + SKEW_MS)
      throw new Error("The clocks of the two processes are apart: what is measured between them would be wrong.");
  }

  /** Where the gateway of a policy listens. */
  port(policy: Policy): number {
    return this.#ports[POLICIES.indexOf(policy)] ?? 0;
  }

  /** Resolves when the backend of a call, which has not begun yet, waits for its cue. */
  waiting(id: number): Promise<void> {
    return momentIn(this.#waiting, id);
  }

  /** Resolves when the signal of a call, which has not ended yet, fires. */
  firing(id: number): Promise<void> {
    return momentIn(this.#firing, id);
  }

  /** Resolves when as many calls as that, from now on, go on without their clients. */
  draining(calls: number): Promise<void> {
    this.#drains = { begun: 0, wanted: calls, all: Promise.withResolvers<void>() };
    if (calls === 0) this.#drains.all.resolve();
    return this.#drains.all.promise;
  }

  async goOn(ids: readonly number[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#peer.call("goOn", id)));
  }

  /** Forgets what has been waited for. */
  forget(): void {
    this.#waiting.clear();
    this.#firing.clear();
  }

  async #look(): Promise<Look> {
    const census = await this.#peer.call<Census>("census");
    return { ...census, files: filesOf(this.#process.pid) };
  }

  /** What is there once nothing is left of what was there before it, or when it has been looked at for long enough. */
  async atRest(before?: Rest): Promise<Rest> {
    let [rest, still] = [await this.#look(), 0];
    for (let looks = 0; looks < LOOKS.most && !(isIdle(rest) && still > 5 && !exceeds(rest, before)); looks++) {
      await after(LOOKS.everyMs);
      const next = await this.#look();
      still = openIn(next) === openIn(rest) ? still + 1 : 0;
      rest = next;
    }
    return { ...rest, ...(await this.memory()) };
  }

  /** Memory once all garbage is collected, in bytes. */
  async memory(): Promise<Pick<Rest, "heapBytes" | "bufferBytes">> {
    const heapBytes = await this.#peer.call<number>("heapBytes");
    return { heapBytes, bufferBytes: await this.#peer.call<number>("bufferBytes") };
  }

  /** Closes the gateways: whether each had nothing to wait for. */
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

const openIn = ({ handles, files }: Look): string => JSON.stringify({ handles, files });

export const handlesIn = ({ handles }: Pick<Census, "handles">): number =>
  Object.values(handles).reduce((sum, count) => sum + count, 0);

const exceeds = (rest: Look, before: Look = rest): boolean =>
  handlesIn(rest) > handlesIn(before) || (rest.files ?? 0) > (before.files ?? 0);

function filesOf(pid: number | undefined): number | undefined {
  const folder = `/proc/${pid}/fd`;
  return existsSync(folder) ? readdirSync(folder).length : undefined;
}
