/** The expected answer, host's view and books of a call to a hostile upstream. */

import { expect } from "vitest";
import type { GatewayErrorCode } from "../../../src/index.ts";
import type { Form, Refusal, Told } from "../../drivers/driver.ts";
import type { Charge, Pair, Speaker } from "./hostile.formats.ts";
import { type Met, met, type Setting } from "./hostile.stage.ts";
import type { RawAnswer } from "./raw-upstream.ts";

/** The expected failure of a call. */
export interface Failing {
  readonly code: GatewayErrorCode;
  /** The text that the caller reads. */
  readonly message: string;
  readonly retryAfterMs?: number;
  /** The field at fault. */
  readonly field?: string;
  /** The cause that the host reads. */
  readonly told?: RegExp;
  /** True for a failure by a setting of the host, which no retry mends. Default: true where the upstream refuses the host. */
  readonly isOfHost?: true;
  /** Default: failed. The host hears of the gateway's own deadline, without an upstream. */
  readonly outcome?: "deadline" | "refused";
}

/** The failure in the caller's format. */
function refusalOf({ caller }: Pair, { code, message, retryAfterMs, field }: Failing): Refusal {
  const { status, error } = caller.refusal(code);
  const more: Record<string, object> = {
    "generate-content": { details: [...badRequest(status, message, field), ...retryInfo(retryAfterMs)] },
    "chat-completions": { param: field ?? null },
    responses: { param: field ?? null },
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

/** Expects a call that failed before its answer: a refusal in the caller's own format, at no charge. */
async function expectRefused(pair: Pair, form: Form, met: Met, failing: Failing): Promise<void> {
  const { caller } = pair;
  const { code, retryAfterMs } = failing;
  const expected = refusalOf(pair, failing);
  expect(await caller.refusalOf(met.answer())).toEqual(expected);
  const { headers } = met.answer();
  expect(headers.get("retry-after-ms")).toBe(retryAfterMs === undefined ? null : String(retryAfterMs));
  expect(headers.get("retry-after")).toBe(retryAfterMs === undefined ? null : String(Math.ceil(retryAfterMs / 1_000)));
  // The client's own policy decides whether to retry a call that may go better.
  const { isOfHost = code === "backend_refused" } = failing;
  expect([headers.get("x-should-retry"), headers.get("polygate-dropped")]).toEqual([isOfHost ? "false" : null, null]);
  expect(met.charge).toEqual({ used: 0, estimated: 0 });
  expectTold(met, failing);
  expect(met.record).toMatchObject({
    format: caller.name,
    stream: form.stream,
    outcome: failing.outcome ?? "failed",
    status: expected.status,
    errorCode: code,
    units: 0,
    certainty: "exact",
  });
}

/** Expects a call that failed in mid-answer: the part is charged, and the stream ends with an error frame of the caller's format. */
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
  expect(met.record).toMatchObject({
    format: pair.caller.name,
    stream: true,
    outcome: failing.outcome ?? "failed",
    status: 200,
    errorCode: failing.code,
    units: answered.charge.used,
    certainty: answered.charge.estimated > 0 ? "estimated" : "exact",
  });
}

/** Expects that the host hears of the failure once, with its cause, and that no redirect was followed and no request repeated. */
function expectTold({ failures, record, upstream }: Met, { code, told, outcome }: Failing): void {
  expect(upstream.requests.length).toBeLessThanOrEqual(1);
  expect(failures).toHaveLength(1);
  if (outcome === "deadline") expect(failures[0]?.text).toContain("has lasted for limits.deadlineMs");
  if (outcome === "deadline" || !told) return;
  expect(failures[0]).toMatchObject({ port: "model-backend", requestId: record.requestId, error: { code } });
  expect(failures[0]?.text).toMatch(told);
}

/** Expects a call that was answered to its end, and charged by the upstream's counts. */
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

/** The texts that callers read for an upstream's failures, whatever the upstream said. */
type Said = Pick<Failing, "code" | "message">;

export const UNREACHED: Said = { code: "backend_unavailable", message: "The model backend cannot be reached." };
export const UNAVAILABLE: Said = { code: "backend_unavailable", message: "The model backend is not available." };
export const FAILED: Said = { code: "backend_failed", message: "The model backend failed." };
export const BROKEN_OFF: Said = { code: "backend_failed", message: "The model backend's answer broke off." };
export const NO_JSON: Said = { code: "backend_failed", message: "The model backend's answer is not valid JSON." };
export const REFUSED_US: Said = { code: "backend_refused", message: "The model backend refused this service." };
export const REFUSED_CONTENT: Said = {
  code: "content_refused",
  message: "The model backend refuses this content by its policy.",
};
export const LIMITED: Said = { code: "rate_limited", message: "The model backend is busy." };
export const OVERLOADED: Said = { code: "backend_overloaded", message: "The model backend is overloaded." };
export const LATE: Said = { code: "deadline_exceeded", message: "The model backend took too long." };

/** An upstream's answer, by its format and by whether it is asked for a stream. */
export type Answering = (upstream: Speaker, stream: boolean) => RawAnswer;

/** An upstream's behaviour before its answer. */
export interface RefusedCase extends Failing {
  readonly does: string;
  readonly answer: Answering;
  /** The forms of the behaviour. Default: all of them. */
  readonly only?: "streamed" | "complete";
  /** Default: before every format's caller. */
  readonly from?: "chat";
  readonly setting?: Setting;
}

/** Returns the behaviours that a format's callers can meet. */
export const casesFor = ({ caller }: Pair, cases: readonly RefusedCase[]): readonly RefusedCase[] =>
  cases.filter(({ from }) => from === undefined || caller.name !== "images");

/** Expects a refusal in each form. */
export async function expectAllRefused(
  pair: Pair,
  { answer, only, setting, ...failing }: Omit<RefusedCase, "does">,
): Promise<void> {
  for (const form of pair.caller.forms)
    if (only === undefined || (only === "streamed") === form.stream)
      await expectRefused(pair, form, await met(pair, form, answer(pair.upstream, form.stream), setting), failing);
}
