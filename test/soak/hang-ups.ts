/** Clients that hang up: at every moment, in every manner, in every form and under every policy. */

import type { Manner } from "../drivers/raw-client.ts";
import {
  type Form,
  FORMS,
  nowMs,
  type Payer,
  type Policy,
  requestOf,
  type Script,
  scriptOf,
  unitsOf,
} from "./calls.ts";
import { Connection } from "./connection.ts";
import type { Subject } from "./subject.ts";

const MANNERS: readonly Manner[] = ["closes", "resets", "half-closes"];

/** How much of its answer a client has when it hangs up, and after how many pieces its backend waits for that. */
const WAITS_AFTER = {
  "while asking": undefined,
  "at once": undefined,
  "before the first": 0,
  "in the middle": 1,
  "after the last": undefined,
};

export type Moment = keyof typeof WAITS_AFTER;

export interface HangUps {
  /** How many clients hang up in the same turn. */
  readonly together: number;
  readonly policy: Policy;
  readonly moments: readonly Moment[];
}

export interface HungUp {
  /** What is to be charged for the calls that end all the same. */
  readonly units: number;
  /** The calls whose signal may fire. */
  readonly mayFire: readonly number[];
  /** From each hang-up that a signal must answer until that fired, in milliseconds. */
  readonly delaysMs: readonly number[];
}

interface Call {
  readonly script: Script;
  readonly form: Form;
  readonly manner: Manner;
  readonly moment: Moment;
  readonly payer: Payer;
}

/** Makes calls, of ids from `first` on, and hangs up on all of them; resolves when each signal has fired that must. */
export async function hangUp(subject: Subject, first: number, { together, policy, moments }: HangUps): Promise<HungUp> {
  const calls = Array.from({ length: together }, (_, index) => callOf(index, first + index, policy, moments));
  const connections = await Promise.all(calls.map((call) => begun(subject, policy, call)));
  const waiting = calls.filter(({ script }) => script.waitsAfter !== undefined).map(({ script }) => script.id);
  const drained = policy === "drains" ? subject.draining(waiting.length) : undefined;
  const fired = drained ? [] : waiting.map((id) => subject.firing(id));
  const hungUpAt = new Map<number, number>();
  for (const [index, { script, manner }] of calls.entries()) {
    hungUpAt.set(script.id, nowMs());
    connections[index]?.hangUp(manner);
  }
  await drained;
  if (drained) await subject.goOn(waiting);
  await Promise.all(fired);
  // Some have closed one direction alone.
  for (const connection of connections) connection.hangUp("closes");
  const ending = calls.filter(({ payer }) => payer === "ended");
  return {
    units: ending.reduce((sum, { script }) => sum + unitsOf(script), 0),
    mayFire: drained ? [] : calls.filter(({ payer }) => payer !== "ended").map(({ script }) => script.id),
    delaysMs: drained ? [] : waiting.map((id) => (subject.fired.get(id) ?? Infinity) - (hungUpAt.get(id) ?? 0)),
  };
}

/** Every moment meets every manner and every form. */
function callOf(index: number, id: number, policy: Policy, moments: readonly Moment[]): Call {
  const moment = moments[index % moments.length] ?? "at once";
  const rest = Math.floor(index / moments.length);
  const manner = MANNERS[rest % MANNERS.length] ?? "closes";
  const form = FORMS[Math.floor(rest / MANNERS.length) % FORMS.length] as Form;
  const waitsAfter = WAITS_AFTER[moment];
  const script: Script = {
    ...scriptOf(id),
    ...(waitsAfter !== undefined && { waitsAfter }),
    ...(moment === "at once" && { slow: true }),
  };
  return { script, form, manner, moment, payer: payerOf(moment, policy) };
}

function payerOf(moment: Moment, policy: Policy): Payer {
  // Nobody can know how far it comes before its client is seen to be gone.
  if (moment === "at once" || moment === "while asking") return "raced";
  return moment === "after the last" || policy === "drains" ? "ended" : "cut";
}

/** The connection of a call that is at its moment. */
async function begun(subject: Subject, policy: Policy, { script, form, moment, payer }: Call): Promise<Connection> {
  const connection = new Connection(subject.port(policy));
  const waiting = subject.waiting(script.id);
  const request = requestOf(form, script, payer);
  await connection.send(moment === "while asking" ? request.slice(0, -10) : request);
  if (script.waitsAfter !== undefined) await waiting;
  if (moment === "after the last") await connection.until(form.last);
  return connection;
}
