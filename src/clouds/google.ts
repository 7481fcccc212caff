/** Upstreams of Google Cloud: access tokens, and Gemini and Claude on Vertex AI. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import type { ChatCodec } from "../formats/format.ts";
import { generateContentUpstream } from "../formats/generate-content/module.ts";
import { messagesUpstream } from "../formats/messages/module.ts";
import type { ChatVerbs, UpstreamFormat } from "../formats/module.ts";
import { googleTier } from "../formats/shared/usage.decode.ts";
import { isJsonObject } from "../model/json.ts";
import { assertOptions, type Check, CLOCK, lacking, hasMethod, type Shapes } from "../options.ts";
import { type Clock, systemClock } from "../ports/clock.ts";
import { API_KEY, type ApiKeySource } from "../upstreams/relay/options.ts";
import {
  assertName,
  bearer,
  type CloudUpstream,
  endpointOf,
  inCloud,
  segment,
  withCounts,
  withRequests,
} from "./shaped.ts";

export type { CloudUpstream } from "./shaped.ts";

/** The part of a client of `google-auth-library` that is used. */
export interface GoogleClient {
  getAccessToken(): Promise<{ readonly token?: string | null | undefined }>;
  readonly credentials?: { readonly expiry_date?: number | null | undefined };
}

/** `GoogleAuth` of `google-auth-library`, or one of its clients. */
export type GoogleTokens = GoogleClient | { getClient(): Promise<GoogleClient> };

/** The options of `vertexMessages` and `vertexGenerateContent`. */
export interface VertexOptions {
  /** The id of the project. */
  readonly project: string;
  /** The location whose models are asked, such as `europe-west1`, `eu` or `global`. */
  readonly location: string;
  /** Default: `GoogleAuth` of `google-auth-library`, which finds the credentials of the machine. */
  readonly auth?: GoogleTokens | undefined;
  /** Access tokens from elsewhere, in place of `auth`. */
  readonly apiKey?: string | ApiKeySource | undefined;
  /** The address of the service, such as a private one. Default: Google's for the location. */
  readonly endpoint?: string | undefined;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

const AUTH: Check = (path, auth) => {
  if (!hasMethod(auth, "getClient") && !hasMethod(auth, "getAccessToken"))
    throw new TypeError(`${path} must be a GoogleAuth, or one of its clients, ${lacking(auth, ["getClient"])}.`);
};

const SHAPES: Shapes<VertexOptions> = {
  project: "string",
  location: "string",
  auth: { optional: AUTH },
  apiKey: { optional: API_KEY },
  endpoint: "string?",
  clock: CLOCK,
};

const SCOPE = "https://www.googleapis.com/auth/cloud-platform";

/** A token whose client does not say when it expires is asked for again after this time, in milliseconds. The client keeps tokens itself. */
const UNKNOWN_LIFE_MS = 60_000;

/**
 * Makes the `apiKey` of a relay from the access tokens of `google-auth-library`.
 *
 * @param auth Default: a `GoogleAuth` for the credentials of the machine.
 * @param clock Default: the machine's clock.
 */
export function googleToken(auth?: GoogleTokens, clock: Clock = systemClock): ApiKeySource {
  if (auth !== undefined) AUTH("googleToken: auth", auth);
  let found = auth;
  return async () => {
    found ??= await machineAuth();
    const client = "getClient" in found ? await found.getClient() : found;
    const { token } = await client.getAccessToken();
    if (typeof token !== "string") throw new Error("The client of google-auth-library has no token.");
    const expiresAt = client.credentials?.expiry_date ?? clock.now() + UNKNOWN_LIFE_MS;
    return { apiKey: token, expiresAt };
  };
}

async function machineAuth(): Promise<GoogleTokens> {
  try {
    const { GoogleAuth } = await import("google-auth-library");
    return new GoogleAuth({ scopes: SCOPE });
  } catch (cause) {
    if ((cause as { readonly code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    const message = 'Google\'s credentials need the package "google-auth-library": npm install google-auth-library';
    throw new Error(message, { cause });
  }
}

function vertex(where: string, options: VertexOptions, publisher: string): Omit<CloudUpstream<ChatVerbs>, "format"> {
  assertOptions<VertexOptions>(where, options, SHAPES);
  const { project, location, auth, apiKey, endpoint, clock } = options;
  assertName(where, "project", project);
  assertName(where, "location", location);
  if (auth !== undefined && apiKey !== undefined) throw new TypeError(`${where}: takes auth or an apiKey, not both.`);
  const origin = endpointOf(where, endpoint ?? originOf(location));
  return {
    baseUrl: `${origin}/v1/projects/${project}/locations/${location}/publishers/${publisher}`,
    apiKey: apiKey ?? googleToken(auth, clock),
    ...(clock && { clock }),
  };
}

function originOf(location: string): string {
  if (location === "global") return "https://aiplatform.googleapis.com";
  if (location === "us" || location === "eu") return `https://aiplatform.${location}.rep.googleapis.com`;
  return `https://${location}-aiplatform.googleapis.com`;
}

/** The version of the messages format on Vertex AI. */
const VERSION = "vertex-2023-10-16";

/**
 * Returns the options of a relay to Claude on Vertex AI, by rawPredict and streamRawPredict. Throws a TypeError for wrong options.
 *
 * @example const backend = relay({ ...vertexMessages({ project: "my-project", location: "global" }), models });
 */
export function vertexMessages(options: VertexOptions): CloudUpstream<ChatVerbs> {
  const format = inCloud(messagesUpstream, { provider: "gcp.vertex_ai", codec: claudeCodec, credential: bearer });
  return { format, ...vertex("vertexMessages", options, "anthropic") };
}

const claudeCodec = (codec: ChatCodec): ChatCodec => {
  const encoded = withRequests(codec, ({ body, headers }, { model, stream }) => {
    const { "anthropic-version": _version, ...others } = headers;
    const { model: _model, anthropic_beta: _unchecked, ...rest } = body;
    return {
      path: `/models/${segment(model)}:${stream ? "streamRawPredict" : "rawPredict"}`,
      headers: others,
      body: { ...rest, anthropic_version: VERSION },
    };
  });
  return withCounts(encoded, ({ body, headers }) => {
    const { "anthropic-version": _version, ...others } = headers;
    const { anthropic_beta: _unchecked, ...rest } = body;
    const path = "/models/count-tokens:rawPredict";
    return { path, headers: others, body: { ...rest, anthropic_version: VERSION } };
  });
};

/**
 * Returns the options of a relay to Gemini on Vertex AI. Throws a TypeError for wrong options.
 *
 * @example const backend = relay({ ...vertexGenerateContent({ project: "my-project", location: "global" }), models });
 */
export function vertexGenerateContent(options: VertexOptions): CloudUpstream<ChatVerbs> {
  const cloud = { provider: "gcp.vertex_ai", codec: geminiCodec, credential: bearer };
  const format = inCloud(withoutEmbeddings, cloud);
  return { format, ...vertex("vertexGenerateContent", options, "google") };
}

/** Vertex AI embeds at other routes. */
const withoutEmbeddings: UpstreamFormat<ChatVerbs> = {
  ...generateContentUpstream,
  open(relay, options) {
    const { embed: _none, ...verbs } = generateContentUpstream.open(relay, options);
    return verbs;
  },
};

/** The fields of a count on Vertex AI, which takes no whole request. */
const COUNTED: ReadonlySet<string> = new Set([
  "contents",
  "generationConfig",
  "generation_config",
  "systemInstruction",
  "system_instruction",
  "tools",
]);

/** The tiers that a request to Vertex AI names in a header, in place of a field of its body. The standard tier is that of no header. */
const NAMED_TIERS: ReadonlySet<string> = new Set(["flex", "priority"]);
const TIER_HEADER = "x-vertex-ai-llm-shared-request-type";

const geminiCodec = (codec: ChatCodec): ChatCodec => {
  const tiered = withRequests(codec, ({ body, headers }) => {
    const { serviceTier, service_tier: alike, ...rest } = body;
    if (serviceTier === undefined && alike === undefined) return {};
    const tier = googleTier(serviceTier, alike) ?? "standard";
    if (NAMED_TIERS.has(tier)) return { body: rest, headers: { ...headers, [TIER_HEADER]: tier } };
    return tier === "standard" ? { body: rest } : {};
  });
  return withCounts(tiered, ({ body }) => {
    const whole = isJsonObject(body["generateContentRequest"]) ? body["generateContentRequest"] : body;
    return { body: Object.fromEntries(Object.entries(whole).filter(([name]) => COUNTED.has(name))) };
  });
};
