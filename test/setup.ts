/**
 * Runs before each test file: seeds every property, fails the file when anything writes to the console, and puts back the classes of the
 * platform that a framework has replaced.
 */

import process from "node:process";
import { format } from "node:util";
import fc from "fast-check";
import { afterAll } from "vitest";
import { UPSTREAMS } from "../src/formats/all.ts";
import { createGateway, memoryQuotaStore } from "../src/index.ts";

// The same seed in every run, so that a failure repeats.
fc.configureGlobal({ seed: Number(process.env["FAST_CHECK_SEED"] ?? 20_261_121) });

/** Loads the code of all formats, so that a first call takes no longer than the next: in many tests the clock stands still. */
await createGateway({
  backend: { async *chat() {}, async *image() {}, async *embed() {} },
  quotas: memoryQuotaStore([]),
}).load();
await Promise.all(Object.values(UPSTREAMS).map((format) => format.load?.()));

/** A test that expects a line spies on the console. */
const unexpected: string[] = [];
for (const method of ["debug", "dir", "error", "info", "log", "table", "trace", "warn"] as const)
  console[method] = (...values: unknown[]) => void unexpected.push(format(...values));

// Hono's server replaces these classes with its own, whose responses have no `bytes`.
const { Request, Response } = globalThis;

afterAll(() => {
  for (const [name, value] of Object.entries({ Request, Response }))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  if (unexpected.length > 0) throw new Error(`No test expects these lines on the console:\n${unexpected.join("\n")}`);
});
