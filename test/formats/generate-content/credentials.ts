/** The credential of a generate-content request (spec 5): where it may stand, which goes first, and that it shows nowhere. */

import { describe, expect, it } from "vitest";
import { KEY, type Mount, sharedStage } from "../../hosts/stage.ts";
import { MINIMAL } from "./bodies.ts";
import { type Changes, COUNT, METHODS, posting } from "./calls.ts";
import { refusal, refusalOf, requestIdOf } from "./refusal.ts";

const BARE = KEY.slice("sk-".length);
const EXPIRED = "sk-stage-expired";
const NOBODY = "sk-nobody";

type Case = readonly [name: string, query: string, headers: Changes];

const none = { "x-goog-api-key": undefined };
const bearer = (apiKey: string): Changes => ({ ...none, authorization: `Bearer ${apiKey}` });

const ADMITTED: readonly Case[] = [
  ["x-goog-api-key", "", { "x-goog-api-key": KEY }],
  ["x-goog-api-key without sk-", "", { "x-goog-api-key": BARE }],
  ["key", `key=${KEY}`, none],
  ["key without sk-", `key=${BARE}`, none],
  ["key with escapes", `key=${KEY.replaceAll("-", "%2D")}`, none],
  ["key after an empty one", `key=&key=${KEY}`, none],
  ["key after another parameter", `a=b&key=${KEY}`, none],
  ["Bearer", "", bearer(KEY)],
  ["Bearer without sk-", "", bearer(BARE)],
  ["bearer in small letters", "", { ...none, authorization: `bearer ${KEY}` }],
  ["x-goog-api-key before a key that is unknown", `key=${NOBODY}`, {}],
  ["x-goog-api-key before a Bearer that is unknown", "", { authorization: `Bearer ${NOBODY}` }],
  ["x-goog-api-key before another scheme", "", { authorization: "Basic c2stc3RhZ2U6" }],
  ["key before a Bearer that is unknown", `key=${KEY}`, bearer(NOBODY)],
  ["key before another scheme", `key=${KEY}`, { ...none, authorization: "Basic c2stc3RhZ2U6" }],
  ["key beside an empty x-goog-api-key", `key=${KEY}`, { "x-goog-api-key": "" }],
  ["Bearer beside an empty key", "key=", bearer(KEY)],
  ["Bearer beside an empty key and an empty x-goog-api-key", "key=", { ...bearer(KEY), "x-goog-api-key": "" }],
];

const REFUSED: readonly Case[] = [
  ["no key", "", none],
  ["an empty key", "key=", none],
  ["an empty x-goog-api-key", "", { "x-goog-api-key": "" }],
  ["an unknown x-goog-api-key", "", { "x-goog-api-key": NOBODY }],
  ["an unknown key", `key=${NOBODY}`, none],
  ["an unknown Bearer", "", bearer(NOBODY)],
  ["an unknown x-goog-api-key before a good key", `key=${KEY}`, { "x-goog-api-key": NOBODY }],
  ["an unknown key before a good Bearer", `key=${NOBODY}`, bearer(KEY)],
  ["a key of another name", `apiKey=${KEY}`, none],
  ["a key in other letters", `key=${KEY.toUpperCase()}`, none],
  ["an x-api-key alone", "", { ...none, "x-api-key": KEY }],
  ["an expired x-goog-api-key", "", { "x-goog-api-key": EXPIRED }],
  ["an expired key", `key=${EXPIRED}`, none],
  ["another scheme", "", { ...none, authorization: `Basic ${KEY}` }],
  ["a Bearer without a key", "", { ...none, authorization: "Bearer" }],
];

const withQuery = (path: string, query: string): string => {
  if (query === "") return path;
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
};

const PATHS: readonly (readonly [name: string, path: string])[] = [...METHODS, ["a count of tokens", COUNT]];

export function credentialsSuite(mount: Mount): void {
  const stage = sharedStage(mount, { keys: [{ apiKey: EXPIRED, expiresAt: 1 }] });

  describe.each(PATHS)("of %s", (_method, path) => {
    it.each(ADMITTED)("admits %s", async (_name, query, changes) => {
      const response = await stage().request(withQuery(path, query), posting(MINIMAL, changes));
      requestIdOf(response);
      await response.text();
      expect(response.status).toBe(200);
    });

    it.each(REFUSED)("refuses %s", async (_name, query, changes) => {
      const before = stage().backend.received.length;
      const told = await refusalOf(await stage().request(withQuery(path, query), posting(MINIMAL, changes)));
      expect(told).toEqual(refusal(401, "UNAUTHENTICATED"));
      expect(told.message).not.toContain(BARE);
      expect(stage().backend.received).toHaveLength(before);
    });

    it("goes before the body and the model: a stranger learns nothing of the rules", async () => {
      const response = await stage().request(path.replace("model-a", "%zz"), posting({}, none));
      expect(await refusalOf(response)).toEqual(refusal(401, "UNAUTHENTICATED"));
    });
  });
}
