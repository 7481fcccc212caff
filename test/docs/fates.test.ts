/** The tables of fates in the docs are those of the code. */

import { expect, it } from "vitest";
import { FATES as CHAT_COMPLETIONS } from "../../src/dialects/chat-completions/fates.ts";
import { ANSWER_FATES as CHAT_COMPLETIONS_ANSWERS } from "../../src/dialects/chat-completions/fates.answer.ts";
import { FATES as GENERATE_CONTENT } from "../../src/dialects/generate-content/fates.ts";
import { ANSWER_FATES as GENERATE_CONTENT_ANSWERS } from "../../src/dialects/generate-content/fates.answer.ts";
import { FATES as MESSAGES } from "../../src/dialects/messages/fates.ts";
import { ANSWER_FATES as MESSAGES_ANSWERS } from "../../src/dialects/messages/fates.answer.ts";
import type { FateRule } from "../../src/dialects/shared/fates.ts";
import { markedTables } from "./pages.ts";

type Table = Readonly<Record<string, FateRule>>;

it.each<[marker: string, tables: readonly Table[]]>([
  ["fates", [MESSAGES, GENERATE_CONTENT, CHAT_COMPLETIONS]],
  ["answer fates", [MESSAGES_ANSWERS, GENERATE_CONTENT_ANSWERS, CHAT_COMPLETIONS_ANSWERS]],
])("docs/fates.md tells of each field that some format cannot say exactly: %s", (marker, tables) => {
  const fields = Object.keys(tables[0] ?? {});
  const rows = fields.map((field) => {
    const fates = tables.map(({ [field]: rule }) => rule?.fate ?? "missing");
    return [`\`${field}\``, ...fates.map((fate) => (fate === "exact" ? "" : fate))];
  });
  expect([...markedTables(`(${marker})`).values()].flat()).toEqual(rows.filter(([, ...fates]) => fates.some(Boolean)));
});
