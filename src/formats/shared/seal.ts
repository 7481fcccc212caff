/**
 * Seals: signatures of reasoning with the name of their maker. Only the maker accepts a signature, so an upstream must never get the
 * signature of another one. A signature in the format of its maker stands as the maker wrote it. In any other format it is wrapped, and the
 * wrapped text names the maker.
 */

import { fromBase64, isBase64, toBase64 } from "../../media/base64.ts";
import type { ToolCallPart } from "../../model/chat-request.ts";

/** A signature or encrypted reasoning, as the neutral requests and events have it. */
export interface Signed {
  readonly signature?: string | undefined;
  readonly maker?: string | undefined;
}

export type PartSignature = Pick<ToolCallPart, "signature" | "maker">;

/** The content of a wrapped text. */
export interface Seal {
  /** The name of a wire format or of a provider. */
  readonly maker: string;
  /** The signature, or the encrypted reasoning. Empty for reasoning that its maker does not sign. */
  readonly value: string;
  /**
   * `part`: the signature of the part that carries it. `hidden`: the same, with the text of the part, which the caller does not see.
   * `redacted`: encrypted reasoning. `call`: the signature of a tool call. `text`: that of the text before.
   */
  readonly kind: "part" | "hidden" | "redacted" | "call" | "text";
  /** The id of the tool call, for the kind `call`. */
  readonly callId?: string;
  /** The text of the part, for the kind `hidden`. Its maker checks the signature against it. */
  readonly text?: string;
}

const NAME = "polygate:";

/** The beginning of each wrapped text: `NAME` in base64. Its nine bytes are exactly twelve characters. */
const BEGINNING = toBase64(new TextEncoder().encode(NAME));

/** Wraps a seal into one text. The text is base64 in the standard alphabet, which all formats allow for signatures. */
export function wrapSeal({ maker, value, kind, callId = "", text }: Seal): string {
  const [third, rest] = kind === "hidden" ? [value, text ?? ""] : [callId, value];
  const head = [maker, kind, third].map((part) => encodeURIComponent(part.toWellFormed())).join(":");
  return toBase64(new TextEncoder().encode(`${NAME}${head}:${rest}`));
}

const WRAPPED = /^polygate:([^:]*):(part|hidden|redacted|call|text):([^:]*):/;

/** Returns the seal in a wrapped text; undefined for any other text. */
export function unwrapSeal(text: string): Seal | undefined {
  if (!text.startsWith(BEGINNING) || !isBase64(text)) return undefined;
  const whole = new TextDecoder().decode(fromBase64(text));
  const [head, maker, kind, third] = WRAPPED.exec(whole) ?? [];
  if (head === undefined || maker === undefined || third === undefined) return undefined;
  const seal = { maker: decoded(maker), value: whole.slice(head.length), kind: kind as Seal["kind"] };
  if (kind === "hidden") return { ...seal, value: decoded(third), text: seal.value };
  return kind === "call" ? { ...seal, callId: decoded(third) } : seal;
}

/** Decodes percent-encoding. A caller may have written the text, so malformed encoding stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the text of a signature in a format: the signature itself if the format's own upstreams made it, or if nobody is named. */
export function signatureText({ signature = "", maker }: Signed, format: string): string {
  return maker === undefined || maker === format ? signature : wrapSeal({ maker, value: signature, kind: "part" });
}

/** Reads the text of a signature that stands in a format. An empty text is no signature. */
export function readSignature(text: string, format: string): { signature?: string; maker?: string } {
  if (text === "") return {};
  const seal = unwrapSeal(text);
  return seal ? { signature: seal.value, maker: seal.maker } : { signature: text, maker: format };
}
