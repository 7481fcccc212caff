/** The process of the agents: it keeps connections busy, times the first text of single calls, and holds streams open. */

import { type Dispatcher, Pool } from "undici";
import { answerParent } from "../../trial/child.ts";
import { answerLength } from "../answer-length.ts";
import { API_KEY } from "../workload.ts";
import { answerOf } from "./answers.ts";
import { type AgentBody, agentRequest, type ChatFormat, pathOf } from "./requests.ts";

export interface AgentOrder {
  readonly port: number;
  readonly format: ChatFormat;
  readonly body: AgentBody;
  readonly task:
    /** Answers as fast as they come, for a time or a number of calls. */
    | { readonly until: { readonly ms: number } | { readonly calls: number } }
    /** Times the first text of calls, one after the other. */
    | { readonly timedCalls: number }
    /** Opens streams and waits for the first bytes of each. Zero closes them all. */
    | { readonly open: number };
}

export interface AgentResult {
  readonly answers: number;
  /** The median time to the first text, in milliseconds. */
  readonly firstTextMs: number;
}

/** As many agents as a small gateway serves at one moment. */
const CONNECTIONS = 16;
/** The calls of an agent in which its conversation grows by a turn each. Then it begins again. */
const GROWING_CALLS = 8;
/** The most kilobytes of a body of which each agent has its own conversation. Larger bodies are those of one agent. */
const MOST_OWN_KILOBYTES = 200;
/** The streams that are opened at once. */
const OPENED_AT_ONCE = 100;

const pools = new Map<number, Pool>();
let opened: Pool | undefined;

const CREDENTIALS: Readonly<Record<ChatFormat, Readonly<Record<string, string>>>> = {
  messages: { "x-api-key": API_KEY, "anthropic-version": "2023-06-01" },
  "chat-completions": { authorization: `Bearer ${API_KEY}` },
  "generate-content": { "x-goog-api-key": API_KEY },
  responses: { authorization: `Bearer ${API_KEY}` },
};

/** The end of a complete answer and of a stream. */
const endOf = (format: ChatFormat, { isStreamed, frames }: AgentBody): Buffer =>
  Buffer.from(isStreamed ? answerOf(format, frames).end : "}");

answerParent(async ({ port, format, body, task }: AgentOrder): Promise<AgentResult> => {
  const headers = { "content-type": "application/json", ...CREDENTIALS[format] };
  const requests = bodiesOf(format, body).map((calls) =>
    calls.map((text) => ({
      origin: `http://127.0.0.1:${port}`,
      path: pathOf(format, body),
      method: "POST" as const,
      headers,
      body: text,
    })),
  );
  const request = requests[0]?.at(-1) as Dispatcher.DispatchOptions;
  const pool = pools.get(port) ?? new Pool(`http://127.0.0.1:${port}`, { connections: CONNECTIONS, pipelining: 1 });
  pools.set(port, pool);
  const begin = performance.now();
  if ("open" in task) {
    await open(port, request, task.open);
    return { answers: task.open, firstTextMs: Number.NaN };
  }
  if ("timedCalls" in task) {
    const times: number[] = [];
    for (let call = 0; call < task.timedCalls; call++) times.push(await firstTextMs(pool, request));
    times.sort((one, other) => one - other);
    return { answers: times.length, firstTextMs: times[times.length >> 1] ?? Number.NaN };
  }
  const { until } = task;
  const end = endOf(format, body);
  let [answers, begun] = [0, 0];
  const goesOn = (): boolean => ("ms" in until ? performance.now() - begin < until.ms : begun++ < until.calls);
  const ask = async (agent: number): Promise<void> => {
    const calls = requests[agent % requests.length] ?? [];
    for (let call = 0; goesOn(); call++, answers++)
      await answerLength(pool, calls[call % calls.length] as Dispatcher.DispatchOptions, end);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, agent) => ask(agent)));
  return { answers, firstTextMs: Number.NaN };
});

const bodies = new Map<string, readonly (readonly Buffer[])[]>();

/** Returns the bodies of each agent, call by call. */
function bodiesOf(format: ChatFormat, body: AgentBody): readonly (readonly Buffer[])[] {
  const key = JSON.stringify([format, body]);
  const agents = body.kilobytes <= MOST_OWN_KILOBYTES ? CONNECTIONS : 1;
  const made =
    bodies.get(key) ??
    Array.from({ length: agents }, (_, agent) =>
      Array.from({ length: GROWING_CALLS }, (_none, call) =>
        Buffer.from(agentRequest(format, body, agent, GROWING_CALLS - 1 - call)),
      ),
    );
  bodies.set(key, made);
  return made;
}

/** Text of the first piece, in every format. */
const FIRST_TEXT = " word";

function firstTextMs(pool: Pool, request: Dispatcher.DispatchOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    const begin = performance.now();
    let first = 0;
    pool.dispatch(request, {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData(_controller, chunk) {
        if (first === 0 && chunk.includes(FIRST_TEXT)) first = performance.now();
      },
      onResponseEnd: () => (first > 0 ? resolve(first - begin) : reject(new Error("A stream without text came."))),
      onResponseError: (_controller, error) => reject(error),
    });
  });
}

async function open(port: number, request: Dispatcher.DispatchOptions, streams: number): Promise<void> {
  await opened?.destroy();
  opened = undefined;
  if (streams === 0) return;
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: streams, bodyTimeout: 0, headersTimeout: 0 });
  opened = pool;
  for (let count = 0; count < streams; count += OPENED_AT_ONCE)
    await Promise.all(
      Array.from({ length: Math.min(OPENED_AT_ONCE, streams - count) }, () => firstBytes(pool, request)),
    );
}

/** Resolves with the first text of a stream, which stays open. */
function firstBytes(pool: Pool, request: Dispatcher.DispatchOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    pool.dispatch(request, {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData(_controller, chunk) {
        if (chunk.includes(FIRST_TEXT)) resolve();
      },
      onResponseEnd: () => reject(new Error("A stream that should stay open ended.")),
      onResponseError: (_controller, error) => reject(error),
    });
  });
}
