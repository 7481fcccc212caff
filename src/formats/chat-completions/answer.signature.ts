/** The signatures of tool calls and texts. Only Gemini makes such signatures, and its maker is the format of Google's own interface. */

import { readSignature, type Signed, signatureText } from "../shared/seal.ts";
import type { ExtraContent } from "./schema.ts";

const MAKER = "generate-content";

/** The text that Google documents for a tool call whose signature is missing, because another model made the call. */
export const NO_SIGNATURE = "skip_thought_signature_validator";

/** Reads the signature in an extension; an empty object without one, or with an empty one, which a caller may have forged. */
export function readExtra(extra: ExtraContent): { signature?: string; maker?: string } {
  const signed = readSignature(extra?.google?.thought_signature ?? "", MAKER);
  return signed.signature ? signed : {};
}

interface WrittenExtra {
  extra_content?: { google: { thought_signature: string } };
}

/** Writes a signature as the field for it; an empty object without one. A signature of another maker is wrapped. */
export function writeExtra(signed: Signed): WrittenExtra {
  const text = signed.signature ? signatureText(signed, MAKER) : "";
  return text === "" ? {} : { extra_content: { google: { thought_signature: text } } };
}

/** Tells whether a signature may go to a Gemini model: its own maker wrote it, or nobody is named. */
export const isGoogles = ({ signature, maker = MAKER }: Signed): boolean => Boolean(signature) && maker === MAKER;
