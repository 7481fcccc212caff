/** The SQL store keeps the laws of its port on every database. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verifyLedger } from "../../src/stores/sql/index.ts";
import { quotaStoreLaws } from "../contracts/index.ts";
import { databases, sqliteInMemory, type TestPlace } from "./sql/databases.ts";
import { openAt } from "./sql/open.ts";

describe.each([sqliteInMemory, ...databases])("sqlQuotaStore on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    beforeAll(async () => void (place = await database.place()));
    afterAll(() => place?.remove());

    it.each(quotaStoreLaws)("$name", async (law) => {
      await expect(law.verify(openAt(() => place))).resolves.toBeUndefined();
    });

    it("has a journal that comes to the same after all of them", async () => {
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });
  });
});
