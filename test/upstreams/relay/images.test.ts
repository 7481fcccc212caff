/** A relay before images upstreams: its requests, the addresses from which it fetches pictures, and hostile upstreams. */

import OpenAI, { toFile } from "openai";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import type { ImageEvent, ImageRequest } from "../../../src/model/image.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay, type RelayBackend, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { png } from "../../formats/images/pictures.ts";
import { head, rawUpstream, type RawAnswer, STREAM_HEAD, whole } from "./raw-upstream.ts";
import { API_KEY, callContext } from "./stage.ts";

const PNG = Buffer.from(png());
const B64 = PNG.toString("base64");
const MIB = 1024 ** 2;
/** A valid picture that is far too large. */
const LARGE = Buffer.concat([PNG, Buffer.alloc(2 * MIB)]);

const json = (body: unknown, more: Readonly<Record<string, string>> = {}): Buffer =>
  whole(200, "application/json", typeof body === "string" ? body : JSON.stringify(body), more);
const pictures = (...data: readonly object[]): Buffer => json({ created: 1, data });

const imagesRelay = (baseUrl: string, options: Partial<RelayOptions> = {}): RelayBackend =>
  relay({ format: "images", apiKey: API_KEY, baseUrl, ...options });

const imageRequest = (more: Partial<ImageRequest> = {}): ImageRequest => ({
  model: "image-model-2",
  operation: "generate",
  prompt: "A lighthouse",
  images: [],
  count: 1,
  size: "256x256",
  delivery: "data",
  stream: false,
  ...more,
});

interface Outcome {
  readonly events: readonly ImageEvent[];
  readonly error: Partial<Record<"code" | "message" | "cause" | "path" | "retryAfterMs", unknown>> | undefined;
}

async function ask(backend: RelayBackend, more: Partial<ImageRequest> = {}, call = callContext()): Promise<Outcome> {
  const events: ImageEvent[] = [];
  try {
    for await (const event of backend.image?.(imageRequest(more), call) ?? []) events.push(event);
    return { events, error: undefined };
  } catch (error) {
    return { events, error: error as object };
  }
}

/** Asks an upstream with this answer. Fails if a connection is left open. */
async function asked(answer: RawAnswer, more: Partial<ImageRequest> = {}, options: Partial<RelayOptions> = {}) {
  await using upstream = await rawUpstream(answer);
  const backend = imagesRelay(upstream.url, options);
  const outcome = await ask(backend, more);
  await backend.close();
  await upstream.allClosed();
  return { ...outcome, requests: upstream.requests };
}

const causeOf = ({ error }: Outcome): string => String((error?.cause as Error | undefined)?.message ?? error?.cause);

/** Resolves with the gateway's answer to the official client, given the answer of the upstream behind the relay. */
async function told(answer: RawAnswer, ask: (client: OpenAI) => Promise<unknown>, options: Partial<RelayOptions> = {}) {
  await using upstream = await rawUpstream(answer);
  const backend = imagesRelay(upstream.url, options);
  const quotas = memoryQuotaStore([{ apiKey: "sk-caller", granted: 100_000 }]);
  const gateway = createGateway({ backend, quotas, onFailure: () => {} });
  const client = new OpenAI({
    apiKey: "sk-caller",
    baseURL: "http://gateway.test/v1",
    maxRetries: 0,
    fetch: (url, init) => gateway.fetch(new Request(url instanceof Request ? url.url : url, init)),
  });
  const result: unknown = await ask(client).catch((error: unknown) => error);
  const used = (await quotas.balance((await quotas.find("caller"))?.id ?? ""))?.used;
  await gateway.close({ deadlineMs: 1_000 });
  await backend.close();
  return { result, used, requests: upstream.requests };
}

const drawing: RawAnswer = (socket) => socket.end(pictures({ b64_json: B64 }));

/** Answers with an address, and answers requests for each address. */
const at =
  (address: (base: string) => string, file: RawAnswer): RawAnswer =>
  (socket, request) => {
    if (request.head.startsWith("GET ")) return file(socket, request);
    const host = /^host: (.*)$/im.exec(request.head)?.[1] ?? "";
    return socket.end(pictures({ url: address(`http://${host}`) }));
  };

const serving: RawAnswer = (socket) => socket.end(whole(200, "image/png", PNG));

const many: RawAnswer = (socket, { head: sent }) => {
  const url = `http://${/^host: (.*)$/im.exec(sent)?.[1] ?? ""}/a.png`;
  socket.end(sent.startsWith("GET ") ? whole(200, "image/png", PNG) : pictures({ url }, { url }, { url }, { url }));
};

const generate = (client: OpenAI): Promise<unknown> =>
  client.images.generate({ prompt: "A cat", model: "dall-e-2", response_format: "b64_json" });

const said = (status: number, error: object, more: Readonly<Record<string, string>> = {}): RawAnswer => {
  const body = JSON.stringify({ error: { message: `Account 7 with ${API_KEY}`, ...error } });
  return (socket) => socket.end(whole(status, "application/json", body, more));
};

/** Asks for three pictures, of an upstream with this answer. */
const drawThree = (...data: readonly object[]): ReturnType<typeof told> =>
  told(
    (socket) => socket.end(pictures(...data)),
    (client) => client.images.generate({ prompt: "A cat", model: "dall-e-2", n: 3, response_format: "b64_json" }),
  );

async function listOf(events: AsyncIterable<unknown>): Promise<unknown[]> {
  const list: unknown[] = [];
  for await (const event of events) list.push(event);
  return list;
}

const streaming = (frames: readonly object[]): RawAnswer => {
  const events = frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join("");
  return (socket) => socket.end(whole(200, "text/event-stream", events));
};

describe("what an upstream says of its pictures", () => {
  const traits = { size: "1536x1024", quality: "medium", background: "opaque" };
  const asked = { model: "gpt-image-1.5", prompt: "A cat", size: "auto", quality: "auto" } as const;

  it("reaches the caller of a complete answer", async () => {
    const answer = { created: 1, data: [{ b64_json: B64 }], ...traits };
    const { result } = await told(
      (socket) => socket.end(json(answer)),
      (client) => client.images.generate(asked),
    );
    expect(result).toMatchObject({ ...traits, output_format: "png" });
  });

  it("reaches the caller of a stream, in place of what was asked for", async () => {
    const shown = { b64_json: B64, ...traits };
    const { result } = await told(
      streaming([
        { type: "image_generation.partial_image", partial_image_index: 0, ...shown, size: "768x512" },
        { type: "image_generation.completed", ...shown },
      ]),
      async (client) => listOf(await client.images.generate({ ...asked, stream: true, partial_images: 1 })),
    );
    expect(result).toMatchObject([
      { ...traits, size: "768x512", output_format: "png" },
      { ...traits, output_format: "png" },
    ]);
  });

  it("is what was asked for in a stream that says nothing, and nothing in a complete answer", async () => {
    const frames = [{ type: "image_generation.completed", b64_json: B64 }];
    const streamed = await told(streaming(frames), async (client) =>
      listOf(await client.images.generate({ ...asked, stream: true })),
    );
    expect(streamed.result).toMatchObject([{ size: "auto", quality: "auto", background: "auto" }]);
    const { result } = await told(drawing, (client) => client.images.generate(asked));
    expect(Object.keys(result as object)).toEqual(["created", "data", "usage"]);
  });

  it("is only words", async () => {
    const answer = { created: 1, data: [{ b64_json: B64 }], size: "x".repeat(33), quality: 7, background: "<b>" };
    const { result } = await told(
      (socket) => socket.end(json(answer)),
      (client) => client.images.generate(asked),
    );
    expect(Object.keys(result as object)).toEqual(["created", "data", "usage"]);
  });
});

describe("what an upstream is asked", () => {
  it("is the caller's own request, with unknown fields, under the name that the caller used; and for data", async () => {
    const { requests } = await told(drawing, (client) =>
      client.images.generate({ prompt: "A cat", model: "dall-e-3", style: "vivid", safety_identifier: "x" } as never),
    );
    expect(requests[0]?.head).toMatch(/^POST \/v1\/images\/generations HTTP/);
    expect(requests[0]?.head.toLowerCase()).toContain(`authorization: bearer ${API_KEY}`);
    expect(JSON.parse(requests[0]?.body ?? "")).toEqual({
      prompt: "A cat",
      model: "dall-e-3",
      style: "vivid",
      safety_identifier: "x",
      size: "1024x1024",
      response_format: "b64_json",
    });
  });

  it("leaves out what newer models refuse, and streams of those that have none", async () => {
    const [newer] = (await asked(drawing, { model: "gpt-image-1", stream: true, partialImages: 2 })).requests;
    expect(JSON.parse(newer?.body ?? "")).toEqual({
      prompt: "A lighthouse",
      model: "gpt-image-1",
      size: "256x256",
      stream: true,
      partial_images: 2,
    });
    const { requests, events } = await asked(drawing, { stream: true });
    expect(JSON.parse(requests[0]?.body ?? "")).not.toHaveProperty("stream");
    expect(events).toMatchObject([{ type: "image", mediaType: "image/png" }]);
  });

  it("is a form where there are files, each with its own type", async () => {
    const { requests } = await told(drawing, async (client) =>
      client.images.edit({
        prompt: 'Two "cats"\r\n--x',
        image: [await toFile(PNG, 'a"\r\nx: y.png'), await toFile(PNG, "b.txt")],
        mask: await toFile(PNG, "m.png"),
        model: "gpt-image-1",
        n: 2,
        user: "null",
      }),
    );
    const { head: sent = "", body = "" } = requests[0] ?? {};
    const type = /^content-type: (.*)$/im.exec(sent)?.[1] ?? "";
    const form = await new Response(Buffer.from(body, "latin1"), { headers: { "content-type": type } }).formData();
    expect(sent).toMatch(/^POST \/v1\/images\/edits HTTP/);
    expect([...form.keys()].toSorted()).toEqual(
      ["image[]", "image[]", "mask", "model", "n", "prompt", "size", "user"].toSorted(),
    );
    // The client has written CRLF for the end of a line, as forms do.
    expect(form.get("prompt")).toBe('Two "cats"\n--x');
    expect([form.get("model"), form.get("n"), form.get("user"), form.get("size")]).toEqual([
      "gpt-image-1",
      "2",
      "null",
      "auto",
    ]);
    for (const file of [...form.getAll("image[]"), form.get("mask")] as File[]) {
      expect(file.type).toBe("image/png");
      expect(Buffer.from(await file.arrayBuffer()).equals(PNG)).toBe(true);
    }
  });

  it.each<[string, RelayOptions["models"], string, string | undefined]>([
    ["a map by the gateway's own name", { "image-model-2": "sd-xl" }, "dall-e-2", "sd-xl"],
    ["a map by the caller's name", { "dall-e-2": "sd-xl" }, "dall-e-2", "sd-xl"],
    ["a list by another of its names", ["dall-e-2"], "image-model-2", "dall-e-2"],
    ["a list without it", ["dall-e-3"], "dall-e-2", undefined],
  ])("is for the upstream's model, by %s", async (_name, models = {}, model, expected) => {
    const { requests, result } = await told(drawing, (client) => client.images.generate({ prompt: "A cat", model }), {
      models,
    });
    const [sent] = requests.map(({ body }) => (JSON.parse(body) as { model: string }).model);
    expect(sent).toBe(expected);
    expect((result as { status?: number }).status).toBe(expected === undefined ? 404 : undefined);
  });
});

describe("the address of a picture", () => {
  it("at the upstream's own origin is fetched, without the key or the relay's headers", async () => {
    const { events, error, requests } = await asked(
      at((base) => `${base}/files/a%20b.png?sig=1`, serving),
      {},
      { headers: { "x-team": "blue" } },
    );
    expect(error).toBeUndefined();
    expect(events).toEqual([{ type: "image", bytes: expect.any(Uint8Array), mediaType: "image/png" }]);
    const fetched = requests[1]?.head ?? "";
    expect(fetched).toMatch(/^GET \/files\/a%20b\.png\?sig=1 HTTP/);
    expect(fetched.toLowerCase()).not.toMatch(/authorization|sk-upstream|x-team|cookie/);
  });

  it("elsewhere is fetched where the host has named its origin, and there alone", async () => {
    await using store = await rawUpstream(serving);
    const { origin } = new URL(store.url);
    const elsewhere = at(() => `${origin}/a.png`, serving);
    expect((await asked(elsewhere, {}, { imageOrigins: [`${origin}/`] })).events).toHaveLength(1);
    expect(store.requests).toHaveLength(1);
    const refused = await asked(elsewhere);
    expect(refused.error).toMatchObject({ code: "backend_failed", message: expect.not.stringContaining("127.0.0.1") });
    expect(causeOf(refused)).toContain(`${origin}, which is none of the relay's imageOrigins`);
    expect(store.requests).toHaveLength(1);
  });

  it.each([
    "http://169.254.169.254/latest/meta-data",
    "http://localhost:1/a.png",
    "http://[::1]:1/a.png",
    "file:///etc/passwd",
    "ftp://127.0.0.1/a.png",
    "//evil.example/a.png",
    "/a.png",
    "not an address",
    "javascript:alert(1)",
    `http://127.0.0.1/${"a".repeat(9_000)}`,
  ])("that is none of the host's is never asked: %s", async (address) => {
    const outcome = await asked(at(() => address, serving));
    expect(outcome.requests).toHaveLength(1);
    expect(outcome.error).toMatchObject({ code: "backend_failed" });
  });

  it("with a user's name at the own origin is never asked", async () => {
    const { requests, error } = await asked(at((base) => base.replace("http://", "http://me:secret@"), serving));
    expect(requests).toHaveLength(1);
    expect(error).toMatchObject({ code: "backend_failed" });
  });

  it("that is a blob's of the own origin is never asked, which over fetch is another host's", async () => {
    const over = await asked(at((base) => `blob:${base}/a.png`, serving));
    expect(over).toMatchObject({ requests: { length: 1 }, error: { code: "backend_failed" } });
    const urls: string[] = [];
    const backend = imagesRelay("https://pictures.test/v1", {
      fetch: async (url) => {
        urls.push(url);
        return urls.length > 1 ? new Response(PNG) : Response.json({ data: [{ url: "blob:https://pictures.test/a" }] });
      },
    });
    expect((await ask(backend)).error).toMatchObject({ code: "backend_failed" });
    expect(urls).toEqual(["https://pictures.test/v1/images/generations"]);
  });

  it.each<[string, RawAnswer, string]>([
    ["redirects", (socket) => socket.end(whole(302, "", "", { location: "http://127.0.0.1:1/x" })), "backend_failed"],
    ["is not there", (socket) => socket.end(whole(404, "image/png", PNG)), "backend_failed"],
    ["is a page", (socket) => socket.end(whole(200, "image/png", "<svg onload=alert(1)>")), "backend_failed"],
    ["is empty", (socket) => socket.end(whole(200, "image/png", "")), "backend_failed"],
    ["is larger than it may be", (socket) => socket.end(whole(200, "image/png", LARGE)), "backend_failed"],
    [
      "closes in mid-body",
      (socket) => socket.end(Buffer.concat([Buffer.from(head(200, { "content-length": 9_999 })), PNG])),
      "backend_failed",
    ],
    ["closes before it answers", (socket) => socket.destroy(), "backend_unavailable"],
  ])("that %s is an error", async (_name, file, code) => {
    const { error } = await asked(
      at((base) => `${base}/a.png`, file),
      {},
      { limits: { maxPictureBytes: MIB } },
    );
    expect(error).toMatchObject({ code });
  });

  it("that comes too slowly is given up, however little by little it comes", async () => {
    const clock = manualClock();
    const drips: RawAnswer = (socket) => {
      socket.write(head(200, { "content-type": "image/png", "content-length": 9_999 }));
      clock.after(4_000, () => socket.write("x"));
      clock.after(8_000, () => socket.write("x"));
    };
    await using upstream = await rawUpstream(at((base) => `${base}/a.png`, drips));
    const backend = imagesRelay(upstream.url, { clock, timeouts: { pictureMs: 10_000 } });
    const { error } = await wound(clock, ask(backend));
    expect(error).toMatchObject({ code: "deadline_exceeded" });
    await backend.close();
    await upstream.allClosed();
    expect(clock.pending).toBe(0);
  });

  it("that is data is none, and read in place", async () => {
    const { events, requests } = await asked(at(() => `data:image/png;base64,${B64}`, serving));
    expect(events).toMatchObject([{ type: "image", mediaType: "image/png" }]);
    expect(requests).toHaveLength(1);
  });

  it("is fetched for no picture more than was asked for", async () => {
    const { events, requests } = await asked(many, { count: 2 });
    expect([events.length, requests.length]).toEqual([2, 3]);
  });
});

it.each([
  "pictures.example.com",
  "https://pictures.example.com/path",
  "https://pictures.example.com?x",
  "https://me@pictures.example.com",
  "file:///",
])("an origin that is none is refused at once: %s", (origin) => {
  expect(() => imagesRelay("https://example.com/v1", { imageOrigins: [origin] })).toThrow(
    /^relay: imageOrigins must be/,
  );
});

/** Lets time pass until a call has ended. */
async function wound<Ended>(clock: ManualClock, asking: Promise<Ended>): Promise<Ended> {
  const state = { ended: false };
  void asking.finally(() => (state.ended = true));
  for (let passedMs = 0; !state.ended; passedMs += 1_000) {
    expect(passedMs).toBeLessThan(600_000);
    await clock.advance(1_000);
  }
  return asking;
}

const frame = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
const PARTIAL = { type: "image_generation.partial_image", b64_json: B64, partial_image_index: 0 };
const COMPLETED = { type: "image_generation.completed", b64_json: B64 };
const STREAMED = { model: "image-model-multi", stream: true } as const;

describe("a stream", () => {
  it("brings unfinished pictures, finished ones, and what they took", async () => {
    const usage = { input_tokens: 12, output_tokens: 30, input_tokens_details: { text_tokens: 5, image_tokens: 7 } };
    const text = [
      ": hello\n\n",
      frame(PARTIAL),
      frame({ type: "image_generation.unknown" }),
      frame({ ...COMPLETED, usage, revised_prompt: "A tall lighthouse" }),
      frame("[DONE]"),
    ];
    const { events, error } = await asked((socket) => socket.end(STREAM_HEAD + text.join("")), STREAMED);
    expect(error).toBeUndefined();
    expect(events).toEqual([
      { type: "partial-image", image: 0, step: 0, bytes: expect.any(Uint8Array), mediaType: "image/png" },
      {
        type: "usage",
        usage: { inputTextTokens: 5, inputImageTokens: 7, outputTokens: 30 },
        native: { format: "images", fields: usage },
      },
      { type: "image", bytes: expect.any(Uint8Array), mediaType: "image/png", revisedPrompt: "A tall lighthouse" },
    ]);
  });

  it.each<[string, string, string]>([
    ["ends before its picture", frame(PARTIAL), "backend_failed"],
    ["is empty", "", "backend_failed"],
    ["is garbage", "data: {{{\n\n", "backend_failed"],
    ["brings no picture for one", frame({ ...COMPLETED, b64_json: "PGh0bWw+" }), "backend_failed"],
    ["brings no data", frame({ ...COMPLETED, b64_json: 7 }), "backend_failed"],
    ["brings a step of no number", frame({ ...PARTIAL, partial_image_index: "x" }), "backend_failed"],
    [
      "tells of a limit",
      frame(PARTIAL) + frame({ error: { type: "rate_limit_error", message: "Tier 1" } }),
      "rate_limited",
    ],
    ["tells of the host's key", frame({ error: { type: "authentication_error", message: "Pay" } }), "backend_refused"],
    [
      "tells that it is overloaded",
      frame({ error: { type: "overloaded_error", message: "Tier 1" } }),
      "backend_overloaded",
    ],
    [
      "tells of the host's account",
      `event: error\n${frame({ type: "error", error: { code: "insufficient_quota", message: "Pay" } })}`,
      "backend_refused",
    ],
  ])("that %s is an error", async (_name, text, code) => {
    const { error } = await asked((socket) => socket.end(STREAM_HEAD + text), STREAMED);
    expect(error).toMatchObject({ code, message: expect.not.stringMatching(/Tier|Pay/) });
  });

  it("that closes in mid-body is an error, and the pictures before it are handed on", async () => {
    const bytes = head(200, { "content-type": "text/event-stream", "content-length": 99_999 }) + frame(COMPLETED);
    const { events, error } = await asked((socket) => socket.end(bytes), { ...STREAMED, count: 2 });
    expect(events).toMatchObject([{ type: "image" }]);
    expect(error).toMatchObject({ code: "backend_failed" });
  });

  it("that stays open after its last picture is complete, whatever goes on in it", async () => {
    const clock = manualClock();
    await using upstream = await rawUpstream((socket) => {
      socket.write(STREAM_HEAD + frame(COMPLETED));
      clock.every(1_000, () => void socket.write(": still here\n\n"));
    });
    const { events, error } = await wound(clock, ask(imagesRelay(upstream.url, { clock }), STREAMED));
    expect(error).toBeUndefined();
    expect(events).toMatchObject([{ type: "image" }]);
    await upstream.allClosed();
  });

  it("that is silent is given up", async () => {
    const clock = manualClock();
    await using upstream = await rawUpstream((socket) => socket.write(STREAM_HEAD));
    const backend = imagesRelay(upstream.url, { clock, timeouts: { firstEventMs: 5_000 } });
    expect((await wound(clock, ask(backend, STREAMED))).error).toMatchObject({ code: "deadline_exceeded" });
    await upstream.allClosed();
    expect(clock.pending).toBe(0);
  });

  it("is let go of when its call is aborted", async () => {
    const [abort, reached] = [new AbortController(), Promise.withResolvers<void>()];
    await using upstream = await rawUpstream((socket) => {
      socket.write(STREAM_HEAD);
      reached.resolve();
    });
    const asking = ask(imagesRelay(upstream.url), STREAMED, callContext(abort.signal));
    await reached.promise;
    const reason = new Error("gone");
    abort.abort(reason);
    expect((await asking).error).toMatchObject({ cause: reason });
    await upstream.allClosed();
  });
});

describe("to a caller", () => {
  it.each<[string, RawAnswer, object]>([
    ["closes the connection", (socket) => socket.destroy(), { status: 503 }],
    ["has a limit", said(429, {}, { "retry-after": "7" }), { status: 429, code: "rate_limit_exceeded" }],
    ["is out of the host's money", said(429, { code: "insufficient_quota" }, { "retry-after": "7" }), { status: 500 }],
    ["is overloaded", said(529, {}), { status: 503, code: "overloaded" }],
    ["refuses the relay's key", said(401, { code: "invalid_api_key" }), { status: 500, code: "backend_failed" }],
    ["forbids the relay", said(403, {}), { status: 500, code: "backend_failed" }],
    ["refuses a field", said(400, { param: "size" }), { status: 400, param: "size", code: "invalid_value" }],
    ["refuses a field of no known name", said(400, { param: "<b>" }), { status: 400, param: null }],
    ["refuses a prompt", said(400, { code: "content_policy_violation" }), { status: 400, param: null }],
    ["does not know the model", said(404, { code: "model_not_found" }), { status: 404, code: "model_not_found" }],
    ["is no model server", (socket) => socket.end(whole(404, "text/html", "<h1>nginx</h1>")), { status: 500 }],
    ["shows a proxy's page", (socket) => socket.end(whole(502, "text/html", "<h1>nginx</h1>")), { status: 503 }],
    ["shows a page as a success", (socket) => socket.end(whole(200, "text/html", "<h1>nginx</h1>")), { status: 500 }],
    ["redirects", (socket) => socket.end(whole(307, "", "", { location: "http://127.0.0.1:1/" })), { status: 500 }],
    ["sends garbage", (socket) => socket.end(json("garbage")), { status: 500 }],
    ["sends no object", (socket) => socket.end(json([])), { status: 500 }],
    ["sends no list", (socket) => socket.end(json({ data: "x" })), { status: 500 }],
    ["draws nothing", (socket) => socket.end(pictures()), { status: 500 }],
    ["draws null", (socket) => socket.end(json({ data: [null] })), { status: 500 }],
    ["draws a page", (socket) => socket.end(pictures({ b64_json: "PGh0bWw+" })), { status: 500 }],
    ["draws a broken JPEG", (socket) => socket.end(pictures({ b64_json: "/9j/4AAQ" })), { status: 500 }],
    ["draws what is no base64", (socket) => socket.end(pictures({ b64_json: "\u0000" })), { status: 500 }],
    ["draws without end", (socket) => socket.end(pictures({ b64_json: LARGE.toString("base64") })), { status: 500 }],
    [
      "breaks its body off",
      (socket) => socket.end(`${head(200, { "content-type": "application/json", "content-length": 99 })}{`),
      { status: 500 },
    ],
  ])("an upstream that %s is an error in the format, and costs nothing", async (_name, answer, expected) => {
    const { result, used } = await told(answer, generate, { limits: { maxBodyBytes: MIB } });
    expect(result).toBeInstanceOf(OpenAI.APIError);
    expect(result).toMatchObject(expected);
    const error = result as InstanceType<typeof OpenAI.APIError>;
    expect(JSON.stringify(error.error) + error.message).not.toMatch(/Account|sk-upstream|nginx|127\.0\.0\.1|<b>/);
    const { status } = error as { status?: number };
    expect(error.headers?.get("retry-after") ?? null).toBe(status === 429 ? "7" : null);
    expect(used).toBe(0);
  });

  it("the upstream's own words are told where the host allows it, without the key", async () => {
    const { result } = await told(said(400, { param: "prompt" }), generate, { showUpstreamMessages: true });
    expect(result).toMatchObject({ status: 400, param: "prompt", message: "400 Account 7 with [redacted]" });
  });

  it("usage that cannot be true is left to the estimate, and its other fields are kept", async () => {
    const usage = { input_tokens: -5, output_tokens: "many", cost: 0.5, input_tokens_details: { video_tokens: 3 } };
    const { result } = await told(
      (socket) => socket.end(json({ data: [{ b64_json: B64 }], usage })),
      (client) => client.images.generate({ prompt: "A cat", model: "gpt-image-1" }),
    );
    const { usage: shown } = result as OpenAI.ImagesResponse;
    expect(shown?.output_tokens).toBeGreaterThan(0);
    expect(shown?.input_tokens).toBeGreaterThan(0);
    expect(shown).toMatchObject({
      cost: 0.5,
      input_tokens_details: { video_tokens: 3, text_tokens: expect.any(Number) },
    });
  });

  it("the pictures beside one that is none are handed on and charged, as their upstream charges them", async () => {
    const drawn = { b64_json: B64 };
    const [one, two] = [await drawThree(drawn), await drawThree(drawn, drawn)];
    for (const none of [{ error: { code: "content_filter" } }, { b64_json: "PGh0bWw+" }, { url: 7 }]) {
      expect(await drawThree(none, drawn)).toMatchObject({ result: { data: [drawn] }, used: one.used });
      expect(await drawThree(drawn, none, drawn)).toMatchObject({ result: { data: [drawn, drawn] }, used: two.used });
      expect(await drawThree(none)).toMatchObject({ result: { status: 500 }, used: 0 });
    }
  });

  it("the address of a picture is the gateway's own", async () => {
    const { result, used } = await told(
      (socket) => socket.end(pictures({ b64_json: B64, url: "http://evil.example/a.png" })),
      (client) => client.images.generate({ prompt: "A cat", size: "256x256" }),
    );
    expect(JSON.stringify(result)).toMatch(/"url":"http:\/\/gateway\.test\/v1\/images\/files\/[\w-]+"/);
    expect(JSON.stringify(result)).not.toContain("evil");
    expect(used).toBe(1_600);
  });
});
