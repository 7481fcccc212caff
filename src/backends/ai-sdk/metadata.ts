/**
 * What a provider notes on a piece of its answer and wants back with the next turn, as one opaque signature. A seal that a wire format
 * knows already stays as it is; all else is packed, so that any format's caller can send it back.
 */

import { isBase64, textOfBase64, toBase64 } from "../../media/base64.ts";
import { isJsonObject, JsonBudget, type JsonObject, parseJson } from "../../model/json.ts";
import type { ProviderOptions } from "./options.ts";

/** The provider's own name of the metadata that is a seal by itself. */
const SEALS: Readonly<Record<string, string>> = {
  anthropic: "signature",
  google: "thoughtSignature",
  googleVertex: "thoughtSignature",
  vertex: "thoughtSignature",
};

const MARK = "ai-sdk";
/** What every packed signature begins with: base64 of the object's beginning. */
const BEGINNING = "eyJhaS1zZGsi";

/** The metadata of a part, if it has any. */
export function metadataOf(part: Readonly<Record<string, unknown>>): ProviderOptions {
  return objectsIn(part["providerMetadata"]);
}

function objectsIn(value: unknown): ProviderOptions {
  if (!isJsonObject(value)) return {};
  const told = Object.entries(value).filter(([, of]) => isJsonObject(of) && Object.keys(of).length > 0);
  return Object.fromEntries(told) as Record<string, JsonObject>;
}

/** Later metadata of the same block beside what came before. */
export function mergedMetadata(one: ProviderOptions, other: ProviderOptions): ProviderOptions {
  const merged: Record<string, JsonObject> = { ...one };
  for (const [provider, more] of Object.entries(other)) {
    // A key that is told as null is one that is not known yet.
    const known = Object.entries(more).filter(([key, value]) => value !== null || !(key in (merged[provider] ?? {})));
    merged[provider] = { ...merged[provider], ...Object.fromEntries(known) };
  }
  return merged;
}

/** The signature that stands for metadata; undefined where there is none. */
export function signatureOf(metadata: ProviderOptions): string | undefined {
  const entries = Object.entries(metadata);
  if (entries.length === 0) return undefined;
  const seals = entries.map(([provider, of]) => {
    const seal = of[SEALS[provider] ?? ""];
    return Object.keys(of).length === 1 && typeof seal === "string" ? seal : undefined;
  });
  const [seal] = seals;
  if (seal !== undefined && !seal.startsWith(BEGINNING) && seals.every((other) => other === seal)) return seal;
  return toBase64(new TextEncoder().encode(JSON.stringify({ [MARK]: metadata })));
}

/**
 * The metadata that a signature stands for; undefined for one that means nothing to this provider. A signature is the caller's word:
 * it reaches the part that it stands on, and nothing else of the request.
 *
 * @param budget Counts the JSON of all signatures of a request.
 */
export function metadataIn(
  signature: string,
  provider: string,
  budget: JsonBudget = new JsonBudget(),
): ProviderOptions | undefined {
  if (signature.startsWith(BEGINNING)) return unpacked(signature, budget);
  if (/anthropic/i.test(provider)) return { anthropic: { signature } };
  const seal = { thoughtSignature: signature };
  if (/vertex/i.test(provider)) return { googleVertex: seal, vertex: seal };
  return /google/i.test(provider) ? { google: seal } : undefined;
}

function unpacked(signature: string, budget: JsonBudget): ProviderOptions | undefined {
  const json = isBase64(signature) ? textOfBase64(signature) : undefined;
  if (json === undefined) return undefined;
  try {
    const packed = parseJson(json, budget);
    return isJsonObject(packed) ? objectsIn(packed[MARK]) : undefined;
  } catch {
    return undefined;
  }
}
