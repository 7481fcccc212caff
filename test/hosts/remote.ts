/** Hosts in a runtime of their own: a gateway in another process, whose backend and quota are those of the test. */

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { CallContext, Failure, GatewayError, GatewayOptions, QuotaStore } from "../../src/index.ts";
import type { ManualClock } from "../contracts/manual-clock.ts";
import type { HostRequestInit, RunningHost, TestHost } from "./host.ts";
import { type Generator, GENERATORS, type Opening } from "./remote/opening.ts";
import { pack } from "./remote/pack.ts";
import { Peer } from "./remote/peer.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A host that a runtime runs with a script of this folder. */
export function remoteHost(name: string, script: string, args: readonly string[] = []): TestHost {
  const command = `${root}node_modules/.bin/${name}`;
  let runtime: Runtime | undefined;
  return {
    name,
    available: existsSync(command),
    mounts: ["/ai"],
    ownRoutes: true,
    start: (options, prefix = "") =>
      (runtime ??= new Runtime(command, [...args, `${root}test/hosts/${script}`])).open(options, prefix),
  };
}

/** A runtime's process, which holds the gateways of many stages. It ends with the process of the tests. */
class Runtime {
  readonly #peer: Peer;
  readonly #stages = new Map<number, GatewayOptions>();
  readonly #answers = new Map<number, Answer>();
  #opened = 0;

  constructor(command: string, args: readonly string[]) {
    const answers = namedPipe();
    const child = spawn(command, [...args, answers], { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
    child.unref();
    const quotas = (id: number): QuotaStore => this.#stage(id).quotas;
    this.#peer = new Peer((line) => void child.stdin.write(line), {
      find: (id: number, apiKey: string) => quotas(id).find(apiKey),
      reserve: (id: number, ...hold: Parameters<QuotaStore["reserve"]>) => quotas(id).reserve(...hold),
      extend: (id: number, ...renewal: Parameters<QuotaStore["extend"]>) => quotas(id).extend(...renewal),
      settle: (id: number, ...charge: Parameters<QuotaStore["settle"]>) => quotas(id).settle(...charge),
      models: (id: number) => this.#stage(id).backend.models?.(),
      failed: (id: number, failure: Failure) => this.#stage(id).onFailure?.(failure),
      option: (id: number, path: string, args: unknown[]) => callAt(this.#stage(id), path, args),
      optionAtOnce: (id: number, path: string, args: unknown[]) =>
        writeFile(answers, JSON.stringify(pack(callAt(this.#stage(id), path, args)))),
      begin: (id: number, answer: number, ...asked: Asked) =>
        void this.#answers.set(answer, new Answer(this.#stage(id), ...asked)),
      next: (answer: number) => this.#answers.get(answer)?.next(),
      abort: (answer: number, reason: GatewayError) => this.#answers.get(answer)?.abort(reason),
      return: (answer: number) => {
        void this.#answers.get(answer)?.return();
        this.#answers.delete(answer);
      },
    });
    createInterface({ input: child.stdout }).on("line", this.#peer.receive);
    child.on("exit", (code) => this.#peer.end(new Error(`The runtime has ended with code ${code}.`)));
  }

  #stage(id: number): GatewayOptions {
    const stage = this.#stages.get(id);
    if (!stage) throw new Error(`There is no stage ${id}.`);
    return stage;
  }

  async open(stage: GatewayOptions, prefix: string): Promise<RunningHost> {
    const { backend, quotas: _quotas, onFailure: _onFailure, clock, ...options } = stage;
    const id = ++this.#opened;
    const opening: Opening = {
      prefix,
      clockStart: clock?.now(),
      models: backend.models !== undefined,
      generators: GENERATORS.filter((generator) => backend[generator]),
      hangUp: backend.hangUp ?? "cancel",
      options: JSON.stringify(pack(options)),
    };
    this.#stages.set(id, stage);
    const peer = this.#peer;
    const url = `http://127.0.0.1:${await peer.call<number>("open", id, opening)}`;
    if (clock) windTogether(clock as ManualClock, (ms) => peer.call("advance", id, ms));
    return {
      url,
      gateway: { close: (closing) => peer.call("close", id, closing) },
      request: (path, init) => synchronous(`${url}${path}`, init, () => peer.call("sync")),
      // The stage stays: a call that was under way is settled after its host has stopped.
      stop: () => peer.call("stop", id),
    };
  }
}

/** A pipe with a name, for answers that a process stands still for; that process removes its folder when it ends. */
function namedPipe(): string {
  const path = join(mkdtempSync(join(tmpdir(), "polygate-runtime-")), "answers");
  execFileSync("mkfifo", [path]);
  return path;
}

/** Calls the function at a path of keys with dots between. */
function callAt(options: object, path: string, args: readonly unknown[]): unknown {
  const keys = path.split(".");
  const name = keys.pop() ?? "";
  const owner = keys.reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], options);
  return (owner as Record<string, (...args: readonly unknown[]) => unknown>)[name]?.(...args);
}

type Asked = [generator: Generator, request: never, call: Omit<CallContext, "signal">];

/** An answer of a test's play, event by event. */
class Answer {
  readonly #hangUp = new AbortController();
  readonly #events: AsyncIterable<unknown>;
  #iterator: AsyncIterator<unknown> | undefined;

  constructor({ backend }: GatewayOptions, ...[generator, request, call]: Asked) {
    const events = backend[generator]?.(request, { ...call, signal: this.#hangUp.signal });
    if (!events) throw new Error(`The backend has no ${generator}.`);
    this.#events = events;
  }

  next(): Promise<IteratorResult<unknown>> {
    return (this.#iterator ??= this.#events[Symbol.asyncIterator]()).next();
  }

  abort(reason: GatewayError): void {
    this.#hangUp.abort(reason);
  }

  async return(): Promise<void> {
    await this.#iterator?.return?.();
  }
}

/** Makes the test's clock wind the gateway's as well. */
function windTogether(clock: ManualClock, advanceThere: (ms: number) => Promise<number>): void {
  // A clock of its own, so that the test's keeps nothing but its name.
  const here: ManualClock = Object.create(null, Object.getOwnPropertyDescriptors(clock));
  let there = 0;
  const advance = async (ms: number): Promise<void> => {
    await here.advance(ms);
    there = await advanceThere(ms);
  };
  Object.defineProperties(clock, { advance: { value: advance }, pending: { get: () => here.pending + there } });
}

// Kept now: Hono, which runs in the same process, will put a class of its own in its place.
const PlatformResponse = Response;

/** Asks when all is done that was said before, and answers when all has come that the gateway said before; so at the end. */
async function synchronous(
  url: string,
  init: HostRequestInit | undefined,
  sync: () => Promise<void>,
): Promise<Response> {
  await sync();
  const response = await fetch(url, init);
  await sync();
  const body = response.body?.pipeThrough(new TransformStream({ flush: sync }));
  return body ? new PlatformResponse(body, response) : response;
}
