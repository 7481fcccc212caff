/** Compares the page about errors with the code: the texts of messages. */

import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { ROOT } from "./entries.ts";
import { markedTables, namesIn } from "./pages.ts";

it("each text in the table of messages is a message of the code", () => {
  const sources = globSync("{src,adapters}/**/*.ts", { cwd: ROOT }).map((path) =>
    readFileSync(`${ROOT}${path}`, "utf8"),
  );
  const texts = (markedTables("(messages)").get("messages") ?? []).map(([cell]) => namesIn(cell)[0] ?? "");
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
