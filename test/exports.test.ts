/** The names that each entry exports at run time: to add one is a decision, and this is where it shows. */

import { expect, it } from "vitest";
import * as bun from "../adapters/bun.ts";
import * as deno from "../adapters/deno.ts";
import * as edge from "../adapters/edge.ts";
import * as express from "../adapters/express.ts";
import * as koa from "../adapters/koa.ts";
import * as node from "../adapters/node.ts";
import * as index from "../src/index.ts";
import * as testing from "./contracts/index.ts";

const names = (entry: object): string[] => Object.keys(entry).toSorted();

it("polygate", () => {
  expect(names(index)).toEqual([
    "DEFAULT_LIMITS",
    "GatewayError",
    "TOMBSTONE_MS",
    "countTokensByBytes",
    "createGateway",
    "hashApiKey",
    "imagePriceTable",
    "isImageId",
    "memoryImageStore",
    "memoryQuotaStore",
    "systemClock",
    "tokenPrice",
    "unstorageImageStore",
  ]);
});

it.each([
  ["bun", bun, ["toBunHandler"]],
  ["deno", deno, ["toDenoHandler"]],
  ["express", express, ["toExpressHandler"]],
  ["koa", koa, ["toKoaMiddleware"]],
  ["node", node, ["toNodeHandler"]],
])("polygate/%s", (_name, entry, expected) => {
  expect(names(entry)).toEqual(expected);
});

it("polygate/edge", () => {
  expect(names(edge)).toEqual([...names(index), "toEdgeHandler"].toSorted());
});

it("polygate/testing", () => {
  expect(names(testing)).toEqual(["imageStoreLaws", "manualClock", "quotaStoreLaws"]);
});
