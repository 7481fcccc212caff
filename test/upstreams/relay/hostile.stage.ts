/** A whole gateway before an upstream that answers in raw bytes: the caller's answer, the charge, the host's view, and leftovers. */

import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import {
  type CallRecord,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayGauges,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { asking, type Form } from "../../drivers/driver.ts";
import { flat } from "../../hosts/prices.ts";
import { type Charge, type Pair, PICTURE_PRICE, PROMPT } from "./hostile.formats.ts";
import { rawUpstream, type RawAnswer, type RawUpstream } from "./raw-upstream.ts";

const UPSTREAM_KEY = "sk-upstream-0123456789abcdef";
export const CALLER_KEY = "sk-caller-0123456789abcdef";
/** The output limit of an answer, in tokens. */
export const LIMIT = 100;

/** Texts that nobody may read: the keys, and in the host's books also requests and answers. */
const SECRET = /upstream-0123|caller-0123/;
const PRIVATE = new RegExp(`${SECRET.source}|${PROMPT}|Hel|wörld`);

export interface Setting {
  readonly relay?: Partial<RelayOptions>;
  readonly gateway?: Partial<GatewayOptions>;
  /** The relay's base address. Default: the upstream's own. */
  readonly baseUrl?: (url: string) => string;
  /** Called with each new connection, before the first request. */
  readonly greet?: (socket: Socket) => unknown;
  /** Whether the upstream falls silent, so that time passes until the call has ended. */
  readonly isSilent?: boolean;
  /** The caller hangs up after a part of the answer, or once the upstream was asked. Default: never. */
  readonly leavesAfter?: { readonly text: string } | "asking";
  /** The number of calls, one after the other; the outcome is that of the last one. Default: 1. */
  readonly times?: number;
}

/** The outcome of a gateway's calls, once all of them are over. */
export interface Books {
  /** The last call's. */
  readonly record: CallRecord;
  readonly failures: readonly Failure[];
  readonly charge: Charge;
  readonly upstream: Pick<RawUpstream, "requests" | "connections">;
}

/** The outcome of a call. */
export interface Met extends Books {
  /** The answer. Can be read several times. */
  readonly answer: () => Response;
}

export interface HostileStage extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly clock: ManualClock;
  /** Resolves when the upstream is done. */
  readonly reached: Promise<void>;
  /** Closes everything. Fails if so many calls have left anything behind, or if a secret stands in an answer or in the host's books. */
  atRest(times: number, answered: string): Promise<Books>;
}

/** Opens a gateway with a relay to a raw upstream. */
export async function openStage(
  { upstream: { format } }: Pair,
  answer: RawAnswer,
  { relay: relayOptions, gateway: gatewayOptions, baseUrl, greet }: Setting = {},
): Promise<HostileStage> {
  const clock = manualClock();
  const reached = Promise.withResolvers<void>();
  const upstream = await rawUpstream(
    async (socket, request) => {
      await answer(socket, request);
      reached.resolve();
    },
    (socket) => {
      if (!greet) return;
      greet(socket);
      reached.resolve();
    },
  );
  const address = baseUrl?.(upstream.url) ?? upstream.url;
  const backend = relay({ format, baseUrl: address, apiKey: UPSTREAM_KEY, clock, ...relayOptions });
  const quotas = memoryQuotaStore([{ apiKey: CALLER_KEY, id: "caller", granted: 100_000 }], { clock });
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  let gauges: GatewayGauges | undefined;
  const gateway = createGateway({
    backend,
    quotas,
    clock,
    countTokens: (text) => text.length,
    imagePrice: flat(PICTURE_PRICE),
    onCall: (record) => void records.push(record),
    onFailure: (failure) => void failures.push(failure),
    observer: {
      watchGateway: (shown) => void (gauges = shown),
      begin: () => undefined,
    },
    ...gatewayOptions,
  });
  return {
    gateway,
    clock,
    reached: reached.promise,
    async atRest(times, answered) {
      await clock.advance(0);
      const { granted: _granted, available: _available, used, estimated, ...rest } = quotas.report("caller") ?? {};
      expect(rest).toEqual({ held: 0, liveHolds: 0, overdraft: 0 });
      expect([gauges?.calls, gauges?.bodies, gauges?.bodyBytes, clock.pending]).toEqual([0, 0, 0, 0]);
      // A connection of several calls is kept for the next.
      if (times === 1) await upstream.allClosed();
      await backend.close();
      await upstream.allClosed();
      await gateway.close();
      expect(clock.pending).toBe(0);
      expect(answered).not.toMatch(SECRET);
      expect(answered).not.toContain(new URL(upstream.url).host);
      expect(failures.map(({ text }) => text).join("\n")).not.toMatch(SECRET);
      expect(JSON.stringify(upstream.requests)).not.toContain(CALLER_KEY);
      expect(JSON.stringify(records)).not.toMatch(PRIVATE);
      expect(records).toHaveLength(times);
      const record = records.at(-1);
      if (!record || used === undefined || estimated === undefined) throw new Error("The call has no record.");
      return { record, failures, charge: { used, estimated }, upstream };
    },
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  };
}

/** Asks the gateway. */
export async function met(pair: Pair, form: Form, answer: RawAnswer, setting: Setting = {}): Promise<Met> {
  const { isSilent = false, leavesAfter, times = 1 } = setting;
  const { caller } = pair;
  await using stage = await openStage(pair, answer, setting);
  const { gateway, clock, reached } = stage;
  const model = caller.name === "images" ? caller.models.other : caller.models.one;
  const sent = asking(caller, form, {
    apiKey: CALLER_KEY,
    model,
    prompt: PROMPT,
    more: LIMIT_FIELDS[caller.name] ?? {},
  });
  const leaving = new AbortController();
  const ask = async (): Promise<[Response, string]> => {
    const request = new Request(`http://gateway.test${sent.path}`, { ...sent.init, signal: leaving.signal });
    const response = await gateway.fetch(request);
    const isLeft = typeof leavesAfter === "object";
    return [response, isLeft ? await readUntil(leavesAfter.text, response) : await response.text()];
  };
  for (let time = 1; time < times; time++) {
    await ask();
    // A connection is free again once its answer has been read to the end, a turn of the event loop later.
    await setImmediate();
  }
  const asked = ask();
  if (isSilent) void reached.then(() => passing(clock, asked));
  if (leavesAfter === "asking") void reached.then(() => leaving.abort());
  const [{ status, headers }, text] = await asked;
  const books = await stage.atRest(times, text + JSON.stringify([...headers]));
  return { ...books, answer: () => new Response(text, { status, headers }) };
}

/** Reads a stream until a text has come, and hangs up. */
async function readUntil(wanted: string, response: Response): Promise<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes(wanted)) {
    const step = await reader?.read();
    if (!step || step.done) throw new Error(`The stream ended before ${wanted}: ${text}`);
    text += step.value;
  }
  await reader?.cancel();
  return text;
}

/** The output limit in each format. */
const LIMIT_FIELDS: Readonly<Record<string, object>> = {
  messages: { max_tokens: LIMIT },
  "generate-content": { generationConfig: { maxOutputTokens: LIMIT } },
  "chat-completions": { max_completion_tokens: LIMIT },
  responses: { max_output_tokens: LIMIT },
};

/** Lets time pass in small steps until a call has ended: bytes that were sent arrive before a timeout. */
async function passing(clock: ManualClock, asked: Promise<unknown>): Promise<void> {
  const state = { ended: false };
  const ended = (): void => void (state.ended = true);
  asked.then(ended, ended);
  for (let passedMs = 0; !state.ended && passedMs < 3_600_000; passedMs += 1_000) await clock.advance(1_000);
}
