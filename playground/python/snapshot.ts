/** The snapshot of Python, made once for an installed package and kept beside it, where caches of tools are kept. */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { GATE, makeSnapshot, type PythonEnd, type PythonSettings, type PythonSnapshot, WORKER } from "./process.ts";

/** The snapshot that is kept, or a new one, which takes seconds; how making it ended where that failed. */
export async function openSnapshot(settings: PythonSettings, stop: AbortSignal): Promise<PythonSnapshot | PythonEnd> {
  const file = await fileOf(settings);
  const kept = await readFile(file).catch(() => undefined);
  if (kept) return kept;
  const made = await makeSnapshot(settings, stop);
  if (!("wasReady" in made)) await keep(file, made);
  return made;
}

/** Deletes the snapshot that is kept: the next one is new. */
export async function dropSnapshot(settings: PythonSettings): Promise<void> {
  await rm(await fileOf(settings), { force: true });
}

/** Named by all that a snapshot is made of. */
async function fileOf({ folder }: PythonSettings): Promise<string> {
  const sources = await Promise.all([join(folder, "package.json"), WORKER, GATE].map((file) => readFile(file)));
  const hash = createHash("sha256");
  for (const source of sources) hash.update(source);
  return join(dirname(folder), ".cache", "polygate", `python-${hash.digest("hex").slice(0, 16)}.snapshot`);
}

/** Whoever reads it meanwhile finds all of it, or nothing. Where nothing can be written, the next process makes its own. */
async function keep(file: string, snapshot: PythonSnapshot): Promise<void> {
  const unfinished = `${file}.${randomUUID()}`;
  try {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(unfinished, snapshot);
    await rename(unfinished, file);
  } catch {
    await rm(unfinished, { force: true }).catch(() => {});
  }
}
