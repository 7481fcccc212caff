/** Texts are shown so that people see each of their characters. */

import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { argument } from "../../src/admin/call-admin.ts";
import { visible } from "../../src/model/visible.ts";

it.each([
  ["", ""],
  ["Ann Müller (command line)", "Ann Müller (command line)"],
  ["Иванова, Сара", "Иванова, Сара"],
  ["иван@example.com", "иван@example.com"],
  ["Αθήνα 東京 Tチーム ناصر", "Αθήνα 東京 Tチーム ناصر"],
  ["mañana 🌧 Acme™ …", "mañana 🌧 Acme™ …"],
  ["نامه\u200cای", "نامه\u200cای"],
  ["\u0430nn", String.raw`"\u0430nn"`],
  ["\u0441\u043e\u0440@example.com", String.raw`"\u0441\u043e\u0440@example.com"`],
  ["\u0441\u043e\u0440", String.raw`"\u0441\u043e\u0440"`],
  ["t\u0435am-a", String.raw`"t\u0435am-a"`],
  ["te\u03b1m", String.raw`"te\u03b1m"`],
  ["\uff41nn", String.raw`"\uff41nn"`],
  ["\u{1d41a}nn", String.raw`"\ud835\udc1ann"`],
  ["a\u00a0b", String.raw`"a\u00a0b"`],
  ["a\u3000b", String.raw`"a\u3000b"`],
  ["ann\u200b", String.raw`"ann\u200b"`],
  ["a\u200db", String.raw`"a\u200db"`],
  ["a\tb\n", String.raw`"a\tb\n"`],
  ["\u202enna", String.raw`"\u202enna"`],
  ["a\u2800b\u115f\ufe0f\ue000", String.raw`"a\u2800b\u115f\ufe0f\ue000"`],
  [String.raw`\u0430nn`, String.raw`"\\u0430nn"`],
  ['say "hi"', String.raw`"say \"hi\""`],
  ["\ud800", String.raw`"\ud800"`],
])("writes %j as %s", (text, written) => {
  expect(visible(text)).toBe(written);
});

it.each([
  ["team-a", "team-a"],
  ["team a", "'team a'"],
  ["it's; rm -rf ~ $(x) `y`", String.raw`'it'\''s; rm -rf ~ $(x) ${"`y`"}'`],
  ["Team Größe", "'Team Größe'"],
  ["a\u00a0b", String.raw`$'a\u00a0b'`],
  ["t\u0435am's\\", String.raw`$'t\u0435am\'s\\'`],
  ["\u001b[31m\n", String.raw`$'\u001b[31m\u000a'`],
  ["\u{1d41a}", String.raw`$'\U0001d41a'`],
  ["!x", "'!x'"],
])("writes %j for a shell as %s", (word, written) => {
  expect(argument(word)).toBe(written);
  const shell = { encoding: "utf8", env: { ...process.env, LC_ALL: "C.UTF-8" } } as const;
  expect(execFileSync("bash", ["-c", `printf %s ${written}`], shell)).toBe(word);
});

it("writes a long text in a time that grows with its length alone", () => {
  const long = ["\u0301", "\u0430a", "\u0430", "e\u0301\u200d", "\u200d"].map((part) => part.repeat(20_000)).join(" ");
  expect(visible(long).length).toBeGreaterThan(long.length);
});
