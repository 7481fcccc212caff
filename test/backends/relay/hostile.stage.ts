/** A whole gateway before an upstream that answers in raw bytes: what its caller gets, what is charged, what the host hears, and what is left. */

import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { relay, type RelayOptions } from "../../../src/backends/relay/index.ts";
import {
  type CallRecord,
  createGateway,
  type Failure,
  type Gateway,
  type GatewayErrorCode,
  type GatewayGauges,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { type ManualClock, manualClock } from "../../contracts/manual-clock.ts";
import { asking, type Form, type Refusal, type Told } from "../../drivers/driver.ts";
import { flat } from "../../hosts/prices.ts";
import { type Charge, type Pair, PICTURE_PRICE, PROMPT } from "./hostile.formats.ts";
import { rawUpstream, type RawAnswer, type RawUpstream } from "./raw-upstream.ts";

const UPSTREAM_KEY = "sk-upstream-0123456789abcdef";
export const CALLER_KEY = "sk-caller-0123456789abcdef";
/** How many tokens an answer may have. */
export const LIMIT = 100;

/** What no one is to read anywhere: the keys, and in the host's books neither what was asked nor what was answered. */
const SECRET = /upstream-0123|caller-0123/;
const PRIVATE = new RegExp(`${SECRET.source}|${PROMPT}|Hel|wörld`);

export interface Setting {
  readonly relay?: Partial<RelayOptions>;
  readonly gateway?: Partial<GatewayOptions>;
  /** Where the relay is to go in place of the upstream's own address. */
  readonly baseUrl?: (url: string) => string;
  /** What the upstream does with a connection before anything has come. */
  readonly greet?: (socket: Socket) => unknown;
  /** Whether the upstream says no more, so that time passes until the call has ended. */
  readonly isSilent?: boolean;
  /** What the caller waits for before it hangs up: a part of the answer, or that the upstream was asked. Default: it does not. */
  readonly leavesAfter?: { readonly text: string } | "asking";
  /** How often the same is asked, one after the other; the last is looked at. Default: once. */
  readonly times?: number;
}

/** What came of a gateway's calls, once all is over. */
export interface Books {
  /** Of the last call. */
  readonly record: CallRecord;
  readonly failures: readonly Failure[];
  readonly charge: Charge;
  readonly upstream: Pick<RawUpstream, "requests" | "connections">;
}

/** What came of a call. */
export interface Met extends Books {
  /** The answer, as often as it is read. */
  readonly answer: () => Response;
}

export interface HostileStage extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly clock: ManualClock;
  /** Resolves when the upstream has done all that it does. */
  readonly reached: Promise<void>;
  /** Closes everything. Whatever came of so many calls, nothing of them is left, and no secret is told: not in what was answered either. */
  atRest(times: number, answered: string): Promise<Books>;
}

/** Opens a gateway whose relay leads to such an upstream. */
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
      expect(JSON.stringify(records)).not.toMatch(PRIVATE);
      expect(records).toHaveLength(times);
      const record = records.at(-1);
      if (!record || used === undefined || estimated === undefined) throw new Error("The call has no record.");
      return { record, failures, charge: { used, estimated }, upstream };
    },
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  };
}

/** Asks such a gateway. */
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

/** Reads a stream until this has come, and hangs up. */
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

/** The limit on the output, as each format says it. */
const LIMIT_FIELDS: Readonly<Record<string, object>> = {
  messages: { max_tokens: LIMIT },
  "generate-content": { generationConfig: { maxOutputTokens: LIMIT } },
  "chat-completions": { max_completion_tokens: LIMIT },
};

/** Lets time pass, in small steps, until a call has ended: what its upstream has sent so far comes before any of it is over. */
async function passing(clock: ManualClock, asked: Promise<unknown>): Promise<void> {
  const state = { ended: false };
  const ended = (): void => void (state.ended = true);
  asked.then(ended, ended);
  for (let passedMs = 0; !state.ended && passedMs < 3_600_000; passedMs += 1_000) await clock.advance(1_000);
}

/** How a call is to fail. */
export interface Failing {
  readonly code: GatewayErrorCode;
  /** What the caller reads. */
  readonly message: string;
  readonly retryAfterMs?: number;
  /** The field at fault. */
  readonly field?: string;
  /** What the host reads of the cause. */
  readonly told?: RegExp;
  /** Where it is the gateway that cut the call, which the host is not told of. Default: it has failed. */
  readonly outcome?: "deadline";
}

/** How the caller's format tells of a failure. */
function refusalOf({ caller }: Pair, { code, message, retryAfterMs, field }: Failing): Refusal {
  const { status, error } = caller.refusal(code);
  const more: Record<string, object> = {
    "generate-content": { details: [...badRequest(status, message, field), ...retryInfo(retryAfterMs)] },
    "chat-completions": { param: field ?? null },
    images: { param: field ?? null },
  };
  return { status, error: { ...error, message, ...more[caller.name] } };
}

const badRequest = (status: number, description: string, field: string | undefined): object[] =>
  status === 400 && field !== undefined
    ? [{ "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [{ field, description }] }]
    : [];

const retryInfo = (ms: number | undefined): object[] =>
  ms === undefined ? [] : [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${ms / 1_000}s` }];

/** The call failed before anything was answered: a refusal in the caller's own format, at no charge. */
export async function expectRefused(pair: Pair, form: Form, met: Met, failing: Failing): Promise<void> {
  const { caller } = pair;
  const { code, retryAfterMs } = failing;
  const expected = refusalOf(pair, failing);
  expect(await caller.refusalOf(met.answer())).toEqual(expected);
  const { headers } = met.answer();
  expect(headers.get("retry-after-ms")).toBe(retryAfterMs === undefined ? null : String(retryAfterMs));
  expect(headers.get("retry-after")).toBe(retryAfterMs === undefined ? null : String(Math.ceil(retryAfterMs / 1_000)));
  // The call may be tried again: that is for the client's own policy to say.
  expect([headers.get("x-should-retry"), headers.get("polygate-dropped")]).toEqual([null, null]);
  expect(met.charge).toEqual({ used: 0, estimated: 0 });
  expectTold(met, failing);
  // It was asked once, if at all: nothing was followed, and nothing tried again.
  expect(met.upstream.requests.length).toBeLessThanOrEqual(1);
  expect(met.record).toMatchObject({
    dialect: caller.name,
    stream: form.stream,
    outcome: failing.outcome ?? "failed",
    status: expected.status,
    errorCode: code,
    units: 0,
    certainty: "exact",
  });
}

/** The call failed after this had been answered, which is charged: the caller's format says so in its own frame, and ends. */
export async function expectBrokenOff(
  pair: Pair,
  form: Form,
  met: Met,
  failing: Failing,
  answered: { readonly text: string; readonly charge: Charge },
): Promise<void> {
  const response = met.answer();
  expect(response.status).toBe(200);
  const told: Told[] = [];
  const reader = form.read?.(response);
  for (let next = await reader?.next(); next; next = await reader?.next()) told.push(next);
  const text = told.map((one) => (one.type === "piece" ? one.text : "")).join("");
  expect(text).toBe(answered.text);
  expect(told.at(-1)).toEqual({ type: "error", error: refusalOf(pair, failing).error });
  expect(told.filter(({ type }) => type === "error")).toHaveLength(1);
  expect(met.charge).toEqual(answered.charge);
  expectTold(met, failing);
  // It was asked once, if at all: nothing was followed, and nothing tried again.
  expect(met.upstream.requests.length).toBeLessThanOrEqual(1);
  expect(met.record).toMatchObject({
    dialect: pair.caller.name,
    stream: true,
    outcome: failing.outcome ?? "failed",
    status: 200,
    errorCode: failing.code,
    units: answered.charge.used,
    certainty: answered.charge.estimated > 0 ? "estimated" : "exact",
  });
}

/** The host hears of a failure once, with its cause. */
function expectTold({ failures, record }: Met, { code, told, outcome }: Failing): void {
  expect(failures).toHaveLength(outcome ? 0 : 1);
  if (outcome || !told) return;
  expect(failures[0]).toMatchObject({ port: "model-backend", requestId: record.requestId, error: { code } });
  expect(failures[0]?.text).toMatch(told);
}

/** The call was answered to its end, and is charged what the upstream has counted. */
export async function expectAnswered(
  { upstream: { whole, costs } }: Pair,
  form: Form,
  met: Met,
  times = 1,
): Promise<void> {
  expect(met.answer().status).toBe(200);
  expect(await form.textOf(met.answer())).toBe(whole);
  expect(met.charge).toEqual({ used: costs.whole.used * times, estimated: 0 });
  expect(met.failures).toEqual([]);
  expect(met.record).toMatchObject({
    outcome: "completed",
    status: 200,
    errorCode: undefined,
    units: costs.whole.used,
    certainty: "exact",
    stream: form.stream,
  });
}

/** What callers read of an upstream's failures, whatever it said itself. */
type Said = Pick<Failing, "code" | "message">;

export const UNREACHED: Said = { code: "backend_unavailable", message: "The model backend cannot be reached." };
export const UNAVAILABLE: Said = { code: "backend_unavailable", message: "The model backend is not available." };
export const FAILED: Said = { code: "backend_failed", message: "The model backend failed." };
export const BROKEN_OFF: Said = { code: "backend_failed", message: "The model backend's answer broke off." };
export const NO_JSON: Said = { code: "backend_failed", message: "The model backend's answer is not valid JSON." };
export const REFUSED_US: Said = { code: "backend_refused", message: "The model backend refused this service." };
export const LIMITED: Said = { code: "rate_limited", message: "The model backend is busy." };
export const OVERLOADED: Said = { code: "backend_overloaded", message: "The model backend is overloaded." };
export const LATE: Said = { code: "deadline_exceeded", message: "The model backend took too long." };
