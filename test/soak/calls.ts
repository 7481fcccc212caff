/** The calls of the soak, in every form. Each carries a script, which the backend plays and which identifies the call. */

import type { ChatRequest } from "../../src/index.ts";

/** The prefix of the gateways on their hosts. */
export const PREFIX = "/ai";

/** The policies for a call whose client has hung up. Each policy has a gateway of its own. */
export const POLICIES = ["cancels", "drains", "cuts"] as const;

export type Policy = (typeof POLICIES)[number];

/** The number of keys of a crowd, so that each stays within the share of one key. */
const CROWD_KEYS = 16;

/** The keys, by the end of their calls: complete, cut short, unknown, or in a crowd. */
export type Payer = "ended" | "cut" | "raced" | `crowd-${number}`;

/** Returns the key of a call in a crowd. */
export const crowdPayer = (number: number): Payer => `crowd-${number % CROWD_KEYS}`;

export const PAYERS: readonly Payer[] = [
  "ended",
  "cut",
  "raced",
  ...Array.from({ length: CROWD_KEYS }, (_, number) => crowdPayer(number)),
];

export const apiKeyOf = (payer: Payer): string => `sk-${payer}`;

/** The orders to the backend for one call. */
export interface Script {
  readonly id: number;
  /** The number of pieces after which the backend waits for its cue. Default: it never waits. */
  readonly waitsAfter?: number;
  /** Takes a turn of the event loop for each piece, so that other events come in between. */
  readonly slow?: true;
  /** Sends pieces of this many bytes without end. */
  readonly endlessBytes?: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Makes a script. Its counts differ from those of neighbouring calls, so that a mix-up shows in the charges. */
export const scriptOf = (id: number): Script => ({ id, inputTokens: 1 + (id % 7), outputTokens: 1 + (id % 11) });

export const unitsOf = ({ inputTokens, outputTokens }: Script): number => inputTokens + outputTokens;

/** Finds the script in a request that came through a gateway. */
export function scriptIn({ messages }: ChatRequest): Script {
  const part = messages[0]?.parts[0];
  if (part?.type !== "text") throw new Error("The request has no script.");
  return JSON.parse(part.text) as Script;
}

/** A form of call: its address, its body, and a text at the end of its answer. */
export interface Form {
  readonly streamed: boolean;
  /** True for a message of a WebSocket. */
  readonly overSocket?: true;
  readonly path: string;
  readonly body: (text: string) => object;
  readonly last: string;
}

/** The text in the last event of each turn over a WebSocket. */
export const LAST_TURN = '"type":"response.completed"';

/** More tokens than any script has, so that no limit cuts a call. */
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

const responses: Form = {
  streamed: true,
  path: "/v1/responses",
  body: (input) => ({ model: "model-a", max_output_tokens: MAX_TOKENS, stream: true, store: false, input }),
  last: LAST_TURN,
};

export const FORMS: readonly Form[] = [
  { ...messages(false), last: '"stop_reason":"end_turn"' },
  { ...messages(true), last: "event: message_stop" },
  generateContent("generateContent", false),
  generateContent("streamGenerateContent?alt=sse", true),
  generateContent("streamGenerateContent", true),
  responses,
  { ...responses, overSocket: true, body: (input) => ({ type: "response.create", ...responses.body(input) }) },
];

/** Writes a call as it goes over a connection. */
export function requestOf(form: Form, script: Script, payer: Payer, keepAlive = true): string {
  const body = JSON.stringify(form.body(JSON.stringify(script)));
  if (form.overSocket) return frameOf(body);
  const head = headOf(form.path, payer, "application/json", Buffer.byteLength(body));
  return `${head}${keepAlive ? "" : "connection: close\r\n"}\r\n${body}`;
}

/** Writes a text of 126 to 65,535 characters as a frame of a WebSocket, in latin1. Its mask changes nothing. */
const frameOf = (text: string): string =>
  `\u0081\u00fe${String.fromCharCode(text.length >> 8, text.length & 0xff)}\0\0\0\0${text}`;

/** Asks for a WebSocket. */
export const upgradeOf = (payer: Payer): string =>
  [
    `GET ${PREFIX}/v1/responses HTTP/1.1`,
    "host: 127.0.0.1",
    `authorization: Bearer ${apiKeyOf(payer)}`,
    "connection: upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    "",
    "",
  ].join("\r\n");

/** Writes the head of a call without the empty line at its end. */
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

/** Returns the milliseconds since the Unix epoch, with fractions, by a clock that all processes of a machine share. */
export const nowMs = (): number => performance.timeOrigin + performance.now();

export const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
