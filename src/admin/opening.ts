/** What it takes to open a store and what comes of it, whichever store it is. */

import type { DurableQuotaStore } from "../stores/durable.ts";
import type { LedgerDifference } from "../stores/sql/index.ts";

/** A store and what there is to do with it. */
export interface OpenedStore {
  readonly store: DurableQuotaStore;
  /** Makes or updates the tables. Undefined where there are none. */
  readonly migrate?: () => Promise<void>;
  /** Compares balances and journal. Undefined where there is no journal. */
  readonly verify?: () => Promise<readonly LedgerDifference[]>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** What the names of tables or of Redis's keys begin with; the store's own default unless told. */
  readonly prefix?: string | undefined;
  /** Whether to make an SQLite file that is not there. */
  readonly create?: boolean;
  /** The most connections to an SQL server: 2 unless told. */
  readonly connections?: number;
  /**
   * For a gateway that stays up: a Redis that was lost is connected to again, and the gateway says how long a verb may take. A store
   * that cannot be reached at first is an error either way.
   */
  readonly forGateway?: boolean;
}

/** An address or an option that is wrong: its message is for the caller, and holds no password. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A package that only some stores need. Rejects with a UsageError where it is not installed. */
export async function installed<T>(name: string, module: Promise<T>): Promise<T> {
  try {
    return await module;
  } catch (error) {
    throw new UsageError(`This store needs the package "${name}": npm install ${name}`, { cause: error });
  }
}
