/** Lists the functions with the most self time in a `.cpuprofile` of Node's `--cpu-prof`. */

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: CallFrame }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
}

const SHOWN = 30;

/** Runs a function that starts and ends a process with the given arguments of Node. Returns the list of that process's functions. */
export async function profiled(run: (execArgv: string[]) => Promise<void>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "polygate-bench-"));
  try {
    await run(["--cpu-prof", `--cpu-prof-dir=${folder}`]);
    const [file] = await readdir(folder);
    if (!file) throw new Error("The process left no profile.");
    return topFunctions(JSON.parse(await readFile(join(folder, file), "utf8")) as CpuProfile);
  } finally {
    await rm(folder, { recursive: true });
  }
}

function topFunctions({ nodes, samples, timeDeltas }: CpuProfile): string {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const micros = new Map<string, number>();
  for (const [index, id] of samples.entries()) {
    const place = places.get(id) ?? "";
    micros.set(place, (micros.get(place) ?? 0) + (timeDeltas[index] ?? 0));
  }
  micros.delete("(idle)");
  const busy = [...micros.values()].reduce((sum, value) => sum + value, 0);
  return [...micros]
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, SHOWN)
    .map(([place, value]) => `${((100 * value) / busy).toFixed(1).padStart(6)} %  ${place}`)
    .join("\n");
}

function placeOf({ functionName, url, lineNumber }: CallFrame): string {
  const name = functionName || "(anonymous)";
  const file = url.split(/node_modules\/|\/(?=src\/|adapters\/|test\/)/).at(-1);
  return url ? `${name}  ${file}:${lineNumber + 1}` : name;
}
