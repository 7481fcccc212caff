/**
 * Converts a provider's metadata on a part of an answer to a signature, and back for the next turn. The signature of a known kind of model
 * stays as it is, because every service of this model accepts it. All other metadata become JSON, which only their own provider gets back.
 */

import type { Signed } from "../../formats/shared/seal.ts";
import { isJsonObject, JsonBudget, type JsonObject, type JsonValue, parseJson } from "../../model/json.ts";
import type { AiSdkModel, ProviderOptions } from "./options.ts";

/** The makers of a model's signatures, and the place of signatures in the metadata of the model's provider. */
export interface Signer {
  /** The maker of single signatures: a wire format that names a kind of model, or else the same as `jsonMaker`. */
  readonly maker: string;
  /** The maker of metadata that are kept as JSON: `ai-sdk.` and the first part of the provider's name. */
  readonly jsonMaker: string;
  /** The field of a single signature, for known kinds of models. */
  readonly field: "signature" | "thoughtSignature" | undefined;
  /** The names under which the provider reads its metadata. */
  readonly namespaces: readonly string[];
}

/** Returns the signer of a model. Services of the same kind of model accept each other's signatures. */
export function signerOf({ provider, modelId }: Pick<AiSdkModel, "provider" | "modelId">): Signer {
  const jsonMaker = `ai-sdk.${provider.split(".", 1)[0]}`;
  const claude = { maker: "messages", field: "signature", jsonMaker } as const;
  const gemini = { maker: "generate-content", field: "thoughtSignature", jsonMaker } as const;
  if (/anthropic/i.test(provider)) return { ...claude, namespaces: ["anthropic"] };
  if (/bedrock/i.test(provider) && /anthropic|claude/i.test(modelId))
    return { ...claude, namespaces: ["amazonBedrock", "bedrock"] };
  // A provider of Vertex reads its older name only where the newer name is absent.
  if (/vertex/i.test(provider)) return { ...gemini, namespaces: ["googleVertex", "vertex"] };
  if (/google/i.test(provider)) return { ...gemini, namespaces: ["google"] };
  return { maker: jsonMaker, jsonMaker, field: undefined, namespaces: [] };
}

/** Returns the objects in a part's metadata, by provider. Ignores everything else. */
export function metadataOf(value: unknown): ProviderOptions {
  if (!isJsonObject(value)) return {};
  const objects = Object.entries(value).filter(([, own]) => isJsonObject(own) && Object.keys(own).length > 0);
  return Object.fromEntries(objects) as Record<string, JsonObject>;
}

/** Merges later metadata of the same part into earlier metadata. */
export function mergedMetadata(earlier: ProviderOptions, later: ProviderOptions): ProviderOptions {
  const merged: Record<string, JsonObject> = { ...earlier };
  for (const [provider, more] of Object.entries(later)) {
    // Null means that the value is not known yet, so it must not replace an earlier value.
    const known = Object.entries(more).filter(([key, value]) => value !== null || !(key in (merged[provider] ?? {})));
    merged[provider] = { ...merged[provider], ...Object.fromEntries(known) };
  }
  return merged;
}

/** Converts metadata to a signature and its maker; to undefined when the metadata say nothing. */
export function signatureOf(
  metadata: ProviderOptions,
  signer: Signer,
): { readonly signature: string; readonly maker: string } | undefined {
  for (const own of Object.values(metadata)) {
    const signature = signer.field && own[signer.field];
    if (typeof signature === "string" && signature !== "") return { signature, maker: signer.maker };
  }
  const json = jsonOf(metadata);
  return json === undefined ? undefined : { signature: json, maker: signer.jsonMaker };
}

/**
 * Converts the metadata of reasoning without a text to encrypted reasoning. Returns undefined for metadata that say nothing, and for a
 * single signature, which stays a signature: a Claude that does not show its reasoning signs an empty text.
 */
export function redactedOf(
  metadata: ProviderOptions,
  signer: Signer,
): { readonly data: string; readonly maker: string } | undefined {
  const data = metadata["anthropic"]?.["redactedData"];
  if (signer.maker === "messages" && typeof data === "string" && data !== "") return { data, maker: signer.maker };
  const signed = signatureOf(metadata, signer);
  return signed?.maker === signer.jsonMaker ? { data: signed.signature, maker: signed.maker } : undefined;
}

/** Writes metadata as JSON, without values that say nothing. */
function jsonOf(metadata: ProviderOptions): string | undefined {
  const told: Record<string, JsonObject> = {};
  for (const [provider, own] of Object.entries(metadata)) {
    const fields = Object.entries(own).filter(([, value]) => saysSomething(value));
    if (fields.length > 0) told[provider] = Object.fromEntries(fields);
  }
  return Object.keys(told).length > 0 ? JSON.stringify(told) : undefined;
}

function saysSomething(value: JsonValue | undefined): boolean {
  if (value === null || value === undefined || value === "") return false;
  if (Array.isArray(value)) return value.length > 0;
  // Anthropic's provider adds `{ caller: { type: "direct" } }` to each call that the model itself made.
  return !isJsonObject(value) || (Object.keys(value).length > 0 && value["type"] !== "direct");
}

/**
 * Converts a signature back to the metadata of its part. Returns undefined when the provider cannot use the signature: another maker made
 * it, or a caller has forged it.
 *
 * @param budget Counts the JSON of all signatures of a request.
 */
export function metadataFrom(
  { signature = "", maker }: Signed,
  { namespaces, field, ...signer }: Signer,
  budget: JsonBudget = new JsonBudget(),
): ProviderOptions | undefined {
  if (signature === "") return undefined;
  if (maker === signer.jsonMaker) return metadataFromJson(signature, budget);
  // A signature without a maker comes from a host's own backend, or from its caller: it may belong to this provider.
  if (field === undefined || (maker !== undefined && maker !== signer.maker)) return undefined;
  return Object.fromEntries(namespaces.map((name) => [name, { [field]: signature }]));
}

/** Converts encrypted reasoning back to the metadata of an empty reasoning part. */
export function metadataFromRedacted(
  { data, maker }: { readonly data: string; readonly maker?: string },
  signer: Signer,
  budget: JsonBudget,
): ProviderOptions | undefined {
  if (data === "") return undefined;
  if (maker === signer.jsonMaker) return metadataFromJson(data, budget);
  const isAnthropic = signer.namespaces.includes("anthropic") && (maker === undefined || maker === signer.maker);
  return isAnthropic ? { anthropic: { redactedData: data } } : undefined;
}

function metadataFromJson(json: string, budget: JsonBudget): ProviderOptions | undefined {
  try {
    const metadata = metadataOf(parseJson(json, budget));
    return Object.keys(metadata).length > 0 ? metadata : undefined;
  } catch {
    return undefined;
  }
}
