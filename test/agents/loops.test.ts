/**
 * The loops of the official clients before strict upstreams, in every pair of formats: six answers, three parallel calls in some, thoughts
 * before the calls. An upstream refuses a history that lacks a seal, a thought, a text, a call or a result.
 */

import { beforeAll, describe, expect, it, vi } from "vitest";
import { RUNNER_LOOPS } from "./clients.runners.ts";
import { CALL_LOOPS, KEEPS_ELSEWHERE, type Loop } from "./clients.ts";
import { ENDS, TURNS } from "./script.ts";
import { asksToThink, asksOf, MAKER_NAMES, MAKERS, relayedMaker, serveGateway } from "./stage.ts";

/**
 * The makers that meet all loops. The others differ from one of these in how they think or name calls, so they meet no client's own runner of
 * tools, and no client that differs only in where the history is kept.
 */
const MET_BY_ALL: ReadonlySet<string> = new Set(["messages", "generate-content", "responses", "openai", "deepseek"]);
const loopsBefore = (name: string): readonly [string, Loop][] =>
  MET_BY_ALL.has(name)
    ? [...CALL_LOOPS, ...RUNNER_LOOPS]
    : [...CALL_LOOPS].filter(([loop]) => !KEEPS_ELSEWHERE.test(loop));

// The AI SDK's own switch: it warns on the console about models that it does not know.
beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

describe.each(MAKER_NAMES)("before %s", (name) => {
  const { impossible = [] } = MAKERS[name];

  it.each(loopsBefore(name).filter(([loop]) => !impossible.includes(loop)))("%s", async (_name, { caller, run }) => {
    await using maker = await relayedMaker(name, { onSocket: true });
    await using gateway = await serveGateway(maker.backend);
    const { upstream } = maker;
    const asks = asksOf(name, caller);
    const ends = await run({ url: gateway.url, model: () => name, asks }).catch(String);
    expect(upstream.violations).toEqual([]);
    expect(ends).toEqual(ENDS);
    expect(upstream.requests).toHaveLength(TURNS.length);
    expect(upstream.requests.every(asksToThink)).toBe(asks !== "not" && MAKERS[name].asks !== "not");
  });
});
