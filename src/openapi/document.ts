/** Writes the OpenAPI document of a gateway: the parts of its formats, put together. */

import type { Gateway, GatewayEndpoint } from "../index.ts";
import { chatCompletionsFormat } from "./chat-completions.ts";
import { generateContentFormat } from "./generate-content.ts";
import { imagesFormat } from "./images.ts";
import { merged } from "./merge.ts";
import { messagesFormat } from "./messages.ts";
import { referredFrom, schemasOf } from "./schemas.ts";
import { HEADERS, IDEMPOTENCY_KEY, SECURITY_SCHEMES } from "./shapes.ts";
import { tokenUsageFormat } from "./token-usage.ts";
import type { Format, FormatOperation, OpenApiDocument, Operation, Server } from "./types.ts";

/** The formats. A new one is a file beside this and a line in here. */
const FORMATS: readonly Format[] = [
  messagesFormat,
  generateContentFormat,
  chatCompletionsFormat,
  imagesFormat,
  tokenUsageFormat,
];

/** What a host may say of its own service. */
export interface OpenApiOptions {
  /** Default: `polygate`. */
  readonly title?: string;
  /** The version of the host's service. Default: `1`. */
  readonly version?: string;
  readonly description?: string;
  /** Where the gateway is mounted. Default: the root of the host that serves the document. */
  readonly servers?: readonly Server[];
}

const DESCRIPTION = "One gateway to models, in the wire formats that official clients speak.";

/**
 * The OpenAPI 3.1 document of a gateway's routes, as plain JSON: its request bodies are the schemas that the gateway itself
 * holds requests to. It describes what this gateway owns, by its backend and the options of its formats.
 *
 * @throws Error for a gateway with an endpoint that no format here describes: one of another version of this library.
 * @example const json = JSON.stringify(openApiDocument(gateway, { servers: [{ url: "https://example.com/ai" }] }));
 */
export function openApiDocument<Context>(
  { endpoints, formats }: Pick<Gateway<Context>, "endpoints" | "formats">,
  options: OpenApiOptions = {},
): OpenApiDocument {
  const parts = FORMATS.filter(({ name }) => endpoints.some(({ format }) => format === name)).map(({ name, part }) => ({
    name,
    ...part(formats),
  }));
  const described = parts.flatMap(({ name, operations }) => operations.map((one) => ({ format: name, ...one })));
  const owned = described.filter((one) => endpoints.some((endpoint) => isOf(one, endpoint)));
  const unknown = endpoints.find((endpoint) => !owned.some((one) => isOf(one, endpoint)));
  if (unknown)
    throw new Error(`There is no description of ${unknown.format}'s endpoint ${unknown.method} ${unknown.path}.`);
  const paths = pathsOf(owned);
  const schemas = Object.assign({}, ...parts.map(schemasOf)) as ReturnType<typeof schemasOf>;
  return plain({
    openapi: "3.1.1",
    info: {
      title: options.title ?? "polygate",
      version: options.version ?? "1",
      description: options.description ?? DESCRIPTION,
    },
    servers: options.servers ?? [{ url: "/" }],
    tags: parts.map(({ tag }) => tag),
    paths,
    components: { schemas: referredFrom(paths, schemas), securitySchemes: SECURITY_SCHEMES, headers: HEADERS },
  });
}

/** Whether an operation is answered by an endpoint. */
const isOf = (one: FormatOperation & { readonly format: string }, endpoint: GatewayEndpoint): boolean =>
  one.endpoint === endpoint.path &&
  one.format === endpoint.format &&
  one.kind === endpoint.kind &&
  one.method === endpoint.method;

function pathsOf(operations: readonly FormatOperation[]): Record<string, Record<string, Operation>> {
  const paths: Record<string, Record<string, Operation>> = {};
  for (const { path, method, operation } of operations) {
    const item = (paths[path] ??= {});
    const key = method.toLowerCase();
    const one = method === "POST" ? repeatable(operation) : operation;
    item[key] = item[key] ? merged(item[key], one) : one;
  }
  return paths;
}

const repeatable = (operation: Operation): Operation => ({
  ...operation,
  parameters: [...operation.parameters, IDEMPOTENCY_KEY],
});

/** Plain JSON, of which no part is shared with another document. */
const plain = (document: OpenApiDocument): OpenApiDocument => JSON.parse(JSON.stringify(document)) as OpenApiDocument;
