/** The port for the log of changes: who changed what, and how it ended. */

import { isContainer, isJsonObject, utf8Length } from "../model/json.ts";
import { assertOptions } from "../options.ts";

/** A change that somebody asked for. Contains no secret. */
export interface AuditEntry {
  /** Random, and unique. */
  readonly id: string;
  /** The time of the request, in milliseconds since the Unix epoch. */
  readonly at: number;
  /** The name of the user, as `authorize` returned it. A user of the command line is named with `(command line)` after the name. */
  readonly user: string;
  /** The operation, such as `keys.update`. */
  readonly action: string;
  /** The id of the key or the budget, without what follows its first 200 characters. Absent for a new key with a random id, and for a secret. */
  readonly target?: string;
  /**
   * The fields of the request, without secrets. An edit with `If-Match` has only those that it changes. A command adds the `currency` of its
   * amounts. Beyond 16 KiB of JSON, "…" stands for the longest values, models and entries of `metadata`; so it does in `former`.
   */
  readonly changes?: Readonly<Record<string, unknown>>;
  /**
   * The values that the fields of `changes` had just before an edit, with null for none. For `units`, which are added or taken, it is
   * `granted`. Absent for other changes, when the store did not tell them, and when `If-Match` had the tag of another state. A command that
   * corrects the `currency` of earlier amounts adds that currency: then all amounts count in the new one.
   */
  readonly former?: Readonly<Record<string, unknown>>;
}

/** The end of a change. */
export interface AuditOutcome {
  readonly state: "done" | "refused" | "failed";
  /** The id of the key or the budget that was made. */
  readonly target?: string;
  /** The reason for a refusal, as the user got it, without what follows its first 1,000 characters. */
  readonly reason?: string;
}

/**
 * A change with its end. `failed` is a change that was not begun. Without a state, nobody knows whether the change was made: its process has died,
 * or its store was cut off.
 */
export type AuditRecord = AuditEntry & Partial<AuditOutcome>;

/**
 * A page of the log: at most `limit` records that are older than the record of the id `before` and match all conditions, the newest first.
 * Texts match as a whole.
 */
export interface AuditPage {
  readonly before?: string;
  readonly limit: number;
  readonly user?: string;
  readonly action?: string;
  readonly target?: string;
  /** Only changes from this time on: Unix time in milliseconds. */
  readonly since?: number;
  /** Only changes before this time: Unix time in milliseconds. */
  readonly until?: number;
  /**
   * True for only the changes by commands that have a `currency`, without refused and failed ones. A log may look at the latest
   * 100,000 changes only.
   */
  readonly hasCurrency?: boolean;
}

/** Throws a TypeError or a RangeError for a wrong page. */
export function assertAuditPage(page: AuditPage): void {
  assertOptions<AuditPage>("list", page, {
    before: "string?",
    limit: "positive",
    user: "string?",
    action: "string?",
    target: "string?",
    since: "fromZero?",
    until: "fromZero?",
    hasCurrency: "boolean?",
  });
  const { since = 0, until = since } = page;
  if (since > until) throw new RangeError(`list: since must not be after until, but ${since} is after ${until}`);
}

/**
 * Returns fields whose JSON has at most `most` bytes: "…" stands for the longest values, and for the longest parts of lists and objects. Each
 * field keeps its name, so that a long field hides no other one.
 */
export function shortened<Fields extends Readonly<Record<string, unknown>>>(fields: Fields, most: number): Fields {
  const kept = withRoom(fields, most);
  // The cast is safe: the values of fields are unknown.
  return (isJsonObject(kept) ? kept : { "…": "…" }) as Fields;
}

/** Returns a value without the parts that have no room. The shortest parts get room first. */
function withRoom(value: unknown, most: number): unknown {
  if (bytesOf(value) <= most) return value;
  if (!isContainer(value)) return "…";
  const parts = Object.entries(value);
  const isList = Array.isArray(value);
  const names = parts.reduce((bytes, [name]) => bytes + (isList ? 0 : bytesOf(name) + 1), 0);
  // Brackets, and a comma for each part.
  let left = most - names - parts.length - 2;
  if (left < bytesOf("…") * parts.length) return "…";
  const kept = new Map<string, unknown>();
  for (const [name, part] of parts.toSorted(([, one], [, other]) => bytesOf(one) - bytesOf(other))) {
    const short = withRoom(part, left / (parts.length - kept.size));
    left -= bytesOf(short);
    kept.set(name, short);
  }
  const inOrder = parts.map(([name]) => [name, kept.get(name)] as const);
  return isList ? inOrder.map(([, part]) => part) : Object.fromEntries(inOrder);
}

const bytesOf = (value: unknown = null): number => utf8Length(JSON.stringify(value));

/** Keeps the log of changes. A change is made only after `begin` has resolved. */
export interface AuditLog {
  /** Records a change before it is made. */
  begin(entry: AuditEntry): Promise<void>;
  /** Records the end of the change of this id. */
  end(id: string, outcome: AuditOutcome): Promise<void>;
  /** Returns a page of the log, the newest change first. */
  list(page: AuditPage): Promise<readonly AuditRecord[]>;
}
