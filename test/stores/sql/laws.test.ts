/** The SQL store keeps the laws of its port on every database. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verifyLedger } from "../../../src/stores/sql/index.ts";
import { budgetLaws } from "../../../src/testing/laws/budgets.ts";
import { quotaStoreLaws } from "../../../src/testing/laws/index.ts";
import { databases, sqliteInMemory, type TestPlace } from "./databases.ts";
import { openAt, openBudgetsAt } from "./open.ts";

describe.each([sqliteInMemory, ...databases])("sqlQuotaStore on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    beforeAll(async () => void (place = await database.place()));
    afterAll(() => place?.remove());

    it.each(quotaStoreLaws)("$name", async (law) => {
      await expect(law.verify(openAt(() => place))).resolves.toBeUndefined();
    });

    it.each(budgetLaws)("budgets: $name", async (law) => {
      await expect(law.verify(openBudgetsAt(() => place))).resolves.toBeUndefined();
    });

    it("has a journal that comes to the same after all of them", async () => {
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });
  });
});
