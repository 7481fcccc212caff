/**
 * A provider of chat completions that fails in sixteen ways, and the rules by which a gateway passes: the scenarios of FailoverBench's
 * catalogue (methodology 0.1), told in other words. The name of the model chooses the fault.
 */

import type { Socket } from "node:net";
import type { ManualClock } from "../../../src/testing/laws/manual-clock.ts";
import { head, type RawAnswer, STREAM_HEAD, whole } from "../relay/raw-upstream.ts";
import { lastTurns } from "./speakers.ts";

/** The answer to every request: sixty words. */
export const ANSWER: string = Array.from({ length: 60 }, (_, at) => `word${at + 1}`).join(" ");

/** A request as the provider has seen it. */
export interface Seen {
  readonly model: string;
  /** The virtual time since the beginning of the scenario, in milliseconds. */
  readonly atMs: number;
  readonly action: string;
}

/** A fault: answers a request, and returns what it did. Undefined leaves the request to the healthy answer. */
type Fault = (asked: Asked) => string | undefined;

interface Asked {
  readonly socket: Socket;
  /** The number of requests of this model so far, with this one. */
  readonly attempt: number;
  readonly atMs: number;
  readonly clock: ManualClock;
  readonly answer: (how?: Partial<How>) => void;
}

interface How {
  /** The number of words before the stream is cut. */
  readonly cutAfter: number;
  /** The number of words before silence, and its length in milliseconds. */
  readonly stallAfter: number;
  readonly stallMs: number;
  /** The number of words before a chunk that is no JSON. */
  readonly garbageAfter: number;
  readonly omitsDone: boolean;
  readonly waitMs: number;
}

const refuses = (
  { socket }: Asked,
  status: number,
  code: string,
  headers: Readonly<Record<string, string>> = {},
): string => {
  const type = status === 429 ? "rate_limit_error" : status < 500 ? "invalid_request_error" : "server_error";
  const body = JSON.stringify({ error: { message: `Refused: ${code}.`, type, param: null, code } });
  socket.end(whole(status, "application/json", body, { connection: "close", ...headers }));
  return `${status} ${code}`;
};

const FAULTS: Readonly<Record<string, Fault>> = {
  s01: (asked) =>
    asked.attempt === 1 ? refuses(asked, 429, "rate_limit_exceeded", { "retry-after": "2" }) : undefined,
  s02: (asked) => refuses(asked, 429, "rate_limit_exceeded"),
  s03: (asked) => (asked.attempt === 1 ? refuses(asked, 500, "failed") : undefined),
  s04: (asked) => refuses(asked, 503, "overloaded"),
  s05({ attempt, socket }) {
    if (attempt > 1) return undefined;
    socket.resetAndDestroy();
    return "reset";
  },
  s06({ socket, clock }) {
    clock.after(120_000, () => socket.destroy());
    return "silent";
  },
  s07({ answer }) {
    answer({ waitMs: 20_000 });
    return "slow";
  },
  s08({ answer }) {
    answer({ cutAfter: 40 });
    return "cut";
  },
  s09({ answer }) {
    answer({ stallAfter: 20, stallMs: 30_000 });
    return "stalled";
  },
  s10({ answer }) {
    answer({ garbageAfter: 10 });
    return "garbage";
  },
  s11({ answer }) {
    answer({ omitsDone: true });
    return "200";
  },
  s12: (asked) => refuses(asked, 400, "context_length_exceeded"),
  s13: (asked) => refuses(asked, 400, "content_policy_violation"),
  s14({ answer }) {
    answer({ cutAfter: 40 });
    return "cut";
  },
  s15: (asked) => (asked.atMs < 60_000 ? refuses(asked, 503, "overloaded") : undefined),
  s16: (asked) => refuses(asked, 503, "overloaded"),
};

const chunk = (fields: object): string => `data: ${JSON.stringify({ object: "chat.completion.chunk", ...fields })}\n\n`;

/** The provider: its answers, and the requests that it has seen. */
export class FaultyProvider {
  seen: Seen[] = [];
  readonly #clock: ManualClock;
  #beganAt: number;

  constructor(clock: ManualClock) {
    this.#clock = clock;
    this.#beganAt = clock.now();
  }

  /** Begins a scenario. */
  reset(): void {
    this.seen = [];
    this.#beganAt = this.#clock.now();
  }

  readonly answer: RawAnswer = (socket, { body }) => {
    const request = JSON.parse(body) as { model: string; stream?: boolean };
    const { model, stream = false } = request;
    const { said, instruction } = lastTurns(body);
    const atMs = this.#clock.now() - this.#beganAt;
    const attempt = this.seen.filter((one) => one.model === model).length + 1;
    const note = (action: string): void => void this.seen.push({ model, atMs, action });
    const prefill = said !== undefined && instruction === undefined ? said : "";
    if (prefill !== "" && model === "ok-noprefill") {
      note("400 prefill");
      refuses({ socket } as Asked, 400, "invalid_prefill");
      return;
    }
    // It goes on with a prefill, and answers anything else from the beginning.
    const text = ANSWER.startsWith(prefill) ? ANSWER.slice(prefill.length) : ANSWER;
    const answer = (how: Partial<How> = {}): void => this.#write(socket, model, stream, text, how);
    const action = FAULTS[model]?.({ socket, attempt, atMs, clock: this.#clock, answer });
    note(action ?? "200");
    if (action === undefined) answer();
  };

  #write(socket: Socket, model: string, stream: boolean, text: string, how: Partial<How>): void {
    const words = text.split(/(?= )/);
    const id = `chatcmpl-${this.seen.length}`;
    const usage = { prompt_tokens: 20, completion_tokens: words.length, total_tokens: 20 + words.length };
    if (!stream) {
      const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }];
      const answer = { id, object: "chat.completion", created: 1, model, choices, usage };
      socket.end(whole(200, "application/json", JSON.stringify(answer), { connection: "close" }));
      return;
    }
    const of = (delta: object, finish_reason: string | null = null): string =>
      chunk({ id, created: 1, model, choices: [{ index: 0, delta, finish_reason }] });
    const { cutAfter, stallAfter, stallMs = 0, garbageAfter, omitsDone, waitMs = 0 } = how;
    const isCut = cutAfter !== undefined || stallAfter !== undefined;
    // A cut answer promises more bytes than come.
    const promised = head(200, { "content-type": "text/event-stream", "content-length": 999_999 });
    socket.write(isCut ? promised : STREAM_HEAD);
    const rest = (): void => {
      socket.write(of({ role: "assistant", content: "" }));
      for (const [at, word] of words.entries()) {
        if (at === cutAfter) return void socket.end();
        if (at === stallAfter) return void this.#clock.after(stallMs, () => socket.end());
        if (at === garbageAfter) socket.write('data: {"choices": [{"delta": {"content": \n\n');
        socket.write(of({ content: word }));
      }
      socket.write(of({}, "stop") + chunk({ id, created: 1, model, choices: [], usage }));
      socket.end(omitsDone ? "" : "data: [DONE]\n\n");
    };
    if (waitMs > 0) this.#clock.after(waitMs, rest);
    else rest();
  }
}

/** The outcome of a call. */
export interface Called {
  readonly ok: boolean;
  readonly text: string;
  readonly model: string | undefined;
  readonly hasUsage: boolean;
  /** Virtual time. */
  readonly tookMs: number;
}

/** The facts of a scenario that its rules read. */
export interface Facts {
  readonly calls: readonly (Called & { readonly sentAtMs: number })[];
  readonly primary: readonly Seen[];
  readonly fallback: readonly Seen[];
  readonly prefillRefusals: number;
  /** True when a healthy call succeeds afterwards. */
  readonly isAlive: boolean;
}

/** A rule of conduct. A broken advisory rule makes a rescue partial; any other broken rule fails the scenario. */
interface Rule {
  readonly name: string;
  readonly isAdvisory?: boolean;
  holds(facts: Facts): boolean;
}

export interface Scenario {
  readonly id: string;
  readonly fault: string;
  readonly fallback?: string;
  readonly calls?: { readonly count: number; readonly everyMs: number };
  /** The call should end with the provider's error. Default: with the whole answer. */
  readonly wantsError?: true;
  readonly mostMs: number;
  readonly rules: readonly Rule[];
}

const advisory = (name: string, holds: Rule["holds"]): Rule => ({ name, isAdvisory: true, holds });
const rule = (name: string, holds: Rule["holds"]): Rule => ({ name, holds });
const took = ({ calls }: Facts): number => Math.max(...calls.map(({ tookMs }) => tookMs));
const within =
  (ms: number): Rule["holds"] =>
  (facts) =>
    took(facts) <= ms;
const atMost = (count: number): Rule => rule(`at most ${count} requests`, ({ primary }) => primary.length <= count);
const firstIn = (ms: number, most: number): Rule =>
  rule(
    "no hammering",
    ({ primary }) => primary.filter(({ atMs }) => atMs - (primary[0]?.atMs ?? 0) < ms).length <= most,
  );
const isWhole = ({ ok, text }: Called): boolean => ok && text === ANSWER;
const NO_TRUNCATION = rule("no truncated success", ({ calls }) => calls.every((call) => !call.ok || isWhole(call)));
const ALIVE = rule("alive afterwards", ({ isAlive }) => isAlive);
const ONCE = rule("no retry of the same model", ({ primary }) => primary.length === 1);
const OUTAGE_MS = 60_000;

export const SCENARIOS: readonly Scenario[] = [
  {
    id: "S01",
    fault: "429 with retry-after, once",
    mostMs: 20_000,
    rules: [
      advisory("asked again", ({ primary }) => primary.length >= 2),
      advisory(
        "after the time",
        ({ primary: [one, two] }) => one !== undefined && two !== undefined && two.atMs - one.atMs >= 1_800,
      ),
      firstIn(1_500, 2),
    ],
  },
  { id: "S02", fault: "429 without retry-after, always", mostMs: 40_000, rules: [firstIn(3_000, 4), atMost(6)] },
  {
    id: "S03",
    fault: "500, once",
    mostMs: 20_000,
    rules: [advisory("asked again", ({ primary }) => primary.length >= 2)],
  },
  { id: "S04", fault: "503, always", mostMs: 40_000, rules: [atMost(6)] },
  { id: "S05", fault: "a reset before the headers, once", mostMs: 20_000, rules: [] },
  {
    id: "S06",
    fault: "no answer at all",
    mostMs: 130_000,
    rules: [
      rule("within 100 s", within(100_000)),
      advisory("the silent route is not retried", ({ primary }) => primary.length <= 1),
    ],
  },
  { id: "S07", fault: "the first word after 20 s", mostMs: 60_000, rules: [advisory("within 15 s", within(15_000))] },
  { id: "S08", fault: "cut after 40 of 60 words", mostMs: 40_000, rules: [NO_TRUNCATION] },
  {
    id: "S09",
    fault: "silence after 20 words",
    mostMs: 70_000,
    rules: [rule("within 45 s", within(45_000)), NO_TRUNCATION, ALIVE],
  },
  {
    id: "S10",
    fault: "a chunk that is no JSON",
    mostMs: 30_000,
    rules: [ALIVE, NO_TRUNCATION, advisory("the whole answer", ({ calls }) => calls.every(isWhole))],
  },
  {
    id: "S11",
    fault: "no [DONE]",
    mostMs: 30_000,
    rules: [
      rule("within 8 s", within(8_000)),
      advisory("usage", ({ calls }) => calls.every(({ hasUsage }) => hasUsage)),
    ],
  },
  { id: "S12", fault: "400 context_length_exceeded", mostMs: 20_000, rules: [ONCE] },
  { id: "S13", fault: "400 content_policy_violation", mostMs: 20_000, wantsError: true, rules: [ONCE] },
  {
    id: "S14",
    fault: "cut, and the fallback refuses a prefill",
    fallback: "ok-noprefill",
    mostMs: 40_000,
    rules: [
      rule(
        "the refusal masks no error",
        ({ calls, prefillRefusals }) => prefillRefusals === 0 || calls.every(({ ok }) => ok),
      ),
      NO_TRUNCATION,
    ],
  },
  {
    id: "S15",
    fault: "down for 60 s, then healthy",
    calls: { count: 20, everyMs: 4_000 },
    mostMs: 30_000,
    rules: [
      rule("served in the outage", ({ calls }) => calls.every(({ sentAtMs, ok }) => sentAtMs >= OUTAGE_MS || ok)),
      rule("back within 30 s", ({ primary }) => {
        const back = primary.find(({ action }) => action === "200");
        return back !== undefined && back.atMs - OUTAGE_MS <= 30_000;
      }),
    ],
  },
  {
    id: "S16",
    fault: "503, always: who is named?",
    mostMs: 40_000,
    rules: [
      rule(
        "the fallback is named",
        ({ calls, fallback }) => fallback.length === 0 || calls.every(({ model }) => model === "ok"),
      ),
      advisory("usage", ({ calls }) => calls.every(({ hasUsage }) => hasUsage)),
      atMost(6),
    ],
  },
];

export type Verdict = "pass" | "partial" | "safe" | "fail";

/** Judges a scenario, and names the broken rules. */
export function verdictOf({ mostMs, rules, wantsError }: Scenario, facts: Facts): [Verdict, ...string[]] {
  const { calls } = facts;
  if (took(facts) > mostMs) return ["fail", "it hangs"];
  if (!wantsError && calls.some((call) => call.ok && !isWhole(call))) return ["fail", "a truncated success"];
  const broken = rules.filter((one) => !one.holds(facts));
  const names = broken.map(({ name }) => name);
  if (broken.some(({ isAdvisory = false }) => !isAdvisory)) return ["fail", ...names];
  const isRescued = wantsError ? calls.every(({ ok }) => !ok) : calls.every(isWhole);
  if (wantsError && !isRescued) return ["partial", "the refusal was routed around"];
  if (!isRescued) return ["safe", ...names];
  return names.length > 0 ? ["partial", ...names] : ["pass"];
}
