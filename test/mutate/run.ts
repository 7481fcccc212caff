/** `npm run mutate` changes the sources in small ways, one at a time in a copy, and says which changes no test notices. */

import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, matchesGlob } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { copyProject, type CoverageMap, readMap, root, sourceFiles, startTests, testsOf } from "./map.ts";
import { type Mutant, read } from "./sites.ts";

const { values: flags } = parseArgs({
  options: {
    count: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    /** Only sources that match this pattern, such as `src/stores/**`. */
    files: { type: "string", default: "**" },
    /** Runs the tests once before, to learn which sources they run today. */
    map: { type: "boolean", default: false },
    /** The processor time of the tests for one mutant, by the map. */
    budget: { type: "string", default: "40" },
  },
});

interface Site extends Mutant {
  readonly file: string;
  readonly line: number;
  /** The changed line. It stays the same when other lines move. */
  readonly name: string;
}

const short = (text: string): string => text.trim().replaceAll(/\s+/g, " ");

/** Chooses by the hash of the name, so that a change of one source leaves the choice in the others as it is. */
function chosen(): Site[] {
  const sites: Site[] = [];
  for (const file of sourceFiles().filter((name) => matchesGlob(name, flags.files))) {
    const source = readFileSync(join(root, file), "utf8");
    for (const mutant of read(source).mutants) {
      const [from, to] = [source.lastIndexOf("\n", mutant.start - 1) + 1, source.indexOf("\n", mutant.end)];
      const line = source.slice(0, mutant.start).split("\n").length;
      const before = short(source.slice(from, to));
      const after = short(source.slice(from, mutant.start) + mutant.text + source.slice(mutant.end, to));
      sites.push({ ...mutant, file, line, name: `${file}: ${before} → ${after}` });
    }
  }
  const order = (site: Site): string =>
    createHash("sha1")
      .update(flags.seed + site.name)
      .digest("hex");
  return sites
    .map((site) => ({ site, key: order(site) }))
    .toSorted((one, other) => (one.key < other.key ? -1 : 1))
    .slice(0, Number(flags.count))
    .map(({ site }) => site);
}

/** Runs test files in a copy, the first failure ends the run. Returns false where a test failed, or nothing ended in time. */
async function passes(folder: string, files: readonly string[], limitMs: number): Promise<boolean> {
  const child = startTests(folder, ["--bail=1", "--maxWorkers=1", "--testTimeout=60000", ...files]);
  const timer = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, "SIGKILL"), limitMs);
  const [code] = (await once(child, "exit")) as [number | null];
  clearTimeout(timer);
  return code === 0;
}

/** Runs the related tests in batches, each dearer than the one before, until one fails. */
async function survives(folder: string, map: CoverageMap, site: Site): Promise<boolean> {
  let left = Number(flags.budget) * 1_000;
  let [batch, cost, size] = [[] as string[], 0, 1_500];
  for (const file of testsOf(map, site.file, [site.line, site.line])) {
    const cpuMs = map.tests[file]?.cpuMs ?? 0;
    if (cpuMs > left) break;
    left -= cpuMs;
    batch.push(file);
    cost += cpuMs;
    if (cost < size) continue;
    // A busy machine may need many times the processor time.
    if (!(await passes(folder, batch, 60_000 + 10 * cost))) return false;
    [batch, cost, size] = [[], 0, size * 4];
  }
  return batch.length === 0 || passes(folder, batch, 60_000 + 10 * cost);
}

async function mutate(): Promise<void> {
  const map = await readMap(flags.map);
  const folder = copyProject();
  const sites = chosen();
  let survivors = 0;
  for (const [index, site] of sites.entries()) {
    const { file, line, start, end, text, name } = site;
    const source = readFileSync(join(root, file), "utf8");
    writeFileSync(join(folder, file), source.slice(0, start) + text + source.slice(end));
    const isAlive = await survives(folder, map, site);
    writeFileSync(join(folder, file), source);
    if (isAlive) survivors++;
    console.log(`${index + 1} ${isAlive ? "survives" : "killed"} ${file}:${line}${name.slice(file.length)}`);
  }
  rmSync(folder, { recursive: true });
  console.log(`${sites.length - survivors} of ${sites.length} mutants killed, seed ${flags.seed}`);
}

await mutate();
