/** Opens the SQL store on a clock that can be advanced. */

import { sql } from "kysely";
import { type DurableQuotaStore, sqlQuotaStore } from "../../../src/stores/sql/index.ts";
import type { OpenedQuotaStore, OpenQuotaStore } from "../../contracts/index.ts";
import type { TestPlace } from "./databases.ts";

/** Opens a store whose clock can be advanced beyond the database's. */
export function storeAt(
  { dialect, prefix, ...place }: TestPlace,
  db: TestPlace["db"] = place.db,
): { store: DurableQuotaStore; advance: (ms: number) => void } {
  let ahead = 0;
  const store = sqlQuotaStore({ db, dialect, prefix, clock: (now) => sql`(${now} + ${sql.lit(ahead)})` });
  return { store, advance: (ms) => void (ahead += ms) };
}

/** Opens stores for the laws, all in the same place of a database. */
export const openAt =
  (place: () => TestPlace): OpenQuotaStore =>
  async ({ keys }) =>
    openedOf(storeAt(place()), keys);

export async function openedOf(
  { store, advance }: { store: DurableQuotaStore; advance: (ms: number) => void | Promise<void> },
  keys: Parameters<OpenQuotaStore>[0]["keys"],
): Promise<OpenedQuotaStore> {
  for (const key of keys) await store.add(key);
  return {
    store,
    advance,
    async audit(keyId) {
      const report = await store.report(keyId);
      if (!report) throw new Error(`The store does not know the key ${keyId}.`);
      return report;
    },
    removeSecret: (apiKey) => store.removeSecret(apiKey),
  };
}
