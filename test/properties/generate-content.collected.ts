/** Puts the chunks of a generate-content stream together, as a client does that wants the whole of it. */

export interface Chunk {
  readonly candidates?: readonly Candidate[];
  readonly [field: string]: unknown;
}

interface Candidate {
  readonly content?: { readonly role?: string; readonly parts?: readonly Part[] };
  readonly index?: number;
  readonly [field: string]: unknown;
}

interface Part {
  readonly text?: string;
  readonly thought?: boolean;
  readonly thoughtSignature?: string;
}

/** The complete answer: each field as it was said last, and the pieces of each candidate's content in order. */
export function collected(chunks: readonly Chunk[]): Chunk {
  const fields = Object.assign({}, ...chunks) as Chunk;
  const all = chunks.flatMap(({ candidates }) => candidates ?? []);
  if (all.length === 0) return fields;
  const indices = Array.from(new Set(all.map(({ index }) => index ?? 0))).toSorted((a, b) => a - b);
  return { ...fields, candidates: indices.map((index) => collectedCandidate(all, index)) };
}

function collectedCandidate(all: readonly Candidate[], index: number): Candidate {
  const own = all.filter((candidate) => (candidate.index ?? 0) === index);
  const parts = joined(own.flatMap(({ content }) => content?.parts ?? []));
  const fields = Object.assign({}, ...own) as Candidate;
  return { ...fields, content: { role: "model", parts: parts.length > 0 ? parts : [{ text: "" }] } };
}

/** The pieces of one text as one part; a signature ends it, and an empty text without one says nothing. */
function joined(pieces: readonly Part[]): Part[] {
  const parts: Part[] = [];
  for (const piece of pieces) {
    const { text, thought, thoughtSignature } = piece;
    if (text === "" && thoughtSignature === undefined) continue;
    const last = parts.at(-1);
    if (text !== undefined && last?.text !== undefined && last.thought === thought && !("thoughtSignature" in last))
      parts[parts.length - 1] = { ...last, ...piece, text: last.text + text };
    else parts.push(piece);
  }
  return parts;
}
