/** Runs the work of a store: once the schema is known to be right, and again after a conflict. */

import type { Kysely } from "kysely";
import { retrying, type SqlDialect } from "./dialects.ts";
import { assertSchema } from "./migrations.ts";
import type { SqlSchema } from "./schema.ts";

/** Does work that can be repeated. */
export type Attempt = <T>(work: () => Promise<T>) => Promise<T>;

export function attemptsOn(db: Kysely<SqlSchema>, dialect: SqlDialect): Attempt {
  let checked: Promise<void> | undefined;
  return async (work) => {
    checked ??= assertSchema(db);
    try {
      await checked;
    } catch (error) {
      // It may be migrated, or up, the next time.
      checked = undefined;
      throw error;
    }
    return retrying(dialect, work);
  };
}
