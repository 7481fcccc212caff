/** Writes the page of the reference with the commands of `polygate`, from their help. */

import { execFileSync } from "node:child_process";
import process from "node:process";
import { ROOT } from "./entries.ts";
import { wrapped } from "./wrapped.ts";

const helpOf = (...words: readonly string[]): string =>
  execFileSync(process.execPath, [`${ROOT}src/cli.ts`, ...words, "--help"], { encoding: "utf8" });

/** The rows of a help with two columns. */
const rowsIn = (text: string): readonly (readonly [name: string, about: string])[] =>
  Array.from(text.matchAll(/^ {2}(\S.*?) {2,}(\S.*)$/gm), ([, name = "", about = ""]) => [name, about]);

const list = (rows: readonly (readonly [name: string, about: string])[]): string =>
  rows.map(([name, about]) => wrapped(`- \`${name}\`: ${about}`, "  ")).join("\n");

/** The options that every command with a store takes, and those of every command. */
const GENERAL = /^(?:--store|--prefix|--currency|--json|-h, --help|-v, --version)\b/;

function sectionOf(words: readonly string[]): string {
  const help = helpOf(...words);
  const [, about = ""] = /^polygate [^:]*: (.*)/.exec(help) ?? [];
  const [, usage = ""] = /^polygate ([^:]*):/.exec(help) ?? [];
  const examples = Array.from(help.matchAll(/^ {2}(polygate .*)$/gm), ([, line = ""]) => `- \`npx ${line}\``);
  return [
    `### ${words.join(" ")}`,
    wrapped(`\`polygate ${usage}\`: ${about}.`),
    list(rowsIn(help).filter(([name]) => !GENERAL.test(name) && !name.startsWith("polygate "))),
    examples.length > 0 ? `Examples:\n\n${examples.join("\n")}` : "",
  ]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** Returns the names in a list of commands, such as `create` of `create ID`. */
const namesIn = (text: string): readonly string[] => rowsIn(text).flatMap(([name]) => /^[a-z-]+/.exec(name) ?? []);

export function commandsPage(): string {
  const all = helpOf();
  const general = helpOf("keys");
  // The help of all commands has a block for the programs, for each group, and for the commands without a group.
  const blocks = all.matchAll(/^polygate (?:(\w+) )?<command>(?: --store <address>)?\n\n((?: {2}.*\n)+)/gm);
  const sections = Array.from(blocks, ([, group, rows = ""]) =>
    namesIn(rows).map((name) => sectionOf(group === undefined ? [name] : [group, name])),
  ).flat();
  const [, words = ""] = /\n\n(POLYGATE_STORE[^]*?)\n\n/.exec(general) ?? [];
  const notes = words.split("\n").map((line) => `- ${line.replace(/^[A-Z_]{3,}/, (name) => `\`${name}\``)}`);
  return `# The command polygate

${wrapped("Manages keys and budgets, reports usage, and runs a gateway. In a container, run it there: `docker compose exec gateway npx polygate keys list`, or `kubectl exec deploy/gateway -- npx polygate keys list`.")}

## Options of every command

${list(rowsIn(general).filter(([name]) => GENERAL.test(name)))}

## Environment and exit codes

${notes.map((note) => wrapped(note, "  ")).join("\n")}

## Commands

${sections.join("\n\n")}
`;
}
