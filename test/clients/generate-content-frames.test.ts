/** The frames of a generate-content stream that no official service sends, read by the clients: keep-alives, and a late error. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { GoogleGenAI } from "@google/genai";
import { ChatGoogle } from "@langchain/google";
import { streamText } from "ai";
import { createParser } from "eventsource-parser";
import { GoogleGenAI as GoogleGenAI2 } from "genai-2";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createGateway, type Gateway, GatewayError, memoryQuotaStore } from "../../src/index.ts";
import { streamOf } from "../properties/upstream-answers.ts";

beforeAll(() => void vi.stubGlobal("AI_SDK_LOG_WARNINGS", false));

const { keepAlive } = streamOf("generate-content");

const chunk = (text: string, finishReason?: string): string =>
  `data: ${JSON.stringify({
    candidates: [{ content: { role: "model", parts: [{ text }] }, index: 0, ...(finishReason && { finishReason }) }],
    ...(finishReason && { usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2, totalTokenCount: 3 } }),
    modelVersion: "m-1",
    responseId: "r_1",
  })}\n\n`;

/** Quiet before the answer, in its middle, and before its end. */
const QUIET = [keepAlive, keepAlive, chunk("Hel"), keepAlive, chunk("lo."), keepAlive, chunk("", "STOP")];

let server: Server;
let baseUrl: string;
/** What each turn was asked with. */
const asked: string[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (piece: string) => (body += piece));
    request.on("end", () => {
      asked.push(body);
      response.writeHead(200, { "content-type": "text/event-stream" });
      // Each frame by itself: some clients look at what one read brings.
      const next = (frames: readonly string[]): void => {
        const [frame, ...rest] = frames;
        if (frame === undefined) response.end();
        else response.write(frame, () => setImmediate(next, rest));
      };
      next(QUIET);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => new Promise((resolve) => server.close(resolve)));

describe("a keep-alive", () => {
  const options = { apiKey: "sk-test" };

  it.each([
    ["3", () => new GoogleGenAI({ ...options, httpOptions: { baseUrl } })],
    ["2", () => new GoogleGenAI2({ ...options, httpOptions: { baseUrl } }) as unknown as GoogleGenAI],
  ])("leaves the turns of a chat in @google/genai %s whole", async (_version, client) => {
    const chat = client().chats.create({ model: "m" });
    for (const message of ["One", "Two"]) {
      let text = "";
      for await (const piece of await chat.sendMessageStream({ message })) text += piece.text ?? "";
      expect(text).toBe("Hello.");
    }
    const said = chat
      .getHistory(true)
      .map(({ role, parts = [] }) => `${role}: ${parts.map(({ text }) => text).join("")}`);
    expect(said.filter((line) => line !== "model: ")).toEqual([
      "user: One",
      "model: Hel",
      "model: lo.",
      "user: Two",
      "model: Hel",
      "model: lo.",
    ]);
    // What the second turn was asked with holds the first.
    expect(asked.at(-1)).toContain('"Hel"');
    expect(asked.at(-1)).toContain('"One"');
  });

  it("is no text to the ai SDK", async () => {
    const google = createGoogleGenerativeAI({ ...options, baseURL: `${baseUrl}/v1beta` });
    const { textStream } = streamText({ model: google("m"), prompt: "Hi" });
    const pieces: string[] = [];
    for await (const piece of textStream) pieces.push(piece);
    expect(pieces.filter((piece) => piece !== "")).toEqual(["Hel", "lo."]);
  });

  it("is one frame of JSON, whose text is empty", () => {
    const events: string[] = [];
    createParser({ onEvent: ({ data }) => void events.push(data) }).feed(keepAlive);
    expect(events.map((data) => JSON.parse(data) as unknown)).toEqual([
      { candidates: [{ content: { role: "model", parts: [{ text: "" }] }, index: 0 }] },
    ]);
  });

  it("comes back as a part that says nothing, and is taken", async () => {
    const body = {
      contents: [
        { role: "user", parts: [{ text: "One" }] },
        { role: "model", parts: [{ text: "" }] },
        { role: "model", parts: [{ text: "Hel" }] },
        { role: "user", parts: [{ text: "Two" }] },
      ],
    };
    expect((await post("m:generateContent", body)).status).toBe(200);
  });
});

/** A gateway whose model breaks off. */
const gateway: Gateway = createGateway({
  backend: {
    async *chat({ stream }) {
      yield "Hel";
      if (stream) throw new GatewayError("backend_overloaded", "Later.");
    },
  },
  quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  onFailure: () => {},
});

const post = (address: string, body: object, headers = {}): Promise<Response> =>
  gateway.fetch(
    new Request(`http://gateway.test/v1beta/models/${address}`, {
      method: "POST",
      headers: { "x-goog-api-key": "sk-test", "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    }),
  );

const throughGateway = (url: string | URL | Request, init?: RequestInit): Promise<Response> =>
  gateway.fetch(new Request(url, init));

const FAILED =
  '{"error":{"code":503,"message":"Later.","status":"UNAVAILABLE","details":[]},"candidates":[{"content":{"role":"model",' +
  '"parts":[{"text":""}]},"finishReason":"OTHER","finishMessage":"Later.","index":0}]}';

describe("an error in the middle", () => {
  it("is a frame, and the same JSON bare at the very end", async () => {
    const text = await (await post("m:streamGenerateContent?alt=sse", { contents: "Hi" })).text();
    expect(text.endsWith(`}\n\ndata: ${FAILED}\n\n${FAILED}`)).toBe(true);
  });

  it("is the last element of an array", async () => {
    const text = await (await post("m:streamGenerateContent", { contents: "Hi" })).text();
    expect((JSON.parse(text) as unknown[]).at(-1)).toEqual(JSON.parse(FAILED));
  });

  it.each([
    ["3", GoogleGenAI],
    ["2", GoogleGenAI2 as unknown as typeof GoogleGenAI],
  ])("reaches @google/genai %s", async (_version, Client) => {
    vi.stubGlobal("fetch", throughGateway);
    const { models } = new Client({ apiKey: "sk-test", httpOptions: { baseUrl: "http://gateway.test" } });
    const reading = (async () => {
      for await (const piece of await models.generateContentStream({ model: "m", contents: "Hi" })) void piece;
    })();
    await expect(reading).rejects.toThrow("Later.");
    vi.unstubAllGlobals();
  });

  it("reaches LangChain, which reads no errors in a stream, as an unusual end", async () => {
    vi.stubGlobal("fetch", throughGateway);
    const chat = new ChatGoogle({ model: "m", apiKey: "sk-test", endpoint: "http://gateway.test" });
    let text = "";
    let last: object = {};
    for await (const piece of await chat.stream("Hi")) {
      text += piece.text;
      last = piece.additional_kwargs;
    }
    expect(text).toBe("Hel");
    expect(last).toMatchObject({ finishReason: "OTHER", finishMessage: "Later." });
    vi.unstubAllGlobals();
  });
});
