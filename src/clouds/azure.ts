/** Upstreams of Azure: OpenAI's formats by its deployments. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { chatCompletionsUpstream } from "../formats/chat-completions/module.ts";
import type { ChatVerbs, EmbeddingVerbs, UpstreamFormat, Verbs } from "../formats/module.ts";
import { responsesUpstream } from "../formats/responses/module.ts";
import { assertOptions, CLOCK, portOf, type Shapes } from "../options.ts";
import type { Clock } from "../ports/clock.ts";
import { API_KEY, type ApiKeySource } from "../upstreams/relay/options.ts";
import { bearer, type CloudUpstream, endpointOf, inCloud, segment } from "./shaped.ts";

export type { CloudUpstream } from "./shaped.ts";

/** A credential of `@azure/identity`, such as `DefaultAzureCredential`. */
export interface AzureCredential {
  getToken(scope: string): Promise<{ readonly token: string; readonly expiresOnTimestamp: number } | null>;
}

/** The options of `azureChatCompletions` and `azureResponses`. `credential` or `apiKey` is needed. */
export interface AzureOptions {
  /** The address of the resource, such as `https://my-resource.openai.azure.com`. */
  readonly endpoint: string;
  /** A credential of `@azure/identity`. Its tokens are kept until they expire. */
  readonly credential?: AzureCredential | undefined;
  /** The key of the resource, in place of a credential. */
  readonly apiKey?: string | ApiKeySource | undefined;
  /**
   * The version of the API. With a date, such as `2024-10-21`, chat completions and embeddings go to the deployment of their model. Default: the
   * paths of `/openai/v1`, which need no version.
   */
  readonly apiVersion?: string | undefined;
  /** The scope of the credential's tokens. Default: `https://cognitiveservices.azure.com/.default`. */
  readonly scope?: string | undefined;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

const SHAPES: Shapes<AzureOptions> = {
  endpoint: "string",
  credential: { optional: portOf(["getToken"], "a credential of @azure/identity") },
  apiKey: { optional: API_KEY },
  apiVersion: "string?",
  scope: "string?",
  clock: CLOCK,
};

const SCOPE = "https://cognitiveservices.azure.com/.default";

/**
 * Makes the `apiKey` of a relay from a credential of `@azure/identity`.
 *
 * @param scope Default: `https://cognitiveservices.azure.com/.default`.
 */
export function azureToken(credential: AzureCredential, scope: string = SCOPE): ApiKeySource {
  portOf(["getToken"], "a credential of @azure/identity")("azureToken: credential", credential);
  return async () => {
    const token = await credential.getToken(scope);
    if (!token) throw new Error("The credential of @azure/identity has no token.");
    return { apiKey: token.token, expiresAt: token.expiresOnTimestamp };
  };
}

/**
 * Returns the options of a relay to chat completions of Azure, which also embeds. Its models are the names of deployments. Throws a TypeError for
 * wrong options.
 *
 * @example
 * const credential = new DefaultAzureCredential();
 * const backend = relay({ ...azureChatCompletions({ endpoint, credential }), models: { "gpt-5": "my-deployment" } });
 */
export function azureChatCompletions(options: AzureOptions): CloudUpstream<ChatVerbs & EmbeddingVerbs> {
  return azure("azureChatCompletions", options, chatCompletionsUpstream, true);
}

/**
 * Returns the options of a relay to Responses of Azure, by the paths of `/openai/v1`. Its models are the names of deployments. Throws a TypeError
 * for wrong options.
 *
 * @example const backend = relay({ ...azureResponses({ endpoint, apiKey: process.env.AZURE_KEY }), models: ["my-deployment"] });
 */
export function azureResponses(options: AzureOptions): CloudUpstream<ChatVerbs> {
  return azure("azureResponses", options, responsesUpstream, false);
}

/** @param hasDeployments True for a format that Azure also serves below the address of a deployment. */
function azure<Has extends Verbs>(
  where: string,
  options: AzureOptions,
  format: UpstreamFormat<Has>,
  hasDeployments: boolean,
): CloudUpstream<Has> {
  assertOptions<AzureOptions>(where, options, SHAPES);
  const { endpoint, credential, apiKey, apiVersion, scope, clock } = options;
  if ((credential === undefined) === (apiKey === undefined))
    throw new TypeError(`${where}: needs a credential or an apiKey, and not both.`);
  // Versions without a date, such as `preview`, are those of `/openai/v1`.
  const isOfDeployment = apiVersion !== undefined && /^\d/.test(apiVersion);
  if (isOfDeployment && !hasDeployments)
    throw new TypeError(`${where}: apiVersion must be no date, because Azure serves this format at /openai/v1 alone.`);
  const base = endpointOf(where, endpoint).replace(/\/openai(?:\/v1)?$/, "");
  const query = apiVersion === undefined ? "" : `?api-version=${encodeURIComponent(apiVersion)}`;
  return {
    format: inCloud(format, {
      provider: "azure.ai.openai",
      credential: credential ? bearer : (key) => ({ "api-key": key }),
      path: (below, model) => (isOfDeployment ? `/deployments/${segment(model)}${below}` : below) + query,
    }),
    baseUrl: `${base}/openai${isOfDeployment ? "" : "/v1"}`,
    apiKey: credential ? azureToken(credential, scope) : apiKey,
    ...(clock && { clock }),
  };
}
