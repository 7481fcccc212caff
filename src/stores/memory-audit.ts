/** A log of changes in the memory of one process. */

import { assertOptions, integer } from "../options.ts";
import { type AuditLog, type AuditRecord, assertAuditPage } from "../ports/audit-log.ts";

/** The most characters of all records as JSON. */
const MOST_CHARS = 32 * 1024 * 1024;

/** Options of `memoryAuditLog`. */
export interface MemoryAuditOptions {
  /** The most records, which also have at most 32 MiB. The oldest refused one goes first, and without any, the oldest. Default: 10,000. */
  readonly maxRecords?: number;
}

/** Keeps the log in the memory of this process. It ends with the process. */
export function memoryAuditLog(options: MemoryAuditOptions = {}): AuditLog {
  assertOptions<MemoryAuditOptions>("memoryAuditLog", options, { maxRecords: { optional: integer(1, 1_000_000) } });
  const { maxRecords = 10_000 } = options;
  const records = new Map<string, AuditRecord>();
  // Refusals cost their user nothing, and must not push made changes out.
  const refused = new Set<string>();
  const sizes = new Map<string, number>();
  let chars = 0;
  return {
    async begin(entry) {
      const size = JSON.stringify(entry).length;
      chars += size - (sizes.get(entry.id) ?? 0);
      sizes.set(entry.id, size);
      records.set(entry.id, entry);
      while (records.size > maxRecords || (chars > MOST_CHARS && records.size > 1)) {
        const oldest = refused.values().next().value ?? records.keys().next().value ?? "";
        chars -= sizes.get(oldest) ?? 0;
        for (const kept of [records, refused, sizes]) kept.delete(oldest);
      }
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
