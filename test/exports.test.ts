/** The names that each entry exports at run time: to add one is a decision, and this is where it shows. */

import { expect, it } from "vitest";
import * as bun from "../adapters/bun.ts";
import * as deno from "../adapters/deno.ts";
import * as edge from "../adapters/edge.ts";
import * as express from "../adapters/express.ts";
import * as koa from "../adapters/koa.ts";
import * as node from "../adapters/node.ts";
import * as adminHttp from "../src/admin/http/index.ts";
import * as admin from "../src/admin/index.ts";
import * as adminPage from "../src/admin/page/index.ts";
import * as aws from "../src/clouds/aws.ts";
import * as azure from "../src/clouds/azure.ts";
import * as google from "../src/clouds/google.ts";
import * as core from "../src/core.ts";
import * as chatCompletions from "../src/formats/chat-completions/module.ts";
import * as embeddings from "../src/formats/embeddings/module.ts";
import * as generateContent from "../src/formats/generate-content/module.ts";
import * as images from "../src/formats/images/module.ts";
import * as messages from "../src/formats/messages/module.ts";
import * as responses from "../src/formats/responses/module.ts";
import * as tokenUsage from "../src/formats/token-usage/module.ts";
import * as hooks from "../src/hooks/index.ts";
import * as index from "../src/index.ts";
import * as openapi from "../src/openapi/index.ts";
import * as prices from "../src/prices/index.ts";
import * as redactor from "../src/redactor/index.ts";
import * as serve from "../src/serve/index.ts";
import * as stores from "../src/stores/open/index.ts";
import * as redis from "../src/stores/redis/index.ts";
import * as sql from "../src/stores/sql/index.ts";
import * as telemetry from "../src/telemetry/index.ts";
import * as testing from "../src/testing/index.ts";
import * as affinity from "../src/upstreams/affinity/index.ts";
import * as aiSdk from "../src/upstreams/ai-sdk/index.ts";
import * as relay from "../src/upstreams/relay/index.ts";
import * as route from "../src/upstreams/route/index.ts";

const names = (entry: object): string[] => Object.keys(entry).toSorted();

it("polygate", () => {
  expect(names(index)).toEqual([
    "DEFAULT_LIMITS",
    "GatewayError",
    "TOMBSTONE_MS",
    "borrowingQuotaStore",
    "countTokensByScript",
    "createGateway",
    "encryptedResponseStore",
    "flexibleRateLimiter",
    "hashApiKey",
    "imagePriceTable",
    "isImageId",
    "memoryImageStore",
    "memoryQuotaStore",
    "memoryReplayStore",
    "memoryResponseStore",
    "systemClock",
    "tokenPrice",
    "unstorageImageStore",
    "unstorageResponseStore",
    "wrongAddress",
  ]);
});

it.each([
  ["backends/affinity", affinity, ["DEFAULT_PROMPT_CACHE", "RETAINED_LIFETIMES", "promptCache"]],
  ["backends/ai-sdk", aiSdk, ["DEFAULT_AI_SDK_LIMITS", "DEFAULT_AI_SDK_TIMEOUTS", "aiSdk"]],
  ["backends/relay", relay, ["DEFAULT_RELAY_LIMITS", "DEFAULT_RELAY_TIMEOUTS", "relay"]],
  ["backends/route", route, ["DEFAULT_BREAKER", "DEFAULT_RETRY", "balance", "canary", "hedge", "route", "shadow"]],
  ["clouds/aws", aws, ["bedrockConverse", "bedrockMessages", "signAws"]],
  ["clouds/azure", azure, ["azureChatCompletions", "azureResponses", "azureToken"]],
  ["clouds/google", google, ["googleToken", "vertexGenerateContent", "vertexMessages"]],
  ["serve", serve, ["defineServer"]],
  ["bun", bun, ["toBunHandler", "toBunWebSocket"]],
  ["deno", deno, ["toDenoHandler"]],
  ["express", express, ["toExpressHandler"]],
  [
    "formats/chat-completions",
    chatCompletions,
    ["chatCompletions", "chatCompletionsFormat", "chatCompletionsUpstream"],
  ],
  ["formats/embeddings", embeddings, ["embeddings", "embeddingsFormat"]],
  [
    "formats/generate-content",
    generateContent,
    ["generateContent", "generateContentFormat", "generateContentUpstream"],
  ],
  ["formats/images", images, ["images", "imagesFormat", "imagesUpstream"]],
  ["formats/messages", messages, ["messages", "messagesFormat", "messagesUpstream"]],
  ["formats/responses", responses, ["COMPACTION_PROMPT", "responses", "responsesFormat", "responsesUpstream"]],
  ["formats/token-usage", tokenUsage, ["tokenUsage", "tokenUsageFormat"]],
  ["hooks", hooks, ["withDuring"]],
  ["koa", koa, ["toKoaMiddleware"]],
  ["node", node, ["toNodeHandler"]],
  ["openapi", openapi, ["openApiDocument"]],
  ["prices", prices, ["priceCatalogue", "priceTable", "unitsOfMoney"]],
  ["redactor", redactor, ["redactor"]],
  ["stores", stores, ["checkHold", "checkOutcome", "checkRenewal", "ledgerQuotaStore", "openStores", "toApiKey"]],
  ["telemetry", telemetry, ["budgetMetrics", "openTelemetry"]],
])("polygate/%s", (_name, entry, expected) => {
  expect(names(entry)).toEqual(expected);
});

it("polygate/edge", () => {
  expect(names(edge)).toEqual([...names(index), ...names(relay), ...names(route), "toEdgeHandler"].toSorted());
});

it("polygate/core, as polygate/edge, and the code that other gateways and relays have in them", () => {
  expect(names(core)).toEqual(
    [
      ...names(edge),
      "chatKind",
      "checkRelay",
      "embeddingKind",
      "imageKind",
      "withCors",
      "withCodeLoop",
      "withCredentials",
      "withHooks",
      "withReplays",
      "withSockets",
    ].toSorted(),
  );
});

it("polygate/stores/sql", () => {
  expect(names(sql)).toEqual([
    "SCHEMA_VERSION",
    "migrate",
    "migrations",
    "nodePostgresDialect",
    "nodeSqliteDialect",
    "schemaVersion",
    "sqlAuditLog",
    "sqlCallLog",
    "sqlCallReader",
    "sqlQuotaStore",
    "sqlReplayStore",
    "sqlResponseStore",
    "verifyLedger",
  ]);
});

it("polygate/stores/redis", () => {
  expect(names(redis)).toEqual(["redisPrefixMemory", "redisQuotaStore", "redisReplayStore"]);
});

it("polygate/admin", () => {
  expect(names(admin)).toEqual(["callAdmin", "keyAdmin", "newApiKey", "unitsOfMoney", "usageCsv"]);
});

it("polygate/admin/http", () => {
  expect(names(adminHttp)).toEqual(["adminHandler", "memoryAuditLog"]);
});

it("polygate/admin/page", () => {
  expect(names(adminPage)).toEqual(["adminPage"]);
});

it("polygate/testing", () => {
  expect(names(testing)).toEqual([
    "assertCharged",
    "assertRecorded",
    "budgetLaws",
    "delay",
    "demoModel",
    "embedding",
    "endless",
    "failure",
    "image",
    "imageStoreLaws",
    "manualClock",
    "polygateMatchers",
    "quotaStoreLaws",
    "rateLimiterLaws",
    "refusal",
    "replayStoreLaws",
    "reply",
    "responseStoreLaws",
    "scriptedBackend",
    "silence",
    "testGateway",
    "toolCall",
  ]);
});
