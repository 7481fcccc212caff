/** Compiles each of the store's statements once, and runs it with the values of each call: to compile takes longer than to send. */

import { type CompiledQuery, type Kysely, type QueryResult, type RawBuilder, sql } from "kysely";
import { DATABASE_TIME, type SqlDialect, type TimeExpression } from "./dialects.ts";
import type { SqlSchema } from "./schema.ts";

/** What a statement is built of: the tables, and the database's time. */
export interface Building {
  readonly db: Kysely<SqlSchema>;
  readonly dialect: SqlDialect;
  readonly time: TimeExpression;
}

/** A statement that calls run again and again, with slots in place of their values. */
export interface Statement<Row> {
  readonly build: (building: Building) => CompiledQuery<Row>;
  /** Whether PostgreSQL plans it once for each connection: for what every call runs. */
  readonly planOnce?: boolean;
}

/** Stands in a statement for a value of a run, by its index. */
class Slot {
  readonly index: number;

  constructor(index: number) {
    this.index = index;
  }
}

/** Stands in a statement for the value of an index. */
export const slot = <T>(index: number): RawBuilder<T> => sql<T>`${new Slot(index)}`;

/** Rows to insert, each value of them a slot. */
export const slotRows = <Row extends object>(columns: readonly (keyof Row & string)[], count: number): Row[] =>
  Array.from(
    { length: count },
    // A slot stands for any value that its column takes.
    (_, row) => Object.fromEntries(columns.map((name, at) => [name, slot(row * columns.length + at)])) as Row,
  );

/** The values for such rows, one after the other. */
export const valuesOf = <Row extends object>(columns: readonly (keyof Row)[], rows: readonly Row[]): unknown[] =>
  rows.flatMap((row) => columns.map((name) => row[name]));

/** A statement for each number of rows. */
export function byCount<Row>(build: (building: Building, count: number) => CompiledQuery<Row>) {
  const statements: Statement<Row>[] = [];
  return (count: number): Statement<Row> => (statements[count] ??= { build: (building) => build(building, count) });
}

/** The names of the texts that PostgreSQL plans once; the tables' names are part of a text. */
const plannedNames = new Map<string, string>();
const MOST_PLANNED = 200;

/** The name under which a connection to PostgreSQL keeps a statement planned; undefined for any other than a verb's own. */
export const plannedNameOf = (text: string): string | undefined => plannedNames.get(text);

/** The statements of one store. */
export class Statements {
  readonly #building: Building;
  readonly #compiled = new Map<Statement<never>, CompiledQuery>();
  /** Whether a statement is the same each time: a test's clock moves on. */
  readonly #isFixed: boolean;

  constructor(db: Kysely<SqlSchema>, dialect: SqlDialect, clock?: (now: TimeExpression) => TimeExpression) {
    this.#isFixed = clock === undefined;
    const now = DATABASE_TIME[dialect];
    this.#building = {
      db,
      dialect,
      get time() {
        return clock ? clock(now) : now;
      },
    };
  }

  /** Runs a statement, on the database or in a transaction. */
  run<Row>(on: Kysely<SqlSchema>, statement: Statement<Row>, values: readonly unknown[]): Promise<QueryResult<Row>> {
    const compiled = this.#compile(statement);
    const parameters = compiled.parameters.map((value) => (value instanceof Slot ? values[value.index] : value));
    return on.executeQuery<Row>({ ...compiled, parameters });
  }

  #compile<Row>(statement: Statement<Row>): CompiledQuery<Row> {
    // Kept under the statement that has built it, whose rows it has.
    const known = this.#compiled.get(statement) as CompiledQuery<Row> | undefined;
    if (known) return known;
    const compiled = statement.build(this.#building);
    if (!this.#isFixed) return compiled;
    this.#compiled.set(statement, compiled);
    const { sql: text } = compiled;
    if (statement.planOnce && plannedNames.size < MOST_PLANNED && !plannedNames.has(text))
      plannedNames.set(text, `polygate_${plannedNames.size}`);
    return compiled;
  }
}
