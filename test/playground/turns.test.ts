/** Turns of the playground's Python: each key has its share of them, and keys are served one after the other. */

import { describe, expect, it } from "vitest";
import { turns } from "../../playground/python/turns.ts";

/** Runs that begin when they have their turn, and end when they are told. */
function stage(max: number) {
  const free = turns(max);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    /** Asks for a turn, and lets the runs begin that may. */
    async ask(name: string, signal: AbortSignal = new AbortController().signal): Promise<void> {
      const [keyId = ""] = name;
      void free.take(keyId, signal).then(
        (end) => {
          begun.push(name);
          ends.set(name, end);
        },
        () => {},
      );
      await settled();
    },
    async end(name: string): Promise<void> {
      ends.get(name)?.();
      ends.delete(name);
      await settled();
    },
    get held(): readonly string[] {
      return [...ends.keys()];
    },
  };
}

const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe("turns", () => {
  it.each([
    [1, 1],
    [2, 1],
    [3, 2],
    [4, 2],
    [9, 5],
  ])("of %i are given %i to one key", async (max, most) => {
    const runs = stage(max);
    for (let number = 0; number < 20; number++) await runs.ask(`a${number}`);
    expect(runs.held).toHaveLength(most);
  });

  it("are there at once for a key that holds none, where shares leave one free", async () => {
    const runs = stage(4);
    for (const name of ["a1", "a2", "a3", "a4"]) await runs.ask(name);
    await runs.ask("b1");
    await runs.ask("c1");
    expect(runs.begun).toEqual(["a1", "a2", "b1", "c1"]);
  });

  it("go to another key first when all are held and more of the same key wait", async () => {
    const runs = stage(1);
    for (const name of ["a1", "a2", "a3", "a4", "a5"]) await runs.ask(name);
    await runs.ask("b1");
    await runs.end("a1");
    expect(runs.begun).toEqual(["a1", "b1"]);
  });

  it("go round the keys, and within a key to the run that came first", async () => {
    const runs = stage(2);
    for (const name of ["a1", "b1", "a2", "a3", "b2", "c1", "b3", "d1"]) await runs.ask(name);
    for (const name of ["a1", "b1", "c1", "d1", "a2", "b2", "a3", "b3"]) await runs.end(name);
    expect(runs.begun).toEqual(["a1", "b1", "c1", "d1", "a2", "b2", "a3", "b3"]);
  });

  it("are lost by no run that gives up, and held by none that came too late", async () => {
    const runs = stage(2);
    const leaving = new AbortController();
    await runs.ask("a1");
    await runs.ask("b1");
    await runs.ask("c1", leaving.signal);
    await runs.ask("a2", leaving.signal);
    await runs.ask("b2");
    leaving.abort();
    await settled();
    await runs.end("a1");
    expect(runs.held).toEqual(["b1"]);
    await runs.end("b1");
    await runs.ask("c2", leaving.signal);
    await runs.ask("d1");
    expect(runs.held).toEqual(["b2", "d1"]);
  });

  it("never stand idle, nor are more held than there are, whatever comes", async () => {
    const runs = stage(3);
    let seed = 7;
    const draw = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below;
    const asked = new Set<string>();
    for (let step = 0; step < 500; step++) {
      if (draw(2) === 0) {
        const name = `${"abcde"[draw(5)]}${step}`;
        asked.add(name);
        await runs.ask(name);
      } else await runs.end(runs.held[draw(Math.max(1, runs.held.length))] ?? "");
      expect(runs.held.length).toBeLessThanOrEqual(3);
      const waiting = [...asked].filter((name) => !runs.begun.includes(name));
      const strangers = waiting.filter(([key]) => !runs.held.some(([holder]) => holder === key));
      expect(strangers.length === 0 || runs.held.length === 3).toBe(true);
    }
    while (runs.held.length > 0) await runs.end(runs.held[0] ?? "");
    expect(new Set(runs.begun)).toEqual(asked);
  });
});
