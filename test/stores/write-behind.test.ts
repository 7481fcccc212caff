/** Writing behind the calls: in batches, with bounded memory, and patient while the database is away. */

import { expect, it } from "vitest";
import { WriteBehind } from "../../src/stores/write-behind.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";

const hang = (): Promise<never> => new Promise(() => {});

function opened({ maxBytes = 1_000_000 } = {}) {
  const clock = manualClock();
  const [batches, errors]: [number[][], string[]] = [[], []];
  const state = { isAway: false, refuses: [] as readonly number[] };
  const queue = new WriteBehind<number>({
    clock,
    flushMs: 1_000,
    maxBytes,
    onError: (error) => errors.push((error as Error).message),
    async write(items) {
      if (state.isAway) throw new Error("away");
      if (items.some((item) => state.refuses.includes(item))) throw new Error("refused");
      batches.push([...items]);
    },
  });
  return { queue, clock, batches, errors, state };
}

it("writes what came within a second at once, and a full batch without waiting", async () => {
  const { queue, clock, batches } = opened();
  for (let item = 0; item < 3; item++) queue.add(item, 1);
  expect(batches).toEqual([]);
  await clock.advance(1_000);
  expect(batches).toEqual([[0, 1, 2]]);
  for (let item = 0; item < 250; item++) queue.add(item, 1);
  await clock.advance(0);
  expect(batches.slice(1).map(({ length }) => length)).toContain(100);
  await clock.advance(2_000);
  expect(batches.slice(1).flat()).toHaveLength(250);
  expect(clock.pending).toBe(0);
});

it("keeps items while the database is away, with longer and longer pauses, and tells the outage once", async () => {
  const { queue, clock, batches, errors, state } = opened();
  state.isAway = true;
  queue.add(1, 1);
  await clock.advance(120_000);
  queue.add(2, 1);
  await expect(queue.flush()).rejects.toThrow("away");
  expect([batches, errors]).toEqual([[], ["away"]]);
  state.isAway = false;
  await clock.advance(30_000);
  expect(batches).toEqual([[1, 2]]);
});

it("loses what does not fit into its memory, and says how much", async () => {
  const { queue, clock, batches, errors, state } = opened({ maxBytes: 10 });
  state.isAway = true;
  for (let item = 0; item < 15; item++) queue.add(item, 1);
  state.isAway = false;
  await clock.advance(60_000);
  expect(batches.flat()).toHaveLength(10);
  expect(errors).toEqual([
    expect.stringContaining("fill their memory"),
    "5 calls have no record. Their charges appear as unrecorded calls.",
  ]);
  queue.add(99, 10);
  await clock.advance(1_000);
  expect(batches.flat()).toContain(99);
});

it("lets an item go that the database refuses, and writes the others", async () => {
  const { queue, clock, batches, errors, state } = opened();
  state.refuses = [2];
  queue.add(2, 1);
  await clock.advance(1_000);
  // Alone, the item looks like a database that is away.
  expect([batches, errors.splice(0)]).toEqual([[], ["refused"]]);
  for (const item of [1, 3, 4, 5]) {
    queue.add(item, 1);
    await clock.advance(10_000);
  }
  expect(batches).toEqual([[1], [3], [4], [5]]);
  expect(errors.at(-1)).toBe("1 calls have no record. Their charges appear as unrecorded calls.");
  expect(clock.pending).toBe(0);
});

it("counts as lost only what it has let go of", async () => {
  const { queue, clock, batches, errors, state } = opened();
  state.refuses = [2];
  queue.add(2, 1);
  for (const item of [1, 3]) {
    queue.add(item, 1);
    await clock.advance(1_000);
  }
  // Another item is refused for the first time as this one is for the last.
  state.refuses = [2, 4];
  queue.add(4, 1);
  queue.add(5, 1);
  await clock.advance(1_000);
  expect(errors.at(-1)).toBe("1 calls have no record. Their charges appear as unrecorded calls.");
  state.refuses = [];
  await clock.advance(1_000);
  expect(batches.flat()).toEqual([1, 3, 5, 4]);
});

it("writes what waits when it is closed, and gives up in the end", async () => {
  const { queue, clock, batches, errors, state } = opened();
  queue.add(1, 1);
  await queue.close();
  expect([batches, clock.pending]).toEqual([[[1]], 0]);
  state.isAway = true;
  queue.add(2, 1);
  const closed = queue.close();
  await clock.advance(60_000);
  await closed;
  expect([batches, errors.at(-1), clock.pending]).toEqual([[[1]], "1 calls have no record.", 0]);
});

it("does not wait for ever for a database that hangs", async () => {
  const clock = manualClock();
  const errors: unknown[] = [];
  const tell = (error: unknown): void => void errors.push(error);
  const queue = new WriteBehind<number>({ clock, flushMs: 1, maxBytes: 9, onError: tell, write: hang });
  queue.add(1, 1);
  const closed = queue.close();
  await clock.advance(31_000);
  await closed;
  expect(errors).toHaveLength(1);
});
