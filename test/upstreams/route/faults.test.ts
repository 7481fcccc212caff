/** A gateway between a caller of chat completions and a provider that fails in sixteen ways, in virtual time. */

import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { type Route, route, type RouteOptions } from "../../../src/upstreams/route/index.ts";
import { rawUpstream } from "../relay/raw-upstream.ts";
import {
  ANSWER,
  type Called,
  type Facts,
  FaultyProvider,
  type Scenario,
  SCENARIOS,
  type Verdict,
  verdictOf,
} from "./faults.ts";

const KEY = "sk-caller";

/** The options of the gateway under test. */
interface Form {
  readonly relay?: Partial<RelayOptions>;
  readonly route?: Partial<RouteOptions>;
  readonly onBreak?: Route["onBreak"];
}

/** An upstream gets the time of several turns of the event loop for each step of virtual time: bytes that were sent arrive first. */
const STEP_MS = 100;
const TURNS = 10;

async function judged(scenario: Scenario, form: Form): Promise<[Verdict, ...string[]]> {
  const { id, fallback = "ok", calls: { count, everyMs } = { count: 1, everyMs: 0 } } = scenario;
  const primary = id.toLowerCase();
  const clock = manualClock();
  const provider = new FaultyProvider(clock);
  await using upstream = await rawUpstream(provider.answer);
  const relayed = (models: Record<string, string>): ReturnType<typeof relay> =>
    relay({ format: "chat-completions", baseUrl: upstream.url, apiKey: "sk-up", clock, models, ...form.relay });
  const [first, second] = [relayed({ [primary]: primary, ok: "ok" }), relayed({ [primary]: fallback, ok: fallback })];
  const backend = route({
    routes: {
      "*": { upstreams: [first, { backend: second, weight: 0 }], ...(form.onBreak && { onBreak: form.onBreak }) },
    },
    clock,
    random: () => 0.5,
    ...form.route,
  });
  const quotas = memoryQuotaStore([{ apiKey: KEY, granted: 10_000_000 }], { clock });
  const gateway = createGateway({ backend, quotas, clock, onFailure: () => {} });

  const call = async (model: string, stream: boolean): Promise<Called> => {
    const beganAt = clock.now();
    const response = await gateway.fetch(
      new Request("http://gateway.test/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
        body: JSON.stringify({
          model,
          messages: [{ role: "user", content: "Sixty words, please." }],
          ...(stream && { stream, stream_options: { include_usage: true } }),
        }),
      }),
    );
    return { ...readCompletion(response.status, await response.text(), stream), tookMs: clock.now() - beganAt };
  };
  /** Lets time pass until a promise has settled. */
  const passing = async <Value>(asked: Promise<Value>): Promise<Value> => {
    const state = { isOver: false };
    void asked.finally(() => (state.isOver = true)).catch(() => {});
    while (!state.isOver) {
      for (let turn = 0; turn < TURNS && !state.isOver; turn++) await setImmediate();
      if (!state.isOver) await clock.advance(STEP_MS);
    }
    return asked;
  };

  const beganAt = clock.now();
  const calls: Facts["calls"][number][] = [];
  for (let at = 0; at < count; at++) {
    const dueMs = beganAt + at * everyMs - clock.now();
    if (dueMs > 0) await clock.advance(dueMs);
    const sentAtMs = clock.now() - beganAt;
    calls.push({ ...(await passing(call(primary, true))), sentAtMs });
  }
  const { seen } = provider;
  const alive = await passing(call("ok", false));
  const facts = {
    calls,
    primary: seen.filter(({ model }) => model === primary),
    fallback: seen.filter(({ model }) => model === fallback),
    prefillRefusals: seen.filter(({ action }) => action === "400 prefill").length,
    isAlive: alive.ok && alive.text === ANSWER,
  };
  await backend.close();
  await gateway.close();
  return verdictOf(scenario, facts);
}

/** Reads an answer as a careful client does: an error in the stream is an error, whatever came before it. */
function readCompletion(status: number, body: string, stream: boolean): Omit<Called, "tookMs"> {
  interface Chunk {
    readonly model?: string;
    readonly usage?: object | null;
    readonly error?: object;
    readonly choices?: readonly { readonly delta?: { content?: string }; readonly message?: { content?: string } }[];
  }
  const chunks =
    stream && status === 200
      ? body.split("\n").flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice(6)) as Chunk] : []))
      : [JSON.parse(body) as Chunk];
  return {
    ok: status === 200 && !chunks.some(({ error }) => error),
    text: chunks
      .flatMap(({ choices = [] }) => choices.map(({ delta, message }) => (delta ?? message)?.content ?? ""))
      .join(""),
    model: chunks.findLast(({ model }) => model !== undefined)?.model,
    hasUsage: chunks.some(({ usage }) => usage),
  };
}

async function card(form: Form): Promise<Record<string, string>> {
  const rows: Record<string, string> = {};
  for (const scenario of SCENARIOS) rows[scenario.id] = (await judged(scenario, form)).join(": ");
  return rows;
}

const all = (verdict: string, others: Readonly<Record<string, string>> = {}): Record<string, string> =>
  Object.fromEntries(SCENARIOS.map(({ id }) => [id, others[id] ?? verdict]));

const TUNED: Form = {
  onBreak: "continue",
  relay: { showUpstreamModel: true, timeouts: { headersMs: 10_000, firstEventMs: 10_000, betweenEventsMs: 10_000 } },
  route: { retry: { again: 1 }, breaker: { openMs: 5_000 } },
};

describe("a provider that fails in sixteen ways, behind a route with a second upstream", () => {
  it("passes all sixteen in the tuned form", async () => {
    expect(await card(TUNED)).toEqual(all("pass"));
  });

  it("passes eleven with the defaults and onBreak", async () => {
    expect(await card({ onBreak: "continue" })).toEqual(
      all("pass", {
        S01: "partial: asked again: after the time",
        S03: "partial: asked again",
        S07: "partial: within 15 s",
        S15: "fail: back within 30 s",
        S16: "fail: the fallback is named",
      }),
    );
  });

  it("ends the answers that break off with an error, without onBreak", async () => {
    expect(await card({})).toMatchObject({ S08: "safe", S09: "safe", S10: "safe: the whole answer", S14: "safe" });
  });
});
