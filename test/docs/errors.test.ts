/** Compares the page about errors with the code: the texts of messages. */

import { globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { expect, it } from "vitest";
import { entries, ROOT } from "./entries.ts";
import { markedTables, namesIn } from "./pages.ts";
import { REMEDIES } from "./remedies.ts";

it("each text with a remedy is a message of the code", () => {
  const sources = globSync("{src,adapters}/**/*.ts", { cwd: ROOT }).map((path) =>
    readFileSync(`${ROOT}${path}`, "utf8"),
  );
  const rows = (markedTables("(messages)").get("messages") ?? []).flatMap(([cell]) => namesIn(cell));
  const texts = [...rows, ...REMEDIES.map(([text]) => text)];
  expect(texts.length).toBeGreaterThan(35);
  expect(new Set(texts).size).toBe(texts.length);
  const unknown = texts.filter((text) => {
    // The parts between the dots stand in one message, in this order.
    const parts = text
      .split("…")
      .map((part) => part.trim())
      .filter(Boolean);
    const pattern = new RegExp(
      parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join(String.raw`[^\n]{0,200}?`),
    );
    return parts.length === 0 || !sources.some((source) => pattern.test(source));
  });
  expect(unknown).toEqual([]);
});

const sourceOf = (file: string): string => readFileSync(`${ROOT}${file}`, "utf8");

/** Matches the imports of values that are made as soon as a file is. */
const IMPORT = /^(?:import (?!type )|\} )(?:[^"\n]*? )?from "([^"]+)"/gm;

/** Returns the packages that the import of a file needs. */
function packagesOf(file: string, seen: Set<string> = new Set()): readonly string[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const text = sourceOf(file).replaceAll(/^import type [^;]+;/gm, "");
  return [...text.matchAll(IMPORT)].flatMap(([, name = ""]) =>
    name.startsWith(".") ? packagesOf(posix.join(posix.dirname(file), name), seen) : name,
  );
}

it("the table of missing packages has each entry whose import needs one", () => {
  const { peerDependencies } = JSON.parse(sourceOf("package.json")) as { readonly peerDependencies: object };
  const peers = Object.keys(peerDependencies);
  const needed = Array.from(entries(), ([name, file]) => {
    const packages = packagesOf(file).flatMap(
      (one) => peers.find((peer) => one === peer || one.startsWith(`${peer}/`)) ?? [],
    );
    return [name, [...new Set(packages)].toSorted()] as const;
  }).filter(([, packages]) => packages.length > 0);
  const rows = (markedTables("(packages)").get("packages") ?? []).map(([entry = "", install = ""]) => {
    const [command = ""] = namesIn(install);
    return [namesIn(entry)[0] ?? "", command.replace("npm install ", "").split(" ").toSorted()] as const;
  });
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(needed));
});
