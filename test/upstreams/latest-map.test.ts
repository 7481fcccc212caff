/** The map of the entries that were set last. */

import { expect, it } from "vitest";
import { LatestMap } from "../../src/upstreams/backend.ts";

it("forgets the entry that was set the longest ago", () => {
  const map = new LatestMap<number>(2);
  for (const [name, value] of [
    ["a", 1],
    ["b", 2],
    ["a", 3],
    ["c", 4],
  ] as const)
    map.set(name, value);
  expect([...map.keys()]).toEqual(["a", "c"]);
  expect(["a", "b", "c"].map((name) => map.get(name))).toEqual([3, undefined, 4]);
  map.delete("a");
  map.set("d", 5);
  expect([...map.keys()]).toEqual(["c", "d"]);
});
