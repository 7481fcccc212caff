/** Checks the whole document: it is valid OpenAPI 3.1, has the gateway's endpoints, and its examples match its schemas. */

import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, it } from "vitest";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import {
  createGateway,
  GatewayError,
  type GatewayOptions,
  memoryQuotaStore,
  memoryResponseStore,
} from "../../src/index.ts";
import { openApiDocument } from "../../src/openapi/index.ts";
import { documentOf, judges, operationsOf, type LocatedOperation } from "./reader.ts";

async function* chat(): AsyncGenerator<string> {
  yield "Hello";
}
async function* image(): AsyncGenerator<never> {}
async function* embed(): AsyncGenerator<never> {}

type Options = Pick<GatewayOptions, "backend" | "messages" | "images" | "responseStore">;

const GATEWAYS: readonly [name: string, options: Options][] = [
  ["chat and images", { backend: { chat, image } }],
  ["chat and kept responses", { backend: { chat }, responseStore: memoryResponseStore() }],
  ["chat and embeddings", { backend: { chat, embed } }],
  ["embeddings alone", { backend: { embed } }],
  ["chat alone", { backend: { chat } }],
  ["images alone", { backend: { image } }],
  [
    "wider formats",
    { backend: { chat, image }, messages: { ranges: "vendor", imageSources: "vendor", errors: "vendor" } },
  ],
  ["image models of the host's own", { backend: { image }, images: { aliases: { mine: "image-model-3" } } }],
];

const FORMAT_TAGS: Readonly<Record<string, string>> = {
  messages: "Messages",
  "generate-content": "Generate content",
  "chat-completions": "Chat completions",
  responses: "Responses",
  embeddings: "Embeddings",
  images: "Images",
  "token-usage": "Token usage",
};

/** The endpoints that serve several addresses, with the number of these. */
const ADDRESSES: Readonly<Record<string, number>> = {
  "GET /v1/responses/**": 2,
  "GET /v1/conversations/**": 3,
  "POST /v1/conversations/**": 2,
  "DELETE /v1/conversations/**": 2,
};

/** For each format that shares a path, a header that selects this format. */
const OURS: Readonly<Record<string, string>> = { Messages: "x-api-key", "Generate content": "x-goog-api-client" };

describe.each(GATEWAYS)("the document of a gateway with %s", (_name, options) => {
  const gateway = createGateway({ quotas: memoryQuotaStore([]), ...options });
  const document = openApiDocument(gateway);
  const operations = operationsOf(document);

  it("is valid OpenAPI 3.1", async () => {
    expect(await new Validator().validate({ ...document })).toEqual({ valid: true });
  });

  it("refers to nothing that is not in it, and has nothing that is not referred to", () => {
    const text = JSON.stringify(document);
    const referred = new Set(
      Array.from(text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g), ([, name = ""]) => name),
    );
    expect([...referred].toSorted()).toEqual(Object.keys(document.components.schemas).toSorted());
    expect(text.match(/"\$ref":"(?!#\/components\/)[^"]*"/g)).toBeNull();
  });

  it("has every endpoint of the gateway, and nothing else", () => {
    expect(gateway.endpoints.length).toBeGreaterThan(3);
    for (const { format, method, path } of gateway.endpoints) {
      const isHere = (one: LocatedOperation): boolean =>
        one.method === method &&
        one.operation.tags.includes(FORMAT_TAGS[format] ?? "") &&
        (path.endsWith("/**") ? one.path.startsWith(`${path.slice(0, -2)}{`) : one.path === path);
      const sharing = gateway.endpoints.filter(
        (one) => one.format === format && one.method === method && one.path === path,
      );
      // Each collection has an endpoint that only refuses unknown methods.
      const refusing = format === "generate-content" && method === "POST" ? 1 : 0;
      const addresses = ADDRESSES[`${method} ${path}`] ?? sharing.length - refusing;
      // The methods of other collections are named beside those of the first.
      const isElsewhere = ({ operation }: LocatedOperation): boolean =>
        format === "generate-content" &&
        method === "POST" &&
        operation.description?.includes(` \`${path.slice(0, -2)}{model}:`) === true;
      const found = operations.filter((one) => isHere(one) || isElsewhere(one)).length;
      expect([format, path, found]).toEqual([format, path, addresses]);
    }
    for (const { path, method, operation } of operations)
      for (const tag of operation.tags) {
        const headers = { [OURS[tag] ?? "x-none"]: "sk-none" };
        const address = `http://localhost${path.replace(/\{\w+\}/g, "some")}`;
        const response = gateway.errorResponse(
          new Request(address, { method, headers }),
          new GatewayError("busy", "Full."),
        );
        expect([path, tag, response?.status]).toEqual([path, tag, 503]);
      }
  });

  it("has an id of its own for every operation, a tag that it explains, and its path's parameters", () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(ids).toEqual([...new Set(ids)]);
    const tags = document.tags.map(({ name }) => name);
    for (const { path, operation } of operations) {
      for (const tag of operation.tags) expect(tags).toContain(tag);
      const named = operation.parameters.filter((one) => one.in === "path").map(({ name }) => `{${name}}`);
      expect([path, named]).toEqual([path, path.match(/\{\w+\}/g) ?? []]);
    }
  });

  it("shows examples that its own schemas accept", () => {
    const judgeOf = judges(document);
    let shown = 0;
    for (const { operation } of operations)
      for (const { content = {} } of [operation.requestBody ?? {}, ...Object.values(operation.responses)])
        for (const { schema, examples = {} } of Object.values(content)) {
          const judge = judgeOf(schema);
          for (const [name, { value }] of Object.entries(examples)) {
            expect([operation.operationId, name, judge(value)]).toEqual([operation.operationId, name, undefined]);
            shown++;
          }
        }
    expect(shown).toBeGreaterThan(operations.length);
  });
});

describe("the document", () => {
  const document = documentOf();

  it("says with which keys each format is asked, and what a call must carry", () => {
    const { "/v1/messages": messages, "/v1/images/edits": edits, "/v1/images/files/{id}": file } = document.paths;
    expect(messages?.["post"]?.security).toEqual([{ apiKey: [] }, { bearer: [] }]);
    expect(edits?.["post"]?.security).toEqual([{ bearer: [] }, { azureApiKey: [] }]);
    expect(file?.["get"]?.security).toEqual([]);
    const [version, otherName] = messages?.["post"]?.parameters ?? [];
    // Each of the two stands for the other, so no client must send both.
    expect([version?.required, otherName?.required]).toEqual([undefined, undefined]);
    expect(version?.description).toContain("Required, unless `anthropic-version` is there.");
    const stream = document.paths["/v1beta/models/{model}:streamGenerateContent"]?.["post"];
    expect(stream?.security).toEqual([{ queryKey: [] }, { googApiKey: [] }, { bearer: [] }]);
    expect(stream?.parameters.map(({ name }) => name)).toEqual(["model", "alt", "Idempotency-Key"]);
  });

  it("shows each code that a call can meet, with the headers of its answer", () => {
    const responses = document.paths["/v1/messages"]?.["post"]?.responses ?? {};
    const codes = Object.values(responses).flatMap(({ content }) =>
      Object.keys(content?.["application/json"]?.examples ?? {}),
    );
    // No operation on messages looks a model up, and none is a WebSocket.
    const met = GATEWAY_ERROR_CODES.filter((code) => code !== "not_found" && code !== "upgrade_required");
    expect(codes.filter((code) => !code.startsWith("example")).toSorted()).toEqual(met.toSorted());
    const [limited, wrong, unknown] = ["429", "400", "401"].map((status) =>
      Object.keys(responses[status]?.headers ?? {}),
    );
    expect(limited?.toSorted()).toEqual([
      "request-id",
      "retry-after",
      "retry-after-ms",
      "x-request-id",
      "x-should-retry",
    ]);
    expect(wrong?.toSorted()).toEqual(["request-id", "x-request-id"]);
    expect(unknown?.toSorted()).toEqual(["request-id", "x-request-id", "x-should-retry"]);
  });

  it("has the routes of kept responses only where the host keeps responses", async () => {
    const keeping = documentOf({ responseStore: memoryResponseStore() });
    const added = Object.keys(keeping.paths).filter((path) => !(path in document.paths));
    expect(added).toEqual([
      "/v1/responses/{response_id}",
      "/v1/responses/{response_id}/cancel",
      "/v1/responses/{response_id}/input_items",
      "/v1/conversations",
      "/v1/conversations/{conversation_id}",
      "/v1/conversations/{conversation_id}/items",
      "/v1/conversations/{conversation_id}/items/{item_id}",
    ]);
    const get = keeping.paths["/v1/conversations/{conversation_id}/items/{item_id}"]?.["get"];
    expect(Object.keys(get?.responses["404"]?.content?.["application/json"]?.examples ?? {})).toEqual([
      "not_found (conversation)",
      "not_found (item)",
    ]);
    // The route is still the gateway's own, and says why it has no answer.
    const gateway = createGateway({ backend: { chat }, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
    const headers = { authorization: "Bearer sk-1" };
    const response = await gateway.fetch(new Request("http://localhost/v1/responses/resp_1", { headers }));
    expect([response.status, await response.json()]).toMatchObject([
      404,
      { error: { message: "This service keeps no responses.", code: "not_found" } },
    ]);
  });

  it("has one operation for each route, also where several addresses have it", () => {
    const methods = Object.keys(document.paths).filter((path) => path.includes(":"));
    expect(methods.map((path) => path.split(":")[1])).toEqual([
      "generateContent",
      "streamGenerateContent",
      "countTokens",
    ]);
    const generate = document.paths["/v1beta/models/{model}:generateContent"]?.["post"];
    expect(generate?.description).toBe(
      "The same operation is at `/v1/models/{model}:generateContent`, `/v1beta/tunedModels/{model}:generateContent`, " +
        "`/v1/tunedModels/{model}:generateContent`.",
    );
  });

  it("has types that generated clients can write", () => {
    const found: string[] = [];
    const visit = (value: unknown, path: string): void => {
      if (typeof value !== "object" || value === null) return;
      const { anyOf, default: given } = value as { anyOf?: unknown; default?: unknown };
      // Clients make a field with a default a required one, and a choice with `not` of no type at all.
      if (given !== undefined && !/\/(?:properties|parameters\/\d+\/schema)$/.test(path)) found.push(`${path} default`);
      if (JSON.stringify(anyOf)?.includes('"not":{"prop')) found.push(`${path} not`);
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}/${key}`);
    };
    visit(document.components.schemas, "");
    for (const name of ["ImageEditRequest", "ImageVariationRequest"])
      if (JSON.stringify(document.components.schemas[name]?.["properties"]).includes("null"))
        found.push(`${name} null`);
    expect(found).toEqual([]);
  });

  it("follows the host's own image models", () => {
    const catalog = { aliases: { mine: "image-model-3" } };
    const text = JSON.stringify(documentOf({ images: catalog }).components.schemas["ImageGenerationRequest"]);
    expect(text).toContain('"mine"');
    expect(JSON.stringify(document.components.schemas["ImageGenerationRequest"])).not.toContain('"mine"');
  });

  it("says what the host says of its service", () => {
    const gateway = createGateway({ backend: { chat }, quotas: memoryQuotaStore([]) });
    const servers = [{ url: "https://example.com/ai" }];
    const said = openApiDocument(gateway, { title: "Ours", version: "2.1", description: "All models.", servers });
    expect(said).toMatchObject({ info: { title: "Ours", version: "2.1", description: "All models." }, servers });
  });

  it("is refused for a gateway with an endpoint that nothing describes", () => {
    const endpoints = [{ format: "unheard-of", kind: "chat", method: "POST", path: "/v9/talk" }] as const;
    expect(() => openApiDocument({ endpoints, formats: {} })).toThrow(
      "There is no description of unheard-of's endpoint POST /v9/talk.",
    );
  });
});
