/** Fingerprints a request, so that a repetition is told from another request under the same key. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { Form } from "../http/form.ts";
import { EventLoopYielder } from "../ports/clock.ts";

interface Hash {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

interface NativeCrypto {
  createHash?(algorithm: "sha256"): Hash;
}

// Resolved at run time, not imported: a bundle for a runtime without Node's modules must not name such a module.
const native = globalThis.process?.getBuiltinModule?.("node:crypto") as NativeCrypto | undefined;

/** The length of one hashed slice, in bytes or characters. */
const SLICE = 256 * 1024;

/** The texts and bytes to hash. Each part counts separately: `["ab", "c"]` differs from `["a", "bc"]`. */
type Hashed = readonly (string | Uint8Array)[];

const encoder = new TextEncoder();

/**
 * Returns the SHA-256 of all parts in hex. Pauses for the event loop, because an upload may be hundreds of megabytes.
 */
export async function hashOf(parts: Hashed): Promise<string> {
  const hash: Hash = native?.createHash?.("sha256") ?? sha256.create();
  const yielder = new EventLoopYielder();
  for (const part of parts) {
    hash.update(encoder.encode(`${typeof part} ${part.length};`));
    for (let from = 0; from < part.length;) {
      const to = endOf(part, from);
      const slice = typeof part === "string" ? encoder.encode(part.slice(from, to)) : part.subarray(from, to);
      hash.update(slice);
      from = to;
      if (yielder.isDue(slice.length)) await yielder.pause();
    }
  }
  return bytesToHex(Uint8Array.from(hash.digest()));
}

/** Returns the end of a slice. Never splits a character, because each half would be hashed like any other half. */
function endOf(part: string | Uint8Array, from: number): number {
  const to = Math.min(part.length, from + SLICE);
  const isCut = typeof part === "string" && to < part.length && /[\uD800-\uDBFF]/.test(part[to - 1] ?? "");
  return isCut ? to - 1 : to;
}

/**
 * Returns the content of a body for its fingerprint: JSON as it was written, a form by its parts in order. A client that repeats a form
 * makes up another boundary, so the bytes of two equal forms differ.
 */
export function saidBy(body: string | Form | undefined): Hashed {
  if (body === undefined || typeof body === "string") return ["json", body ?? ""];
  const { fields, files } = body;
  return [
    "form",
    ...[...fields].flatMap(([name, values]) => [name, String(values.length), ...values]),
    "files",
    ...files.flatMap(({ field, name, bytes }) => [field, name ?? "", bytes]),
  ];
}

/**
 * Returns the meaningful headers for the fingerprint: the version of the format, and the beta features in any order and spelling.
 * Returns nothing when neither is there.
 */
export function saidByHeaders(headers: Headers): Hashed {
  const version = headers.get("compat-version") || headers.get("anthropic-version") || "";
  const betas = [headers.get("compat-beta"), headers.get("anthropic-beta")]
    .flatMap((list) => list?.split(",") ?? [])
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "");
  if (version === "" && betas.length === 0) return [];
  return ["version", version, "betas", ...[...new Set(betas)].toSorted()];
}
