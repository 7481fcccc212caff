/** The parts that all tests of Bedrock share: credentials, the official clients, errors, and streams without a gateway. */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import type { AwsCredentials } from "../../src/clouds/aws.ts";
import type { GatewayError } from "../../src/errors.ts";
import type { ChatVerbs, UpstreamFormat, UpstreamResponse } from "../../src/formats/module.ts";
import { callContext, chatRequest } from "../upstreams/relay/stage.ts";

export const KEYS: AwsCredentials = {
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
};

export const session = (name: string, expiration?: number): AwsCredentials => ({
  accessKeyId: `ASIA${name}`,
  secretAccessKey: `secret-of-${name}`,
  sessionToken: `token-of-${name}-0123456789`,
  ...(expiration !== undefined && { expiration: new Date(expiration) }),
});

export const anthropicFor = (url: string): Anthropic => new Anthropic({ apiKey: "sk-1", baseURL: url, maxRetries: 0 });
export const openaiFor = (url: string): OpenAI => new OpenAI({ apiKey: "sk-1", baseURL: `${url}/v1`, maxRetries: 0 });
const googleFor = (url: string): GoogleGenAI => new GoogleGenAI({ apiKey: "sk-1", httpOptions: { baseUrl: url } });

/** A conversation, as the messages format and chat completions write it. */
export const HELLO: { role: "user"; content: string }[] = [{ role: "user", content: "Hello" }];

/** Asks a model, and reads the text, complete or streamed. `onText` is told each piece of a stream. */
type Ask = (url: string, model: string, stream: boolean, onText: (text: string) => void) => Promise<void>;

/** The official clients by their names. */
export const CLIENTS: readonly (readonly [name: string, ask: Ask])[] = [
  [
    "@anthropic-ai/sdk",
    async (url, model, stream, onText) => {
      const { messages: client } = anthropicFor(url);
      const asked = { model, max_tokens: 100, messages: HELLO };
      if (!stream) {
        const { content } = await client.create(asked);
        return onText(content.map((block) => (block.type === "text" ? block.text : "")).join(""));
      }
      for await (const event of await client.create({ ...asked, stream }))
        if (event.type === "content_block_delta" && event.delta.type === "text_delta") onText(event.delta.text);
    },
  ],
  [
    "openai, chat completions",
    async (url, model, stream, onText) => {
      const { completions } = openaiFor(url).chat;
      if (!stream) {
        const { choices } = await completions.create({ model, messages: HELLO });
        return onText(choices[0]?.message.content ?? "");
      }
      for await (const { choices } of await completions.create({ model, messages: HELLO, stream }))
        onText(choices[0]?.delta.content ?? "");
    },
  ],
  [
    "openai, responses",
    async (url, model, stream, onText) => {
      const { responses } = openaiFor(url);
      if (!stream) return onText((await responses.create({ model, input: "Hello" })).output_text);
      for await (const event of await responses.create({ model, input: "Hello", stream }))
        if (event.type === "response.output_text.delta") onText(event.delta);
    },
  ],
  [
    "@google/genai",
    async (url, model, stream, onText) => {
      const { models } = googleFor(url);
      const asked = { model, contents: "Hello" };
      if (!stream) return onText((await models.generateContent(asked)).text ?? "");
      for await (const piece of await models.generateContentStream(asked)) onText(piece.text ?? "");
    },
  ],
];

/** Error responses of Bedrock, each with the status and the words that a caller of the messages format gets. */
export const REFUSALS: readonly (readonly [
  status: number,
  type: string | undefined,
  message: string,
  expected: number,
  words: string,
])[] = [
  [400, "ValidationException", "max_tokens: 1 is too small", 400, "max_tokens: 1 is too small"],
  [400, "ValidationException", "Input is too long for requested model.", 400, "prompt is too long"],
  [403, "AccessDeniedException", "You have no access to account 123456789012.", 500, "refused this service"],
  [404, "ResourceNotFoundException", "Could not resolve the foundation model.", 400, "model_not_found"],
  [408, "ModelTimeoutException", "The model took too long.", 504, "took too long"],
  [424, "ModelErrorException", "The model failed.", 500, "The model backend failed."],
  [429, "ThrottlingException", "Too many requests, please wait.", 429, "busy"],
  [429, "ModelNotReadyException", "The model is not ready.", 429, "busy"],
  [500, "InternalServerException", "Oops.", 500, "failed"],
  [503, "ServiceUnavailableException", "Come back later.", 529, "overloaded"],
];

/** Asks for a complete answer and for a stream. Returns the status and the words of both errors. */
export async function errorsFor(url: string, model: string): Promise<readonly [status: unknown, words: string][]> {
  const errors: [unknown, string][] = [];
  for (const stream of [false, true] as const) {
    const error: unknown = await anthropicFor(url)
      .messages.create({ model, max_tokens: 100, messages: HELLO, stream })
      .catch((thrown: unknown) => thrown);
    errors.push([(error as { readonly status?: unknown }).status, String(error)]);
  }
  return errors;
}

/** Exceptions in mid-stream, each with the code of the gateway's error. */
export const EXCEPTIONS: readonly (readonly [type: string, message: string, code: string])[] = [
  ["throttlingException", "Too many tokens.", "rate_limited"],
  ["serviceUnavailableException", "Later.", "backend_overloaded"],
  ["modelTimeoutException", "Slow.", "deadline_exceeded"],
  ["modelStreamErrorException", "Broken.", "backend_failed"],
  ["internalServerException", "Oops.", "backend_failed"],
  ["validationException", "Bad.", "invalid_request"],
  ["somethingNewException", "New.", "backend_failed"],
];

/** The text of a stream, and the error that has ended it. */
interface Outcome {
  readonly text: string;
  readonly error: GatewayError | undefined;
}

/** Asks without a gateway. */
export async function outcome(backend: ChatVerbs, model: string): Promise<Outcome> {
  let text = "";
  try {
    for await (const event of backend.chat(chatRequest({ model }), callContext()))
      for (const one of event.type === "native" ? event.events : [event])
        if (one.type === "text-delta") text += one.text;
  } catch (error) {
    return { text, error: error as GatewayError };
  }
  return { text, error: undefined };
}

/** Reads a body through the frames of a format, cut into pieces. */
export async function reframed(
  { reframe }: Pick<UpstreamFormat, "reframe">,
  body: Uint8Array,
  cuts: readonly number[],
): Promise<Outcome> {
  const places = [0, ...cuts.map((cut) => cut % (body.length + 1)).toSorted((a, b) => a - b), body.length];
  const pieces = places.slice(1).map((end, index) => body.subarray(places[index], end));
  const response: UpstreamResponse = {
    status: 200,
    header: () => "application/vnd.amazon.eventstream; charset=utf-8",
    headers: () => new Headers(),
    read: () => Promise.resolve(pieces.shift()),
  };
  const read = reframe?.(response);
  let text = "";
  try {
    for (let piece = await read?.read(); piece; piece = await read?.read()) text += new TextDecoder().decode(piece);
  } catch (error) {
    return { text, error: error as GatewayError };
  }
  return { text, error: undefined };
}
