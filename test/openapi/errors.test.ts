/** Provokes the errors that the document shows, and compares their texts with those that the gateway sends. */

import { describe, expect, it } from "vitest";
import type { GatewayErrorCode } from "../../src/errors.ts";
import { decodeUpstreamError } from "../../src/formats/shared/errors.decode.ts";
import {
  createGateway,
  flexibleRateLimiter,
  type Gateway,
  type GatewayOptions,
  memoryQuotaStore,
  memoryReplayStore,
  memoryResponseStore,
  type RateLimiter,
} from "../../src/index.ts";
import { openApiDocument, type Operation } from "../../src/openapi/index.ts";
import { aborted } from "../aborted.ts";
import { operationsOf } from "./reader.ts";

const MODEL = "demo-chat";
const BODY = { model: MODEL, max_tokens: 100, messages: [{ role: "user", content: "Hello" }] };
const KEY = { apiKey: "sk-1", name: "one" };

/** A gateway whose backend waits until its call is cut. `begun` resolves when a call waits. */
interface Hanging {
  readonly gateway: Gateway;
  readonly begun: Promise<void>;
}

function hanging(options: Partial<GatewayOptions> = {}): Hanging {
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const backend: GatewayOptions["backend"] = {
    async *chat(_request, { signal }) {
      resolve();
      await aborted(signal);
      yield "";
    },
  };
  return { gateway: gatewayOf({ backend, ...options }), begun };
}

const failing = (error: unknown): Gateway =>
  gatewayOf({
    backend: {
      // oxlint-disable-next-line require-yield -- it fails before
      async *chat() {
        throw error;
      },
    },
  });

const upstream = (status: number, body: unknown = {}): Gateway => failing(decodeUpstreamError(status, body));

function gatewayOf(options: Partial<GatewayOptions> = {}): Gateway {
  return createGateway({
    backend: {
      models: () => [{ id: MODEL }],
      async *chat() {
        yield "Hello";
      },
      async *image() {},
    },
    quotas: memoryQuotaStore([KEY]),
    responseStore: memoryResponseStore(),
    onFailure: () => {},
    ...options,
  });
}

interface Asked {
  readonly path?: string;
  readonly method?: string;
  readonly body?: string | FormData | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

function requestOf({
  path = "/v1/messages",
  method = "POST",
  body = JSON.stringify(BODY),
  headers = {},
}: Asked): Request {
  const all = { "content-type": "application/json", "x-api-key": "sk-1", "compat-version": "1", ...headers };
  return new Request(`http://localhost${path}`, { method, headers: all, ...(method !== "GET" && { body }) });
}

const json = (body: object): string => JSON.stringify(body);

/** Asks, and returns the text of the error. */
async function told(gateway: Gateway, asked: Asked = {}): Promise<string> {
  const response = await gateway.fetch(requestOf(asked));
  const { error } = (await response.json()) as { error?: { message: string } };
  return error?.message ?? `no error, but ${response.status}`;
}

const document = openApiDocument(gatewayOf());

/** Returns the text of an error in the document. */
function shown(operationId: string, name: string): string | undefined {
  const { operation } = operationsOf(document).find((one) => one.operation.operationId === operationId) ?? {};
  const examples = Object.values((operation as Operation).responses).flatMap(({ content }) =>
    Object.entries(content?.["application/json"]?.examples ?? {}),
  );
  const example = examples.find(([one]) => one === name)?.[1].value as { error: { message: string } } | undefined;
  return example?.error.message;
}

/** Asks while another call waits. */
async function beside({ gateway, begun }: Hanging, ask: () => Promise<string>, asked: Asked = {}): Promise<string> {
  const waiting = gateway.fetch(requestOf(asked));
  await begun;
  const text = await ask();
  await gateway.close({ deadlineMs: 1 });
  await waiting;
  return text;
}

/** Refuses each request. */
const LIMITER: RateLimiter = {
  begin: async () => ({ refused: { by: "requests", retryAfterMs: 1_000 }, limits: [] }),
  take: async () => ({ limits: [] }),
  end: async () => {},
};

const CASES: readonly [code: GatewayErrorCode, provoke: () => Promise<string>][] = [
  ["invalid_request", () => told(gatewayOf(), { body: json({ ...BODY, model: undefined }) })],
  ["malformed_body", () => told(gatewayOf(), { body: "{" })],
  ["unsupported_media_type", () => told(gatewayOf(), { headers: { "content-type": "text/plain" } })],
  ["body_too_large", () => told(gatewayOf(), { headers: { "content-length": "999999999" } })],
  ["content_refused", () => told(upstream(403, { error: { code: "content_filter" } }))],
  ["failed_precondition", () => told(upstream(400, { error: { code: "failed_precondition" } }))],
  ["method_not_allowed", () => told(gatewayOf(), { method: "PUT" })],
  ["missing_api_key", () => told(gatewayOf(), { headers: { "x-api-key": "" } })],
  ["malformed_credential", () => told(gatewayOf(), { headers: { "x-api-key": "", authorization: "Basic abc" } })],
  ["invalid_api_key", () => told(gatewayOf(), { headers: { "x-api-key": "sk-other" } })],
  ["paused_api_key", () => told(gatewayOf({ quotas: memoryQuotaStore([{ ...KEY, paused: true }]) }))],
  ["expired_api_key", () => told(gatewayOf({ quotas: memoryQuotaStore([{ ...KEY, expiresAt: 1 }]) }))],
  ["model_not_found", () => told(gatewayOf(), { body: json({ ...BODY, model: "other" }) })],
  [
    "model_not_allowed",
    () =>
      told(
        gatewayOf({
          backend: { async *chat() {} },
          quotas: memoryQuotaStore([{ ...KEY, models: [MODEL] }]),
        }),
        { body: json({ ...BODY, model: "other" }) },
      ),
  ],
  ["quota_exhausted", () => told(gatewayOf({ quotas: memoryQuotaStore([{ ...KEY, granted: 1, used: 1 }]) }))],
  ["quota_insufficient", () => told(gatewayOf({ quotas: memoryQuotaStore([{ ...KEY, granted: 1 }]) }))],
  [
    "quota_held",
    () => {
      const waiting = hanging({ quotas: memoryQuotaStore([{ ...KEY, granted: 50 }]) });
      return beside(waiting, () => told(waiting.gateway));
    },
  ],
  ["rate_limited", () => told(gatewayOf({ rateLimiter: LIMITER }))],
  [
    "idempotency_key_reused",
    async () => {
      const gateway = gatewayOf({ replayStore: memoryReplayStore() });
      const headers = { "idempotency-key": "once" };
      await told(gateway, { headers });
      return told(gateway, { headers, body: json({ ...BODY, max_tokens: 99 }) });
    },
  ],
  [
    "idempotency_key_in_use",
    () => {
      const options = { replayStore: memoryReplayStore(), replayInFlight: "refuse" } as const;
      const headers = { "idempotency-key": "once" };
      return beside(hanging(options), () => told(gatewayOf(options), { headers }), { headers });
    },
  ],
  [
    "busy",
    () => {
      const waiting = hanging({ limits: { maxCallsInFlight: 1, maxCallsPerKey: 1 } });
      return beside(waiting, () => told(waiting.gateway));
    },
  ],
  [
    "call_stopped",
    () => {
      const { gateway, begun } = hanging();
      void begun.then(() => gateway.stopCall(gateway.liveCalls()[0]?.requestId ?? ""));
      return told(gateway);
    },
  ],
  ["deadline_exceeded", () => told(hanging({ limits: { deadlineMs: 1 } }).gateway)],
  ["backend_unavailable", () => told(failing(Object.assign(new Error("refused"), { code: "ECONNREFUSED" })))],
  ["backend_overloaded", () => told(upstream(529))],
  ["backend_refused", () => told(upstream(401))],
  ["backend_failed", () => told(upstream(500))],
  [
    "store_unavailable",
    () => {
      const quotas = memoryQuotaStore([KEY]);
      quotas.find = () => Promise.reject(new Error("down"));
      return told(gatewayOf({ quotas }));
    },
  ],
  [
    "misconfigured",
    () => {
      const quotas = memoryQuotaStore([{ ...KEY, metadata: { tier: "golld" } }]);
      return told(gatewayOf({ quotas, rateLimiter: flexibleRateLimiter({ tiers: { gold: {} } }) }));
    },
  ],
  [
    "internal",
    () =>
      told(
        gatewayOf({
          price: () => {
            throw new Error("wrong");
          },
        }),
      ),
  ],
];

describe("the text of an error", () => {
  it.each(CASES)("is the one that the gateway sends: %s", async (code, provoke) => {
    expect(await provoke()).toBe(shown("createMessage", code));
  });

  it("is the one that the gateway sends for a form", async () => {
    const path = "/v1/images/edits";
    const form = { "content-type": "multipart/form-data; boundary=x" };
    expect([
      await told(gatewayOf(), { path, headers: { authorization: "Bearer sk-1" } }),
      await told(gatewayOf(), { path, headers: { authorization: "Bearer sk-1", ...form } }),
      await told(gatewayOf(), {
        path,
        headers: { authorization: "Bearer sk-1", ...form, "content-length": "999999999" },
      }),
    ]).toEqual([
      shown("editImage", "unsupported_media_type"),
      shown("editImage", "malformed_body"),
      shown("editImage", "body_too_large"),
    ]);
  });

  it("is the one that the gateway sends for an unknown id", async () => {
    const headers = { authorization: "Bearer sk-1" };
    const gateway = gatewayOf();
    const asked = { path: "/v1/responses", headers };
    const previous = json({ model: MODEL, input: "Hi", previous_response_id: "resp_1" });
    expect(await told(gateway, { ...asked, body: previous })).toBe(shown("createResponse", "not_found (context)"));
    const conversation = json({ model: MODEL, input: "Hi", conversation: "conv_1" });
    expect(await told(gateway, { ...asked, body: conversation })).toBe(
      shown("createResponse", "not_found (conversation)"),
    );
    const item = json({ model: MODEL, input: [{ type: "item_reference", id: "msg_1" }] });
    expect(await told(gateway, { ...asked, body: item })).toBe(shown("createResponse", "not_found (item)"));
    const get = { method: "GET", headers };
    expect(await told(gateway, { ...get, path: "/v1/responses/resp_1" })).toBe(shown("getResponse", "not_found"));
    expect(await told(gateway, { ...get, path: "/v1beta/models/other" })).toBe(shown("getModelV1beta", "not_found"));
  });

  it("is compared for each code that a caller can see", () => {
    const codes = CASES.map(([code]) => code);
    // A caller whose connection is closed sees nothing. The words of a prompt that is too long are those of each format's clients.
    const others = ["context_length_exceeded", "client_closed"];
    const responses = document.paths["/v1/messages"]?.["post"]?.responses ?? {};
    const all = Object.values(responses).flatMap(({ content }) =>
      Object.keys(content?.["application/json"]?.examples ?? {}),
    );
    expect([...codes, ...others].toSorted()).toEqual(all.filter((name) => !name.startsWith("example")).toSorted());
  });
});
