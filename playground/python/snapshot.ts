/** Keeps the snapshot of Python in the cache folder beside the installed package. */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { GATE, makeSnapshot, type PythonEnd, type PythonSettings, type PythonSnapshot, WORKER } from "./process.ts";

/** Returns the saved snapshot, or makes a new snapshot, which takes seconds. Returns the end of the process if this fails. */
export async function openSnapshot(settings: PythonSettings, stop: AbortSignal): Promise<PythonSnapshot | PythonEnd> {
  const file = await fileOf(settings);
  const kept = await readFile(file).catch(() => undefined);
  if (kept) return kept;
  const made = await makeSnapshot(settings, stop);
  if (!("wasReady" in made)) await keep(file, made);
  return made;
}

/** Deletes the saved snapshot. */
export async function dropSnapshot(settings: PythonSettings): Promise<void> {
  await rm(await fileOf(settings), { force: true });
}

/** Returns the path of the snapshot. Its name contains a hash of all sources of the snapshot. */
async function fileOf({ folder }: PythonSettings): Promise<string> {
  const sources = await Promise.all([join(folder, "package.json"), WORKER, GATE].map((file) => readFile(file)));
  const hash = createHash("sha256");
  for (const source of sources) hash.update(source);
  return join(dirname(folder), ".cache", "polygate", `python-${hash.digest("hex").slice(0, 16)}.snapshot`);
}

/** Saves a snapshot atomically. Ignores errors: without a saved snapshot, the next process makes its own. */
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
