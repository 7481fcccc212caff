/** A log of changes in the memory of one process. */

import { parseJson } from "../model/json.ts";
import { assertOptions, integer } from "../options.ts";
import { type AuditLog, type AuditRecord, assertAuditPage } from "../ports/audit-log.ts";

/** The most characters of all records as JSON. Each takes one or two bytes. */
const MOST_CHARS = 16 * 1024 * 1024;

/** Options of `memoryAuditLog`. */
export interface MemoryAuditOptions {
  /**
   * The most records, which also have at most 32 MiB. The oldest one that changed nothing goes first, such as a refused one, and without any,
   * the oldest. Default: 10,000.
   */
  readonly maxRecords?: number;
}

/** A record, with its fields as JSON: many short texts of their own take much more memory. */
interface Kept {
  readonly head: AuditRecord;
  readonly fields: string;
  readonly chars: number;
}

const recordOf = ({ head, fields }: Kept): AuditRecord => ({ ...head, ...(parseJson(fields) as object) });

/** Keeps the log in the memory of this process. It ends with the process. */
export function memoryAuditLog(options: MemoryAuditOptions = {}): AuditLog {
  assertOptions<MemoryAuditOptions>("memoryAuditLog", options, { maxRecords: { optional: integer(1, 1_000_000) } });
  const { maxRecords = 10_000 } = options;
  const records = new Map<string, Kept>();
  // Changes that changed nothing cost their user nothing, and must not push others out.
  const idle = new Set<string>();
  let chars = 0;
  const keep = (record: AuditRecord): void => {
    const { changes, former, ...others } = record;
    const [head, fields] = [JSON.stringify(others), JSON.stringify({ changes, former })];
    chars += head.length + fields.length - (records.get(record.id)?.chars ?? 0);
    // A part of a text would keep the whole text in memory: these are copies. The cast is safe.
    records.set(record.id, { head: parseJson(head) as AuditRecord, fields, chars: head.length + fields.length });
    while (records.size > maxRecords || (chars > MOST_CHARS && records.size > 1)) {
      const oldest = idle.values().next().value ?? records.keys().next().value ?? "";
      chars -= records.get(oldest)?.chars ?? 0;
      records.delete(oldest);
      idle.delete(oldest);
    }
  };
  return {
    async begin(entry) {
      keep(entry);
    },
    async end(id, outcome) {
      const entry = records.get(id);
      if (!entry) return;
      const record = { ...recordOf(entry), ...outcome };
      // The removal of an unknown secret is done, and has no key.
      if (record.state !== "done" || record.target === undefined) idle.add(id);
      keep(record);
    },
    async list(page) {
      assertAuditPage(page);
      const { before, limit, since = 0, until = Infinity, hasCurrency = false } = page;
      const newest = [...records.values()].toReversed();
      const from = before === undefined ? 0 : newest.findIndex(({ head }) => head.id === before) + 1;
      if (before !== undefined && from === 0) return [];
      const matches = ({ head, fields }: Kept): boolean =>
        head.at >= since &&
        head.at < until &&
        TEXTS.every((name) => page[name] === undefined || page[name] === head[name]) &&
        (!hasCurrency || (mayBeMade(head) && isOfCommand(head) && fields.includes('"currency":"')));
      return newest.slice(from).filter(matches).slice(0, limit).map(recordOf);
    },
  };
}

const mayBeMade = ({ state = "done" }: AuditRecord): boolean => state === "done";
const isOfCommand = ({ user }: AuditRecord): boolean => user.endsWith("(command line)");

const TEXTS = ["user", "action", "target"] as const;
