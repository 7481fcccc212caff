/** The laws of the ResponseStore notice each fault of a store, and the memory store keeps them. */

import { describe, expect, it } from "vitest";
import { memoryResponseStore } from "../../src/index.ts";
import { manualClock, type OpenResponseStore, responseStoreLaws } from "./index.ts";

const open: OpenResponseStore = (setup) => {
  const clock = manualClock();
  return { store: memoryResponseStore({ clock, ...setup }), advance: (ms) => clock.advance(ms) };
};

describe("memoryResponseStore", () => {
  it.each(responseStoreLaws)("$name", async (law) => {
    await expect(law.verify(open)).resolves.toBeUndefined();
  });
});
