/**
 * Conversations with secrets through a gateway that redacts, and a model that says back what it reads: in pieces of any length, in texts and
 * in the arguments of tools, in every way to write a JSON text.
 */

import { withDuring } from "../../src/hooks/index.ts";
import {
  type ChatEvent,
  type ChatRequest,
  createGateway,
  type Gateway,
  memoryQuotaStore,
  type ModelBackend,
} from "../../src/index.ts";
import { redactor } from "../../src/redactor/index.ts";
import { Random } from "../trial/random.ts";

const NAMES = [
  "Ada Lovelace",
  'Sean "Ace" O\'Neil',
  "Jürgen Groß",
  "名無し",
  "Back\\slash",
  "Two\nLines",
  "Smile 😀 Y",
];

const FIND = {
  email: /[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+/,
  card: /\b\d{4} \d{4} \d{4} \d{4}\b/,
  key: /\bsk-[a-z0-9]{12,40}\b/,
  name: NAMES,
};

/** Words among which the secrets stand: some look like the beginnings of replacements, and of escapes. */
const WORDS = [
  "and",
  "[",
  "[EMAIL",
  "[NAME_",
  "[EMAIL_1]",
  "]",
  "\\",
  '"',
  "\n",
  "é",
  "😀",
  "{",
  "}",
  "\\u005b",
  "1]",
  "",
] as const;

interface Conversation {
  readonly secrets: readonly string[];
  readonly text: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result: string;
}

function conversation(random: Random): Conversation {
  const letters = (least: number, most: number, alphabet: string): string =>
    Array.from({ length: random.int(least, most) }, () => alphabet.charAt(random.int(0, alphabet.length - 1))).join("");
  const card = (): string => Array.from({ length: 4 }, () => letters(4, 4, "0123456789")).join(" ");
  const one = (): string => {
    const made = [
      () => `${letters(3, 8, "abcxyz")}.${letters(3, 5, "qwe")}@${letters(4, 8, "mnop")}.example`,
      card,
      () => `sk-${letters(14, 30, "abc019")}`,
      () => NAMES[random.int(0, NAMES.length - 1)] ?? "",
    ] as const;
    return random.pick(made)();
  };
  const secrets = Array.from({ length: random.int(1, 6) }, one);
  const pick = (): string => secrets[random.int(0, secrets.length - 1)] ?? "";
  const text = (): string => {
    let written = "";
    for (let words = random.int(0, 8); words >= 0; words--)
      written += `${random.pick(WORDS)}${random.chance(0.5) ? ` ${pick()} ` : ""}`;
    return `${written} ${pick()} .`;
  };
  const input = {
    to: text(),
    list: [text(), { deep: text(), number: 1.5, yes: true, none: null }],
    [` ${pick()} `]: text(),
  };
  return { secrets, text: text(), input, result: text() };
}

/** Writes JSON as models do and as they could: with escapes that are not needed, and white space. */
function written(value: unknown, random: Random): string {
  const space = (): string => (random.chance(0.1) ? " " : "");
  if (typeof value === "string") {
    const units = Array.from({ length: value.length }, (_, at) => value.charAt(at));
    const unit = (char: string): string => {
      if (random.chance(0.1)) return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
      if (char === "/" && random.chance(0.5)) return "\\/";
      return JSON.stringify(char).slice(1, -1);
    };
    return `"${units.map(unit).join("")}"`;
  }
  if (Array.isArray(value)) return `[${value.map((one) => `${space()}${written(one, random)}`).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, one]) => `${space()}${written(name, random)}:${written(one, random)}`,
  );
  return `{${members.join(",")}${space()}}`;
}

function pieces(text: string, random: Random): string[] {
  const most = random.pick([1, 3, 12, 1_000]);
  const all: string[] = [];
  for (let at = 0; at < text.length;) {
    const length = random.int(1, most);
    all.push(text.slice(at, at + length));
    at += length;
  }
  return all;
}

/** Says back the last texts and the input of the tool call that it reads. */
function echoing(random: () => Random, read: (request: ChatRequest) => void): ModelBackend {
  return {
    async *chat(request): AsyncGenerator<ChatEvent> {
      read(request);
      const parts = request.messages.flatMap((message) => message.parts);
      const texts = parts.flatMap((part) => {
        if (part.type === "text") return part.text;
        return part.type === "tool-result" ? part.parts.flatMap((one) => (one.type === "text" ? one.text : [])) : [];
      });
      const call = parts.find((part) => part.type === "tool-call");
      for (const text of pieces(texts.join("|"), random())) {
        yield { type: "text-delta", text };
        if (random().chance(0.1)) yield { type: "annotation", annotation: { type: "token-count", tokens: 1 } };
      }
      const calls = [written(call?.input, random()), written(call?.input, random())].map((json) =>
        pieces(json, random()),
      );
      const ids = calls.map((_, index) => `call-${index}`);
      for (const id of ids) yield { type: "tool-call-start", id, name: "send" };
      // Both calls go on at once.
      for (let at = 0; calls.some((json) => at < json.length); at++)
        for (const [index, json] of calls.entries()) {
          const piece = json[at];
          if (piece !== undefined) yield { type: "tool-call-delta", id: ids[index] ?? "", json: piece };
        }
      for (const id of ids) yield { type: "tool-call-end", id };
      yield { type: "finish", reason: "tool-calls", usage: { inputTokens: 100, outputTokens: 100 } };
    },
  };
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly input?: unknown;
}

/** Joins the blocks of a streamed messages answer. */
function blocksOf(frames: string): Block[] {
  const blocks: { type: string; text: string; json: string }[] = [];
  for (const [, data] of frames.matchAll(/^data: (.*)$/gm)) {
    const frame = JSON.parse(data ?? "") as {
      readonly index: number;
      readonly content_block?: { readonly type: string };
      readonly delta?: { readonly text?: string; readonly partial_json?: string };
    };
    if (frame.content_block) blocks[frame.index] = { type: frame.content_block.type, text: "", json: "" };
    const block = blocks[frame.index];
    if (!block) continue;
    block.text += frame.delta?.text ?? "";
    block.json += frame.delta?.partial_json ?? "";
  }
  return blocks.map(({ type, text, json }) =>
    type === "text" ? { type, text } : { type, input: JSON.parse(json) as unknown },
  );
}

/** Returns a text for each way in which a value may be written. */
const spellings = (value: string): string[] => [value, JSON.stringify(value).slice(1, -1)];

/** Runs conversations. Returns a line for each that has shown a secret to the model, or has not restored one. */
export async function runSplits(
  count: number,
  seed: number,
): Promise<{ problems: string[]; pieces: number; secrets: number }> {
  let random = new Random(seed);
  let read: ChatRequest | undefined;
  let [told, hidden] = [0, 0];
  const problems: string[] = [];
  const gateway: Gateway = createGateway({
    backend: echoing(
      () => random,
      (request) => (read = request),
    ),
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    hooks: [redactor({ find: FIND }), withDuring({ during: () => void told++ })],
    onFailure: ({ text }) => problems.push(text),
  });
  for (let index = 0; index < count && problems.length < 10; index++) {
    random = new Random(seed + index);
    const { secrets, text, input, result } = conversation(random);
    const stream = random.chance(0.7);
    const body = {
      model: "any",
      max_tokens: 100_000,
      stream,
      system: [
        { type: "text", text: `Write to ${secrets[0] ?? ""}.` },
        { type: "text", text: written({ text, input }, random) },
      ],
      tools: [{ name: "send", description: `Sends to ${secrets.at(-1) ?? ""}`, input_schema: { type: "object" } }],
      messages: [
        { role: "user", content: text },
        { role: "assistant", content: [{ type: "tool_use", id: "t-1", name: "send", input }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t-1", content: result }] },
      ],
    };
    const answer = await gateway.fetch(
      new Request("http://host/v1/messages", {
        method: "POST",
        headers: { "x-api-key": "sk-one", "compat-version": "2023-06-01", "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
    const said = await answer.text();
    const problem = (what: string): number => problems.push(`Seed ${seed + index}: ${what}`);
    if (answer.status !== 200) {
      problem(said);
      continue;
    }
    const { native: _native, ...neutral } = read ?? { native: undefined };
    const sent = JSON.stringify(neutral);
    hidden += secrets.length;
    // A model understands the escapes of JSON inside a text.
    const inner = JSON.stringify(JSON.parse(read?.system[1]?.text ?? ""));
    for (const secret of secrets.flatMap(spellings))
      if (sent.includes(secret) || inner.includes(secret)) problem(`the model has read ${secret}`);
    const blocks = stream ? blocksOf(said) : (JSON.parse(said) as { content: Block[] }).content;
    const expected = [
      { type: "text", text: `${text}|${result}` },
      { type: "tool_use", input },
      { type: "tool_use", input },
    ];
    const shown = blocks.map(({ type, ...block }) =>
      type === "text" ? { type, text: block.text } : { type, input: block.input },
    );
    if (JSON.stringify(shown) !== JSON.stringify(expected))
      problem(`the caller was shown ${JSON.stringify(shown)} in place of ${JSON.stringify(expected)}`);
  }
  await gateway.close();
  return { problems, pieces: told, secrets: hidden };
}
