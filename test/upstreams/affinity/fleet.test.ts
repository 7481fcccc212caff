/** The caches trial in short: affinity costs little more than a chooser that knows every cache, and far less than round robin. */

import { expect, it } from "vitest";
import { cachesTrial, FLEETS } from "./caches/fleet.ts";

it.each(FLEETS)("affinity before $name costs little more than to know all", async (fleet) => {
  // Most of so few calls only show how the caches work: the trial has the bound of 10 %.
  const { problems, rows } = await cachesTrial.run({ ...fleet, most: 1.2 }, { seed: 1, calls: 2_000 });
  expect(problems).toEqual([]);
  expect(Number.parseFloat(String(rows[0]?.["round robin / all-knowing"]))).toBeGreaterThan(fleet.gapsMs ? 110 : 130);
});
