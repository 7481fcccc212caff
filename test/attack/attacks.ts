/** The attack trial: its classes in the order of the table, each in a process of its own, and the table in SECURITY.md. */

import { readFileSync, writeFileSync } from "node:fs";
import { Child } from "../trial/child.ts";
import type { Row, Trial } from "../trial/frame.ts";
import { backends } from "./backends.ts";
import { clocks } from "./clocks.ts";
import type { Attack, Plan, Result } from "./frame.ts";
import { frames } from "./frames.ts";
import { grow } from "./grow.ts";
import { leaks } from "./leaks.ts";
import { mutate } from "./mutate.ts";
import { secrets } from "./secrets.ts";
import { sockets } from "./sockets.ts";
import { stores } from "./stores.ts";
import { tenants } from "./tenants.ts";
import { upstreams } from "./upstreams.ts";

export const attacks: readonly Attack[] = [
  mutate,
  grow,
  backends,
  stores,
  upstreams,
  clocks,
  leaks,
  sockets,
  frames,
  tenants,
  secrets,
];

interface AttackFlags extends Readonly<Record<string, number | boolean | undefined>> {
  /** The number of attempts of each class. */
  readonly count: number | undefined;
  readonly seed: number;
  /** The number of a single attempt to repeat. */
  readonly at: number | undefined;
  /** Makes the attempts of the tests: fewer and smaller. */
  readonly short: boolean;
  /** Writes the table into SECURITY.md. */
  readonly write: boolean;
}

export const attackTrial: Trial<Attack, AttackFlags> = {
  name: "attack",
  does: "Attacks gateways in eleven classes, each in a process of its own.",
  flags: { count: undefined, seed: 1, at: undefined, short: false, write: false },
  subjects: attacks,
  async run(attack, { seed, at, short, count = short ? attack.counts.short : attack.counts.full }) {
    const result = await inProcess(attack, { seed, count, at, isShort: short });
    const problems = result.findings.map(
      ({ what, detail, index, times }) => `${what} (${times} times; first --seed ${seed} --at ${index})\n    ${detail}`,
    );
    return { rows: [rowOf(attack, result)], problems };
  },
  conclude(table, { seed, short, write }) {
    if (write) writeTable(table, seed, short);
  },
};

/** Runs one class in a process of its own. The end of that process is a finding. */
async function inProcess({ name }: Attack, plan: Plan): Promise<Result> {
  const execArgv = ["--expose-gc", "--max-old-space-size=2048"];
  await using child = new Child<Plan, Result | number>("attack/attacker.ts", { args: [name], execArgv });
  let index = 0;
  try {
    return (await child.ask(plan, (attempt) => (index = Number(attempt)))) as Result;
  } catch (error) {
    const ended = { what: "The process ends", detail: String(error), index, times: 1 };
    return { name, attempts: index, findings: [ended], longestTurnMs: undefined };
  }
}

/** Returns the row of a class in the table. */
export const rowOf = ({ name, does }: Attack, { attempts, findings, longestTurnMs }: Result): Row => ({
  Class: `\`${name}\``,
  Attack: does,
  Attempts: attempts,
  Findings: findings.length,
  "Longest turn, ms": longestTurnMs?.toFixed(0) ?? "–",
});

const SECURITY = new URL("../../SECURITY.md", import.meta.url);
const PACKAGE = new URL("../../package.json", import.meta.url);
const MARKED = /(<!-- attacks: begin -->\n)[^]*(<!-- attacks: end -->)/;

/** Writes the table into SECURITY.md, with the day, the version, the seed and the form of the run. */
function writeTable(table: string, seed: number, isShort: boolean): void {
  const { version } = JSON.parse(readFileSync(PACKAGE, "utf8")) as { version: string };
  const day = new Date().toISOString().slice(0, 10);
  const form = isShort ? "the short form" : "in full";
  const run = `Run on ${day}, ${form}: version ${version}, seed ${seed}, Node ${process.versions.node}.`;
  const text = readFileSync(SECURITY, "utf8");
  if (!MARKED.test(text)) throw new Error("SECURITY.md has no marks for the table.");
  writeFileSync(
    SECURITY,
    text.replace(MARKED, (_whole, begin: string, end: string) => `${begin}\n${run}\n\n${table}\n\n${end}`),
  );
}
