/** The places in annotations. */

import { expect, it } from "vitest";
import { type Annotation, citationsIn, movedBy } from "../../src/model/chat-event.ts";

const GROUNDING: Annotation = {
  type: "grounding",
  chunks: [{ uri: "a" }, { uri: "b", title: "B" }, { uri: "c" }],
  supports: [
    { chunkIndices: [1, 0, 9], segment: { end: 4, text: "Hi" } },
    { chunkIndices: [1], segment: { partIndex: 0, start: 4, end: 6 } },
    { chunkIndices: [2], segment: { partIndex: 1, start: 4, end: 6 } },
    { chunkIndices: [2] },
  ],
};

it("are those of the supports of a source, and none without a support in the first part", () => {
  expect(citationsIn(GROUNDING)).toEqual([
    { uri: "b", title: "B", start: 0, end: 4 },
    { uri: "a", start: 0, end: 4 },
    { uri: "b", title: "B", start: 4, end: 6 },
    { uri: "c" },
  ]);
});

it("move with the text before them", () => {
  expect(movedBy({ type: "citations", citations: [{ start: 1, end: 2, uri: "a" }, { uri: "b" }] }, 10)).toEqual({
    type: "citations",
    citations: [{ start: 11, end: 12, uri: "a" }, { uri: "b" }],
  });
  expect(movedBy(GROUNDING, 10)).toMatchObject({
    supports: [
      { segment: { start: 10, end: 14 } },
      { segment: { start: 14, end: 16 } },
      { segment: { start: 4, end: 6 } },
      { chunkIndices: [2] },
    ],
  });
  const other: Annotation = { type: "token-count", tokens: 3 };
  expect(movedBy(other, 10)).toEqual(other);
});
