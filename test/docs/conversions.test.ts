/** Compares the tables of conversions in the docs with the code. */

import { expect, it } from "vitest";
import * as converse from "../../src/clouds/converse/conversions.ts";
import * as chatCompletions from "../../src/formats/chat-completions/conversions.ts";
import * as generateContent from "../../src/formats/generate-content/conversions.ts";
import { EMBEDDING_CONVERSIONS } from "../../src/formats/generate-content/embed.ts";
import * as messages from "../../src/formats/messages/conversions.ts";
import * as responses from "../../src/formats/responses/conversions.ts";
import type { ConversionRule } from "../../src/formats/shared/conversions.ts";
import { EMBEDDINGS_CONVERSIONS as EMBEDDINGS } from "../../src/formats/shared/openai-embeddings.ts";
import { markedTables } from "./pages.ts";

type Table = Readonly<Record<string, ConversionRule>>;

const FORMATS = [messages, generateContent, chatCompletions, responses];

it.each<[marker: string, tables: readonly Table[]]>([
  ["embedding conversions", [EMBEDDINGS, EMBEDDING_CONVERSIONS]],
  ["conversions", [...FORMATS, converse].map(({ CONVERSIONS }) => CONVERSIONS)],
  ["answer conversions", FORMATS.map(({ ANSWER_CONVERSIONS }) => ANSWER_CONVERSIONS)],
])("the docs list each field that some format cannot convert exactly: %s", (marker, tables) => {
  const fields = new Set(tables.flatMap((table) => Object.keys(table)));
  const rows = [...fields].map((field): [string, string[]] => {
    const conversions = tables.map(({ [field]: rule }) => rule?.conversion ?? "exact");
    return [`\`${field}\``, conversions.map((conversion) => (conversion === "exact" ? "" : conversion))];
  });
  const written = [...markedTables(`(${marker})`).values()].flat();
  // The order of the rows is free: the page groups fields that belong together.
  expect(Object.fromEntries(written.map(([field = "", ...conversions]) => [field, conversions]))).toEqual(
    Object.fromEntries(rows.filter(([, conversions]) => conversions.some(Boolean))),
  );
});
