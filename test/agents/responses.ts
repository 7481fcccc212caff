/** A strict upstream of the Responses format that stores nothing: its routes, answers and errors. */

import { offeredTools, reasons, validateResponses } from "./responses.rules.ts";
import type { Turn } from "./script.ts";
import { newId, pieces, type Received, Refused, type StrictFormat, type Vault } from "./strict.ts";

export const strictResponses: StrictFormat = {
  format: "responses",
  version: "/v1",
  credential: (headers) => headers.get("authorization")?.replace(/^Bearer /, "") ?? null,
  route(path, { model, stream }) {
    if (path !== "/responses") throw new Refused("Unknown request URL.", { status: 404 });
    return { model: model as string, streamed: stream === true };
  },
  validate: validateResponses,
  count: (path) =>
    path === "/responses/input_tokens" ? { object: "response.input_tokens", input_tokens: 100 } : undefined,
  complete: (turn, received, vault) => responseOf(received, "completed", itemsOf(turn, received, vault)),
  stream: (turn, received, vault) =>
    eventsOf(received, itemsOf(turn, received, vault))
      .map((event, sequence_number) => frame({ ...event, sequence_number }))
      .join(""),
  error: ({ message, param, code }) => ({ error: { message, type: "invalid_request_error", param, code } }),
};

interface Event {
  readonly type: string;
  readonly [field: string]: unknown;
}

const frame = (event: Event): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

const usage = {
  input_tokens: 100,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 40,
  output_tokens_details: { reasoning_tokens: 20 },
  total_tokens: 140,
};

const responseOf = (
  { model, body }: Received,
  status: string,
  output: readonly object[],
  id = newId("resp_", 48),
): object => ({
  id,
  object: "response",
  created_at: 1_767_225_600,
  status,
  background: false,
  error: null,
  incomplete_details: null,
  model,
  output,
  previous_response_id: null,
  store: false,
  tools: body["tools"] ?? [],
  usage: status === "completed" ? usage : null,
});

type Item =
  | { type: "reasoning"; id: string; summary: { type: "summary_text"; text: string }[]; encrypted_content?: string }
  | { type: "message"; id: string; role: "assistant"; status: string; content: object[] }
  | (Called & { type: "function_call"; arguments: string })
  | (Called & { type: "custom_tool_call"; input: string });

interface Called {
  id: string;
  call_id: string;
  name: string;
  namespace?: string;
  status: string;
}

const textPart = (text: string): object => ({ type: "output_text", text, annotations: [], logprobs: [] });

/** Reasoning is encrypted for a caller who asks for it, and shown as a summary for one who asks for that. */
function itemsOf({ thought, isRedacted, text, calls }: Turn, { model, body }: Received, vault: Vault): Item[] {
  const { include, reasoning } = body as { include?: string[]; reasoning?: { summary?: string } };
  const items: Item[] = [];
  const offered = offeredTools(body);
  if (reasons(model))
    items.push({
      type: "reasoning",
      id: newId("rs_", 48),
      summary: reasoning?.summary && !isRedacted ? [{ type: "summary_text", text: thought }] : [],
      ...(include?.includes("reasoning.encrypted_content") && { encrypted_content: vault.seal("reasoning", "") }),
    });
  if (text !== undefined)
    items.push({
      type: "message",
      id: newId("msg_", 48),
      role: "assistant",
      status: "completed",
      content: [textPart(text)],
    });
  for (const { name, args } of calls) {
    const call_id = newId("call_");
    if (reasons(model)) vault.calls.add(call_id);
    // The cast is safe: the body was validated.
    const { isCustom, schema: _, ...names } = offered.get(name) ?? { name, isCustom: false, schema: {} };
    const rest = { call_id, ...names, status: "completed" };
    if (isCustom)
      items.push({ type: "custom_tool_call", id: newId("ctc_", 48), ...rest, input: args["input"] as string });
    else items.push({ type: "function_call", id: newId("fc_", 48), ...rest, arguments: JSON.stringify(args) });
  }
  return items;
}

/** The fields of an item that its deltas fill. */
const EMPTY: Readonly<Record<Item["type"], object>> = {
  message: { content: [] },
  reasoning: { summary: [] },
  function_call: { arguments: "" },
  custom_tool_call: { input: "" },
};

function eventsOf(received: Received, items: readonly Item[]): Event[] {
  const id = newId("resp_", 48);
  const begun = responseOf(received, "in_progress", [], id);
  const events: Event[] = [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
  ];
  for (const [output_index, item] of items.entries()) {
    const at = { item_id: item.id, output_index };
    const added = EMPTY[item.type];
    const begin = item.type === "reasoning" ? {} : { status: "in_progress" };
    events.push({ type: "response.output_item.added", output_index, item: { ...item, ...begin, ...added } });
    if (item.type === "reasoning") {
      for (const [summary_index, part] of item.summary.entries()) {
        const place = { ...at, summary_index };
        events.push({ type: "response.reasoning_summary_part.added", ...place, part: { ...part, text: "" } });
        for (const delta of pieces(part.text))
          events.push({ type: "response.reasoning_summary_text.delta", ...place, delta });
        events.push({ type: "response.reasoning_summary_text.done", ...place, text: part.text });
        events.push({ type: "response.reasoning_summary_part.done", ...place, part });
      }
    } else if (item.type === "message") {
      const [part] = item.content as [{ text: string }];
      const place = { ...at, content_index: 0 };
      events.push({ type: "response.content_part.added", ...place, part: textPart("") });
      for (const delta of pieces(part.text))
        events.push({ type: "response.output_text.delta", ...place, delta, logprobs: [] });
      events.push({ type: "response.output_text.done", ...place, text: part.text, logprobs: [] });
      events.push({ type: "response.content_part.done", ...place, part });
    } else if (item.type === "custom_tool_call") {
      for (const delta of pieces(item.input))
        events.push({ type: "response.custom_tool_call_input.delta", ...at, delta });
      events.push({ type: "response.custom_tool_call_input.done", ...at, input: item.input });
    } else {
      for (const delta of pieces(item.arguments))
        events.push({ type: "response.function_call_arguments.delta", ...at, delta });
      events.push({ type: "response.function_call_arguments.done", ...at, name: item.name, arguments: item.arguments });
    }
    events.push({ type: "response.output_item.done", output_index, item });
  }
  events.push({ type: "response.completed", response: responseOf(received, "completed", items, id) });
  return events;
}
