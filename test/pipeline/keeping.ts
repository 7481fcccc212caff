/** A gateway for tests of kept responses: what its backend was asked, a store of responses, and short verbs for its routes. */

import {
  type ChatRequest,
  memoryResponseStore,
  type MemoryResponseStore,
  type ModelBackend,
  type ResponseStore,
} from "../../src/index.ts";
import { type Opened, opened, type Send, type Setup, speaking, type Step } from "./bench.ts";

/** An item or a response, as its client sees it. */
export type Wire = Record<string, unknown> & {
  readonly id: string;
  readonly output: readonly Wire[];
  readonly data: readonly Wire[];
};

export interface Told {
  readonly status: number;
  readonly body: Wire;
}

/** A frame of a stream. */
export interface Frame extends Record<string, unknown> {
  readonly type: string;
  readonly sequence_number: number;
  readonly response?: Wire;
}

export interface Keeping extends Opened {
  readonly asked: readonly ChatRequest[];
  /** The roles and texts that the backend was asked the last time, such as `user: a`. */
  readonly said: () => readonly string[];
  readonly kept: MemoryResponseStore;
  readonly ask: (path: string, init?: Send) => Promise<Told>;
  readonly create: (body: object, init?: Send) => Promise<Told>;
  /** Creates a response, and returns its id. */
  readonly made: (body: object) => Promise<string>;
}

export const OTHER = { headers: { authorization: "Bearer sk-two" } } as const;

export const told = async (response: Response): Promise<Told> => ({
  status: response.status,
  body: (await response.json()) as Wire,
});

/** Returns the frames of a stream, without comments. */
export const framesOf = (text: string): Frame[] =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? "") as Frame);

/** The text of a request, with its calls and results. */
const saidIn = ({ messages }: ChatRequest): string[] =>
  messages.flatMap(({ role, parts }) =>
    parts.map((part) => {
      if (part.type === "text") return `${role}: ${part.text}`;
      if (part.type === "tool-call") return `call ${part.id}`;
      return part.type === "tool-result" ? `result ${part.callId}` : part.type;
    }),
  );

/**
 * A gateway that keeps responses in memory.
 *
 * @param scripts What the backend does at its first, second and later calls; the last for all others. A function gets the request.
 * @param lay Lays verbs over the store.
 */
export function keeping(
  scripts: readonly (readonly Step[] | ((asked: ChatRequest) => readonly Step[]))[] = [["word"]],
  setup: Setup = {},
  lay: (store: MemoryResponseStore) => Partial<ResponseStore> = () => ({}),
): Keeping {
  const asked: ChatRequest[] = [];
  const backend: ModelBackend = {
    async *chat(request, call) {
      const script = scripts[asked.length] ?? scripts.at(-1) ?? [];
      asked.push(request);
      const steps = typeof script === "function" ? script(request) : script;
      yield* speaking(...steps).chat?.(request, call) ?? [];
    },
  };
  let kept: MemoryResponseStore | undefined;
  const bench = opened({
    backend,
    responses(clock) {
      const store = (kept = memoryResponseStore({ clock }));
      return {
        create: (keyId, documents) => store.create(keyId, documents),
        update: (keyId, update) => store.update(keyId, update),
        read: (keyId, ids) => store.read(keyId, ids),
        list: (keyId, parentId, page) => store.list(keyId, parentId, page),
        delete: (keyId, id) => store.delete(keyId, id),
        ...lay(store),
      };
    },
    ...setup,
    key: { granted: 1_000_000, ...setup.key },
  });
  bench.store.add({ apiKey: "sk-two", id: "two", granted: 1_000_000 });
  if (!kept) throw new Error("The gateway has no store of responses.");
  const ask = async (path: string, init: Send = {}): Promise<Told> =>
    told(await bench.send({ path: `/v1/${path}`, method: "GET", ...init }));
  const create = (body: object, init: Send = {}): Promise<Told> =>
    ask("responses", { method: "POST", body: JSON.stringify({ model: "any", ...body }), ...init });
  return {
    ...bench,
    asked,
    said: () => saidIn(asked.at(-1) ?? { ...EMPTY }),
    kept,
    ask,
    create,
    made: async (body) => (await create(body)).body.id,
  };
}

const EMPTY: ChatRequest = {
  model: "",
  system: [],
  messages: [],
  tools: [],
  maxOutputTokens: 0,
  stopSequences: [],
  stream: false,
};
