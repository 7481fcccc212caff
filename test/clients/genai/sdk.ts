/** The two majors of the official SDK, as the suites take them, and what the suites share. */

import {
  ApiError,
  type GenerateContentConfig,
  type GenerateContentParameters,
  type GenerateContentResponse,
  GoogleGenAI,
  type GoogleGenAIOptions,
  type HttpOptions,
  type Part,
} from "@google/genai";
import { ApiError as ApiErrorTwo, GoogleGenAI as GoogleGenAITwo } from "genai-2";
import type { Site } from "../playground.ts";

/** A major of the SDK. */
export interface Sdk {
  readonly name: string;
  readonly GoogleGenAI: typeof GoogleGenAI;
  readonly ApiError: typeof ApiError;
  /** The version of the path that it asks where it is told none. */
  readonly apiVersion: string;
}

const newer: Sdk = { name: "@google/genai 3.x", GoogleGenAI, ApiError, apiVersion: "v1" };

const older: Sdk = {
  name: "@google/genai 2.x",
  // The suites use what both majors have; TypeScript takes their private fields for a difference.
  GoogleGenAI: GoogleGenAITwo as unknown as typeof GoogleGenAI,
  ApiError: ApiErrorTwo,
  apiVersion: "v1beta",
};

export const sdks: readonly Sdk[] = [newer, older];

export interface ConnectOptions extends GoogleGenAIOptions {
  readonly fetch?: typeof fetch;
}

/** What a suite runs with. */
export interface Stage {
  readonly sdk: Sdk;
  readonly playground: () => Site;
  /** A client of the playground: with the unlimited key, unless told. */
  readonly connect: (options?: ConnectOptions) => GoogleGenAI;
  /** Asks such a client. */
  readonly ask: (asked: GenerateContentParameters) => Promise<GenerateContentResponse>;
  /** Asks it for a stream, and reads that to its end. */
  readonly chunks: (asked: GenerateContentParameters) => Promise<GenerateContentResponse[]>;
}

export function stageOf(sdk: Sdk, playground: () => Site): Stage {
  const connect = ({ fetch, httpOptions, ...options }: ConnectOptions = {}): GoogleGenAI => {
    const http: HttpOptions = { baseUrl: playground().url, ...httpOptions, ...(fetch && { fetch }) };
    return new sdk.GoogleGenAI({ apiKey: "sk-demo", ...options, httpOptions: http });
  };
  return {
    sdk,
    playground,
    connect,
    ask: (asked) => connect().models.generateContent(asked),
    chunks: async (asked) => all(await connect().models.generateContentStream(asked)),
  };
}

/** A request that says one thing. */
export const say = (
  contents: GenerateContentParameters["contents"],
  config: GenerateContentConfig = {},
): GenerateContentParameters => ({ model: "demo-chat", contents, config });

/** All that a stream brings. */
export async function all<Chunk>(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

/** The platform's fetch, which keeps what it sent. */
export function recordingFetch(): { readonly fetch: typeof fetch; readonly sent: Request[] } {
  const sent: Request[] = [];
  const recording: typeof fetch = (input, init) => {
    sent.push(new Request(input, init));
    return fetch(input, init);
  };
  return { fetch: recording, sent };
}

/** The parts of a candidate. */
export const partsOf = ({ candidates }: GenerateContentResponse, candidate = 0): readonly Part[] =>
  candidates?.[candidate]?.content?.parts ?? [];

/** All text of a candidate, thoughts apart. The SDK's own getter warns on the console of other parts. */
export const textOf = (response: GenerateContentResponse, candidate = 0): string =>
  partsOf(response, candidate)
    .filter(({ thought }) => !thought)
    .map(({ text }) => text ?? "")
    .join("");

/** The whole text of a stream's candidate, thoughts apart. */
export const streamedText = (chunks: readonly GenerateContentResponse[], candidate = 0): string =>
  chunks
    .flatMap(({ candidates }) => candidates ?? [])
    .filter(({ index }) => (index ?? 0) === candidate)
    .flatMap(({ content }) => content?.parts ?? [])
    .filter(({ thought }) => !thought)
    .map(({ text }) => text ?? "")
    .join("");

/** The error that a call ends with; a call that succeeds fails the test. */
export async function errorOf(call: Promise<unknown>): Promise<ApiError> {
  try {
    await call;
  } catch (error) {
    // Each test says which class it expects; this is what all of them share.
    return error as ApiError;
  }
  throw new Error("The call was expected to fail.");
}

/** An error as it stands on the wire. */
export interface WireError {
  readonly code: number;
  readonly message: string;
  readonly status: string;
  readonly details: readonly unknown[];
}

/** What the server said, out of an error's message: the SDK puts the whole body there. */
export const wireError = ({ message }: Error): WireError =>
  (JSON.parse(message.slice(message.indexOf("{"))) as { error: WireError }).error;
