/** A route that goes on after a break: limits, quota, prices, hooks, repetitions, hang-ups and deadlines hold for the answer as a whole. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type CallRecord,
  createGateway,
  GatewayError,
  type Failure,
  type Gateway,
  type GatewayOptions,
  type HookAnswer,
  type MemoryQuotaStore,
  memoryQuotaStore,
  memoryReplayStore,
} from "../../../src/index.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { ChatRequest } from "../../../src/model/chat-request.ts";
import type { ModelBackend } from "../../../src/ports/model-backend.ts";
import { manualClock, type ManualClock } from "../../../src/testing/laws/manual-clock.ts";
import { type Route, route, type RouteOptions, type RouteUpstream } from "../../../src/upstreams/route/index.ts";
import { anchorOf, Join } from "../../../src/upstreams/route/shown.ts";
import { aborted } from "../../aborted.ts";

const KEY = "sk-caller";
const WHOLE = "Now is the winter of our discontent";

type Yields = ChatEvent | string | Error;

/** A backend that yields some events, and then throws or falls silent. It notes what it is asked. */
interface Scripted extends ModelBackend {
  readonly asked: ChatRequest[];
  readonly signals: AbortSignal[];
}

function scripted(...events: readonly (Yields | ((request: ChatRequest) => readonly Yields[]))[]): Scripted {
  const backend: Scripted = {
    asked: [],
    signals: [],
    async *chat(request, call) {
      backend.asked.push(request);
      backend.signals.push(call.signal);
      for (const event of events.flatMap((one) => (typeof one === "function" ? one(request) : [one]))) {
        if (event instanceof Error) throw event;
        if (event !== "silence") yield event;
        else {
          await aborted(call.signal);
          call.signal.throwIfAborted();
        }
      }
    },
  };
  return backend;
}

const broke = (): Error => new Error("The connection is gone.");
const said = (text: string): ChatEvent => ({ type: "text-delta", text });
const start = (inputTokens: number): ChatEvent => ({ type: "start", id: "a1", usage: { inputTokens } });
const finish = (outputTokens: number): ChatEvent => ({ type: "finish", reason: "stop", usage: { outputTokens } });

/** Writes the rest behind the turn of the assistant at the end. */
const rest = ({ messages }: ChatRequest): Yields[] => {
  const last = messages.at(-1);
  const part = last?.role === "assistant" ? last.parts.at(-1) : undefined;
  return [said(WHOLE.slice(part?.type === "text" ? part.text.length : 0))];
};

interface Stage {
  readonly gateway: Gateway;
  readonly clock: ManualClock;
  readonly quotas: MemoryQuotaStore;
  readonly records: CallRecord[];
  readonly failures: Failure[];
  readonly ask: (more?: object, init?: RequestInit) => Promise<Response>;
}

function stage(
  upstreams: readonly (ModelBackend | RouteUpstream)[],
  options: { route?: Partial<RouteOptions>; granted?: number; gateway?: Partial<GatewayOptions> } = {},
): Stage {
  const clock = manualClock();
  const quotas = memoryQuotaStore([{ apiKey: KEY, id: "caller", granted: options.granted ?? 100_000 }], { clock });
  const records: CallRecord[] = [];
  const failures: Failure[] = [];
  const weighed = upstreams.map((one, at): RouteUpstream => ({
    name: `upstream-${at}`,
    weight: at === 0 ? 1 : 0,
    ...("backend" in one ? one : { backend: one }),
  }));
  const backend = route({ routes: { "*": { upstreams: weighed, onBreak: "continue" } }, clock, ...options.route });
  const gateway = createGateway({
    backend,
    quotas,
    clock,
    countTokens: (text) => text.length,
    onCall: (record) => void records.push(record),
    onFailure: (failure) => void failures.push(failure),
    ...options.gateway,
  });
  return {
    gateway,
    clock,
    quotas,
    records,
    failures,
    ask: (more = {}, init = {}) =>
      gateway.fetch(
        new Request("http://gateway.test/v1/messages", {
          method: "POST",
          headers: {
            "x-api-key": KEY,
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
            ...(init.headers as object),
          },
          body: JSON.stringify({
            model: "m",
            max_tokens: 100,
            stream: true,
            messages: [{ role: "user", content: "Hi" }],
            ...more,
          }),
          ...(init.signal && { signal: init.signal }),
        }),
      ),
  };
}

const textOf = async (response: Response): Promise<string> =>
  Array.from(
    (await response.text()).matchAll(/"text_delta","text":("(?:[^"\\]|\\.)*")/g),
    ([, json]) => JSON.parse(json ?? "") as string,
  ).join("");

const BEGUN = [start(10), said(WHOLE.slice(0, 10))] as const;

describe("an answer that goes on", () => {
  it("has the rest of its output limit", async () => {
    const second = scripted(start(30), rest, finish(25));
    const { ask } = stage([scripted(...BEGUN, broke()), second]);
    expect(await textOf(await ask({ max_tokens: 60 }))).toBe(WHOLE);
    expect(second.asked[0]?.maxOutputTokens).toBe(50);
  });

  it("ends by its length where no token is left", async () => {
    const second = scripted("never");
    const { ask, records } = stage([scripted(...BEGUN, broke()), second]);
    const text = await (await ask({ max_tokens: 10 })).text();
    expect(text).toContain('"stop_reason":"max_tokens"');
    expect([second.asked, records[0]?.outcome, records[0]?.units]).toEqual([[], "completed", 20]);
  });

  it("ends at a stop sequence that stands across the border", async () => {
    const first = scripted(start(10), said("Now is the win"), broke());
    const second = scripted(start(30), rest, finish(25));
    const { ask } = stage([first, second]);
    const response = await ask({ stop_sequences: ["winter"] });
    expect(await response.clone().text()).toContain('"stop_sequence":"winter"');
    expect(await textOf(response)).toBe("Now is the ");
    expect(second.asked[0]?.stopSequences).toEqual(["winter"]);
  });

  it("keeps the seed and the tools of the request", async () => {
    const second = scripted(rest, finish(25));
    const { ask } = stage([scripted(...BEGUN, broke()), second]);
    await (await ask({ tools: [{ name: "look", input_schema: { type: "object" } }], temperature: 0.5 })).text();
    expect(second.asked[0]).toMatchObject({ tools: [{ name: "look" }], temperature: 0.5, stream: true });
  });

  it("is priced for the model that each upstream has answered with", async () => {
    const priced: [string, number][] = [];
    const first = scripted(start(9), { type: "usage", usage: {}, model: "fallback" }, said("Now is "), broke());
    const { ask } = stage([first, scripted(rest, finish(20))], {
      gateway: {
        price: ({ outputTokens }, model) => {
          priced.push([model, outputTokens]);
          return outputTokens;
        },
      },
    });
    await (await ask()).text();
    expect(priced.findLast(([model]) => model === "fallback")?.[1]).toBe(7);
    expect(priced.at(-1)).toEqual(["m", 20]);
  });

  it("is priced by the tier of the request where it broke off, and by that of each answer", async () => {
    const { ask, records } = stage([scripted(...BEGUN, broke()), scripted(start(30), rest, finish(25))], {
      granted: 10_000_000,
      gateway: {
        price: ({ inputTokens, outputTokens, serviceTier }) =>
          (inputTokens + outputTokens) * (serviceTier === "priority" ? 100 : 1),
      },
    });
    await (await ask({ service_tier: "priority" })).text();
    // The second upstream has ended its answer without a tier.
    expect(records[0]).toMatchObject({ units: 2_000 + 55, usage: { serviceTier: "priority" } });
  });

  it("is priced for each upstream by what it did", async () => {
    const prices: Record<string, number> = { "upstream-0": 1, "upstream-1": 100 };
    const { ask, records, quotas } = stage([scripted(...BEGUN, broke()), scripted(start(30), rest, finish(25))], {
      granted: 10_000_000,
      gateway: {
        price: ({ inputTokens, outputTokens }, _model, _kind, upstream) =>
          (inputTokens + outputTokens) * (prices[upstream?.name ?? ""] ?? 1),
      },
    });
    await (await ask()).text();
    // 10 + 10 by the first, 30 + 25 by the second.
    expect(records[0]).toMatchObject({ units: 20 + 5_500, certainty: "estimated" });
    expect(records[0]?.usage).toMatchObject({ inputTokens: 40, outputTokens: 35 });
    expect(quotas.report("caller")).toMatchObject({ used: 5_520, held: 0, liveHolds: 0, overdraft: 0 });
  });

  it("holds quota for the second upstream, and no more than one hold at a time", async () => {
    const held: unknown[] = [];
    const { ask, quotas } = stage([
      scripted(...BEGUN, () => (held.push({ ...quotas.report("caller") }), [broke()])),
      scripted(start(30), () => (held.push({ ...quotas.report("caller") }), []), rest, finish(25)),
    ]);
    await (await ask()).text();
    expect(held).toMatchObject([
      { liveHolds: 1, held: 2 + 100, used: 2 + 100 },
      // The second request has the text so far, an instruction, and the rest of the limit.
      { liveHolds: 1, overdraft: 0 },
    ]);
    const { held: units, used } = held[1] as { held: number; used: number };
    expect([units > 30 + 25, used - units]).toEqual([true, 20]);
    expect(quotas.report("caller")).toMatchObject({ used: 75, held: 0, liveHolds: 0 });
  });

  it("ends where the quota does not cover the second upstream, and says why", async () => {
    const second = scripted(rest, finish(25));
    const { ask, clock, failures, records, quotas } = stage([scripted(...BEGUN, broke()), second], { granted: 40 });
    expect(await (await ask()).text()).toContain("event: error");
    await clock.advance(0);
    expect(second.asked).toEqual([]);
    expect(failures.map(({ text }) => text).join()).toContain("the gateway does not permit it: The remaining quota");
    expect(records[0]).toMatchObject({ outcome: "failed", units: 20 });
    expect(quotas.report("caller")).toMatchObject({ used: 20, held: 0, liveHolds: 0, overdraft: 0 });
  });

  it("is one whole answer for hooks", async () => {
    const answers: HookAnswer[] = [];
    const { ask } = stage([scripted(...BEGUN, broke()), scripted(start(30), rest, finish(25))], {
      gateway: { hooks: [{ after: (answer) => void answers.push(answer) }] },
    });
    await (await ask()).text();
    expect(answers).toMatchObject([{ text: WHOLE, finishReason: "stop", record: { units: 75 } }]);
  });

  it("is repeated whole under its idempotency key, for one charge", async () => {
    const [first, second] = [scripted(...BEGUN, broke()), scripted(start(30), rest, finish(25))];
    const { ask, quotas } = stage([first, second], { gateway: { replayStore: memoryReplayStore() } });
    const headers = { "idempotency-key": "one" };
    const texts = [await (await ask({}, { headers })).text(), await (await ask({}, { headers })).text()];
    expect(texts[1]).toBe(texts[0]);
    expect([first.asked.length, second.asked.length, quotas.report("caller")?.used]).toEqual([1, 1, 75]);
  });

  it("uses the retry budget", async () => {
    const second = scripted(rest, finish(25));
    const first = scripted(...BEGUN, broke());
    const { ask, failures } = stage([first, second], {
      route: { retry: { share: 0 }, breaker: { failures: Infinity } },
    });
    for (let call = 0; call < 12; call++) await (await ask()).text();
    expect([first.asked.length, second.asked.length]).toEqual([12, 10]);
    expect(failures.at(-1)?.text).toContain("no other upstream has begun to answer");
  });

  it("is cut with its caller, also while the next upstream is silent", async () => {
    const second = scripted("silence");
    const { ask, clock, records, quotas } = stage([scripted(...BEGUN, broke()), second]);
    const leaving = new AbortController();
    const reader = (await ask({}, { signal: leaving.signal })).body?.getReader();
    await reader?.read();
    for (let turn = 0; turn < 50 && second.signals.length === 0; turn++) await clock.advance(0);
    leaving.abort();
    await reader?.cancel();
    await clock.advance(1);
    expect(second.signals[0]?.aborted).toBe(true);
    expect(records[0]).toMatchObject({ outcome: "client-closed", units: 20 });
    expect(quotas.report("caller")).toMatchObject({ used: 20, held: 0, liveHolds: 0 });
  });

  it("ends at the deadline of the call", async () => {
    const second = scripted(start(30), "silence");
    const { ask, clock, records, quotas } = stage([scripted(...BEGUN, broke()), second], {
      gateway: { limits: { deadlineMs: 60_000 } },
    });
    const answered = ask().then((response) => response.text());
    for (let turn = 0; turn < 50 && second.signals.length === 0; turn++) await clock.advance(0);
    await clock.advance(60_000);
    expect(await answered).toContain("longer than the gateway allows");
    expect(records[0]).toMatchObject({ outcome: "deadline", attempts: [{ movedOn: "broke-off" }, {}] });
    expect(quotas.report("caller")).toMatchObject({ held: 0, liveHolds: 0, used: records[0]?.units });
  });

  it("is whole where it is complete, too", async () => {
    const { ask } = stage([scripted(...BEGUN, broke()), scripted(start(30), rest, finish(25))]);
    expect(await (await ask({ stream: false })).json()).toMatchObject({
      content: [{ type: "text", text: WHOLE }],
      stop_reason: "end_turn",
      usage: { input_tokens: 40, output_tokens: 35 },
    });
  });

  it("that nobody continues keeps the vendor's reason of the break", async () => {
    const reason = { details: { error_code: "image_dimensions_too_large" } };
    const broken = new GatewayError("invalid_request", "No.", { port: "model-backend", reason });
    const { ask } = stage([scripted(start(10), { type: "refusal-delta", text: "I" }, broken), scripted(rest)]);
    expect(await (await ask()).text()).toContain('"error_code":"image_dimensions_too_large"');
  });

  it("may break off by ending without a finish", async () => {
    const { ask } = stage([scripted(...BEGUN), scripted(start(30), rest, finish(25))]);
    expect(await textOf(await ask())).toBe(WHOLE);
  });

  it.each<[string, readonly ChatEvent[], object, string]>([
    ["a refusal", [{ type: "refusal-delta", text: "I" }], {}, "a refusal was shown"],
    ["code", [{ type: "code", language: "python", code: "1" }], {}, "code was shown"],
    [
      "JSON",
      [said('{"a":')],
      { output_config: { format: { type: "json_schema", schema: { type: "object" } } } },
      "its text must have a given form",
    ],
  ])("is not continued behind %s", async (_name, events, more, why) => {
    const second = scripted(rest, finish(1));
    const { ask, failures } = stage([scripted(start(10), ...events, broke()), second]);
    expect(await (await ask(more)).text()).toContain("event: error");
    expect(failures.map(({ text }) => text).join()).toContain(`The answer was not continued: ${why}.`);
    expect(second.asked).toEqual([]);
  });

  it("is never tried where the option is not set", async () => {
    const second = scripted(rest, finish(1));
    const backend = route({
      routes: { "*": { upstreams: [scripted(...BEGUN, broke()), { backend: second, weight: 0 }], onBreak: "fail" } },
    });
    const { ask } = stage([], { route: { routes: { "*": backend } } });
    expect(await (await ask()).text()).toContain("event: error");
    expect(second.asked).toEqual([]);
  });
});

describe("the options", () => {
  const backend = scripted("Hi");
  it.each([
    [{ upstreams: [backend], onBreak: "retry" }, /onBreak must be one of "fail", "continue"|onBreak/],
    [{ upstreams: [{ backend, prefill: "yes" }] }, /prefill must be true or false/],
    [{ upstreams: [backend], onbreak: "continue" }, /onbreak.*onBreak/],
  ])("%o is refused by name", (wrong, message) => {
    expect(() => route({ routes: { "*": wrong as unknown as Route } })).toThrow(message);
  });

  it("retry.again asks the same upstream again, after a pause, and not after a timeout", async () => {
    const flaky = scripted();
    let failures = 1;
    flaky.chat = async function* chat(request) {
      flaky.asked.push(request);
      if (failures-- > 0) throw new GatewayError("backend_failed", "The connection is gone.");
      yield "back";
    };
    const second = scripted("second");
    const { ask, clock } = stage([flaky, second], { route: { retry: { again: 1, pauseMs: 400 }, random: () => 0 } });
    const answered = ask({ stream: false }).then((response) => response.text());
    await clock.advance(199);
    expect(flaky.asked).toHaveLength(1);
    await clock.advance(1);
    expect(await answered).toContain("back");
    expect([flaky.asked.length, second.asked.length]).toEqual([2, 0]);
  });
});

const joined = (shown: string, repeats: boolean, written: string, sizes: readonly number[]): string => {
  const join = new Join(shown, repeats);
  let text = shown;
  for (let at = 0, index = 0; at < written.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    text += join.add(written.slice(at, at + size));
    at += size;
  }
  return text + join.end();
};

describe("the join of two texts", () => {
  const cut = fc.tuple(fc.string({ unit: "grapheme", minLength: 1, maxLength: 200 }), fc.nat()).map(([text, at]) => {
    const units = Array.from(text);
    return [units.slice(0, 1 + (at % units.length)).join(""), units.slice(1 + (at % units.length)).join("")] as const;
  });
  const pieces = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 });

  it("leaves out the words that were repeated, and the white space that was cut off", () => {
    fc.assert(
      fc.property(cut, pieces, ([shown, behind], sizes) => {
        // A model writes no white space at the end of a turn, and none at the beginning.
        fc.pre(shown.trim() !== "");
        const trimmed = shown.slice(shown.trimEnd().length);
        expect(joined(shown, false, trimmed + behind, sizes)).toBe(shown + behind);
        expect(joined(shown, true, anchorOf(shown) + trimmed + behind, sizes)).toBe(shown + behind);
        expect(joined(shown, true, shown.trimStart() + behind, sizes)).toBe(shown + behind);
      }),
    );
  });

  it("separates words where a model goes on at once", () => {
    expect(joined("the quick brown", true, "fox", [9])).toBe("the quick brown fox");
    expect(joined("the quick, ", true, "brown", [2])).toBe("the quick, brown");
  });
});
