/** The frame of all trials: reads the command line, runs a trial on each subject, prints a table and fails the process for a problem. */

import process from "node:process";
import { inspect, parseArgs } from "node:util";

/** A check at full size, too long for `npm test`, which runs a short form of the same code. */
export interface Trial<Of extends Subject = Subject, Flags extends FlagValues = FlagValues> {
  readonly name: string;
  /** The sentence in the list that `npm run trial` prints. */
  readonly does: string;
  /** The flags of the command line with their defaults. The default `undefined` stands for an optional number. */
  readonly flags: Flags;
  /** The hosts, stores or classes that the trial can run on. The command line names some by a part of their names. */
  readonly subjects: readonly Of[];
  /** The names of the subjects to run when the command line names none. Default: all that are available. */
  readonly usual?: readonly string[];
  /** Runs the trial on one subject. A rejection counts as a problem. */
  run(subject: Of, flags: Flags): Promise<Outcome>;
  /** Receives the printed table after the last subject. */
  conclude?(table: string, flags: Flags): void;
}

export interface Subject {
  readonly name: string;
  /** False where the runtime is not installed or the server does not answer. Default: true. */
  readonly available?: boolean;
}

export type FlagValues = Readonly<Record<string, number | string | boolean | undefined>>;

export interface Outcome {
  readonly rows: readonly Row[];
  /** A line for each violation. The process fails where there is one. */
  readonly problems: readonly string[];
  /** Lines to print beside the table. */
  readonly notes?: readonly string[];
}

/** Cells by the titles of their columns. */
export type Row = Readonly<Record<string, string | number>>;

/** The subject of a trial that has no choice of subjects. */
export const EVERYTHING: Subject = { name: "everything" };

/** Runs a trial as its command line says. Returns the exit code: 0, 1 for a problem, or 2 for a wrong command line. */
export async function conduct(trial: Trial, args: readonly string[]): Promise<number> {
  let command: { readonly flags: FlagValues; readonly subjects: readonly Subject[]; readonly mustRun: boolean };
  try {
    command = read(trial, args);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    console.error(error.message);
    return 2;
  }
  const { flags, subjects, mustRun } = command;
  console.log(flags["seed"] === undefined ? trial.name : `${trial.name} --seed ${flags["seed"]}`);
  const rows: Row[] = [];
  let [ran, failed] = [0, 0];
  for (const subject of subjects) {
    if (subject.available === false) {
      console.error(`${subject.name}: not available here`);
      if (mustRun) failed++;
      continue;
    }
    const begin = performance.now();
    const { problems, notes = [], ...outcome } = await trial.run(subject, flags).catch(rejected);
    const seconds = ((performance.now() - begin) / 1_000).toFixed(1);
    console.error(`${subject.name}: ${problems.length} problems in ${seconds} s`);
    for (const line of [...notes, ...problems]) console.error(`  ${line}`);
    rows.push(...outcome.rows);
    ran++;
    if (problems.length > 0) failed++;
  }
  const table = tableOf(rows);
  if (rows.length > 0) console.log(`\n${table}`);
  trial.conclude?.(table, flags);
  return failed > 0 || ran === 0 ? 1 : 0;
}

const rejected = (error: unknown): Outcome => ({ rows: [], problems: [inspect(error)] });

/** Reads the command line of a trial. Throws a TypeError for an unknown flag, a wrong value and an unknown subject. */
function read(
  { flags: defaults, subjects, usual }: Trial,
  args: readonly string[],
): { flags: FlagValues; subjects: readonly Subject[]; mustRun: boolean } {
  const options = Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [
      name,
      { type: typeof value === "boolean" ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  const given = Object.entries(values).map(([name, value]) => [
    name,
    typeof value === "string" && typeof defaults[name] !== "string" ? numberOf(name, value) : value,
  ]);
  const names = positionals.length > 0 ? positionals : usual;
  const chosen = subjects.filter(({ name }) => !names || names.some((part) => isPartOf(name, part)));
  const unknown = names?.find((part) => !subjects.some(({ name }) => isPartOf(name, part)));
  if (unknown !== undefined)
    throw new TypeError(`"${unknown}" is none of ${subjects.map(({ name }) => name).join(", ")}.`);
  return { flags: { ...defaults, ...Object.fromEntries(given) }, subjects: chosen, mustRun: names !== undefined };
}

const isPartOf = (name: string, part: string): boolean => name.toLowerCase().includes(part.toLowerCase());

function numberOf(name: string, text: string): number {
  const value = text === "" ? Number.NaN : Number(text);
  if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER))
    throw new TypeError(`--${name} must be a number from 0 up, not "${text}".`);
  return value;
}

/** Writes rows as a Markdown table, padded as the formatter pads it. Columns of numbers are aligned to the right. */
export function tableOf(rows: readonly Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].map((title) => {
    const cells = rows.map((row) => String(row[title] ?? ""));
    const isNumeric = cells.every((cell) => /^[-–\d.,? %→]*$/.test(cell));
    const width = Math.max(...[title, ...cells].map(({ length }) => length));
    const pad = (cell: string): string => (isNumeric ? cell.padStart(width) : cell.padEnd(width));
    const rule = isNumeric ? `${"-".repeat(width - 1)}:` : "-".repeat(width);
    return [pad(title), rule, ...cells.map(pad)];
  });
  return Array.from(
    { length: rows.length + 2 },
    (_, line) => `| ${columns.map((cells) => cells[line]).join(" | ")} |`,
  ).join("\n");
}

/** Lists trials: the name, the sentence and the flags of each. */
export const listOf = (trials: readonly Trial[]): string =>
  trials
    .map(({ name, does, flags, subjects }) => {
      const choices = subjects.length > 1 ? [`on ${subjects.map((subject) => subject.name).join(", ")}`] : [];
      const usage = [...Object.keys(flags).map((flag) => `--${flag}`), ...choices].join(" ");
      return `${name.padEnd(15)}${does}${usage && `\n${" ".repeat(15)}${usage}`}`;
    })
    .join("\n");

/** Runs the trial that a command line names, or lists all. Sets the exit code of the process. */
export async function runTrial(trials: readonly Trial[], [name, ...args]: readonly string[]): Promise<void> {
  const trial = trials.find((one) => one.name === name);
  if (trial) {
    process.exitCode = await conduct(trial, args);
    return;
  }
  console.log(`npm run trial -- NAME [flags] [subjects]\n\n${listOf(trials)}`);
  if (name !== undefined) process.exitCode = 2;
}
