/**
 * Loops that change to another maker's model on the way: in the middle of a tool loop, between two questions, and back again. Nothing that
 * one maker has sealed or thought reaches the other, and nothing of the conversation is lost.
 */

import { describe, expect, it } from "vitest";
import { route } from "../../src/upstreams/route/index.ts";
import { CALL_LOOPS } from "./clients.ts";
import { ENDS, TURNS } from "./script.ts";
import { asksOf, type MakerName, relayedMaker, serveGateway } from "./stage.ts";
import type { StrictUpstream } from "./strict.ts";

const MAKERS = [
  "messages",
  "generate-content",
  "openai",
  "responses",
  "deepseek",
] as const satisfies readonly MakerName[];
const PAIRS = MAKERS.flatMap((one) => MAKERS.flatMap((other) => (one === other ? [] : [[one, other] as const])));

interface Switch {
  readonly forms: readonly ("complete" | "streamed")[];
  /** Tells by the number of requests so far whether the next goes to the other maker. */
  readonly goesToOther: (step: number) => boolean;
}

const SWITCHES: readonly (readonly [name: string, Switch])[] = [
  ["in the middle of a tool loop", { forms: ["complete", "streamed"], goesToOther: (step) => step >= 3 }],
  ["between two questions", { forms: ["streamed"], goesToOther: (step) => step >= 4 }],
  ["and back", { forms: ["complete"], goesToOther: (step) => step === 2 }],
];

const CLIENTS = [
  "@anthropic-ai/sdk",
  "openai",
  "openai responses",
  "openai responses with previous_response_id",
  "@google/genai",
];

/** The pairs in which each maker comes first once, and second once. */
const RING = PAIRS.filter(([one, other]) => MAKERS.indexOf(other) === (MAKERS.indexOf(one) + 1) % MAKERS.length);

describe.each(PAIRS)("from %s to %s", (one, other) => {
  const number = PAIRS.findIndex((pair) => pair[0] === one && pair[1] === other);
  const isInRing = RING.some((pair) => pair[0] === one && pair[1] === other);
  // In what form an answer comes is a matter of its client and its maker, each of which stands in the ring.
  describe.each(isInRing ? SWITCHES : SWITCHES.slice(0, 1))("%s", (_switch, { forms, goesToOther }) => {
    // A client meets each maker in the ring. Two of five go through each other pair, in turn.
    const clients = isInRing ? CLIENTS : CLIENTS.filter((_client, index) => (index + 2 * number) % CLIENTS.length < 2);
    it.each(clients.flatMap((client) => (isInRing ? forms : forms.slice(1)).map((form) => `${client}, ${form}`)))(
      "%s",
      async (client) => {
        const loop = CALL_LOOPS.get(client);
        if (!loop) throw new Error(`There is no loop ${client}.`);
        await using first = await relayedMaker(one);
        await using second = await relayedMaker(other);
        await using gateway = await serveGateway(
          route({ routes: { [one]: first.backend, [other]: second.backend }, retry: { rounds: 0 } }),
        );
        const model = (step: number): string => (goesToOther(step) ? other : one);
        const ends = await loop.run({ url: gateway.url, model, asks: asksOf(one, loop.caller) }).catch(String);
        const upstreams = [first.upstream, second.upstream];
        expect(upstreams.flatMap(({ violations }) => violations)).toEqual([]);
        expect(ends).toEqual(ENDS);
        const steps = TURNS.map((_turn, step) => goesToOther(step));
        expect(upstreams.map(({ requests }) => requests.length)).toEqual(
          [false, true].map((isOther) => steps.filter((step) => step === isOther).length),
        );
        for (const [from, to, name] of [
          [first.upstream, second.upstream, other],
          [second.upstream, first.upstream, one],
        ] as const)
          // A client of chat completions sends thoughts back without a seal, in the field that DeepSeek demands.
          expect(leaks(from, to, name !== "deepseek" || loop.caller !== "chat-completions")).toEqual([]);
      },
    );
  });
});

/** Returns the seals of one upstream, and its thoughts, that have come to another. */
function leaks({ vault, thoughts }: StrictUpstream, { requests }: StrictUpstream, withThoughts: boolean): string[] {
  const bodies = requests.map(({ body }) => JSON.stringify(body)).join("\n");
  return [...vault.made, ...(withThoughts ? thoughts : [])].filter((secret) =>
    bodies.includes(JSON.stringify(secret).slice(1, -1)),
  );
}
