/** A gateway on a host, before a backend that plays what a test tells it and keeps what it was asked. */

import { afterAll, beforeAll } from "vitest";
import {
  memoryQuotaStore,
  type ApiKeyOptions,
  type CallContext,
  type ChatEvent,
  type ChatRequest,
  type EmbeddingEvent,
  type EmbeddingRequest,
  type Failure,
  type GatewayOptions,
  type ImageDrawn,
  type ImageEvent,
  type ImageRequest,
  type MemoryQuotaStore,
  type ModelBackend,
  type ModelInfo,
  type QuotaStore,
} from "../../src/index.ts";
import type { HostRequestInit, RunningHost, TestHost } from "./host.ts";

/** The key that a request carries unless it brings headers of its own; unlimited. */
export const KEY = "sk-stage";

export const VERSION = "2026-10-21";

/** Where a suite runs. */
export interface Mount {
  readonly host: TestHost;
  readonly prefix: string;
}

export type Play = (request: ChatRequest, call: CallContext) => AsyncIterable<ChatEvent | string>;

/** A play of given events. */
export const plays = (...events: readonly (ChatEvent | string)[]): Play =>
  async function* () {
    yield* events;
  };

/** A play of given events that ends with a failure. */
export const fails = (error: unknown, ...before: readonly (ChatEvent | string)[]): Play =>
  async function* () {
    yield* before;
    throw error;
  };

export type ImagePlay = (request: ImageRequest, call: CallContext) => AsyncIterable<ImageEvent>;

/** A picture that a backend draws: by no means a real one, which is none of the gateway's business. */
export const drawn = (number: number, revisedPrompt?: string): ImageDrawn => ({
  type: "image",
  bytes: new TextEncoder().encode(`picture ${number}`),
  mediaType: "image/png",
  ...(revisedPrompt !== undefined && { revisedPrompt }),
});

/** Draws as many pictures as are wanted. */
const drawsAll: ImagePlay = async function* ({ count }) {
  for (let number = 0; number < count; number++) yield drawn(number);
};

export type EmbedPlay = (request: EmbeddingRequest, call: CallContext) => AsyncIterable<EmbeddingEvent>;

/** Makes a vector of each input, which is its number. */
const embedsAll: EmbedPlay = async function* ({ inputs }) {
  for (const number of inputs.keys()) yield [number, 0.5];
};

export interface StageOptions extends Partial<Omit<GatewayOptions, "backend" | "quotas">> {
  /** Keys beside the one that is always there. */
  readonly keys?: readonly ApiKeyOptions[];
  readonly models?: readonly ModelInfo[];
  readonly play?: Play;
  readonly imagePlay?: ImagePlay;
  readonly embedPlay?: EmbedPlay;
  readonly hangUp?: NonNullable<ModelBackend["hangUp"]>;
  /** What a store that is slow waits for before it tells of a hold that it has granted. */
  readonly beforeGranting?: () => Promise<void>;
  /** What a store that is slow waits for before it settles a hold. */
  readonly beforeSettling?: () => Promise<void>;
}

export class ScriptedBackend implements ModelBackend {
  readonly models?: () => readonly ModelInfo[];
  readonly hangUp: NonNullable<ModelBackend["hangUp"]>;
  /** What it answers with. */
  play: Play;
  /** What it was asked, in order. */
  readonly received: ChatRequest[] = [];
  imagePlay: ImagePlay;
  readonly receivedForImages: ImageRequest[] = [];
  embedPlay: EmbedPlay;
  readonly receivedForEmbeddings: EmbeddingRequest[] = [];

  constructor(options: StageOptions) {
    const { models, play = plays("Hello."), imagePlay = drawsAll, embedPlay = embedsAll, hangUp = "cancel" } = options;
    this.play = play;
    this.imagePlay = imagePlay;
    this.embedPlay = embedPlay;
    this.hangUp = hangUp;
    if (models) this.models = () => models;
  }

  chat(request: ChatRequest, call: CallContext): AsyncIterable<ChatEvent | string> {
    this.received.push(request);
    return this.play(request, call);
  }

  image(request: ImageRequest, call: CallContext): AsyncIterable<ImageEvent> {
    this.receivedForImages.push(request);
    return this.imagePlay(request, call);
  }

  embed(request: EmbeddingRequest, call: CallContext): AsyncIterable<EmbeddingEvent> {
    this.receivedForEmbeddings.push(request);
    return this.embedPlay(request, call);
  }

  /** How often it was asked, for whatever. */
  get calls(): number {
    return this.received.length + this.receivedForImages.length + this.receivedForEmbeddings.length;
  }

  /** The last request that it saw. */
  get asked(): ChatRequest {
    return lastOf(this.received);
  }

  get askedForImages(): ImageRequest {
    return lastOf(this.receivedForImages);
  }

  get askedForEmbeddings(): EmbeddingRequest {
    return lastOf(this.receivedForEmbeddings);
  }
}

function lastOf<Request>(requests: readonly Request[]): Request {
  const last = requests.at(-1);
  if (last === undefined) throw new Error("The backend was not asked.");
  return last;
}

export interface Stage extends AsyncDisposable {
  readonly backend: ScriptedBackend;
  readonly quotas: MemoryQuotaStore;
  /** When a key was looked up for the first time: a request has arrived. */
  readonly looked: Promise<void>;
  /** When a hold began to be settled for the first time. */
  readonly settling: Promise<void>;
  /** When a hold was settled for the first time. */
  readonly settled: Promise<void>;
  /** What the gateway reported to its host. */
  readonly failures: readonly Failure[];
  readonly host: RunningHost;
  /** A path of the gateway, from its host's root. */
  readonly path: (path: string) => string;
  /** Sends a request to a path of the gateway. */
  readonly request: (path: string, init?: HostRequestInit) => Promise<Response>;
  /** Sends a messages request that is in order, of the given body. */
  readonly send: (body: unknown, init?: HostRequestInit) => Promise<Response>;
}

/** A key goes by its secret in tests. */
const withId = (key: ApiKeyOptions): ApiKeyOptions => ({ id: String(key.apiKey), ...key });

const moment = (): PromiseWithResolvers<void> => Promise.withResolvers();

export async function openStage({ host, prefix }: Mount, options: StageOptions = {}): Promise<Stage> {
  const {
    keys = [],
    models: _models,
    play: _play,
    imagePlay: _imagePlay,
    embedPlay: _embedPlay,
    hangUp: _hangUp,
    beforeGranting,
    beforeSettling,
    ...rest
  } = options;
  const failures: Failure[] = [];
  const backend = new ScriptedBackend(options);
  const quotas = memoryQuotaStore(
    [{ apiKey: KEY, id: KEY }, ...keys.map(withId)],
    rest.clock ? { clock: rest.clock } : {},
  );
  const [looked, settling, settled] = [moment(), moment(), moment()];
  const watched: QuotaStore = {
    find: (apiKey) => quotas.find(apiKey).finally(looked.resolve),
    async reserve(hold) {
      const reservation = await quotas.reserve(hold);
      await beforeGranting?.();
      return reservation;
    },
    balance: (keyId) => quotas.balance(keyId),
    renew: (id, renewal) => quotas.renew(id, renewal),
    async settle(id, outcome) {
      settling.resolve();
      await beforeSettling?.();
      await quotas.settle(id, outcome);
      settled.resolve();
    },
  };
  const onFailure = (failure: Failure): void => void failures.push(failure);
  const running = await host.start({ onFailure, ...rest, backend, quotas: watched }, prefix);
  const fromRoot = (path: string): string => `${prefix}${path}`;
  const request = (path: string, init?: HostRequestInit): Promise<Response> => running.request(fromRoot(path), init);
  return {
    backend,
    quotas,
    looked: looked.promise,
    settling: settling.promise,
    settled: settled.promise,
    failures,
    host: running,
    path: fromRoot,
    request,
    send: (body, init) => request("/v1/messages", { ...post(body), ...init }),
    [Symbol.asyncDispose]: () => running.stop(),
  };
}

/** One stage for all cases of a block: cheap for tables, whose cases leave nothing behind. */
export function sharedStage(mount: Mount, options: StageOptions = {}): () => Stage {
  let stage: Stage | undefined;
  beforeAll(async () => void (stage = await openStage(mount, options)));
  afterAll(() => stage?.[Symbol.asyncDispose]());
  return () => {
    if (!stage) throw new Error("The stage is not open yet.");
    return stage;
  };
}

/** A JSON request that is in order, but for headers that are changed; undefined leaves one out. */
export const post = (
  body: unknown,
  headers: Readonly<Record<string, string | undefined>> = {},
): { method: string; headers: Record<string, string>; body: string } => ({
  method: "POST",
  headers: headersWith(headers),
  body: JSON.stringify(body),
});

export function headersWith(changes: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const headers = { "content-type": "application/json", "compat-version": VERSION, "x-api-key": KEY, ...changes };
  return Object.fromEntries(Object.entries(headers).filter((header): header is [string, string] => header[1] != null));
}
