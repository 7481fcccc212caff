/** Writes the page of the reference with the columns of the SQL tables that hosts may query, from the types of the tables. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { USAGE_BY, USAGE_SUMS } from "../../src/stores/sql/tables.ts";
import { ROOT } from "./entries.ts";
import { wrapped } from "./wrapped.ts";

/** A column: its kind, and its meaning. */
interface Column {
  readonly kind: string;
  readonly about: string;
}

/** The columns of `usage_days` that are no columns of a call. */
const OWN_SUMS: Readonly<Record<string, string>> = {
  id: "The id of the row.",
  calls: "The number of calls.",
  refused: "The calls that were refused.",
  failed: "The calls that failed.",
  currency: "The currency if a unit is a millionth of a currency; empty for other units, and null if it is not known.",
};

const OWN_KINDS: Readonly<Record<string, string>> = { id: "text", currency: "text or null" };

/** Returns the columns of a table by their names, from the doc comments of its type. */
function columnsOf(table: string): ReadonlyMap<string, Column> {
  const source = readFileSync(join(ROOT, "src/stores/sql/tables.ts"), "utf8");
  const [, body = ""] = new RegExp(`^export interface ${table} \\{\\n(.*?)^\\}`, "ms").exec(source) ?? [];
  const fields = body.matchAll(/\/\*\* (.*?) \*\/\s+(\w+): ([\w<>]+)( \| null)?;/gs);
  const columns = Array.from(fields, ([, about = "", name = "", type = "", orNull = ""]): [string, Column] => [
    name,
    { kind: `${type.includes("StoredInteger") ? "bigint" : "text"}${orNull && " or null"}`, about },
  ]);
  if (columns.length !== body.match(/;$/gm)?.length) throw new Error(`A column of ${table} has no doc comment.`);
  return new Map(columns);
}

const list = (columns: Iterable<[string, Column]>): string =>
  Array.from(columns, ([name, { kind, about }]) => wrapped(`- \`${name}\` (${kind}): ${about}`, "  ")).join("\n");

export function sqlPage(): string {
  const calls = columnsOf("CallTable");
  const ofDays = ["id", ...USAGE_BY, "currency", ...USAGE_SUMS].map((name): [string, Column] => {
    const own = OWN_SUMS[name];
    if (own !== undefined) return [name, { kind: OWN_KINDS[name] ?? "bigint", about: own }];
    return [name, calls.get(name) ?? { kind: "bigint", about: "" }];
  });
  const note =
    "You may query these tables, and delete rows of calls, of `polygate_audit`, and, to [erase a person](../security.md#erase-a-person-gdpr), of `polygate_documents` and `polygate_replays`; all other writes are those of polygate. Their columns are [public](../upgrading.md), and a version may add some. Another `prefix` takes the place of `polygate_`. The package `pg` returns a `bigint` as a text: cast it, as in `sum(units)::float8`. SQLite and MySQL have types of their own for the same.";
  return `# SQL tables

${wrapped(note)}

## polygate_calls

A row for each recorded call, for \`keepDays\`.

${list(calls)}

## polygate_usage_days

${wrapped("The sums of the calls of a day that have the same key, budgets, group, model, upstream and currency. They stay when the calls are deleted.")}

${list(ofDays)}

## polygate_audit

${wrapped("A row for each [change of the admin](../admin.md#the-log-of-changes), until you delete it.")}

${list(columnsOf("AuditTable"))}
`;
}
