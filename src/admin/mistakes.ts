/** Makes the errors for a wrong command line. Each error names the mistake and suggests a correction. */

import { nearest } from "../options.ts";
import { UsageError } from "../stores/open/connection.ts";

/** The names of the commands of each group. */
type Groups = Readonly<Record<string, readonly string[]>>;

/** Returns the error for words that are no command. */
export function unknownCommand([group = "", name]: readonly string[], groups: Groups): UsageError {
  const of = Object.hasOwn(groups, group) ? groups[group] : undefined;
  if (of && name === undefined)
    return new UsageError(`${group} needs a command, such as ${of[0]}. "polygate ${group} --help" lists them.`);
  const near = of && nearest(name ?? "", of);
  const meant = near === undefined ? commandsOf(name ?? group, group, groups) : [`${group} ${near}`];
  const words = name === undefined ? group : `${group} ${name}`;
  const help = of ? `polygate ${group} --help` : "polygate --help";
  return new UsageError(`There is no command "${words}".${question(meant)} "${help}" lists them.`);
}

/** Lists commands for a word that is the name of a command in another group, or for a group that is misspelt. */
function commandsOf(word: string, group: string, groups: Groups): string[] {
  const meant = nearest(group, Object.keys(groups));
  if (meant !== undefined && groups[meant]?.includes(word)) return [`${meant} ${word}`];
  // A word alone, or a command without commands of its own.
  if (meant !== undefined && (word === group || groups[meant]?.length === 0)) return [meant];
  return Object.entries(groups).flatMap(([other, names]) => (names.includes(word) ? [`${other} ${word}`] : []));
}

const question = (meant: readonly string[]): string =>
  meant.length === 0 ? "" : ` Did you mean ${meant.map((words) => `"${words}"`).join(" or ")}?`;

/**
 * Returns the error for an option that does not exist, or that the command does not take.
 *
 * @param command The words of the command; undefined if it is not known.
 * @param known The options that it takes.
 */
export function unknownOption(option: string, command: string | undefined, known: readonly string[]): UsageError {
  if (/^-\d/.test(option)) return new UsageError(`${option} is no option. An amount is a number from 0 up.`);
  const near = nearest(option.replace(/^-+/, ""), known);
  const meant = near === undefined ? "" : ` Did you mean --${near}?`;
  const fault = command === undefined ? `There is no option ${option}.` : `${command} takes no ${option}.`;
  const all = known.map((name) => `--${name}`).join(", ");
  return new UsageError(`${fault}${meant}${command === undefined ? "" : ` It takes ${all}.`}`);
}

/**
 * Returns the error for arguments that are too few or too many.
 *
 * @param usage The command with the names of its arguments, such as `keys grant ID UNITS`.
 * @param names The names of its arguments. A name in brackets is optional.
 * @param takesId True if the command takes an id as an option.
 */
export function wrongArguments(
  command: string,
  usage: string,
  names: readonly string[],
  given: readonly string[],
  takesId: boolean,
): UsageError {
  const further = given[names.length];
  const missing = names.filter((name, at) => at >= given.length && !name.startsWith("["));
  const fault = further === undefined ? `needs ${missing.join(" and ")}.` : `does not take "${further}".`;
  const hint = further !== undefined && takesId ? ` Write --id ${further} for its id.` : "";
  return new UsageError(`${command} ${fault}${hint} Usage: polygate ${usage}`);
}
