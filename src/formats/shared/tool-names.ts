/**
 * Replaces the names of tools that an upstream does not accept, and restores them in its answers. The vendors differ in the length of names,
 * and in the characters beside letters and digits.
 */

import type { ChatEvent, NativeEvent } from "../../model/chat-event.ts";
import {
  type ChatMessage,
  type ChatRequest,
  CODE_TOOL,
  type Part,
  type Tool,
  type ToolChoice,
} from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { fnv } from "../../model/fnv.ts";
import { RENAMED_TOOL } from "./conversions.ts";

/** The names that most vendors accept. */
export const TOOL_NAMES: RegExp = /^[\w-]{1,64}$/;

/** The names that Anthropic accepts. */
export const CLAUDE_TOOL_NAMES: RegExp = /^[\w-]{1,128}$/;

/** The names that Google accepts. */
export const GOOGLE_TOOL_NAMES: RegExp = /^[a-z_][\w.:-]{0,127}$/i;

/** The names of tools that formats give to the tools of providers. */
const RESERVED: readonly string[] = [CODE_TOOL, "web_search"];

/** The length of the longest name that all vendors accept, in characters. */
const MAX_CHARS = 64;

/** The characters that are left of the two ends of a name that is too long. Up to seven characters of a hash stand between them. */
const HEAD_CHARS = 20;
const TAIL_CHARS = 35;

/** Returns the replacements for the names in a request; undefined if the upstream accepts all of them. */
export function toolNamesFor({ tools, messages }: ChatRequest, accepted: RegExp | undefined): ToolNames | undefined {
  if (!accepted) return undefined;
  const refused = new Set<string>();
  for (const tool of tools) if (tool.type === "function" && !accepted.test(tool.name)) refused.add(tool.name);
  for (const { parts } of messages)
    for (const part of parts) if (part.type === "tool-call" && !accepted.test(part.name)) refused.add(part.name);
  if (refused.size === 0) return undefined;
  const taken = new Set(RESERVED);
  for (const tool of tools) if (tool.type !== "code-execution" && tool.name !== undefined) taken.add(tool.name);
  for (const { parts } of messages) for (const part of parts) if (part.type === "tool-call") taken.add(part.name);
  return new ToolNames(refused, taken);
}

/** The replacements for the names of one request. The same tools get the same replacements again, so that their prompt can be cached. */
export class ToolNames {
  readonly #replaced: Map<string, string> = new Map();
  readonly #own: Map<string, string> = new Map();
  readonly conversion: Conversion = { field: "tools.function.name", ...RENAMED_TOOL };

  /**
   * @param refused The names that the upstream does not accept.
   * @param taken All names in the request. Receives the replacements.
   */
  constructor(refused: Iterable<string>, taken: Set<string>) {
    let number = 1;
    for (const name of refused) {
      const plain = plainName(name);
      let replacement =
        plain.length <= MAX_CHARS && !taken.has(plain) ? plain : shortened(plain, fnv(name).toString(36));
      // Never count from the start again: this would be quadratic.
      while (taken.has(replacement)) replacement = shortened(plain, (++number).toString(36));
      taken.add(replacement);
      this.#replaced.set(name, replacement);
      this.#own.set(replacement, name);
    }
  }

  /** Returns the request under the names that the upstream accepts. */
  inRequest(request: ChatRequest): ChatRequest {
    const { tools, messages, toolChoice } = request;
    return {
      ...request,
      tools: tools.map((tool) => this.#ofTool(tool)),
      messages: messages.map((turn) => this.#inTurn(turn)),
      ...(toolChoice && { toolChoice: this.#inChoice(toolChoice) }),
    };
  }

  /** Returns an event of the answer with the tool's own name. */
  inAnswer(event: ChatEvent): ChatEvent {
    if (event.type !== "native") return this.#restored(event);
    const events = event.events.map((known) => this.#restored(known));
    return events.some((known, index) => known !== event.events[index]) ? { ...event, events } : event;
  }

  #restored(event: NativeEvent["events"][number]): NativeEvent["events"][number] {
    if (event.type !== "tool-call" && event.type !== "tool-call-start") return event;
    const name = this.#own.get(event.name);
    return name === undefined ? event : { ...event, name };
  }

  #ofTool(tool: Tool): Tool {
    return tool.type === "function" ? this.#named(tool) : tool;
  }

  #inTurn(turn: ChatMessage): ChatMessage {
    const parts = turn.parts.map((part): Part => {
      if (part.type === "tool-call") return this.#named(part);
      return part.type === "tool-result" && part.name !== undefined ? this.#named({ ...part, name: part.name }) : part;
    });
    return parts.some((part, index) => part !== turn.parts[index]) ? { ...turn, parts } : turn;
  }

  #inChoice(choice: ToolChoice): ToolChoice {
    if (choice.type === "tool") return this.#named(choice);
    if (choice.type === "none" || !choice.names) return choice;
    return { ...choice, names: choice.names.map((name) => this.#replaced.get(name) ?? name) };
  }

  #named<Named extends { readonly name: string }>(named: Named): Named {
    const name = this.#replaced.get(named.name);
    return name === undefined ? named : { ...named, name };
  }
}

/** Returns a name with only letters, digits, underscores and dashes. */
function plainName(name: string): string {
  const plain = name.replaceAll(/[^\w-]/g, "_");
  return /^[a-z_]/i.test(plain) ? plain : `_${plain}`;
}

const shortened = (name: string, middle: string): string =>
  `${name.slice(0, HEAD_CHARS)}_${middle}_${name.slice(HEAD_CHARS).slice(-TAIL_CHARS)}`;
