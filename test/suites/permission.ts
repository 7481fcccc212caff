/** What a key may ask for: its models, and the models that there are (spec 2.5, 8). */

import { describe, expect, it } from "vitest";
import { ask, type Driver } from "../drivers/driver.ts";
import { type Mount, sharedStage } from "../hosts/stage.ts";

const LIMITED = "sk-limited";
const NONE = "sk-none";

export function permissionSuite(mount: Mount, driver: Driver): void {
  const { one, other, unknown } = driver.models;
  const keys = [
    { apiKey: LIMITED, models: [one] },
    { apiKey: NONE, models: [] },
  ];
  const stage = sharedStage(mount, { keys, models: [{ id: one }, { id: other }] });

  describe.each(driver.forms)("to an answer that is $name", (form) => {
    it("is given for a model of the key's list", async () => {
      const response = await ask(stage(), driver, form, { apiKey: LIMITED, model: one });
      expect(response.status).toBe(200);
      await response.text();
    });

    it.each([
      ["another model", LIMITED, other],
      ["a model that is not there", LIMITED, unknown],
      ["every model where none is listed", NONE, one],
    ])("is refused for %s", async (_name, apiKey, model) => {
      const before = [stage().backend.calls, stage().quotas.report(apiKey)];
      const told = await driver.refusalOf(await ask(stage(), driver, form, { apiKey, model }));
      expect(told).toEqual(driver.refusal("model_not_allowed"));
      expect([stage().backend.calls, stage().quotas.report(apiKey)]).toEqual(before);
    });

    it("goes as far as the backend's models", async () => {
      expect((await ask(stage(), driver, form, { model: other })).status).toBe(200);
      const told = await driver.refusalOf(await ask(stage(), driver, form, { model: unknown }));
      expect(told).toEqual(driver.refusal("model_not_found"));
    });
  });
}
