/** Request ids: of one form, and no two alike. */

import { expect, it } from "vitest";
import { newRequestId } from "../../src/http/request.ts";

it("ids are unique, and random in every place", () => {
  const ids = Array.from({ length: 100_000 }, newRequestId);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.filter((id) => !/^req_[0-9a-f]{32}$/.test(id))).toEqual([]);
  for (let place = 4; place < 36; place++) expect(new Set(ids.map((id) => id[place])).size).toBe(16);
});
