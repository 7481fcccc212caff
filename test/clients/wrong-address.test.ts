/** The official SDKs read the 404 of a wrong base URL as an error of their own vendor. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { ApiError, GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, wrongAddress } from "../../src/index.ts";
import { scriptedBackend } from "../../src/testing/index.ts";

const gateway = createGateway({ backend: scriptedBackend("Hello."), quotas: memoryQuotaStore([]) });
const server = createServer(({ method, url, headers }, response) => {
  response.writeHead(404, { "content-type": "application/json" });
  response.end(JSON.stringify(wrongAddress(gateway, method, url, "/ai", headers)));
});
let origin = "";

beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((closed) => server.close(closed)));

const errorOf = async (call: PromiseLike<unknown>): Promise<unknown> => {
  try {
    return await call;
  } catch (error) {
    return error;
  }
};

it("OpenAI's", async () => {
  const client = new OpenAI({ apiKey: "sk-1", baseURL: `${origin}/ai` });
  const calls = {
    "POST /ai/v1/chat/completions": () => client.chat.completions.create({ model: "m", messages: [] }),
    "POST /ai/v1/responses": () => client.responses.create({ model: "m", input: "Hello" }),
    "GET /ai/v1/models": () => client.models.list(),
  };
  for (const [meant, call] of Object.entries(calls)) {
    const error = await errorOf(call());
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error).toMatchObject({ code: "not_found", type: "invalid_request_error", param: null });
    expect((error as Error).message).toContain(`Did you mean ${meant}?`);
  }
});

it("Anthropic's", async () => {
  const client = new Anthropic({ apiKey: "sk-1", baseURL: `${origin}/v1` });
  for (const call of [
    () => client.messages.create({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hello" }] }),
    () => client.models.list(),
  ]) {
    const error = await errorOf(call());
    expect(error).toBeInstanceOf(Anthropic.NotFoundError);
    expect(error).toMatchObject({ error: { type: "error", error: { type: "not_found_error" } } });
    expect((error as Error).message).toContain("Did you mean ");
  }
});

it("Google's", async () => {
  const client = new GoogleGenAI({ apiKey: "sk-1", httpOptions: { baseUrl: `${origin}/v1beta` } });
  for (const call of [
    () => client.models.generateContent({ model: "m", contents: "Hello" }),
    () => client.models.list(),
  ]) {
    const error = await errorOf(call());
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 404 });
    expect(JSON.parse((error as Error).message)).toMatchObject({
      error: { code: 404, status: "NOT_FOUND", message: expect.stringContaining("Did you mean ") as string },
    });
  }
});

it("has the id of the request, as each other error has, where the gateway itself answers", async () => {
  const fetch = (input: string | URL | Request, init?: RequestInit): Promise<Response> => gateway.fetch(input, init);
  const id = expect.stringMatching(/^req_[\da-f]{32}$/);
  const openai = new OpenAI({ apiKey: "sk-1", baseURL: "http://gateway.test", fetch });
  expect(await errorOf(openai.chat.completions.create({ model: "m", messages: [] }))).toMatchObject({ requestID: id });
  const anthropic = new Anthropic({ apiKey: "sk-1", baseURL: "http://gateway.test/v1", fetch });
  const error = (await errorOf(
    anthropic.messages.create({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hello" }] }),
  )) as InstanceType<typeof Anthropic.NotFoundError>;
  expect(error).toMatchObject({ requestID: id, error: { request_id: error.requestID } });
  const google = await gateway.fetch("http://gateway.test/models/m:generateContent", { method: "POST" });
  expect([google.status, google.headers.get("x-request-id")]).toEqual([404, id]);
});
