/** The key of a request (spec 5): where it may stand, and that nothing is said to a stranger. */

import { describe, expect, it } from "vitest";
import type { GatewayErrorCode } from "../../src/index.ts";
import { ask, type Asking, type Driver } from "../drivers/driver.ts";
import { KEY, type Mount, sharedStage } from "../hosts/stage.ts";

type Headers = NonNullable<Asking["headers"]>;

const BARE = KEY.slice("sk-".length);
const EXPIRED = "sk-stage-expired";

export function credentialsSuite(mount: Mount, driver: Driver): void {
  const stage = sharedStage(mount, { keys: [{ apiKey: EXPIRED, expiresAt: 1 }] });
  const none = Object.fromEntries(Object.keys(driver.credential(KEY)).map((name) => [name, undefined]));
  const isOpenai = "authorization" in none;
  const bearer = (text: string): Headers => ({ ...none, authorization: text });

  const ADMITTED: readonly (readonly [name: string, headers: Headers])[] = [
    ["its own header", driver.credential(KEY)],
    ["its own header, without sk-", driver.credential(BARE)],
    ["Bearer", bearer(`Bearer ${KEY}`)],
    ["Bearer, without sk-", bearer(`Bearer ${BARE}`)],
    ["bearer in small letters", bearer(`bearer ${KEY}`)],
    ...(isOpenai
      ? ([
          ["the api-key of Azure's clients", { ...none, "api-key": KEY }],
          ["Bearer before an unknown api-key", { ...bearer(`Bearer ${KEY}`), "api-key": "sk-nobody" }],
        ] as const)
      : []),
  ];

  const REFUSED: readonly (readonly [name: string, headers: Headers, code: GatewayErrorCode])[] = [
    ["no key", none, "missing_api_key"],
    ["an unknown key", driver.credential("sk-nobody"), "invalid_api_key"],
    ["an unknown Bearer", bearer("Bearer sk-nobody"), "invalid_api_key"],
    ["a key in other letters", driver.credential(KEY.toUpperCase()), "invalid_api_key"],
    ["an expired key", driver.credential(EXPIRED), "expired_api_key"],
    ["another scheme", bearer(`Basic ${KEY}`), "malformed_credential"],
    ["Bearer without a key", bearer("Bearer"), "malformed_credential"],
    ["an empty api-key", { ...none, "api-key": "" }, "missing_api_key"],
    isOpenai
      ? ["an unknown Bearer before an api-key", { ...bearer("Bearer sk-nobody"), "api-key": KEY }, "invalid_api_key"]
      : ["an api-key alone", { ...none, "api-key": KEY }, "missing_api_key"],
  ];

  describe.each(driver.forms)("of an answer that is $name", (form) => {
    it.each(ADMITTED)("admits %s", async (_name, headers) => {
      const response = await ask(stage(), driver, form, { headers });
      await response.text();
      expect(response.status).toBe(200);
    });

    it.each(REFUSED)("refuses %s", async (_name, headers, code) => {
      const before = stage().backend.calls;
      const response = await ask(stage(), driver, form, { headers });
      // Agents take a 401 for a login that has run out, and would try again for minutes.
      expect(response.headers.get("x-should-retry")).toBe("false");
      const told = await driver.refusalOf(response);
      expect(told).toEqual(driver.refusal(code));
      expect(JSON.stringify(told)).not.toContain(BARE);
      expect(stage().backend.calls).toBe(before);
    });

    it("says that a key begins with the scheme that its client adds", async () => {
      for (const headers of [driver.credential(`Bearer ${KEY}`), bearer(`Bearer Bearer ${KEY}`)]) {
        const response = await ask(stage(), driver, form, { headers });
        const text = await response.clone().text();
        expect(await driver.refusalOf(response)).toEqual(driver.refusal("invalid_api_key"));
        expect(text).toContain("The API key is not valid. It begins with the word Bearer: give the key alone.");
        expect(text).not.toContain(BARE);
      }
    });

    it("says that a key begins with a quotation mark", async () => {
      for (const mark of ['"', "'", "`"]) {
        for (const headers of [driver.credential(mark + KEY + mark), bearer(`Bearer ${mark}${KEY}${mark}`)]) {
          const text = await (await ask(stage(), driver, form, { headers })).text();
          expect(text).toContain("The API key is not valid. It begins with a quotation mark: give the key alone.");
          expect(text).not.toContain(BARE);
        }
      }
    });

    it("goes before the body: a stranger learns nothing of the rules", async () => {
      const response = await ask(stage(), driver, form, { headers: none }, { body: "{}" });
      expect(await driver.refusalOf(response)).toEqual(driver.refusal("missing_api_key"));
    });
  });
}
