/**
 * Sessions: conversations whose answers have come from upstreams of several makers. A client of one format has kept them as it got them,
 * with every signature in its place, and sends them all with its next request.
 */

import fc from "fast-check";
import type { ChatEvent, JsonObject, Part } from "../../../src/index.ts";
import { clientKeeps, requestOf } from "./clients.ts";
import { factsOf } from "./facts.ts";
import { type Format, type FormatName, FORMATS } from "./formats.ts";
import { type Asked, missing } from "./law.ts";
import { turnOf } from "./turns.ts";

type Maker = FormatName | "ai-sdk.openai";

/** An answer as an upstream gives it. */
interface Step {
  readonly maker: Maker;
  readonly thoughts: readonly { readonly text: string; readonly kind: "signed" | "unsigned" | "encrypted" }[];
  readonly text: string | undefined;
  readonly calls: number;
  /** True for a signature on the first call, and on the text, for makers that sign these. */
  readonly isSigned: boolean;
  readonly isStreamed: boolean;
  /** The field in which a provider of chat completions shows its reasoning. */
  readonly field: "reasoning_content" | "reasoning" | "reasoning_details";
}

export interface Session {
  readonly model: string;
  readonly steps: readonly Step[];
}

const words = fc.string({ minLength: 1, maxLength: 6 }).map((text) => `${text.trim() || "Hm"}.`);

/** Sessions of up to four answers. A switch of the model is as likely as none. */
export const session: fc.Arbitrary<Session> = fc.record({
  model: fc.constantFrom("m", "gemini-3-pro", "claude-sonnet-4-5"),
  steps: fc.array(
    fc.record({
      maker: fc.constantFrom<Maker>("messages", "generate-content", "chat-completions", "responses", "ai-sdk.openai"),
      thoughts: fc.array(fc.record({ text: words, kind: fc.constantFrom("signed", "unsigned", "encrypted") }), {
        maxLength: 2,
      }),
      text: fc.option(words, { nil: undefined }),
      calls: fc.nat({ max: 2 }),
      isSigned: fc.boolean(),
      isStreamed: fc.boolean(),
      field: fc.constantFrom("reasoning_content", "reasoning", "reasoning_details"),
    }),
    { minLength: 1, maxLength: 4 },
  ),
});

/** Makes seals that are unique in a session. */
class Seals {
  #count = 0;
  readonly #maker: string;

  constructor(maker: string) {
    this.#maker = maker;
  }

  next(): string {
    return Buffer.from(`seal ${this.#count++} of ${this.#maker}`).toString("base64");
  }
}

/** The answer of an upstream, as the gateway reads it. */
function answerOf({ thoughts, ...given }: Step, at: number): readonly ChatEvent[] {
  // Each thought is another, so that a lost one is missed.
  const step = { ...given, thoughts: thoughts.map((one, index) => ({ ...one, text: `${one.text} (${at}.${index})` })) };
  const text = step.text === undefined && step.calls === 0 ? "Done." : step.text;
  const ids = Array.from({ length: step.calls }, (_, index) => `call_${at}_${index}`);
  const seals = new Seals(`${step.maker} ${at}`);
  if (step.maker === "ai-sdk.openai") return providerAnswer({ ...step, text }, ids, seals);
  const upstream = FORMATS.find(({ name }) => name === step.maker);
  const body = BODIES[step.maker]({ ...step, text }, ids, seals);
  return upstream?.codec.answerDecoder().answer(JSON.stringify(body)) ?? [];
}

const INPUT = { at: 1 };

type BodyOf = (step: Step, ids: readonly string[], seals: Seals) => object;

const BODIES: Readonly<Record<FormatName, BodyOf>> = {
  messages: ({ thoughts, text, calls }, ids, seals) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      // Claude signs all its reasoning.
      ...thoughts.map((thought) =>
        thought.kind === "encrypted"
          ? { type: "redacted_thinking", data: seals.next() }
          : { type: "thinking", thinking: thought.text, signature: seals.next() },
      ),
      ...(text === undefined ? [] : [{ type: "text", text }]),
      ...ids.map((id) => ({ type: "tool_use", id, name: "look", input: INPUT })),
    ],
    stop_reason: calls > 0 ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }),
  "generate-content": ({ thoughts, text, isSigned }, ids, seals) => ({
    candidates: [
      {
        content: {
          role: "model",
          parts: [
            ...thoughts.map((thought) => ({
              text: thought.text,
              thought: true,
              ...(thought.kind === "signed" && { thoughtSignature: seals.next() }),
            })),
            ...(text === undefined ? [] : [{ text, ...(isSigned && { thoughtSignature: seals.next() }) }]),
            ...ids.map((id, index) => ({
              functionCall: { id, name: "look", args: INPUT },
              ...(isSigned && index === 0 && { thoughtSignature: seals.next() }),
            })),
          ],
        },
        finishReason: "STOP",
        index: 0,
      },
    ],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  }),
  "chat-completions": ({ thoughts, text, isSigned, field, calls }, ids, seals) => ({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: text ?? null,
          ...(thoughts.length > 0 && {
            [field]:
              field === "reasoning_details"
                ? thoughts.map(({ text: thought, kind }, index) =>
                    kind === "encrypted"
                      ? { type: "reasoning.encrypted", data: seals.next(), index }
                      : {
                          type: "reasoning.text",
                          text: thought,
                          index,
                          ...(kind === "signed" && { signature: seals.next() }),
                        },
                  )
                : thoughts.map(({ text: thought }) => thought).join(""),
          }),
          ...(ids.length > 0 && {
            tool_calls: ids.map((id, index) => ({
              id,
              type: "function",
              function: { name: "look", arguments: JSON.stringify(INPUT) },
              ...(isSigned && index === 0 && { extra_content: { google: { thought_signature: seals.next() } } }),
            })),
          }),
        },
        finish_reason: calls > 0 ? "tool_calls" : "stop",
      },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }),
  responses: ({ thoughts, text }, ids, seals) => ({
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "m",
    output: [
      ...thoughts.map((thought, index) => ({
        type: "reasoning",
        id: `rs_${index}`,
        // A local server shows its reasoning itself, and encrypts nothing.
        ...(thought.kind === "unsigned"
          ? { summary: [], content: [{ type: "reasoning_text", text: thought.text }] }
          : {
              summary: thought.kind === "encrypted" ? [] : [{ type: "summary_text", text: thought.text }],
              encrypted_content: seals.next(),
            }),
      })),
      ...(text === undefined
        ? []
        : [
            {
              type: "message",
              id: "msg_1",
              status: "completed",
              role: "assistant",
              content: [{ type: "output_text", text, annotations: [] }],
            },
          ]),
      ...ids.map((id, index) => ({
        type: "function_call",
        id: `fc_${index}`,
        status: "completed",
        call_id: id,
        name: "look",
        arguments: JSON.stringify(INPUT),
      })),
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  }),
};

/** The answer of an AI SDK model whose provider is no known kind of model. */
function providerAnswer({ thoughts, text, isSigned }: Step, ids: readonly string[], seals: Seals): ChatEvent[] {
  const maker = "ai-sdk.openai";
  const seal = () => JSON.stringify({ openai: { itemId: seals.next() } });
  return [
    ...thoughts.flatMap((thought, index): ChatEvent[] => {
      if (thought.kind === "encrypted") return [{ type: "redacted-reasoning", data: seal(), maker }];
      const signature = thought.kind === "signed" ? seal() : "";
      return [
        { type: "reasoning-delta", text: thought.text, block: String(index) },
        { type: "reasoning-signature", signature, maker },
      ];
    }),
    ...(text === undefined
      ? []
      : [{ type: "text-delta", text, ...(isSigned && { signature: seal(), maker }) } as const]),
    ...ids.flatMap((id, index): ChatEvent[] => [
      { type: "tool-call-start", id, name: "look" },
      { type: "tool-call-delta", id, json: JSON.stringify(INPUT) },
      { type: "tool-call-end", id, ...(isSigned && index === 0 && { signature: seal(), maker }) },
    ]),
    { type: "finish", reason: ids.length > 0 ? "tool-calls" : "stop", usage: { inputTokens: 1, outputTokens: 1 } },
  ];
}

/** The conversation as the client of a format sends it. Throws an error that names what the client did not get, and was not told of. */
export function askedIn(from: Format, { model, steps }: Session): Asked {
  const turns: { events: readonly ChatEvent[]; message: JsonObject }[] = [];
  const told = new Set<string>();
  for (const [at, step] of steps.entries()) {
    const answer = answerOf(step, at);
    const events = step.isStreamed
      ? answer.flatMap((event) => (event.type === "native" ? event.events : [event]))
      : answer;
    turns.push({ events: answer, message: clientKeeps(from.name, events, step.isStreamed, told) });
  }
  const body = requestOf(
    from.name,
    model,
    turns.map(({ message }) => message),
  );
  const request = from.read(body, { model, stream: false });
  const user: Part[] = [{ type: "text", text: "Go" }];
  const messages = turns.flatMap(({ events }) => {
    const parts = turnOf(events);
    return [{ role: "assistant", parts } as const, { role: "user", parts: answerTo(parts) } as const];
  });
  const expected = { ...request, messages: [{ role: "user", parts: user } as const, ...messages] };
  const facts = [...factsOf(request)];
  // Each format has its own shape of results.
  const said = [...factsOf(expected)].filter(({ key }) => !/^(?:user|result) /.test(key));
  for (const { key, fields } of missing(said, facts, []))
    if (!fields.some((field) => ANSWERED[field]?.some((lost) => told.has(lost))))
      throw new Error(`Not kept by a client of ${from.name}: ${key}`);
  return { request, text: JSON.stringify(body), facts };
}

/** The fields of requests that are lost where an answer has lost a field. */
const ANSWERED: Readonly<Record<string, readonly string[]>> = {
  "messages.signature": ["answer.signature"],
  "messages.redacted-reasoning": ["answer.redacted-reasoning"],
  "messages.reasoning": ["answer.reasoning-signature", "answer.reasoning-delta"],
};

/** The turn of the user behind an answer: the results of its calls, or a word. */
function answerTo(parts: readonly Part[]): Part[] {
  const results = parts.flatMap((part): Part[] =>
    part.type === "tool-call"
      ? [{ type: "tool-result", callId: part.id, parts: [{ type: "text", text: "Seen" }] }]
      : [],
  );
  return results.length > 0 ? results : [{ type: "text", text: "Go on" }];
}
