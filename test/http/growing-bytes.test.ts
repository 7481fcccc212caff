/** Bytes that grow are the bytes that were appended, whatever the sizes of the chunks. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { GrowingBytes } from "../../src/http/body.ts";

const MAX_BYTES = 4 * 1024 * 1024;

it("are what was appended", () => {
  const chunks = fc.array(fc.tuple(fc.nat(255), fc.oneof(fc.nat(100), fc.nat(700_000))), { maxLength: 5 });
  fc.assert(
    fc.property(chunks, (chunks) => {
      const growing = new GrowingBytes(MAX_BYTES);
      const whole = Buffer.concat(chunks.map(([byte, length]) => Buffer.alloc(length, byte)));
      for (const [byte, length] of chunks) growing.append(Buffer.alloc(length, byte));
      expect(growing.length).toBe(whole.length);
      expect(whole.equals(growing.seal())).toBe(true);
    }),
  );
});

it("may be as many as were announced, and not more", () => {
  const growing = new GrowingBytes(10);
  growing.append(new Uint8Array(10));
  expect(() => growing.append(new Uint8Array(1))).toThrow(RangeError);
  expect(growing.seal()).toHaveLength(10);
});

it("do not keep the chunk that they came in", () => {
  const growing = new GrowingBytes(10);
  const chunk = new Uint8Array([1, 2, 3]);
  growing.append(chunk);
  chunk.fill(9);
  expect(Array.from(growing.seal())).toEqual([1, 2, 3]);
});
