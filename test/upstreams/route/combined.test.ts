/** The options of a route together: what one of them does must hold for the others, too. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/errors.ts";
import { type CallRecord, createGateway, memoryQuotaStore, type MemoryQuotaStore } from "../../../src/index.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import type { Conversion } from "../../../src/model/conversion.ts";
import type { ModelBackend } from "../../../src/ports/model-backend.ts";
import type { UpstreamOutcome } from "../../../src/ports/observer.ts";
import { manualClock, type ManualClock } from "../../../src/testing/laws/manual-clock.ts";
import { promptCache } from "../../../src/upstreams/affinity/index.ts";
import {
  balance,
  canary,
  hedge,
  type Route,
  route,
  type RouteBackend,
  type RouteUpstream,
  shadow,
  type ShadowAnswer,
} from "../../../src/upstreams/route/index.ts";
import { callContext } from "../relay/stage.ts";
import { ask, type Attempted, begin, observing, type Scripted, scripted, type Step } from "./stage.ts";

const WHOLE = "Now is the winter of our discontent";
const CUT = 10;
const HANG = 1e9;

const said = (text: string): ChatEvent => ({ type: "text-delta", text });
const start = (inputTokens: number): ChatEvent => ({ type: "start", usage: { inputTokens } });
const finish = (outputTokens: number): ChatEvent => ({ type: "finish", reason: "stop", usage: { outputTokens } });
const broke = (): GatewayError => new GatewayError("backend_failed", "The connection is gone.");

/** Begins the answer, and breaks off. */
const BREAKS: readonly Step[] = [start(10), said(WHOLE.slice(0, CUT)), broke()];
/** The rest of the answer. */
const RESTS: readonly Step[] = [start(30), said(WHOLE.slice(CUT)), finish(25)];

const textOf = (events: readonly (ChatEvent | string)[]): string =>
  events.map((event) => (typeof event === "string" ? event : event.type === "text-delta" ? event.text : "")).join("");

interface Stage {
  readonly backend: RouteBackend;
  readonly clock: ManualClock;
  readonly all: Readonly<Record<string, Scripted>>;
}

/** Makes a route. Its first upstream has all the weight. */
function stage(
  scripts: Readonly<Record<string, (call: number) => readonly Step[]>>,
  target: Omit<Route, "upstreams"> | ((clock: ManualClock) => Omit<Route, "upstreams">),
  members: Readonly<Record<string, Partial<ModelBackend>>> = {},
): Stage {
  const clock = manualClock();
  const all = Object.fromEntries(
    Object.entries(scripts).map(([name, steps]) => [name, Object.assign(scripted(clock, steps), members[name])]),
  );
  const upstreams = Object.entries(all).map(([name, backend], at): RouteUpstream => ({
    name,
    backend,
    weight: at === 0 ? 1 : 0,
  }));
  const more = typeof target === "function" ? target(clock) : target;
  const backend = route({ routes: { m: { upstreams, ...more } }, clock, random: () => 0, retry: { rounds: 0 } });
  return { backend, clock, all };
}

const asked = ({ all }: Stage): Record<string, number> =>
  Object.fromEntries(Object.entries(all).map(([name, { requests }]) => [name, requests.length]));

interface Charged {
  readonly quotas: MemoryQuotaStore;
  readonly records: CallRecord[];
  /** The ends of the attempts, as the observer hears of them. */
  readonly ends: (UpstreamOutcome | undefined)[];
  /** Asks with a client of messages. */
  readonly fetch: (init?: RequestInit & { readonly stream?: boolean }) => Promise<Response>;
}

/** Puts a gateway before a backend. Its prices are those of the upstreams' names. */
function charged(backend: ModelBackend, clock: ManualClock, prices: Readonly<Record<string, number>> = {}): Charged {
  const quotas = memoryQuotaStore([{ apiKey: "sk-1", id: "one", granted: 10_000_000 }], { clock });
  const records: CallRecord[] = [];
  const ends: (UpstreamOutcome | undefined)[] = [];
  const gateway = createGateway({
    backend,
    quotas,
    clock,
    countTokens: (text) => text.length,
    onCall: (record) => void records.push(record),
    onFailure: () => {},
    price: ({ inputTokens, outputTokens }, _model, _kind, upstream) =>
      (inputTokens + outputTokens) * (prices[upstream?.name ?? ""] ?? 1),
    observer: {
      begin: () => ({
        upstream() {
          const at = ends.push(undefined) - 1;
          return { headers: {}, run: (work) => work(), end: (outcome) => void (ends[at] = outcome) };
        },
        end: () => {},
      }),
    },
  });
  const body = { model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hi" }] };
  return {
    quotas,
    records,
    ends,
    fetch: ({ stream = true, ...init } = {}) =>
      gateway.fetch(
        new Request("http://gateway.test/v1/messages", {
          method: "POST",
          headers: { "x-api-key": "sk-1", "anthropic-version": "2023-06-01", "content-type": "application/json" },
          body: JSON.stringify({ ...body, stream }),
          ...init,
        }),
      ),
  };
}

/** Reads an answer to its end, or to its error, while time passes. */
async function read(answer: Promise<Response>, clock: ManualClock): Promise<string> {
  const texts: string[] = [];
  void answer.then((response) => response.text()).then((text) => texts.push(text));
  while (texts.length === 0) await clock.advance(10);
  return texts.join("");
}

/** Reports its attempt as a relay does. */
function reporting(backend: ModelBackend): ModelBackend {
  return {
    async *chat(request, call) {
      const attempt = call.observeUpstream?.({ format: "f", model: request.model, modelListed: true, stream: true });
      let errorCode: GatewayError["code"] | undefined;
      try {
        yield* backend.chat?.(request, call) ?? [];
      } catch (error) {
        errorCode = call.signal.aborted ? "client_closed" : "backend_failed";
        throw error;
      } finally {
        attempt?.end({ endMs: 1, errorCode: errorCode ?? (call.signal.aborted ? "client_closed" : undefined) });
      }
    },
  };
}

const refuse = (): void => {
  throw new GatewayError("invalid_request", "of no known type");
};

describe("a canary", () => {
  const options = { upstreams: ["new", "newer"], share: 0 };

  it("hides new upstreams from other keys, also for the rest of an answer", async () => {
    const one = stage(
      { old: () => BREAKS, new: () => RESTS, newer: () => RESTS },
      { canary: canary(options), onBreak: "continue" },
    );
    expect((await ask(one.backend, one.clock)).error).toMatchObject({ code: "backend_failed" });
    expect(asked(one)).toEqual({ old: 1, new: 0, newer: 0 });
  });

  it("hides new upstreams from other keys, also where they alone take a request or count first", async () => {
    const one = stage(
      { new: () => ["new"], newer: () => ["newer"], old: () => ["old"] },
      { canary: canary(options) },
      {
        new: { takesUnknown: true, countInputTokens: async () => 1 },
        old: { countInputTokens: async () => 2 },
      },
    );
    const request = { model: "m", messages: [] } as unknown as ChatRequest;
    expect(await one.backend.countInputTokens?.(request, callContext())).toBe(2);
    const unknown = { native: { format: "f", body: {}, betas: [], assertKnown: refuse } };
    expect((await ask(one.backend, one.clock, unknown)).error).toMatchObject({ code: "invalid_request" });
    expect(asked(one)).toEqual({ new: 0, newer: 0, old: 0 });
  });

  it("goes on with the usual upstream where the new one of its keys breaks off", async () => {
    const one = stage(
      { old: () => RESTS, new: () => BREAKS },
      { canary: canary({ upstreams: ["new"], share: 1 }), onBreak: "continue" },
    );
    expect(textOf((await ask(one.backend, one.clock)).events)).toBe(WHOLE);
    expect(asked(one)).toEqual({ old: 1, new: 1 });
  });
});

describe("a hedged call", () => {
  const hedged = { hedge: hedge({ afterMs: 100, share: 1 }) };

  it("that breaks off goes on with the upstream that was outrun, and each is charged for what the caller has", async () => {
    const one = stage(
      { slow: (call) => (call === 0 ? [HANG] : RESTS), quick: () => BREAKS },
      { ...hedged, onBreak: "continue" },
    );
    const { fetch, quotas, records } = charged(one.backend, one.clock, { slow: 100, quick: 1 });
    expect(await read(fetch(), one.clock)).toContain('"stop_reason":"end_turn"');
    expect(records[0]?.attempts.map(({ upstream, movedOn }) => [upstream, movedOn])).toEqual([
      ["slow", "outrun"],
      ["quick", "broke-off"],
      ["slow", undefined],
    ]);
    expect(records[0]?.units).toBe(20 + 55 * 100);
    expect(quotas.report("one")).toMatchObject({ used: 5_520, held: 0, liveHolds: 0, overdraft: 0 });
  });

  it("leaves the call to the first upstream where the second refuses the request", async () => {
    const { backend, clock } = stage(
      { first: () => [300, "first"], second: () => [50, new GatewayError("invalid_request", "wrong")] },
      hedged,
    );
    expect(await ask(backend, clock)).toMatchObject({ text: "first", error: undefined });
  });

  it("keeps what the first upstream has reported where the second fails", async () => {
    const { backend, clock, all } = stage({ first: () => [300, "first"], second: () => [50, broke()] }, hedged);
    let conversions: readonly Conversion[] = [];
    const asked = begin(backend, {}, { reportConversions: (reported) => void (conversions = reported) });
    await clock.advance(50);
    all["first"]?.calls[0]?.reportConversions([{ field: "first", conversion: "dropped", why: "" }]);
    await clock.advance(300);
    expect([asked.text, conversions]).toMatchObject(["first", [{ field: "first" }]]);
  });

  it("asks nobody for an upstream that was outrun before it has sent its request", async () => {
    const clock = manualClock();
    const sent: string[] = [];
    const late: ModelBackend = {
      async *chat(request, call) {
        await new Promise<void>((resolve) => void clock.after(500, resolve));
        call.observeUpstream?.({ format: "f", model: request.model, modelListed: true, stream: true });
        sent.push(request.model);
        yield "late";
      },
    };
    const upstreams = [
      { name: "first", backend: reporting(scripted(clock, () => [150, "first"])) },
      { name: "late", backend: late, weight: 0 },
    ];
    const backend = route({ routes: { m: { upstreams, ...hedged } }, clock, random: () => 0 });
    const attempts: Attempted[] = [];
    const asked = begin(backend, {}, observing(attempts));
    await clock.advance(2_000);
    expect([asked.text, sent]).toEqual(["first", []]);
    expect(attempts).toMatchObject([
      { name: "first", isChosen: true },
      { name: "late", movedOn: "outrun" },
    ]);
    expect(attempts).toHaveLength(2);
  });

  it.each([
    ["the caller leaves", [start(900), HANG], [HANG]],
    ["both fail", [{ type: "usage", usage: { inputTokens: 900 } }, 500, broke()], [50, broke()]],
    ["the second fails and the caller leaves", [start(900), HANG], [50, broke()]],
    ["the first fails and the caller leaves", [150, broke()], [start(300), HANG]],
  ] satisfies [string, Step[], Step[]][])(
    "has the price of the upstream whose counts it has, where %s",
    async (name, first, second) => {
      const clock = manualClock();
      const upstreams = [
        { name: "first", backend: reporting(scripted(clock, () => first)) },
        { name: "second", backend: reporting(scripted(clock, () => second)), weight: 0 },
      ];
      const routes = { m: { upstreams, ...hedged } };
      const backend = route({ routes, clock, random: () => 0, retry: { rounds: 0 } });
      const { fetch, records, quotas } = charged(backend, clock, { first: 1, second: 3 });
      const leaving = new AbortController();
      const answer = fetch({ signal: leaving.signal }).then(
        (response) => response.text(),
        () => "",
      );
      await clock.advance(400);
      if (name.includes("leaves")) leaving.abort();
      await clock.advance(1_000);
      await answer;
      // 900 tokens of the first at 1, or 300 of the second at 3. A caller who leaves has got an estimated token, too.
      expect([900, 901, 903]).toContain(records[0]?.units);
      expect(quotas.report("one")).toMatchObject({ used: records[0]?.units, held: 0, liveHolds: 0 });
    },
  );
});

describe("an answer that may go on after a break", () => {
  it("is told to observers to its end, also where its caller leaves in the middle", async () => {
    const clock = manualClock();
    const upstreams = [reporting(scripted(clock, () => [start(10), said("Now"), said(" is"), HANG]))];
    const backend = route({ routes: { m: { upstreams, onBreak: "continue" } }, clock });
    const { fetch, ends, records } = charged(backend, clock);
    const leaving = new AbortController();
    const reader = (await fetch({ signal: leaving.signal })).body?.getReader();
    await reader?.read();
    leaving.abort();
    await reader?.cancel();
    await clock.advance(10);
    expect([records.length, ends]).toMatchObject([1, [{ errorCode: "client_closed" }]]);
  });

  it("ends its attempt where the reader stops it between two events", async () => {
    const clock = manualClock();
    const upstreams = [reporting(scripted(clock, () => ["Now", " is", HANG]))];
    const backend = route({ routes: { m: { upstreams, onBreak: "continue" } }, clock });
    const attempts: Attempted[] = [];
    const abort = new AbortController();
    const call = { ...callContext(abort.signal), signal: abort.signal, ...observing(attempts) };
    for await (const _ of backend.chat?.({ model: "m", messages: [], tools: [], stream: true } as never, call) ?? []) {
      abort.abort(new GatewayError("client_closed", "gone"));
      break;
    }
    expect(attempts).toMatchObject([{ errorCode: "client_closed" }]);
  });

  it("counts an end without a finish as a failure of its upstream", async () => {
    const one = stage({ first: () => BREAKS.slice(0, -1), second: () => RESTS }, { onBreak: "continue" });
    const attempts: Attempted[] = [];
    expect(textOf((await ask(one.backend, one.clock, {}, observing(attempts))).events)).toBe(WHOLE);
    expect(attempts).toMatchObject([{ errorCode: "backend_failed", movedOn: "broke-off" }, { name: "second" }]);
    expect(attempts[1]?.errorCode).toBeUndefined();
    expect(one.backend.status()[0]?.lastFailure).toMatchObject({ code: "backend_failed" });
  });

  it("may end without a finish where the next upstream counts nothing", async () => {
    const one = stage({ first: () => BREAKS, second: () => [WHOLE.slice(CUT)] }, { onBreak: "continue" });
    expect(await ask(one.backend, one.clock)).toMatchObject({ error: undefined });
    const { fetch, records } = charged(one.backend, one.clock);
    expect(await read(fetch(), one.clock)).toContain('"stop_reason":"end_turn"');
    const { inputTokens = 0, outputTokens = 0 } = records[0]?.usage ?? {};
    expect(records[0]).toMatchObject({ outcome: "completed", units: inputTokens + outputTokens });
    expect([inputTokens > 20, outputTokens > 20]).toEqual([true, true]);
  });

  it("does not charge the second upstream for what the first has written, where nobody has seen its tool calls", async () => {
    const call: ChatEvent = { type: "tool-call-start", id: "c", name: "look" };
    const long = "word ".repeat(200);
    const one = stage(
      {
        first: () => [start(10), said(long), { type: "usage", usage: { outputTokens: 500 } }, broke()],
        second: () => [start(300), call, { type: "tool-call-delta", id: "c", json: '{"a' }, broke()],
        third: () => [start(300), said("end"), finish(3)],
      },
      { onBreak: "continue" },
    );
    const { events } = await ask(one.backend, one.clock, { stream: false });
    const counts = events.flatMap((event) =>
      typeof event === "object" && event.type === "usage" ? event.usage.outputTokens : [],
    );
    expect(counts).toEqual([500, 1]);
  });

  it("in a route of a route is charged for each upstream", async () => {
    const inner = stage({ first: () => BREAKS, second: () => RESTS }, { onBreak: "continue" });
    const prices = { outer: 1 };
    for (const onBreak of ["continue", "fail"] as const) {
      const upstreams = [{ name: "outer", backend: inner.backend }];
      const backend = route({ routes: { "*": { upstreams, onBreak } }, clock: inner.clock });
      const { fetch, records, quotas } = charged(backend, inner.clock, prices);
      expect(await read(fetch(), inner.clock)).toContain('"stop_reason":"end_turn"');
      expect(records[0]).toMatchObject({ units: 75, usage: { inputTokens: 40, outputTokens: 35 } });
      expect(quotas.report("one")).toMatchObject({ used: 75, held: 0, liveHolds: 0 });
    }
  });

  it("in a route that is hedged is charged for each upstream, and costs nothing where it is outrun", async () => {
    const inner = stage({ first: () => [300, ...BREAKS], second: () => RESTS }, { onBreak: "continue" });
    const upstreams = [
      { name: "outer", backend: inner.backend },
      { name: "other", backend: scripted(inner.clock, () => [HANG]), weight: 0 },
    ];
    const routes = { "*": { upstreams, hedge: hedge({ afterMs: 100, share: 1 }) } };
    const backend = route({ routes, clock: inner.clock, random: () => 0 });
    const { fetch, records, quotas } = charged(backend, inner.clock);
    expect(await read(fetch(), inner.clock)).toContain('"stop_reason":"end_turn"');
    expect(records[0]).toMatchObject({ units: 75 });
    expect(quotas.report("one")).toMatchObject({ used: 75, held: 0, liveHolds: 0 });
  });
});

describe("the choice of upstreams", () => {
  it("by speed measures the rest of an answer as its upstream writes it", async () => {
    const clock = manualClock();
    // After frames of the caller's own format, the rest begins with an event of the route's own.
    const frames = [{ data: "{}" }];
    const native: ChatEvent = { type: "native", format: "f", frames, events: [start(10), said("Now")] as never };
    const backends = {
      first: scripted(clock, (call) => (call === 0 ? [100, native, broke()] : [100, "first"])),
      second: scripted(clock, () => [start(30), 9_000, said(" is"), finish(2)]),
    };
    const upstreams = Object.entries(backends).map(([name, one]) => ({ name, backend: one }));
    const backend = route({
      routes: { m: { upstreams, balance: balance({ by: "latency", halfLifeMs: 1e9 }), onBreak: "continue" } },
      clock,
      random: () => 0,
    });
    const request = { native: { format: "f", body: {}, betas: [] } };
    for (let call = 0; call < 3; call++) await ask(backend, clock, request);
    // The first has taken 0.1 s, and its failure counts as ten seconds. The second has taken nine.
    expect(Object.values(backends).map(({ requests }) => requests.length)).toEqual([3, 1]);
  });

  it("by the cache knows the upstream that has gone on, and learns no counts from a rest", async () => {
    const prices: number[] = [];
    const price = ({ inputTokens, cacheReadTokens }: { inputTokens: number; cacheReadTokens: number }): number => {
      prices.push(inputTokens);
      return inputTokens - 0.9 * cacheReadTokens;
    };
    const clock = manualClock();
    const noted: string[] = [];
    const memory = {
      find: (_tenant: string, ids: readonly number[]) => ids.map(() => []),
      note: (_tenant: string, upstream: string) => void noted.push(upstream),
    };
    const backends = {
      first: scripted(clock, (call) => (call === 0 ? BREAKS : ["later"])),
      second: scripted(clock, () => [
        start(3_000_000),
        said(WHOLE.slice(CUT)),
        { ...finish(1), usage: { inputTokens: 3_000_000, cacheReadTokens: 0, outputTokens: 1 } } as ChatEvent,
      ]),
    };
    const upstreams = Object.entries(backends).map(([name, backend], at) => ({
      name,
      backend,
      weight: at === 0 ? 1 : 0,
    }));
    const backend = route({
      routes: { m: { upstreams, affinity: promptCache({ memory, price }), onBreak: "continue" } },
      clock,
    });
    const messages = [{ role: "user" as const, parts: [{ type: "text" as const, text: "x".repeat(400) }] }];
    await ask(backend, clock, { messages });
    expect(noted).toEqual(["first", "second"]);
    prices.length = 0;
    await ask(backend, clock, { messages });
    expect(Math.max(...prices)).toBeLessThan(10_000);
  });
});

it("does everything at once, and charges what its caller has", async () => {
  const answers: ShadowAnswer[] = [];
  const one = stage(
    { usual: () => RESTS, new: (call) => (call === 0 ? [HANG] : [broke()]), spare: () => BREAKS },
    (clock) => ({
      affinity: promptCache(),
      balance: balance({ by: "latency" }),
      canary: canary({ upstreams: ["new", "spare"], share: 1 }),
      hedge: hedge({ afterMs: 100, share: 1 }),
      shadow: shadow({
        upstream: { backend: scripted(clock, () => [start(1_000), said("copied"), finish(7)]), name: "copy" },
        share: 1,
        onAnswer: (answer) => void answers.push(answer),
      }),
      onBreak: "continue",
    }),
  );
  const prices = { usual: 2, new: 10, spare: 3, copy: 1_000 };
  const { fetch, records, quotas, ends } = charged(one.backend, one.clock, prices);
  expect(await read(fetch(), one.clock)).toContain('"stop_reason":"end_turn"');
  await one.clock.advance(100);
  expect(records[0]?.attempts.map(({ upstream, movedOn }) => [upstream, movedOn])).toEqual([
    ["new", "outrun"],
    ["spare", "broke-off"],
    ["new", "failed"],
    ["usual", undefined],
  ]);
  expect(records[0]?.units).toBe(20 * 3 + 55 * 2);
  expect(quotas.report("one")).toMatchObject({ used: 170, held: 0, liveHolds: 0, overdraft: 0 });
  expect(answers).toMatchObject([{ requestId: records[0]?.requestId, usage: { inputTokens: 1_000, outputTokens: 7 } }]);
  expect(ends.every(Boolean)).toBe(true);
  expect(asked(one)).toEqual({ usual: 1, new: 2, spare: 1 });
});

/** An answer: how long it waits, how much it says, and how it ends. */
interface Play {
  readonly waitMs: number;
  readonly hasStart: boolean;
  /** The characters of the answer that it writes, from those that the caller has on. */
  readonly chars: number;
  readonly pauseMs: number;
  readonly end: "finish" | "break" | "refuse" | "hang" | "nothing";
}

const play: fc.Arbitrary<Play> = fc.record({
  waitMs: fc.constantFrom(0, 50, 99, 101, 250),
  hasStart: fc.boolean(),
  chars: fc.constantFrom(0, 1, 7, 40),
  pauseMs: fc.constantFrom(0, 0, 30, 120),
  end: fc.constantFrom("finish", "finish", "break", "break", "refuse", "hang", "nothing"),
});

/** Answers as the play says. Goes on behind a turn of the assistant at the end. */
function player(plays: readonly Play[], wait: (ms: number, signal: AbortSignal) => Promise<void>): ModelBackend {
  let call = 0;
  return {
    async *chat({ messages }, { signal }) {
      const { waitMs, hasStart, chars, pauseMs, end } = plays[call++ % plays.length] as Play;
      const last = messages.at(-1);
      const part = last?.role === "assistant" ? last.parts.at(-1) : undefined;
      const from = part?.type === "text" ? part.text.length : 0;
      await wait(waitMs, signal);
      if (hasStart) yield start(10);
      for (const letter of WHOLE.slice(from, end === "finish" ? undefined : from + chars)) {
        yield said(letter);
        if (pauseMs > 0) await wait(pauseMs / 10, signal);
      }
      if (end === "hang") await wait(HANG, signal);
      if (end === "break") throw broke();
      if (end === "refuse") throw new GatewayError("invalid_request", "wrong");
      if (end === "finish") yield finish(5);
    },
  };
}

it("settles every hold, ends every attempt and leaves no timer, whatever the upstreams and the caller do", async () => {
  const scripts = fc.array(fc.array(play, { minLength: 1, maxLength: 2 }), { minLength: 3, maxLength: 3 });
  const options = fc.record({
    onBreak: fc.constantFrom("fail", "continue"),
    hedges: fc.boolean(),
    hasAffinity: fc.boolean(),
    balances: fc.boolean(),
    hasCanary: fc.boolean(),
    isReported: fc.boolean(),
    stream: fc.boolean(),
    leaveMs: fc.option(fc.nat(600)),
  });
  await fc.assert(
    fc.asyncProperty(scripts, options, async (plays, set) => {
      const clock = manualClock();
      const wait = (ms: number, signal: AbortSignal): Promise<void> =>
        new Promise((resolve, reject) => {
          if (signal.aborted) return reject(signal.reason as Error);
          const cancel = clock.after(ms, resolve);
          signal.addEventListener("abort", () => (cancel(), reject(signal.reason as Error)), { once: true });
        });
      const upstreams = plays.map((one, at): RouteUpstream => {
        const backend = player(one, wait);
        return { name: `up-${at}`, backend: set.isReported ? reporting(backend) : backend };
      });
      const target: Route = {
        upstreams,
        onBreak: set.onBreak,
        ...(set.hedges && { hedge: hedge({ afterMs: 100, share: 1 }) }),
        ...(set.hasAffinity && { affinity: promptCache() }),
        ...(set.balances && { balance: balance({ by: "throughput" }) }),
        ...(set.hasCanary && { canary: canary({ upstreams: ["up-2"], share: 0 }) }),
      };
      const backend = route({ routes: { m: target }, clock, random: () => 0, retry: { rounds: 1, share: 1 } });
      const { fetch, quotas, records, ends } = charged(backend, clock, { "up-0": 1, "up-1": 3, "up-2": 5 });
      const leaving = new AbortController();
      const texts: string[] = [];
      void fetch({ ...(set.leaveMs !== null && { signal: leaving.signal }), stream: set.stream })
        .then((response) => response.text())
        .then(
          (text) => texts.push(text),
          () => texts.push(""),
        );
      if (set.leaveMs !== null) {
        await clock.advance(set.leaveMs);
        leaving.abort();
      }
      for (let step = 0; step < 400 && (texts.length === 0 || records.length === 0); step++) await clock.advance(50);
      // A silent upstream is cut by the deadline of the call.
      if (records.length === 0) await clock.advance(3_600_000);
      await clock.advance(0);
      const [record] = records;
      expect(records).toHaveLength(1);
      expect(quotas.report("one")).toMatchObject({ used: record?.units, held: 0, liveHolds: 0 });
      expect([ends.length, ends.filter((end) => end === undefined)]).toEqual([expect.any(Number), []]);
      expect(clock.pending).toBe(0);
      const reached = record?.attempts.some(({ upstream }) => upstream === "up-2");
      expect(set.hasCanary && reached).toBe(false);
      const written = Array.from((texts[0] ?? "").matchAll(/"text_delta","text":"([^"]*)"/g), ([, text]) => text).join(
        "",
      );
      expect(WHOLE.startsWith(written)).toBe(true);
      for (const { state } of backend.status()) expect(state).not.toBe("half-open");
    }),
    { numRuns: 150 },
  );
});

describe("a function of the host that is async by mistake", () => {
  const rejects = (async () => {
    throw new Error("no");
  }) as never;

  it.each<[string, Omit<Route, "upstreams">]>([
    ["the share of a canary", { canary: canary({ upstreams: ["second"], share: rejects }) }],
    ["the price of a balance", { balance: balance({ by: "price", price: rejects }) }],
    ["the tenant of an affinity", { affinity: promptCache({ tenantOf: rejects }) }],
    ["the price of an affinity", { affinity: promptCache({ price: rejects }) }],
  ])("ends neither a call nor the process: %s", async (_name, target) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const { backend, clock } = stage({ first: () => ["first"], second: () => ["second"] }, target);
      expect(await ask(backend, clock)).toMatchObject({ text: "first", error: undefined });
      await clock.advance(10);
    } finally {
      process.off("unhandledRejection", note);
    }
    expect(unhandled).toEqual([]);
  });
});

it.each([
  { upstream: "first", ageMs: Infinity, lifetimeMs: Infinity },
  { upstream: "first", ageMs: "1", lifetimeMs: "x" },
  { upstream: "first", ageMs: NaN, lifetimeMs: 5 },
  { upstream: "first", ageMs: 1, lifetimeMs: Number.MIN_VALUE },
])("asks upstreams although a memory of prefixes lies: %o", async (use) => {
  const memory = { find: (_: string, ids: readonly number[]) => ids.map(() => [use as never]), note: () => {} };
  const { backend, clock } = stage(
    { first: () => ["first"], second: () => ["second"] },
    { affinity: promptCache({ memory, minTokens: 0 }) },
  );
  expect(await ask(backend, clock)).toMatchObject({ text: "first", error: undefined });
});
