/** What a key may ask of the image endpoints, and how it says who it is (spec 5: Bearer, and nothing else). */

import { describe, expect, it } from "vitest";
import { type Mount, sharedStage, KEY } from "../../hosts/stage.ts";
import { anyText, refusalOf } from "./refusal.ts";
import {
  as,
  edit,
  EDITS,
  editing,
  generate,
  generating,
  GENERATIONS,
  type Headers,
  jsonOf,
  multipartOf,
  VARIATIONS,
  vary,
  varying,
} from "./requests.ts";

const BARE = KEY.slice("sk-".length);
const EXPIRED = "sk-stage-expired";
const LIMITED = "sk-stage-limited";

const ADMITTED: readonly (readonly [name: string, headers: Headers])[] = [
  ["a Bearer", { authorization: `Bearer ${KEY}` }],
  ["a Bearer without sk-", { authorization: `Bearer ${BARE}` }],
  ["bearer in small letters", { authorization: `bearer ${KEY}` }],
  ["a Bearer beside an x-api-key that nobody reads", { authorization: `Bearer ${KEY}`, "x-api-key": "sk-nobody" }],
];

const REFUSED: readonly (readonly [name: string, headers: Headers, code: string])[] = [
  ["no key", {}, "missing_api_key"],
  ["a key where another endpoint has it", { "x-api-key": KEY }, "missing_api_key"],
  ["a key where yet another has it", { "x-goog-api-key": KEY }, "missing_api_key"],
  ["an unknown key", as("sk-nobody"), "invalid_api_key"],
  ["a key in other letters", as(KEY.toUpperCase()), "invalid_api_key"],
  ["sk- alone", as("sk-"), "invalid_api_key"],
  ["an expired key", as(EXPIRED), "expired_api_key"],
  ["another scheme", { authorization: `Basic ${KEY}` }, "invalid_api_key"],
  ["a key without a scheme", { authorization: KEY }, "invalid_api_key"],
  ["Bearer without a key", { authorization: "Bearer" }, "invalid_api_key"],
];

/** A request to each endpoint, without a key. */
const ENDPOINTS = [
  [GENERATIONS, (headers: Headers) => jsonOf(generating(), headers)],
  [EDITS, (headers: Headers) => multipartOf(editing(), headers)],
  [VARIATIONS, (headers: Headers) => multipartOf(varying(), headers)],
] as const;

export function credentialSuite(mount: Mount): void {
  const stage = sharedStage(mount, {
    keys: [
      { apiKey: EXPIRED, expiresAt: 1 },
      { apiKey: LIMITED, models: ["image-model-2"] },
    ],
    models: ["image-model-2", "image-model-multi"].map((id) => ({ id })),
  });

  describe.each(ENDPOINTS)("of %s", (path, init) => {
    it.each(ADMITTED)("admits %s", async (_name, headers) => {
      expect((await stage().request(path, init(headers))).status).toBe(200);
    });

    it.each(REFUSED)("refuses %s", async (_name, headers, code) => {
      const before = stage().backend.receivedForImages.length;
      const refusal = await refusalOf(await stage().request(path, init(headers)));
      expect(refusal).toEqual({ status: 401, type: "authentication_error", code, param: null, message: anyText });
      expect(refusal.message).not.toContain(BARE);
      expect(stage().backend.receivedForImages).toHaveLength(before);
    });

    it("does not take a key from the address", async () => {
      expect(await refusalOf(await stage().request(`${path}?key=${KEY}`, init({})))).toMatchObject({ status: 401 });
    });
  });

  it("goes before the body: a stranger learns nothing of the rules", async () => {
    expect(await refusalOf(await generate(stage(), {}, {}))).toMatchObject({ status: 401 });
    expect(await refusalOf(await edit(stage(), { n: "0" }, {}))).toMatchObject({ status: 401 });
    expect(await refusalOf(await vary(stage(), { n: "0" }, {}))).toMatchObject({ status: 401 });
  });

  describe("with model limits", () => {
    it.each([
      ["a model of the list", generating({ model: "image-model-2" })],
      ["the same by its alias", generating({ model: "dall-e-2" })],
      ["the same where none is named", generating()],
    ])("may ask for %s", async (_name, fields) => {
      expect((await generate(stage(), fields, as(LIMITED))).status).toBe(200);
    });

    it.each([
      ["another model", generating({ model: "image-model-multi" })],
      ["another model by its alias", generating({ model: "gpt-image-1" })],
      ["another model by a newer alias", generating({ model: "gpt-image-2" })],
      ["a model that the backend has not", generating({ model: "image-model-3" })],
    ])("may not ask for %s", async (_name, fields) => {
      expect(await refusalOf(await generate(stage(), fields, as(LIMITED)))).toEqual({
        status: 403,
        type: "permission_error",
        code: "model_not_allowed",
        param: "model",
        message: anyText,
      });
    });
  });
}
