/** The routes of the generate-content format: all that a gateway needs before the format's first request. */

import type { GatewayError } from "../../errors.ts";
import { bearerToken, queryOf } from "../../http/request.ts";
import type { TelemetryNames } from "../../ports/observer.ts";
import type { LazyRoute } from "../format.ts";
import { isModelAddress } from "../shared/errors.ts";
import { encodeError, errorStatus, keyPlace } from "./errors.ts";

/** The name of the format in routes, and in the native parts of requests and answers. */
export const FORMAT = "generate-content";

export const TELEMETRY: TelemetryNames = { provider: "gcp.gen_ai", operations: { chat: "generate_content" } };

/** Reads the API key from the official clients' header, the spec's query parameter, or a Bearer token. Skips empty values. */
function credential(request: Request): string | undefined {
  const keys = queryOf(request.url).getAll("key");
  return request.headers.get("x-goog-api-key") || keys.find((key) => key !== "") || bearerToken(request.headers);
}

/** Tells whether the caller uses this format. Needed for paths that several formats share. */
const isOurs = ({ headers, url }: Request): boolean =>
  headers.has("x-goog-api-key") || headers.has("x-goog-api-client") || queryOf(url).has("key");

/** Replaces a percent-encoded colon before the method with a plain colon. */
export const withColon = (wildcardPath: string): string => wildcardPath.replace(/%3A(?=[A-Za-z]+$)/i, ":");

/** Returns the method at the end of an address: the text after its last colon. Undefined if no colon follows the last slash. */
export function methodIn(wildcardPath: string): string | undefined {
  const address = withColon(wildcardPath);
  const colon = address.lastIndexOf(":");
  return colon > address.lastIndexOf("/") ? address.slice(colon + 1) : undefined;
}

const common = {
  format: FORMAT,
  credential,
  keyPlace,
  encodeError: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
} as const;

export const METHODS: readonly string[] = ["generateContent", "streamGenerateContent", "countTokens"];
export const EMBEDDING_METHODS: readonly string[] = ["embedContent", "batchEmbedContents"];

export interface MethodRoutes {
  readonly isTuned: boolean;
  readonly generate: LazyRoute;
  readonly stream: LazyRoute;
  readonly count: LazyRoute;
  /** The routes by the names of their methods. Only the official service's own models embed. */
  readonly embed: Readonly<Record<string, LazyRoute>>;
  readonly unknown: LazyRoute;
}

function methodRoutes(collection: string): MethodRoutes {
  const isTuned = collection.endsWith("/tunedModels/");
  const route = (kind: LazyRoute["kind"], method: string): LazyRoute => ({
    ...common,
    kind,
    method: "POST",
    path: `${collection}**`,
    owns: (wildcardPath) => methodIn(wildcardPath) === method,
  });
  return {
    isTuned,
    generate: route("chat", "generateContent"),
    stream: route("chat", "streamGenerateContent"),
    count: route("query", "countTokens"),
    embed: Object.fromEntries((isTuned ? [] : EMBEDDING_METHODS).map((method) => [method, route("embedding", method)])),
    unknown: {
      ...route("query", "*"),
      // The last: owns the methods of embeddings as well, where the backend has no embeddings.
      owns(wildcardPath, request) {
        const method = methodIn(wildcardPath);
        // In other requests, the colon is part of a model name: OpenAI's clients delete fine-tuned models.
        const isMeant = request.method === "POST" || isOurs(request);
        return isMeant && method !== undefined && !METHODS.includes(method);
      },
    },
  };
}

export interface ModelRoutes {
  readonly list: LazyRoute;
  readonly read: LazyRoute;
}

function modelRoutes(path: string, owns: (request: Request) => boolean): ModelRoutes {
  const route = { ...common, kind: "query", method: "GET" } as const;
  return {
    list: { ...route, path, owns: (_wildcardPath, request) => owns(request) },
    read: {
      ...route,
      path: `${path}/**`,
      owns: (wildcardPath, request) => isModelAddress(wildcardPath) && owns(request),
    },
  };
}

/** The paths of models: `v1beta` is the spec's version, `v1` is used by newer official clients. Both have tuned models too. */
const COLLECTIONS = ["/v1beta/models/", "/v1/models/", "/v1beta/tunedModels/", "/v1/tunedModels/"];

export const METHOD_ROUTES: readonly MethodRoutes[] = COLLECTIONS.map(methodRoutes);
export const MODEL_ROUTES: readonly ModelRoutes[] = [
  modelRoutes("/v1beta/models", () => true),
  // This path belongs to other formats, too.
  modelRoutes("/v1/models", isOurs),
];

/** The routes in the order of the format's endpoints. */
export const ROUTES: readonly LazyRoute[] = [
  ...METHOD_ROUTES.flatMap(({ generate, stream, count, embed, unknown }) => [
    generate,
    stream,
    count,
    ...Object.values(embed),
    unknown,
  ]),
  ...MODEL_ROUTES.flatMap(({ list, read }) => [list, read]),
];
