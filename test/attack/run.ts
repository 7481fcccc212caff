/** `npm run attack`: every class of attacks or those that are named, each in a process of its own, and a table of what came of it. */

import { fork } from "node:child_process";
import process from "node:process";
import { parseArgs } from "node:util";
import { attack, type Plan, type Result } from "./frame.ts";
import { attacks } from "./attacks.ts";
import { tableOf, writeTable } from "./report.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** How many attempts each class makes. */
    count: { type: "string" },
    seed: { type: "string" },
    /** The number of the attempt to make alone. */
    at: { type: "string" },
    /** Makes the attempts of the tests: fewer and smaller. */
    short: { type: "boolean", default: false },
    /** Writes the table into SECURITY.md. */
    write: { type: "boolean", default: false },
  },
});

/** Tells a process that it is to run a class itself. */
const IN_CHILD = "POLYGATE_ATTACK";
const seed = Number(values.seed ?? 1);
const unknown = positionals.filter((name) => !attacks.some((attack) => attack.name === name));
if (unknown.length > 0 || !Number.isSafeInteger(seed)) {
  console.error(`There is no attack ${unknown.join(", ")}. There are ${attacks.map(({ name }) => name).join(", ")}.`);
  process.exit(2);
}
const chosen = attacks.filter(({ name }) => positionals.length === 0 || positionals.includes(name));

/** Runs one class in a process of its own, so that one that ends the process is a finding. */
function inProcess(name: string): Promise<Result> {
  const child = fork(
    import.meta.filename,
    [...process.argv.slice(2).filter((argument) => !positionals.includes(argument)), name],
    {
      env: { ...process.env, [IN_CHILD]: name },
      execArgv: ["--expose-gc", "--max-old-space-size=2048"],
    },
  );
  let index = 0;
  let result: Result | undefined;
  child.on("message", (message: number | Result) => {
    if (typeof message === "number") index = message;
    else result = message;
  });
  return new Promise((resolve) => {
    child.on("exit", (code, signal) => {
      const ended = { what: "The process ends", detail: signal ?? `code ${code}`, index, times: 1 };
      resolve(result ?? { name, attempts: index, findings: [ended], longestTurnMs: undefined });
    });
  });
}

const own = attacks.find(({ name }) => name === process.env[IN_CHILD]);
if (own) {
  const plan: Plan = {
    seed,
    count: Number(values.count ?? (values.short ? own.counts.short : own.counts.full)),
    at: values.at === undefined ? undefined : Number(values.at),
    isShort: values.short,
    begin: (index) => void process.send?.(index),
  };
  const result = await attack(own, plan);
  // What a class has left open is not to keep the process.
  process.send?.(result, () => process.exit());
} else {
  const results: Result[] = [];
  for (const { name } of chosen) {
    const began = performance.now();
    const result = await inProcess(name);
    results.push(result);
    const seconds = ((performance.now() - began) / 1_000).toFixed(0);
    console.error(`${name}: ${result.attempts} attempts, ${result.findings.length} findings, ${seconds} s`);
    for (const { what, detail, index, times } of result.findings)
      console.error(`  ${what} (${times} times; first --seed ${seed} --at ${index})\n    ${detail}`);
  }
  console.log(tableOf(results));
  if (values.write) await writeTable(results, seed, values.short);
  if (results.some(({ findings }) => findings.length > 0)) process.exitCode = 1;
}
