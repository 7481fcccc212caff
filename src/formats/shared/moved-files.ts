/** Moves files of the assistant, such as pictures that a model has drawn, to the user's turns: some formats take files from users alone. */

import type { ChatMessage, DocumentPart, JsonPart, MediaPart, Part } from "../../model/chat-request.ts";
import type { ConvertedFields } from "./conversions.ts";

type FilePart = MediaPart | DocumentPart;

const isFile = (part: Part | JsonPart): part is FilePart => part.type === "media" || part.type === "document";

/**
 * Returns the turns with the files of each assistant's turn in the user's next turn, in their order and behind the results of tools. Makes a
 * turn of the user where none follows. Returns the same list if no file is moved.
 *
 * @param isMoved Tells whether a file is moved: one that the format takes from users. The encoder drops all others where they are.
 * @param fields Receives `messages.media.moved`, and `messages.prefill` where the last turn of the assistant is not the last any more.
 */
export function withFilesOfUsers(
  messages: readonly ChatMessage[],
  isMoved: (file: FilePart) => boolean,
  fields: ConvertedFields,
): readonly ChatMessage[] {
  const turns: ChatMessage[] = [];
  let files: Part[] = [];
  const flush = (): void => {
    if (files.length > 0) turns.push({ role: "user", parts: files });
    files = [];
  };
  for (const turn of messages) {
    const { role, parts } = turn;
    if (role === "assistant") {
      // Instructions alone stand between the files and this turn.
      if (turns.at(-1)?.role === "system") flush();
      const moved = new Set<Part>(parts.filter((part) => isFile(part) && isMoved(part)));
      if (moved.size > 0) {
        fields.add("messages.media.moved");
        for (const file of moved) files.push(file);
      }
      turns.push(moved.size > 0 ? { ...turn, parts: parts.filter((part) => !moved.has(part)) } : turn);
    } else if (role === "user" && files.length > 0) {
      const at = parts.findIndex(({ type }) => type !== "tool-result");
      turns.push({ ...turn, parts: at < 0 ? [...parts, ...files] : parts.toSpliced(at, 0, ...files) });
      files = [];
    } else turns.push(turn);
  }
  if (files.length > 0 && messages.at(-1)?.role === "assistant") fields.add("messages.prefill");
  flush();
  return fields.has("messages.media.moved") ? turns : messages;
}
