/** Upstreams of AWS: signatures of version 4, and the models on Amazon Bedrock. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { AwsV4Signer } from "aws4fetch";
import type { ChatCodec, CodecOptions } from "../formats/format.ts";
import { messagesUpstream } from "../formats/messages/module.ts";
import type { ChatVerbs } from "../formats/module.ts";
import { Lazy, lazyCodec } from "../formats/shared/lazy.ts";
import { fromBase64, toBase64 } from "../media/base64.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";
import { assertOptions, type Check, CLOCK, fieldsOf, type Shapes } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import { API_KEY, type ApiKeySource, type SignRequest } from "../upstreams/relay/options.ts";
import { type Expiring, Renewing } from "../upstreams/renewing.ts";
import { AWS_STREAM, decodeAwsError, eventFrame, inOneLine, objectIn, readingEvents, textOf } from "./aws-stream.ts";
import { FORMAT, modelBehind } from "./converse/models.ts";
import type { HostFields } from "./converse/request.ts";
import {
  assertName,
  bearer,
  type Cloud,
  type CloudUpstream,
  endpointOf,
  type FormatInCloud,
  inCloud,
  withRequests,
} from "./shaped.ts";

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

/** The options of `bedrockConverse`. `credentials` or `apiKey` is needed. */
export interface BedrockConverseOptions extends BedrockOptions {
  /** The guardrail that checks all requests and answers. Default: none. */
  readonly guardrail?: BedrockGuardrail | undefined;
  /**
   * Returns further fields for a model, given its name on Bedrock. They are added to `additionalModelRequestFields`, and replace those that
   * the gateway has put there.
   */
  readonly modelFields?: ((model: string) => JsonObject | undefined) | undefined;
}

/** A guardrail of Bedrock. */
export interface BedrockGuardrail {
  /** The id of the guardrail, or its ARN. */
  readonly id: string;
  /** A number, or `DRAFT`. */
  readonly version: string;
  /** Checks the text of a stream before it is sent (`sync`), or at the same time (`async`). Default: `sync`. */
  readonly streaming?: "sync" | "async" | undefined;
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

/** Checks given credentials, or accepts a provider. Credentials from a provider may have further fields, such as the account. */
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
 * @example
 * const sign = signAws({ region, service: "bedrock-mantle", credentials });
 * const backend = relay({ format: "messages", baseUrl, sign });
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
      // The body comes from a text or a form, and never from shared memory.
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

const GUARDRAIL: Shapes<BedrockGuardrail> = {
  id: "string",
  version: "string",
  streaming: { optional: ["sync", "async"] },
};

const CONVERSE_SHAPES: Shapes<BedrockConverseOptions> = {
  ...BEDROCK_SHAPES,
  guardrail: { optional: fieldsOf<BedrockGuardrail>(GUARDRAIL) },
  modelFields: "function?",
};

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
  const format = inCloud(messagesUpstream, { ...BEDROCK, codec: bedrockCodec, reframe: readingEvents(writeChunk) });
  return { format, ...service("bedrockMessages", options) };
}

/**
 * Returns the options of a relay to the models of all makers on Amazon Bedrock, by Converse and ConverseStream. Its models are named as those of
 * `bedrockMessages`. Throws a TypeError for wrong options.
 *
 * @example
 * const backend = relay({
 *   ...bedrockConverse({ region: "us-east-1", credentials: fromNodeProviderChain() }),
 *   models: { "nova-lite": "us.amazon.nova-2-lite-v1:0" },
 * });
 */
export function bedrockConverse(options: BedrockConverseOptions): CloudUpstream<ChatVerbs> {
  assertOptions<BedrockConverseOptions>("bedrockConverse", options, CONVERSE_SHAPES);
  const { guardrail, modelFields } = options;
  const converse = converseUpstream({ guardrail: guardrail && guardrailConfig(guardrail), modelFields });
  const format = inCloud(converse, { ...BEDROCK, reframe: readingEvents(writeEvent) });
  return { format, ...service("bedrockConverse", options) };
}

const guardrailConfig = ({ id, version, streaming }: BedrockGuardrail): JsonObject => ({
  guardrailIdentifier: id,
  guardrailVersion: version,
  ...(streaming && { streamProcessingMode: streaming }),
});

/** Returns the address of Bedrock, and the credentials for it. */
function service(where: string, options: BedrockOptions): Omit<CloudUpstream<ChatVerbs>, "format"> {
  const { region, credentials, apiKey, endpoint, clock } = options;
  assertName(where, "region", region);
  if ((credentials === undefined) === (apiKey === undefined))
    throw new TypeError(`${where}: needs credentials or an apiKey, and not both.`);
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return {
    baseUrl: endpointOf(where, endpoint ?? `https://bedrock-runtime.${region}.${domain}`),
    ...(credentials === undefined
      ? { apiKey }
      : { sign: signAws({ region, service: "bedrock", credentials, ...(clock && { clock }) }) }),
    ...(clock && { clock }),
  };
}

/** The version of the messages format on Bedrock. */
const VERSION = "bedrock-2023-05-31";

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
    decodeError: decodeAwsError,
    count: {
      encode(request) {
        const { body } = encoded.encodeRequest({ ...request, stream: false });
        const path = `/model/${encodeURIComponent(modelBehind(request.model))}/count-tokens`;
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

/** Tells whether Bedrock itself has refused the model of a count, or the request. A relay without the model has no port in its error. */
function cannotCount(error: unknown): boolean {
  const { code, port } = (error ?? {}) as { readonly code?: unknown; readonly port?: unknown };
  return port === "model-backend" && (code === "invalid_request" || code === "model_not_found");
}

const BEDROCK: Pick<Cloud, "provider" | "credential" | "cannotCount"> = {
  provider: "aws.bedrock",
  credential: bearer,
  cannotCount,
};

/** Matches the type at the beginning of an event of the messages format, as Bedrock writes it. */
const TYPE_FIRST = /^\{"type":"([a-z_]{1,50})"/;

/** Writes the event of the messages format that a chunk of InvokeModel holds. */
function writeChunk(name: string, json: string): string {
  if (name !== "chunk") return "";
  const { bytes } = objectIn(json);
  const data = typeof bytes === "string" ? inOneLine(textOf(fromBase64(bytes))) : "{}";
  const type = TYPE_FIRST.exec(data)?.[1] ?? objectIn(data)["type"];
  return typeof type === "string" && /^[a-z_]{1,50}$/.test(type) ? eventFrame(type, data) : "";
}

/** Writes an event of ConverseStream. */
const writeEvent = (name: string, json: string): string =>
  /^[a-z]{1,50}$/i.test(name) && name !== "error" ? eventFrame(name, inOneLine(json)) : "";

/** The code of the Converse codec, which is loaded with the first request. */
const converse = /* @__PURE__ */ new Lazy(async () => (await import("./converse/upstream.ts")).converseCodec);

/** Makes the format of a relay whose upstream speaks Converse. */
const converseUpstream = (host: HostFields): FormatInCloud<ChatVerbs> => ({
  name: FORMAT,
  telemetry: { provider: "aws.bedrock" },
  load: () => converse.get(),
  open: (relay, options: CodecOptions) => relay.chat(lazyCodec(converse, (codec) => codec(options, host))),
});
