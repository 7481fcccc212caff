/** The side of the tests: stages whose gateways are in another runtime, which calls their backends and quotas from there. */

import type { CallContext, Failure, GatewayError, GatewayOptions, QuotaStore } from "../../../src/index.ts";
import type { ManualClock } from "../../../src/testing/laws/manual-clock.ts";
import type { HostRequestInit, RunningHost } from "../host.ts";
import { type Generator, GENERATORS, type Opening } from "./opening.ts";
import { pack } from "./pack.ts";
import type { Call, Handlers } from "./peer.ts";

export class Stages {
  readonly #headers: Readonly<Record<string, string>>;
  /** Calls the other runtime. */
  readonly #call: Call;
  readonly #stages = new Map<number, GatewayOptions>();
  readonly #answers = new Map<number, Answer>();
  #opened = 0;

  /** @param headers Headers of every request. */
  constructor(call: Call, headers: Readonly<Record<string, string>> = {}) {
    this.#call = call;
    this.#headers = headers;
  }

  /** What the other runtime may call. */
  readonly handlers: Handlers = {
    find: (id: number, apiKey: string) => this.#quotas(id).find(apiKey),
    reserve: (id: number, ...hold: Parameters<QuotaStore["reserve"]>) => this.#quotas(id).reserve(...hold),
    balance: (id: number, keyId: string) => this.#quotas(id).balance(keyId),
    renew: (id: number, ...renewal: Parameters<QuotaStore["renew"]>) => this.#quotas(id).renew(...renewal),
    settle: (id: number, ...charge: Parameters<QuotaStore["settle"]>) => this.#quotas(id).settle(...charge),
    models: (id: number) => this.#at(id).backend.models?.(),
    failed: (id: number, failure: Failure) => this.#at(id).onFailure?.(failure),
    option: (id: number, path: string, args: unknown[]) => this.option(id, path, args),
    begin: (id: number, answer: number, ...asked: Asked) => {
      this.#answers.set(answer, new Answer(this.#at(id), ...asked));
      return this.#next(answer);
    },
    next: (answer: number) => this.#next(answer),
    abort: (answer: number, reason: GatewayError) => this.#answers.get(answer)?.abort(reason),
    return: (answer: number) => {
      void this.#answers.get(answer)?.return();
      this.#answers.delete(answer);
    },
  };

  /** The next event of an answer, which is forgotten once it has ended or failed. */
  async #next(answer: number): Promise<IteratorResult<unknown> | undefined> {
    let step: IteratorResult<unknown> | undefined;
    try {
      return (step = await this.#answers.get(answer)?.next());
    } finally {
      if (step?.done !== false) this.#answers.delete(answer);
    }
  }

  /** Calls a function among a stage's options, at a path of keys with dots between. */
  option(id: number, path: string, args: readonly unknown[]): unknown {
    const keys = path.split(".");
    const name = keys.pop() ?? "";
    const owner = keys.reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], this.#at(id));
    return (owner as Record<string, (...args: readonly unknown[]) => unknown>)[name]?.(...args);
  }

  /** Opens a stage in the other runtime, which answers with the port that it listens at. */
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
    const call = this.#call;
    const url = `http://127.0.0.1:${await call<number>("open", id, opening)}`;
    if (clock) windTogether(clock as ManualClock, (ms) => call("advance", id, ms));
    return {
      url,
      gateway: { close: (closing) => call("close", id, closing) },
      request: (path, init) => synchronous(`${url}${path}`, this.#completed(init), () => call("sync")),
      // The stage stays: a call that was under way is settled after its host has stopped.
      stop: () => call("stop", id),
    };
  }

  #completed(init: HostRequestInit = {}): HostRequestInit {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(this.#headers)) headers.set(name, value);
    return { ...init, headers };
  }

  #at(id: number): GatewayOptions {
    const stage = this.#stages.get(id);
    if (!stage) throw new Error(`There is no stage ${id}.`);
    return stage;
  }

  #quotas(id: number): QuotaStore {
    return this.#at(id).quotas;
  }
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
