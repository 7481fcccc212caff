/** What the soak asks for: calls in every form, each with a script that its backend plays and by which it is known. */

import type { ChatRequest } from "../../src/index.ts";

/** Where the hosts mount their gateways. */
export const PREFIX = "/ai";

/** What becomes of a call whose client has hung up; each policy has a gateway of its own. */
export const POLICIES = ["cancels", "drains", "cuts"] as const;

export type Policy = (typeof POLICIES)[number];

/** How many keys a crowd has: each stays within the share of a key. */
const CROWD_KEYS = 16;

/** The keys that pay, by what becomes of their calls: these end, these are cut short, of these nobody can know, and these are a crowd's. */
export type Payer = "ended" | "cut" | "raced" | `crowd-${number}`;

/** The key of a crowd's call, by the number of the call. */
export const crowdPayer = (number: number): Payer => `crowd-${number % CROWD_KEYS}`;

export const PAYERS: readonly Payer[] = [
  "ended",
  "cut",
  "raced",
  ...Array.from({ length: CROWD_KEYS }, (_, number) => crowdPayer(number)),
];

export const apiKeyOf = (payer: Payer): string => `sk-${payer}`;

/** What a backend is to do with one call. */
export interface Script {
  readonly id: number;
  /** After how many pieces of the answer it waits for its cue; where this is missing it never does. */
  readonly waitsAfter?: number;
  /** Takes a turn of the event loop for each piece: whatever comes in meanwhile comes in between. */
  readonly slow?: true;
  /** Goes on for ever with pieces of this many bytes, for as long as somebody takes them. */
  readonly endlessBytes?: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A script whose counts differ from those of its neighbours, so that no two calls can stand in for one another. */
export const scriptOf = (id: number): Script => ({ id, inputTokens: 1 + (id % 7), outputTokens: 1 + (id % 11) });

export const unitsOf = ({ inputTokens, outputTokens }: Script): number => inputTokens + outputTokens;

/** Finds the script in a request that came through a gateway. */
export function scriptIn({ messages }: ChatRequest): Script {
  const part = messages[0]?.parts[0];
  if (part?.type !== "text") throw new Error("The request has no script.");
  return JSON.parse(part.text) as Script;
}

/** One way to ask: where, with which body, and what stands at the end of the answer. */
export interface Form {
  readonly streamed: boolean;
  readonly path: string;
  readonly body: (text: string) => object;
  readonly last: string;
}

/** More than any script says: what a backend is cut for is not what is soaked. */
const MAX_TOKENS = 1_000_000_000;

const messages = (stream: boolean): Pick<Form, "streamed" | "path" | "body"> => ({
  streamed: stream,
  path: "/v1/messages",
  body: (content) => ({ model: "model-a", max_tokens: MAX_TOKENS, stream, messages: [{ role: "user", content }] }),
});

const generateContent = (verb: string, streamed: boolean): Form => ({
  streamed,
  path: `/v1beta/models/model-a:${verb}`,
  body: (text) => ({
    contents: [{ role: "user", parts: [{ text }] }],
    generationConfig: { maxOutputTokens: MAX_TOKENS },
  }),
  last: '"finishReason":"STOP"',
});

export const FORMS: readonly Form[] = [
  { ...messages(false), last: '"stop_reason":"end_turn"' },
  { ...messages(true), last: "event: message_stop" },
  generateContent("generateContent", false),
  generateContent("streamGenerateContent?alt=sse", true),
  generateContent("streamGenerateContent", true),
];

/** A call as it goes over a connection. */
export function requestOf(form: Form, script: Script, payer: Payer, keepAlive = true): string {
  const body = JSON.stringify(form.body(JSON.stringify(script)));
  const head = headOf(form.path, payer, "application/json", Buffer.byteLength(body));
  return `${head}${keepAlive ? "" : "connection: close\r\n"}\r\n${body}`;
}

/** The head of a call, but for the empty line at its end. */
export const headOf = (path: string, payer: Payer, type: string, bodyBytes: number): string =>
  [
    `POST ${PREFIX}${path} HTTP/1.1`,
    "host: 127.0.0.1",
    `authorization: Bearer ${apiKeyOf(payer)}`,
    "compat-version: 2026-10-21",
    `content-type: ${type}`,
    `content-length: ${bodyBytes}`,
    "",
  ].join("\r\n");

/** Milliseconds since the Unix epoch, with fractions, by a clock that the processes of one machine share. */
export const nowMs = (): number => performance.timeOrigin + performance.now();

export const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
