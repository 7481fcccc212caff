/** Strict upstreams of the chat-completions format, one for each profile of a vendor: their routes, answers and errors. */

import { type Profile, PROFILES } from "./chat-completions.profiles.ts";
import { validatorOf } from "./chat-completions.rules.ts";
import type { Turn } from "./script.ts";
import { newId, pieces, type Received, Refused, type StrictFormat, type Vault } from "./strict.ts";

export function strictChatCompletions(name: keyof typeof PROFILES): StrictFormat {
  const profile: Profile = PROFILES[name];
  const validate = validatorOf(profile);
  /** The thoughts of all answers, by the id of their first call. */
  const thoughts = new Map<string, string>();
  /** Returns the ids of an answer's calls, and remembers its thought. */
  const idsOf = ({ calls, thought }: Turn): string[] => {
    const ids = calls.map(() => profile.newCallId());
    if (ids[0] !== undefined) thoughts.set(ids[0], thought);
    return ids;
  };
  return {
    format: "chat-completions",
    version: "/v1",
    credential: (headers) => headers.get("authorization")?.replace(/^Bearer /, "") ?? null,
    route(path, { model, stream }) {
      if (path !== "/chat/completions") throw new Refused("Unknown request URL.", { status: 404 });
      return { model: model as string, streamed: stream === true };
    },
    validate: (received, vault) => validate(received, vault, thoughts),
    complete: (turn, received, vault) => answerOf(turn, received, vault, profile, idsOf(turn)),
    stream: (turn, received, vault) =>
      [...chunksOf(turn, received, vault, profile, idsOf(turn)).map((data) => JSON.stringify(data)), "[DONE]"]
        .map((data) => `data: ${data}\n\n`)
        .join(""),
    error: ({ message, param, code }) =>
      name === "mistral"
        ? { object: "error", message, type: "invalid_request_error", param, code: "1000" }
        : { error: { message, type: "invalid_request_error", param, code } },
  };
}

const usage = {
  prompt_tokens: 100,
  completion_tokens: 40,
  total_tokens: 140,
  completion_tokens_details: { reasoning_tokens: 20 },
};

/** The places of a signature: in the first or last piece of its call, in a piece of its own, and behind all calls. */
const PLACES = ["first", "last", "alone", "end"] as const;

const whole = (text: string): string[] => [text];

const head = ({ model }: Received, object: string): object => ({
  id: newId("chatcmpl-"),
  object,
  created: 1_767_225_600,
  model,
});

function answerOf(turn: Turn, received: Received, vault: Vault, profile: Profile, ids: readonly string[]): object {
  const { text, calls } = turn;
  const [thoughts = {}] = profile.thoughtsOf(turn, vault, whole) as [Record<string, unknown>?];
  const said = text === undefined ? [] : [{ type: "text", text }];
  const content = profile.hasThinkingParts ? [...(thoughts["content"] as object[]), ...said] : (text ?? null);
  const tool_calls = calls.map(({ name, args }, index) => ({
    id: ids[index],
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
    ...(index === 0 && profile.signatureOf?.(ids[0] ?? "", vault)),
  }));
  const message = { role: "assistant", ...thoughts, content, ...(calls.length > 0 && { tool_calls }) };
  const finish_reason = calls.length > 0 ? "tool_calls" : "stop";
  return { ...head(received, "chat.completion"), choices: [{ index: 0, message, finish_reason }], usage };
}

function chunksOf(turn: Turn, received: Received, vault: Vault, profile: Profile, ids: readonly string[]): object[] {
  const { text, calls } = turn;
  const deltas: object[] = [{ role: "assistant", content: profile.hasThinkingParts ? [] : "" }];
  const thoughts = profile.thoughtsOf(turn, vault, pieces);
  const isLate = profile.sealsThoughts && calls.length > 1 && vault.made.size % 4 !== 0;
  const late = isLate ? thoughts.pop() : undefined;
  deltas.push(...thoughts);
  // Mistral goes back to plain texts behind its thoughts.
  for (const content of text === undefined ? [] : pieces(text)) deltas.push({ content });
  const signature = ids[0] === undefined ? undefined : profile.signatureOf?.(ids[0], vault);
  // Servers sign the first call where they like: each answer in another place.
  const place = signature && PLACES[vault.made.size % PLACES.length];
  for (const [index, { name, args }] of calls.entries()) {
    const called = (more: object): void => void deltas.push({ tool_calls: [{ index, ...more }] });
    const signed = (here: typeof place): object => (index === 0 && place === here ? { ...signature } : {});
    called({ id: ids[index], type: "function", function: { name, arguments: "" }, ...signed("first") });
    const json = pieces(JSON.stringify(args));
    for (const [at, piece] of json.entries())
      called({ function: { arguments: piece }, ...(at === json.length - 1 && signed("last")) });
    if (index === 0 && place === "alone") called({ ...signature });
  }
  if (late) deltas.push(late);
  if (place === "end") deltas.push({ tool_calls: [{ index: 0, ...signature }] });
  const shared = head(received, "chat.completion.chunk");
  const chunk = (delta: object, finish_reason: string | null): object => ({
    ...shared,
    choices: [{ index: 0, delta, finish_reason }],
  });
  const end = chunk({}, calls.length > 0 ? "tool_calls" : "stop");
  return [...deltas.map((delta) => chunk(delta, null)), end, { ...shared, choices: [], usage }];
}
