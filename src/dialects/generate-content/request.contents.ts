/** The conversation (spec 2.8) and the neutral turns, in both directions. */

import type { ChatMessage, Part, Role } from "../../model/chat.ts";
import { CallIds } from "./request.calls.ts";
import { decodeMedia, encodeDocument, encodeMedia, isSayable } from "./request.media.ts";
import { decodeResponse, encodeResponse } from "./request.results.ts";
import { DIALECT } from "./schema.base.ts";
import { type Content, type Contents, type Part as WirePart, PROVIDER_KINDS } from "./schema.ts";
import { fromWire, LANGUAGE, OUTCOME } from "./schema.enums.ts";

const LANGUAGE_OF = fromWire(LANGUAGE);
const OUTCOME_OF = fromWire(OUTCOME);

/** Functions answer in turns of the user's side, whatever their role is called. */
const ROLE_OF: Readonly<Record<NonNullable<Content["role"]>, Role>> = {
  user: "user",
  function: "user",
  tool: "user",
  "": "user",
  model: "assistant",
};

/** The format has no instructions inside the conversation: they are told as the user's. */
const WIRE_ROLE = { user: "user", assistant: "model", system: "user" } as const satisfies Record<Role, Content["role"]>;

export function decodeContents(contents: Contents): ChatMessage[] {
  const turns: { role: Role; parts: Part[] }[] = [];
  const list = typeof contents === "string" ? [contents] : contents;
  const calls = new CallIds(list);
  for (const item of list) {
    const { role, parts } = typeof item === "string" ? { role: "user" as const, parts: [{ text: item }] } : item;
    const neutral = ROLE_OF[role ?? "user"];
    let turn = turns.at(-1);
    if (turn?.role !== neutral) turns.push((turn = { role: neutral, parts: [] }));
    for (const part of parts) turn.parts.push(decodePart(part, calls, turns.length));
  }
  return turns;
}

export function encodeMessages(messages: readonly ChatMessage[]): Content[] {
  const names = new Map<string, string>();
  for (const { parts } of messages)
    for (const part of parts) if (part.type === "tool-call") names.set(part.id, part.name);
  const contents = messages.map(({ role, parts }) => ({
    role: WIRE_ROLE[role],
    parts: parts.flatMap((part) => encodePart(part, names)),
  }));
  // The format takes no content without parts.
  return contents.filter(({ parts }) => parts.length > 0);
}

type Marks = Pick<WirePart, "thought" | "thoughtSignature">;
interface Marked {
  readonly signature?: string;
  readonly thought?: boolean;
}

export const decodeMarks = ({ thought, thoughtSignature }: Marks): Marked => ({
  ...(thoughtSignature != null && { signature: thoughtSignature }),
  ...(thought && { thought }),
});
export const encodeMarks = ({ signature, thought }: Marked): Marks => ({
  ...(thought && { thought }),
  ...(signature !== undefined && { thoughtSignature: signature }),
});

function decodePart(part: WirePart, calls: CallIds, turn: number): Part {
  const { functionCall, functionResponse, executableCode, codeExecutionResult } = part;
  const marks = decodeMarks(part);
  const media = decodeMedia(part);
  if (media) return { ...media, ...marks };
  if (functionCall) {
    const { id, name, args } = functionCall;
    return { type: "tool-call", id: calls.ofCall(name, id, turn), name, input: args ?? {}, ...marks };
  }
  if (functionResponse) return { ...decodeResponse(functionResponse, calls), ...marks };
  if (executableCode) {
    const { id, language, code } = executableCode;
    return { type: "code", ...idOf(id), language: LANGUAGE_OF.get(language) ?? "unspecified", code, ...marks };
  }
  if (codeExecutionResult) {
    const { id, outcome, output } = codeExecutionResult;
    const result = { outcome: OUTCOME_OF.get(outcome) ?? "unspecified", ...(output != null && { output }) };
    return { type: "code-result", ...idOf(id), ...result, ...marks };
  }
  if (PROVIDER_KINDS.some((kind) => part[kind] != null)) return { type: "provider", dialect: DIALECT, value: part };
  const { thought, ...seal } = marks;
  return { type: thought ? "reasoning" : "text", text: part.text ?? "", ...seal };
}

function encodePart(part: Part, names: ReadonlyMap<string, string>): WirePart[] {
  switch (part.type) {
    case "text":
      return [{ text: part.text, ...encodeMarks(part) }];
    case "reasoning":
      return [{ text: part.text, ...encodeMarks({ ...part, thought: true }) }];
    case "refusal":
      return [{ text: part.text }];
    // Another provider's ciphertext means nothing to this one's models.
    case "redacted-reasoning":
      return [];
    case "media":
      return isSayable(part) ? [{ ...encodeMedia(part), ...encodeMarks(part) }] : [];
    case "document":
      return encodeDocument(part).map((inner) => ({ ...inner, ...encodeMarks(part) }));
    case "tool-call":
      return [{ functionCall: { id: part.id, name: part.name, args: part.input }, ...encodeMarks(part) }];
    case "tool-result":
      return [{ functionResponse: encodeResponse(part, names), ...encodeMarks(part) }];
    case "code": {
      const executableCode = { ...idOf(part.id), language: LANGUAGE[part.language], code: part.code };
      return [{ executableCode, ...encodeMarks(part) }];
    }
    case "code-result": {
      const { outcome, output } = part;
      const result = { outcome: OUTCOME[outcome], ...(output !== undefined && { output }) };
      return [{ codeExecutionResult: { ...idOf(part.id), ...result }, ...encodeMarks(part) }];
    }
    case "provider":
      return part.dialect === DIALECT ? [part.value] : [];
  }
}

const idOf = (id: string | null | undefined): { id?: string } => (id == null ? {} : { id });
