/** Compares the table of conversions of embeddings in the docs with the code. The reference has those of chats. */

import { expect, it } from "vitest";
import { EMBEDDING_CONVERSIONS } from "../../src/formats/generate-content/embed.ts";
import { EMBEDDINGS_CONVERSIONS } from "../../src/formats/shared/openai-embeddings.ts";
import { markedTables } from "./pages.ts";
import { conversionRows } from "./tables.ts";

it("the docs list each field of embeddings that some format cannot convert exactly", () => {
  const written = markedTables("(embedding conversions)").get("embedding conversions");
  expect(written).toEqual(conversionRows([EMBEDDINGS_CONVERSIONS, EMBEDDING_CONVERSIONS]));
});
