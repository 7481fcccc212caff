/** Upstreams of AWS: signatures of version 4, and Claude on Amazon Bedrock. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { EventStreamCodec } from "@smithy/eventstream-codec";
import { AwsV4Signer } from "aws4fetch";
import type { ChatCodec } from "../formats/format.ts";
import { messagesUpstream } from "../formats/messages/module.ts";
import type { ChatVerbs, UpstreamResponse } from "../formats/module.ts";
import { parseAnswer, upstreamFailed } from "../formats/shared/upstream.ts";
import { GrowingBytes } from "../http/body.ts";
import { fromBase64, toBase64 } from "../media/base64.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";
import { assertOptions, type Check, CLOCK, type Shapes } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import { API_KEY, type ApiKeySource, type SignRequest } from "../upstreams/relay/options.ts";
import { type Expiring, Renewing } from "../upstreams/renewing.ts";
import { assertName, bearer, type CloudUpstream, endpointOf, inCloud, withRequests } from "./shaped.ts";

export type { CloudUpstream } from "./shaped.ts";

/** Credentials of AWS, as its SDK has them. */
export interface AwsCredentials {
  /** The id of the access key. */
  readonly accessKeyId: string;
  /** The secret of the access key. */
  readonly secretAccessKey: string;
  /** The token of a session. */
  readonly sessionToken?: string | undefined;
  /** The end of a session. Default: the credentials are valid until AWS refuses them. */
  readonly expiration?: Date | undefined;
}

/**
 * Returns credentials, such as `fromNodeProviderChain()` of `@aws-sdk/credential-providers`. Asked again before they expire, and with
 * `forceRefresh` when AWS has refused them: a provider that keeps credentials itself must then return others.
 */
export type AwsCredentialProvider = (options?: { readonly forceRefresh?: boolean }) => Promise<AwsCredentials>;

/** The options of `signAws`. */
export interface SignAwsOptions {
  /** The region of the service, such as `us-east-1`. */
  readonly region: string;
  /** The name of the service in signatures, such as `bedrock` or `execute-api`. */
  readonly service: string;
  /** The credentials, or a function that returns them. */
  readonly credentials: AwsCredentials | AwsCredentialProvider;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** The options of `bedrockMessages`. `credentials` or `apiKey` is needed. */
export interface BedrockOptions {
  /** The region whose models are asked, such as `us-east-1`. */
  readonly region: string;
  /**
   * The credentials, or a function that returns them, such as `fromNodeProviderChain()` of `@aws-sdk/credential-providers`. The function is
   * asked again before they expire, and with `forceRefresh: true` when AWS has refused them.
   */
  readonly credentials?: AwsCredentials | AwsCredentialProvider | undefined;
  /** An API key of Bedrock, in place of credentials. */
  readonly apiKey?: string | ApiKeySource | undefined;
  /** The address of the service, such as that of a VPC endpoint. Default: `https://bedrock-runtime.<region>.amazonaws.com`. */
  readonly endpoint?: string | undefined;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

const assertCredentials: Check = (path, credentials) => {
  const { accessKeyId, secretAccessKey, sessionToken, expiration } = (credentials ?? {}) as Partial<AwsCredentials>;
  for (const [name, value] of Object.entries({ accessKeyId, secretAccessKey }))
    if (typeof value !== "string" || value === "")
      throw new TypeError(`${path} must be credentials of AWS with ${name}.`);
  if (sessionToken !== undefined && typeof sessionToken !== "string")
    throw new TypeError(`${path}: sessionToken must be a text.`);
  if (expiration !== undefined && !(expiration instanceof Date && !Number.isNaN(expiration.getTime())))
    throw new TypeError(`${path}: expiration must be a Date.`);
};

const CREDENTIAL_SHAPES: Shapes<AwsCredentials> = {
  accessKeyId: "string",
  secretAccessKey: "string",
  sessionToken: "string?",
  expiration: "any?",
};

/** Those that a provider returns may have further fields: the SDK of AWS names the account, too. */
const CREDENTIALS: Check = (path, given) => {
  if (typeof given === "function") return;
  assertOptions<AwsCredentials>(path, given, CREDENTIAL_SHAPES);
  assertCredentials(path, given);
};

const SIGN_SHAPES: Shapes<SignAwsOptions> = {
  region: "string",
  service: "string",
  credentials: CREDENTIALS,
  clock: CLOCK,
};

const BEDROCK_SHAPES: Shapes<BedrockOptions> = {
  region: "string",
  credentials: { optional: CREDENTIALS },
  apiKey: { optional: API_KEY },
  endpoint: "string?",
  clock: CLOCK,
};

/**
 * Makes the `sign` of a relay to a service of AWS, by signatures of version 4. Signs the method, the address and the body, and the headers of the
 * signature alone: a proxy may change others. Throws a TypeError for wrong options.
 *
 * @example const backend = relay({ format: "messages", baseUrl, sign: signAws({ region, service: "bedrock-mantle", credentials }) });
 */
export function signAws(options: SignAwsOptions): SignRequest {
  assertOptions<SignAwsOptions>("signAws", options, SIGN_SHAPES);
  const { region, service, credentials, clock = systemClock } = options;
  assertName("signAws", "region", region);
  assertName("signAws", "service", service);
  const renewing =
    typeof credentials === "function"
      ? new Renewing(
          (isRefused) => asked(credentials, clock, isRefused),
          () => clock.now(),
          PROVIDER_MS,
        )
      : undefined;
  /** Keys that are derived from a secret for a day. */
  let derived = new Map<string, ArrayBuffer>();
  return async ({ method, url, body, refused }) => {
    let used = typeof credentials === "function" ? await renewing?.get() : credentials;
    if (used && refused && isOf(used, refused)) used = await renewing?.after(used);
    // A provider may return the same credentials as another object.
    if (!used || (refused && isOf(used, refused))) return undefined;
    if (derived.size >= MAX_DERIVED) derived = new Map();
    const { accessKeyId, secretAccessKey, sessionToken } = used;
    const signer = new AwsV4Signer({
      method,
      url,
      // Of a text or a form, never of shared memory.
      body: body as Uint8Array<ArrayBuffer>,
      accessKeyId,
      secretAccessKey,
      ...(sessionToken !== undefined && { sessionToken }),
      region,
      service,
      cache: derived,
      datetime: new Date(clock.now()).toISOString().replaceAll(/[:-]|\.\d{3}/g, ""),
    });
    return { headers: (await signer.sign()).headers };
  };
}

/** A provider that takes longer is asked again, in milliseconds. The relay gives its own call up before. */
const PROVIDER_MS = 10_000;

/** The most derived keys that are kept. */
const MAX_DERIVED = 16;

async function asked(
  provider: AwsCredentialProvider,
  clock: Clock,
  isRefused: boolean,
): Promise<Expiring<AwsCredentials>> {
  const value: unknown = await provider(isRefused ? { forceRefresh: true } : undefined);
  assertCredentials("signAws: the result of credentials", value);
  const { expiration } = value as AwsCredentials;
  if (expiration && expiration.getTime() <= clock.now())
    throw new Error("The credentials had expired when they were returned.");
  return { value: value as AwsCredentials, expiresAt: expiration?.getTime() };
}

/** Tells whether a refused request was signed with these credentials. */
const isOf = ({ accessKeyId, sessionToken }: AwsCredentials, refused: Readonly<Record<string, string>>): boolean =>
  refused["x-amz-security-token"] === sessionToken && (refused["authorization"] ?? "").includes(`=${accessKeyId}/`);

/** The version of the format on Bedrock. */
const VERSION = "bedrock-2023-05-31";

/**
 * Returns the options of a relay to Claude on Amazon Bedrock, by InvokeModel and InvokeModelWithResponseStream. Its models are the ids of models, of
 * inference profiles, or ARNs. Throws a TypeError for wrong options.
 *
 * @example
 * const backend = relay({
 *   ...bedrockMessages({ region: "us-east-1", credentials: fromNodeProviderChain() }),
 *   models: { "claude-sonnet-4-5": "us.anthropic.claude-sonnet-4-5-20250929-v1:0" },
 * });
 */
export function bedrockMessages(options: BedrockOptions): CloudUpstream<ChatVerbs> {
  assertOptions<BedrockOptions>("bedrockMessages", options, BEDROCK_SHAPES);
  const { region, credentials, apiKey, endpoint, clock } = options;
  assertName("bedrockMessages", "region", region);
  if ((credentials === undefined) === (apiKey === undefined))
    throw new TypeError("bedrockMessages: needs credentials or an apiKey, and not both.");
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return {
    format: inCloud(messagesUpstream, {
      provider: "aws.bedrock",
      codec: bedrockCodec,
      credential: bearer,
      reframe,
      cannotCount,
    }),
    baseUrl: endpointOf("bedrockMessages", endpoint ?? `https://bedrock-runtime.${region}.${domain}`),
    ...(credentials === undefined
      ? { apiKey }
      : { sign: signAws({ region, service: "bedrock", credentials, ...(clock && { clock }) }) }),
    ...(clock && { clock }),
  };
}

const bedrockCodec = (codec: ChatCodec): ChatCodec => {
  const encoded: ChatCodec = withRequests(codec, ({ body, headers }, { model, stream }) => {
    const { "anthropic-version": _version, "anthropic-beta": betas, ...others } = headers;
    const { model: _model, stream: _stream, anthropic_beta: _unchecked, ...rest } = body;
    return {
      path: `/model/${encodeURIComponent(model)}/${stream ? "invoke-with-response-stream" : "invoke"}`,
      headers: {
        ...others,
        ...(stream && { accept: AWS_STREAM, "x-amzn-bedrock-accept": "application/json" }),
      },
      body: { ...rest, anthropic_version: VERSION, ...(betas && { anthropic_beta: betas.split(",") }) },
    };
  });
  return {
    ...encoded,
    // 424 means that the model has failed. The request is not at fault.
    decodeError: (status, headers, body) =>
      codec.decodeError(status === 424 ? 500 : status, headers, errorIn(body, headers)),
    count: {
      encode(request) {
        const { body } = encoded.encodeRequest({ ...request, stream: false });
        const path = `/model/${encodeURIComponent(request.model.replace(PROFILE, ""))}/count-tokens`;
        // Bedrock wants a limit that the model has, although it changes no count. Reasoning must have room in it.
        const { thinking } = body;
        const budget = isJsonObject(thinking) ? Number(thinking["budget_tokens"] ?? 0) : 0;
        const bytes = new TextEncoder().encode(JSON.stringify({ ...body, max_tokens: budget + 1 }));
        return { path, headers: {}, body: { input: { invokeModel: { body: toBase64(bytes) } } } };
      },
      decode: ({ inputTokens }) => inputTokens,
    },
  };
};

/** Matches what the name of an inference profile has before the name of its model. Bedrock counts tokens for models alone. */
const PROFILE = /^(?:arn:[^/]*:inference-profile\/)?[a-z-]+\.(?=anthropic\.)/;

/** Tells whether Bedrock itself has refused the model of a count, or the request. A relay without the model has no port in its error. */
function cannotCount(error: unknown): boolean {
  const { code, port } = (error ?? {}) as { readonly code?: unknown; readonly port?: unknown };
  return port === "model-backend" && (code === "invalid_request" || code === "model_not_found");
}

/** The types of errors by the exceptions of Bedrock. */
const ERROR_TYPES: Readonly<Record<string, string>> = {
  accessDenied: "permission_error",
  expiredToken: "authentication_error",
  internalServer: "api_error",
  invalidSignature: "authentication_error",
  modelError: "api_error",
  modelNotReady: "rate_limit_error",
  modelStreamError: "api_error",
  modelTimeout: "timeout_error",
  resourceNotFound: "not_found_error",
  serviceQuotaExceeded: "rate_limit_error",
  serviceUnavailable: "overloaded_error",
  throttling: "rate_limit_error",
  unrecognizedClient: "authentication_error",
  validation: "invalid_request_error",
};

const typeOf = (exception: string): string => {
  const name = exception.replace(/^.*#|:.*$/g, "").replace(/Exception$/, "");
  const type = name.charAt(0).toLowerCase() + name.slice(1);
  return Object.hasOwn(ERROR_TYPES, type) ? (ERROR_TYPES[type] ?? "api_error") : "api_error";
};

/** Returns an error of AWS as the format writes it. */
function errorIn(body: unknown, headers: Headers): unknown {
  const exception = headers.get("x-amzn-errortype");
  if (exception === null || !isJsonObject(body)) return body;
  return errorOf(exception, body["message"] ?? body["Message"]);
}

const errorOf = (exception: string, message: unknown): JsonObject => ({
  type: "error",
  error: { type: typeOf(exception), message: typeof message === "string" ? message : "The model failed." },
});

const AWS_STREAM = "application/vnd.amazon.eventstream";

/** Reads the event stream of AWS as an event stream of HTTP. */
function reframe(response: UpstreamResponse): UpstreamResponse {
  if (response.header("content-type")?.split(";", 1)[0]?.trim().toLowerCase() !== AWS_STREAM) return response;
  const frames = new AwsFrames();
  return {
    status: response.status,
    header: (name) => (name === "content-type" ? "text/event-stream" : response.header(name)),
    headers: () => response.headers(),
    async read() {
      // The frames before a broken one are read first.
      if (frames.error) throw frames.error.thrown;
      const piece = await response.read();
      if (piece) return frames.decode(piece);
      if (frames.hasPart) throw upstreamFailed("The model backend's answer broke off.");
      return undefined;
    },
    arrived: () => frames.decode(response.arrived?.() ?? new Uint8Array()),
  };
}

/** The largest message of an event stream that AWS sends, in bytes, and the smallest one. */
const MAX_MESSAGE_BYTES = 16 * 1024 ** 2 + 128 * 1024;
const MIN_MESSAGE_BYTES = 16;
/** The most bytes of a message's headers. */
const MAX_HEADER_BYTES = 128 * 1024;
/** A message begins with its length and that of its headers. */
const LENGTH_BYTES = 8;
/** A message, and a piece that may hold the beginnings of others. */
const MAX_WAITING_BYTES = 2 * MAX_MESSAGE_BYTES;

/** Cuts the pieces of a body into messages, and writes each as a frame of the format. */
class AwsFrames {
  readonly #codec = new EventStreamCodec(
    (bytes) => (typeof bytes === "string" ? bytes : textOf(bytes)),
    (text) => new TextEncoder().encode(text),
  );
  #waiting: GrowingBytes = new GrowingBytes(MAX_WAITING_BYTES);
  /** The length of the message that waits; that of its first bytes until they have come. */
  #length = LENGTH_BYTES;
  /** Set once a message cannot be read. */
  error: { readonly thrown: unknown } | undefined;

  /** True when a message has begun and not ended. */
  get hasPart(): boolean {
    return this.#waiting.length > 0;
  }

  /** Returns the frames of the messages that end in a piece. */
  decode(piece: Uint8Array): Uint8Array {
    let text = "";
    try {
      this.#waiting.append(piece);
      // A long message comes in many pieces: read it once.
      if (this.#waiting.length < this.#length) return new Uint8Array();
      const bytes = this.#waiting.seal();
      let at = 0;
      for (;;) {
        this.#length = lengthAt(bytes, at);
        if (at + this.#length > bytes.length) break;
        const message = bytes.subarray(at, at + this.#length);
        at += this.#length;
        text += this.#frame(message);
      }
      this.#waiting = new GrowingBytes(MAX_WAITING_BYTES);
      this.#waiting.append(bytes.subarray(at));
    } catch (thrown) {
      this.error = { thrown };
    }
    return new TextEncoder().encode(text);
  }

  #frame(message: Uint8Array): string {
    const { headers, body } = this.#codec.decode(message);
    const header = (name: string): string => String(headers[name]?.value ?? "");
    const type = header(":message-type");
    const json = textOf(body);
    if (type === "event") {
      if (header(":event-type") !== "chunk") return "";
      const { bytes } = objectIn(json);
      const data = typeof bytes === "string" ? textOf(fromBase64(bytes)) : "{}";
      // A line break would end the line of the frame.
      return frameOf(/[\r\n]/.test(data) ? JSON.stringify(objectIn(data)) : data);
    }
    if (type !== "exception") return frameOf(JSON.stringify(errorOf(header(":error-code"), header(":error-message"))));
    // The type tells enough without the message.
    const words = json === "" ? undefined : objectIn(json)["message"];
    return frameOf(JSON.stringify(errorOf(header(":exception-type"), words)));
  }
}

/** Returns the length of the message at a place; that of its first bytes when they have not come. */
function lengthAt(bytes: Uint8Array, at: number): number {
  if (bytes.length < at + LENGTH_BYTES) return LENGTH_BYTES;
  const lengths = new DataView(bytes.buffer, bytes.byteOffset + at, LENGTH_BYTES);
  const length = lengths.getUint32(0);
  const isPossible = length >= MIN_MESSAGE_BYTES && length <= MAX_MESSAGE_BYTES;
  if (isPossible && lengths.getUint32(4) <= MAX_HEADER_BYTES) return length;
  throw upstreamFailed("The model backend's answer is no event stream of AWS.");
}

const UTF_8 = new TextDecoder();
const textOf = (bytes: Uint8Array): string => UTF_8.decode(bytes);

const EVENT_LIMITS = {
  maxJsonBytes: MAX_MESSAGE_BYTES,
  maxJsonDepth: 200,
  maxJsonValues: 1_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 1_000_000,
};

function objectIn(json: string): JsonObject {
  const value = parseAnswer(json, EVENT_LIMITS);
  return isJsonObject(value) ? value : {};
}

/** Matches the type at the beginning of an event, as Bedrock writes it. */
const TYPE_FIRST = /^\{"type":"([a-z_]{1,50})"/;

function frameOf(data: string): string {
  const type = TYPE_FIRST.exec(data)?.[1] ?? objectIn(data)["type"];
  return typeof type === "string" && /^[a-z_]{1,50}$/.test(type) ? `event: ${type}\ndata: ${data}\n\n` : "";
}
