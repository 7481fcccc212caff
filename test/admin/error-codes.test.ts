/** The codes of records by the words that clients read in errors. */

import { expect, it } from "vitest";
import { codesMeant } from "../../src/admin/error-codes.ts";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";

it.each([
  ["insufficient_quota", ["quota_exhausted", "quota_insufficient"]],
  ["rate_limit_exceeded", ["rate_limited"]],
  ["rate_limit_error", ["quota_exhausted", "quota_insufficient", "quota_held", "rate_limited"]],
  ["RESOURCE_EXHAUSTED", ["quota_insufficient", "quota_held", "rate_limited"]],
  ["overloaded", ["backend_overloaded"]],
  ["request_too_large", ["body_too_large"]],
])("finds %s in the errors of the formats", async (word, codes) => {
  expect((await codesMeant("code", word)).toSorted()).toEqual(codes.toSorted());
});

it("takes a code of records as itself alone, also where clients read it for others", async () => {
  for (const code of GATEWAY_ERROR_CODES) expect(await codesMeant("code", code)).toEqual([code]);
});

it.each(["error", "429", "", "__proto__"])("takes %j for no code", async (word) => {
  await expect(codesMeant("code", word)).rejects.toThrow(RangeError);
});
