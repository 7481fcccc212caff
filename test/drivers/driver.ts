/** What a driver is: how one format asks, answers and refuses, so that a suite is written once for all of them. */

import type { GatewayErrorCode } from "../../src/index.ts";
import type { HostRequestInit } from "../hosts/host.ts";
import { type ScriptedBackend, type Stage, type StageOptions, KEY } from "../hosts/stage.ts";

/** What a backend knows of a call, in every format. */
export interface PiecesCall {
  readonly prompt: string;
  readonly stream: boolean;
  readonly signal: AbortSignal;
}

/** A backend's answer in pieces: texts of a chat, or pictures whose bytes are the text. */
export type Pieces = (call: PiecesCall) => AsyncIterable<string>;

/** What a frame of a stream tells. Frames that tell nothing of this kind are passed over. */
export type Told =
  | { readonly type: "piece"; readonly text: string }
  | { readonly type: "keep-alive" }
  | { readonly type: "error"; readonly error: object };

/** Reads a streamed answer, and no further than it is asked to. */
export interface AnswerReader {
  /** What is told next, or undefined at a clean end. */
  next(): Promise<Told | undefined>;
  /** Hangs up. */
  cancel(): Promise<void>;
}

/** One way of asking for an answer. */
export interface Form {
  readonly name: string;
  readonly stream: boolean;
  /** The address for a model, from the mount on. */
  path(model: string): string;
  /** What is in the body beside the prompt and the model. */
  readonly fields: object;
  /** The pieces of a whole answer. */
  textOf(response: Response): Promise<string>;
  /** Reads a stream; a complete answer has no reader. */
  read?(response: Response): AnswerReader;
  /** What the raw text holds once the answer's last event has come; where there is none, the answer is over at its last byte. */
  readonly last?: RegExp;
}

export interface Refusal {
  readonly status: number;
  /** What the body has under `error`. */
  readonly error: object;
}

export interface Asking {
  readonly apiKey?: string;
  /** Default: the driver's first model. */
  readonly model?: string;
  readonly prompt?: string;
  /** More fields of the body. */
  readonly more?: object;
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

export interface Driver {
  readonly name: string;
  /** The first is complete, the others are streams; a format whose answers are never streamed has no others. */
  readonly forms: readonly [Form, ...Form[]];
  /** Two models that the format takes, and one that no backend has. */
  readonly models: { readonly one: string; readonly other: string; readonly unknown: string };
  /** The headers that a key is sent in. */
  credential(apiKey: string): Readonly<Record<string, string>>;
  /** Headers that the format requires beside those. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body of a request, but for the fields of its form. */
  body(prompt: string, model: string): object;
  /** A stage whose backend answers with these pieces. */
  plays(pieces: Pieces): StageOptions;
  /** What the backend was asked last. */
  promptOf(backend: ScriptedBackend): string;
  /** What an answer of so many pieces is charged, in units. */
  cost(pieces: number): number;
  /** Whether what came before a client hung up is charged by an estimate. */
  readonly estimates: boolean;
  /** Whether an answer may have pieces without end. */
  readonly endless: boolean;
  /** All addresses of the format that take JSON, and those that take something else. */
  readonly paths: readonly string[];
  readonly otherPaths: readonly string[];
  /** Addresses that look like the format's and are not the gateway's. */
  readonly notOwned: readonly string[];
  /** How the format tells of an error. */
  refusal(code: GatewayErrorCode): Refusal;
  /** Reads a refusal, and holds what is true of every one of them. */
  refusalOf(response: Response): Promise<Refusal>;
}

/** A request as it is sent. */
export interface Sent {
  readonly path: string;
  readonly init: Omit<HostRequestInit, "headers" | "body"> & {
    readonly headers: Record<string, string>;
    readonly body: string;
  };
}

/** A request that is in order, but for what is told. */
export function asking(driver: Driver, form: Form, told: Asking = {}): Sent {
  const { apiKey = KEY, model = driver.models.one, prompt = "Hi", more, headers } = told;
  const body = { ...driver.body(prompt, model), ...form.fields, ...more };
  return {
    path: form.path(model),
    init: { method: "POST", headers: headersOf(driver, apiKey, headers), body: JSON.stringify(body) },
  };
}

/** The headers of a request, but for those that are changed; undefined leaves one out. */
export function headersOf(
  driver: Driver,
  apiKey: string = KEY,
  changes: Asking["headers"] = {},
): Record<string, string> {
  const all = { "content-type": "application/json", ...driver.headers, ...driver.credential(apiKey), ...changes };
  return Object.fromEntries(Object.entries(all).filter((header): header is [string, string] => header[1] != null));
}

/** Asks a stage. */
export function ask(
  stage: Stage,
  driver: Driver,
  form: Form,
  told: Asking = {},
  init: HostRequestInit = {},
): Promise<Response> {
  const sent = asking(driver, form, told);
  return stage.request(sent.path, { ...sent.init, ...init });
}

/** The streams of a format. */
export const streamsOf = ({ forms }: Driver): StreamForm[] => forms.filter((form): form is StreamForm => form.stream);

export type StreamForm = Form & Required<Pick<Form, "read">>;
