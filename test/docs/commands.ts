/** Writes the page of the reference with the commands of `polygate`, from their help. */

import manifest from "../../package.json" with { type: "json" };
import { runCommand } from "../../src/admin/command-line.ts";
import { ROOT } from "./entries.ts";
import { wrapped } from "./wrapped.ts";

/** Stands for what a help never needs: files, and servers to start. */
const unused = (): never => {
  throw new Error("A help reads no file and starts no server.");
};

async function helpOf(...words: readonly string[]): Promise<string> {
  const lines: string[] = [];
  await runCommand([...words, "--help"], {
    env: {},
    print: (line) => lines.push(line),
    read: unused,
    home: { root: ROOT, manifest },
    servers: { demo: unused, serve: unused },
  });
  return lines.join("\n");
}

/** The rows of a help with two columns. */
const rowsIn = (text: string): readonly (readonly [name: string, about: string])[] =>
  Array.from(text.matchAll(/^ {2}(\S.*?) {2,}(\S.*)$/gm), ([, name = "", about = ""]) => [name, about]);

const list = (rows: readonly (readonly [name: string, about: string])[]): string =>
  rows.map(([name, about]) => wrapped(`- \`${name}\`: ${about}`, "  ")).join("\n");

/** The options that every command with a store takes, and those of every command. */
const GENERAL = /^(?:--store|--prefix|--timeout|--currency|--json|-h, --help|-v, --version)\b/;

async function sectionOf(words: readonly string[]): Promise<string> {
  const help = await helpOf(...words);
  const [, usage = "", about = ""] = /^polygate ([^:]*): (.*)/.exec(help) ?? [];
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

/** The commands by what people want to do. Names without a second word are those of programs, or of commands without a group. */
const TASKS: Readonly<Record<string, readonly string[]>> = {
  "Try and start": ["demo", "init", "serve", "keys migrate"],
  "Give access": ["keys create", "keys update", "keys list"],
  "Change secrets": ["keys rotate", "keys add-secret", "keys remove-secret"],
  "End access": ["keys pause", "keys resume", "keys revoke"],
  "Set the quota of a key": ["keys grant", "keys lower", "keys usage"],
  "Limit teams": ["create", "update", "top-up", "lower", "assign", "unassign", "remove"].map(
    (name) => `budgets ${name}`,
  ),
  "Report and bill": ["usage", "budgets list", "budgets usage", "budgets periods"],
  "Explain calls and changes": ["calls", "why", "audit"],
  "Move to another store": ["budgets export", "budgets import", "keys export", "keys import"],
  "Keep the ledger sound": ["keys verify", "keys sweep", "keys prune"],
};

/** Returns the index of the commands by task. Throws for a command without a task, and for a task without its command. */
function indexOf(commands: readonly string[]): string {
  const named = Object.values(TASKS).flat();
  if (named.toSorted().join() !== commands.toSorted().join())
    throw new Error(`TASKS must name each command once: ${commands.filter((name) => !named.includes(name)).join()}`);
  return Object.entries(TASKS)
    .map(([task, names]) => {
      const links = names.map((name) => `[\`${name}\`](#${name.replaceAll(" ", "-")})`);
      return wrapped(`- **${task}**: ${links.join(", ")}`, "  ");
    })
    .join("\n");
}

export async function commandsPage(): Promise<string> {
  const all = await helpOf();
  const general = await helpOf("keys");
  // The help of all commands has a block for the programs, for each group, and for the commands without a group.
  const blocks = all.matchAll(/^polygate (?:(\w+) )?<command>(?: --store <address>)?\n\n((?: {2}.*\n)+)/gm);
  const commands = Array.from(blocks, ([, group, rows = ""]) =>
    namesIn(rows).map((name) => (group === undefined ? [name] : [group, name])),
  );
  const sections = await Promise.all(commands.flat().map(sectionOf));
  const [, words = ""] = /\n\n(POLYGATE_STORE[^]*?)\n\n/.exec(general) ?? [];
  const notes = words.split("\n").map((line) => `- ${line.replace(/^[A-Z_]{3,}/, (name) => `\`${name}\``)}`);
  return `# The command polygate

${wrapped("Manages keys and budgets, reports usage, and runs a gateway. In a container, run it there: `docker compose exec gateway npx polygate keys list`, or `kubectl exec deploy/gateway -- npx polygate keys list`.")}

${indexOf(commands.flat().map((words) => words.join(" ")))}

## Options of every command

${list(rowsIn(general).filter(([name]) => GENERAL.test(name)))}

## Environment and exit codes

${notes.map((note) => wrapped(note, "  ")).join("\n")}

## Commands

${sections.join("\n\n")}
`;
}
