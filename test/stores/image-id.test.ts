/** Ids of images cannot be guessed, and can name nothing but an image. */

import { expect, it } from "vitest";
import { isImageId, newImageId } from "../../src/ports/image-store.ts";

it("a new id has 192 random bits in characters that are safe anywhere", () => {
  const ids = Array.from({ length: 1_000 }, newImageId);
  expect(new Set(ids).size).toBe(1_000);
  for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(ids.every(isImageId)).toBe(true);
  // Each of the 64 characters comes up.
  expect(new Set(ids.join("")).size).toBe(64);
});
