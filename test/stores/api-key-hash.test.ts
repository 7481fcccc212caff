/** An api key's hash is the same on every runtime. */

import { afterEach, expect, it, vi } from "vitest";
import { hashApiKey } from "../../src/stores/ledger.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

it("is the key's SHA-256", () => {
  expect(hashApiKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});

it.each([
  ["no process", undefined],
  ["no modules", {}],
  ["no crypto module", { getBuiltinModule: () => undefined }],
  ["a crypto module that hashes in the old way alone", { getBuiltinModule: () => ({}) }],
])("is the same on a runtime with %s", async (_name, process) => {
  vi.stubGlobal("process", process);
  vi.resetModules();
  const elsewhere = await import("../../src/stores/ledger.ts");
  expect(elsewhere.hashApiKey).not.toBe(hashApiKey);
  for (const key of ["", "demo", "Grüße 世界 𝄞", "\uD800 alone", "x".repeat(1000)])
    expect(elsewhere.hashApiKey(key)).toBe(hashApiKey(key));
});
