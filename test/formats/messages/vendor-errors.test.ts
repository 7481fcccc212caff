/** The errors of `messages: { errors: "vendor" }`, as Anthropic's own SDK reads them over a socket. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../../adapters/node.ts";
import { createGateway, GatewayError, type GatewayErrorCode, memoryQuotaStore } from "../../../src/index.ts";
import { openApiDocument } from "../../../src/openapi/index.ts";

const KEY = "sk-one";
const MODELS = ["stream", "backend_overloaded", "deadline_exceeded", "backend_failed", "backend_unavailable"];
const ports = {
  quotas: memoryQuotaStore([
    { apiKey: KEY, granted: 1_000_000 },
    { apiKey: "sk-limited", granted: 1_000_000, models: ["backend_failed"] },
    { apiKey: "sk-empty", granted: 0 },
  ]),
  backend: {
    models: () => MODELS.map((id) => ({ id })),
    async *chat({ model }: { readonly model: string }) {
      if (model === "stream") yield "Hello";
      throw new GatewayError(model === "stream" ? "backend_overloaded" : (model as GatewayErrorCode), "Told.");
    },
  },
  limits: { maxJsonBytes: 2_000 },
  onFailure: () => {},
};
const gateway = createGateway({ ...ports, messages: { errors: "vendor" } });
const strict = createGateway(ports);

let server: Server;
let baseURL: string;
beforeAll(async () => {
  const handler = toNodeHandler(gateway);
  server = createServer((req, res) => handler(req, res)).listen(0, "127.0.0.1");
  await once(server, "listening");
  baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await Promise.all([gateway.close(), strict.close()]);
  server.close().closeAllConnections();
});

const client = (apiKey = KEY): Anthropic => new Anthropic({ apiKey, baseURL, maxRetries: 0 });
const say = (model: string, content = "Hello") => ({
  model,
  max_tokens: 9,
  messages: [{ role: "user" as const, content }],
});
const errorOf = async (promise: Promise<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> =>
  promise.then(
    () => expect.fail("It did not fail."),
    (error: unknown) => error as InstanceType<typeof Anthropic.APIError>,
  );

describe("Anthropic's SDK", () => {
  const { NotFoundError, PermissionDeniedError, InternalServerError, AuthenticationError, RateLimitError } = Anthropic;

  it.each<[string, () => Promise<unknown>, kind: unknown, status: number, type: string, code: string]>([
    [
      "an unknown model",
      () => client().messages.create(say("model_not_found")),
      NotFoundError,
      404,
      "not_found_error",
      "model_not_found",
    ],
    [
      "an unknown model of the list",
      () => client().models.retrieve("no"),
      NotFoundError,
      404,
      "not_found_error",
      "not_found",
    ],
    [
      "a forbidden model",
      () => client("sk-limited").messages.create(say("stream")),
      PermissionDeniedError,
      403,
      "permission_error",
      "model_not_allowed",
    ],
    [
      "a long body",
      () => client().messages.create(say("stream", "a".repeat(2_000))),
      Anthropic.APIError,
      413,
      "request_too_large",
      "request_too_large",
    ],
    [
      "a wrong field",
      () => client().messages.create({ ...say("stream"), max_tokens: 0 }),
      Anthropic.BadRequestError,
      400,
      "invalid_request_error",
      "invalid_request",
    ],
    [
      "a wrong key",
      () => client("sk-no").models.list(),
      AuthenticationError,
      401,
      "authentication_error",
      "invalid_api_key",
    ],
    [
      "a key without quota",
      () => client("sk-empty").messages.create(say("stream")),
      RateLimitError,
      429,
      "rate_limit_error",
      "insufficient_quota",
    ],
  ])("reads %s", async (_what, ask, errorClass, status, type, code) => {
    const error = await errorOf(ask());
    expect(error).toBeInstanceOf(errorClass);
    expect([error.status, error.type]).toEqual([status, type]);
    expect(error.error).toMatchObject({ type: "error", error: { type, code }, request_id: error.requestID });
  });

  it.each([
    ["backend_overloaded", 529, "overloaded_error", "overloaded"],
    ["deadline_exceeded", 504, "timeout_error", "deadline_exceeded"],
    ["backend_failed", 500, "api_error", "backend_failed"],
    ["backend_unavailable", 503, "api_error", "backend_unavailable"],
  ])("reads a backend's %s", async (model, status, type, code) => {
    const error = await errorOf(client().messages.create(say(model)));
    expect(error).toBeInstanceOf(InternalServerError);
    expect([error.status, error.type]).toEqual([status, type]);
    expect(error.error).toMatchObject({ error: { type, code } });
  });

  it("reads the error of a stream that has begun", async () => {
    const error = await errorOf(client().messages.stream(say("stream")).finalMessage());
    expect(error.type).toBe("overloaded_error");
    expect(error.error).toMatchObject({ error: { type: "overloaded_error", code: "overloaded" } });
  });
});

const typeIn = async (response: Response | undefined): Promise<unknown> => {
  const { error } = (await (response ?? Response.error()).json()) as { error: { type: string } };
  return error.type;
};

describe("a request that reaches no endpoint", () => {
  it("has the same errors at a wrong method, a wrong address and in the host's own refusals", async () => {
    const put = await gateway.fetch(new Request("http://host/v1/messages", { method: "PUT" }));
    expect([put.status, await typeIn(put)]).toEqual([405, "invalid_request_error"]);
    const wrong = await gateway.fetch(new Request("http://host/v1/messages/batches", { method: "POST" }));
    expect([wrong.status, await typeIn(wrong)]).toEqual([404, "not_found_error"]);
    const request = new Request("http://host/v1/messages", { method: "POST" });
    const refused = gateway.errorResponse(request, new GatewayError("model_not_allowed", "Not today."));
    expect([refused?.status, await typeIn(refused)]).toEqual([403, "permission_error"]);
  });
});

it("the OpenAPI document has the errors of the option, and those of the spec without it", () => {
  const told = ({ endpoints, formats }: typeof gateway): readonly [statuses: string[], types: unknown] => {
    const { paths, components } = openApiDocument({ endpoints, formats });
    const schema = JSON.stringify(components.schemas["MessagesError"]);
    const [, types = ""] = /"enum":(\[[^\]]+\])/.exec(schema) ?? [];
    return [Object.keys(paths["/v1/messages"]?.["post"]?.responses ?? {}), JSON.parse(types)];
  };
  const [statuses, types] = told(gateway);
  expect(statuses).toEqual(expect.arrayContaining(["403", "404", "529"]));
  expect(types).toEqual(expect.arrayContaining(["overloaded_error", "api_error"]));
  expect(types).not.toContain("server_error");
  const [specStatuses, specTypes] = told(strict);
  expect(specStatuses).not.toContain("404");
  expect(specTypes).toEqual(["invalid_request_error", "authentication_error", "rate_limit_error", "server_error"]);
});
