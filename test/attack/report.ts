/** Writes what came of attacks as a table, and that table into SECURITY.md. */

import { readFileSync, writeFileSync } from "node:fs";
import { attacks } from "./attacks.ts";
import type { Result } from "./frame.ts";

const HEAD = ["Class", "What is tried", "Attempts", "Findings", "Longest turn, ms"];

/** The table, padded as the formatter pads it. */
export function tableOf(results: readonly Result[]): string {
  const rows = results.map(({ name, attempts, findings, longestTurnMs }) => {
    const does = attacks.find((attack) => attack.name === name)?.does ?? "";
    return [`\`${name}\``, does, String(attempts), String(findings.length), longestTurnMs?.toFixed(0) ?? "–"];
  });
  const widths = HEAD.map((_title, column) => Math.max(...[HEAD, ...rows].map((row) => row[column]?.length ?? 0)));
  const lineOf = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const rule = `| ${widths.map((width, column) => (column < 2 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)).join(" | ")} |`;
  return [lineOf(HEAD), rule, ...rows.map(lineOf)].join("\n");
}

const SECURITY = new URL("../../SECURITY.md", import.meta.url);
const PACKAGE = new URL("../../package.json", import.meta.url);
const MARKED = /(<!-- attacks: begin -->\n)[^]*(<!-- attacks: end -->)/;

/** Writes the table into SECURITY.md, with the day, the version and the seed of the run, and whether it was the short form. */
export async function writeTable(results: readonly Result[], seed: number, isShort: boolean): Promise<void> {
  const { version } = JSON.parse(readFileSync(PACKAGE, "utf8")) as { version: string };
  const day = new Date().toISOString().slice(0, 10);
  const form = isShort ? "the short form" : "in full";
  const run = `Run on ${day}, ${form}: version ${version}, seed ${seed}, Node ${process.versions.node}.`;
  const text = readFileSync(SECURITY, "utf8");
  if (!MARKED.test(text)) throw new Error("SECURITY.md has no place for the table.");
  writeFileSync(
    SECURITY,
    text.replace(MARKED, (_whole, begin: string, end: string) => `${begin}\n${run}\n\n${tableOf(results)}\n\n${end}`),
  );
}
