/** A strict upstream of the generate-content format: its routes, answers and errors. */

import { demandsSignatures, sealedCall, validateGenerateContent } from "./generate-content.rules.ts";
import type { Turn } from "./script.ts";
import { newId, pieces, type Received, Refused, type StrictFormat, type Vault } from "./strict.ts";

/** @param hasIds Whether the calls have ids, as those of the newer models. */
export const strictGenerateContent = (hasIds = true): StrictFormat => ({
  format: "generate-content",
  version: "/v1beta",
  credential: (headers) => headers.get("x-goog-api-key"),
  route(path) {
    const [, model, verb] = /^\/models\/([^/:]+):(generateContent|streamGenerateContent)$/.exec(path) ?? [];
    if (model === undefined) throw new Refused("Requested entity was not found.", { status: 404 });
    return { model, streamed: verb === "streamGenerateContent" };
  },
  count: (path) => (path.endsWith(":countTokens") ? { totalTokens: 100 } : undefined),
  validate: validateGenerateContent,
  complete: (turn, received, vault) => chunk(received, partsOf(turn, received, vault, hasIds), END),
  stream(turn, received, vault) {
    const parts = partsOf(turn, received, vault, hasIds);
    const chunks = parts.map((part, index) => chunk(received, [part], index === parts.length - 1 ? END : {}));
    return chunks.map((data) => `data: ${JSON.stringify(data)}\r\n\r\n`).join("");
  },
  error: ({ status, message }) => ({
    error: { code: status, message, status: STATUSES[status] ?? "INVALID_ARGUMENT" },
  }),
});

const STATUSES: Readonly<Record<number, string>> = { 401: "UNAUTHENTICATED", 404: "NOT_FOUND" };

const END = { finishReason: "STOP" };

const chunk = ({ model }: Received, parts: readonly object[], end: object): object => ({
  candidates: [{ content: { parts, role: "model" }, ...end, index: 0 }],
  usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 140, thoughtsTokenCount: 20 },
  modelVersion: model,
  responseId: newId("", 22),
});

interface Config {
  readonly thinkingConfig?: { readonly includeThoughts?: boolean };
}

/** The signature stands on the first call, or behind the text of an answer without calls. */
function partsOf(
  { thought, text, calls }: Turn,
  { model, body, streamed: isStreamed }: Received,
  vault: Vault,
  hasIds: boolean,
): object[] {
  const cut = isStreamed ? pieces : (whole: string): string[] => [whole];
  const { thinkingConfig } = (body["generationConfig"] ?? {}) as Config;
  const parts: object[] = [];
  if (thinkingConfig?.includeThoughts) parts.push(...cut(thought).map((text) => ({ text, thought: true })));
  if (text !== undefined) parts.push(...cut(text).map((text) => ({ text })));
  for (const [index, call] of calls.entries())
    parts.push({
      functionCall: { ...(hasIds && { id: newId("", 8) }), ...call },
      ...(index === 0 && demandsSignatures(model) && { thoughtSignature: vault.seal("call", sealedCall(call)) }),
    });
  if (calls.length > 0 || !demandsSignatures(model)) return parts;
  const sealed = { thoughtSignature: vault.seal("text", "") };
  // A stream carries the signature behind the text, in a part without text.
  return isStreamed ? [...parts, { text: "", ...sealed }] : [...parts.slice(0, -1), { ...parts.at(-1), ...sealed }];
}
