/** A log of changes in the memory of one process. */

import { assertOptions, integer } from "../options.ts";
import { type AuditLog, type AuditRecord, assertAuditPage } from "../ports/audit-log.ts";

/** Options of `memoryAuditLog`. */
export interface MemoryAuditOptions {
  /** The most records. The oldest refused one goes first, and without any, the oldest. Default: 10,000. */
  readonly maxRecords?: number;
}

/** Keeps the log in the memory of this process. It ends with the process. */
export function memoryAuditLog(options: MemoryAuditOptions = {}): AuditLog {
  assertOptions<MemoryAuditOptions>("memoryAuditLog", options, { maxRecords: { optional: integer(1, 1_000_000) } });
  const { maxRecords = 10_000 } = options;
  const records = new Map<string, AuditRecord>();
  // Refusals cost their user nothing, and must not push made changes out.
  const refused = new Set<string>();
  return {
    async begin(entry) {
      records.set(entry.id, entry);
      if (records.size <= maxRecords) return;
      const oldest = refused.values().next().value ?? records.keys().next().value ?? "";
      records.delete(oldest);
      refused.delete(oldest);
    },
    async end(id, outcome) {
      const entry = records.get(id);
      if (!entry) return;
      records.set(id, { ...entry, ...outcome });
      if (outcome.state === "refused") refused.add(id);
    },
    async list(page) {
      assertAuditPage(page);
      const { before, limit, since = 0, until = Infinity } = page;
      const newest = [...records.values()].toReversed();
      const from = before === undefined ? 0 : newest.findIndex(({ id }) => id === before) + 1;
      if (before !== undefined && from === 0) return [];
      const matches = (record: AuditRecord): boolean =>
        record.at >= since &&
        record.at < until &&
        TEXTS.every((name) => page[name] === undefined || page[name] === record[name]);
      return newest.slice(from).filter(matches).slice(0, limit);
    },
  };
}

const TEXTS = ["user", "action", "target"] as const;
