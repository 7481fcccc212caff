/** Output that has come from the upstream and that nobody has read when a call is cut: the upstream charges it, and so does the gateway. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { asking, streamsOf } from "../../drivers/driver.ts";
import { png } from "../../formats/images/pictures.ts";
import { imageModel } from "../ai-sdk/fake-models.ts";
import { type Charge, pairOf, pairs, PICTURE_PRICE, PROMPT } from "./hostile.formats.ts";
import { CALLER_KEY, type HostileStage, openStage } from "./hostile.stage.ts";
import { type RawAnswer, rawUpstream, STREAM_HEAD, whole } from "./raw-upstream.ts";

/** More text than one piece of the caller's stream holds, so that a client that does not read stops the relay before the frames behind. */
const LONG = "x".repeat(70_000);
/** A token for so many characters, so that the upstream's count of 7 can be true. */
const CHARS_A_TOKEN = 30_000;

type End = (stage: HostileStage, leave: () => void) => unknown;

const hangUp: End = (_stage, leave) => leave();
const ENDS: Readonly<Record<string, End>> = {
  "hangs up": hangUp,
  "is cut at the deadline": ({ clock }) => clock.advance(600_000),
  "is cut by a shutdown": ({ gateway, clock }) => {
    const closed = gateway.close({ deadlineMs: 1 });
    return clock.advance(1).then(() => closed);
  },
};

/** Resolves when the process has received so many bytes of a body. */
function received(bytes: number): Promise<void> {
  let seen = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const count = (message: unknown): void => {
    seen += (message as { readonly chunk: Uint8Array }).chunk.length;
    if (seen >= bytes) resolve();
  };
  subscribe("undici:request:bodyChunkReceived", count);
  return promise.finally(() => unsubscribe("undici:request:bodyChunkReceived", count));
}

interface Sent {
  /** Sent before the client stops reading, and after. */
  readonly first: string;
  readonly rest: string;
  /** The text up to which the client reads. */
  readonly readsTo: string;
}

type Pair = (typeof pairs)[number];

/** Returns the charge of a client that reads up to a text, and whose call then ends. */
async function charged(pair: Pair, { first, rest, readsTo }: Sent, end: End): Promise<Charge> {
  const sockets: Socket[] = [];
  const gateway = { countTokens: (text: string) => Math.ceil(text.length / CHARS_A_TOKEN) };
  await using stage = await openStage(
    pair,
    (socket) => void (sockets.push(socket), socket.write(STREAM_HEAD + first)),
    {
      gateway,
    },
  );
  const [form] = streamsOf(pair.caller);
  if (!form) throw new Error("There is no stream.");
  const { path, init } = asking(pair.caller, form, { apiKey: CALLER_KEY, model: "one", prompt: PROMPT, more: {} });
  let leave: (() => void) | undefined;
  const arrived = received(Buffer.byteLength(first + rest));
  const onDisconnect = (listener: () => void): void => void (leave = listener);
  const answer = await stage.gateway.answer(new Request(`http://gateway.test${path}`, init), { onDisconnect });
  const body = answer?.body as AsyncIterableIterator<string>;
  let text = "";
  const read = async (wanted: string): Promise<void> => {
    while (!text.includes(wanted)) text += String((await body.next()).value);
  };
  await read("Hel");
  sockets[0]?.write(rest);
  await arrived;
  await read(readsTo);
  await end(stage, () => leave?.());
  return (await stage.atRest(1, text)).charge;
}

const chatPairs = pairs.filter(({ caller }) => caller.name !== "images");

describe.each(chatPairs.map((pair) => [pair.name, pair] as const))("a stalled client of %s", (_name, pair) => {
  const { frames, begun, first } = pair.upstream;
  const begin = frames.slice(0, begun).join("");
  const end = frames.slice(begun).join("");
  const saying = (text: string): string => frames[begun - 1]?.replaceAll(first, text) ?? "";

  it.each(Object.entries(ENDS))(
    "that %s is charged what the upstream has counted in frames that came",
    async (_how, cut) => {
      // The gateway asks for one piece more than is read.
      const all = { first: begin, rest: saying(LONG) + end, readsTo: first };
      expect(await charged(pair, all, cut)).toEqual({ used: 18, estimated: 0 });
    },
  );

  it.each([
    ["wait decoded", { first: begin + saying(LONG) + saying(`${LONG}END`), rest: "" }],
    ["wait as bytes", { first: begin, rest: saying(LONG) + saying(`${LONG}END`) }],
  ])("is charged like a reader for frames that %s", async (_where, sent) => {
    const stalled = await charged(pair, { ...sent, readsTo: first }, hangUp);
    expect(stalled).toEqual(await charged(pair, { ...sent, readsTo: "END" }, hangUp));
    expect(stalled.estimated).toBe(stalled.used);
  });
});

const served = (answer: (url: string) => object): RawAnswer => {
  return (socket, { head }) => {
    const host = /^host: (.*)$/im.exec(head)?.[1];
    if (head.startsWith("POST")) socket.write(whole(200, "application/json", JSON.stringify(answer(`http://${host}`))));
  };
};
const relayed = (url: string): ModelBackend => relay({ format: "images", baseUrl: url, apiKey: "sk-upstream" });

describe("a client that leaves while the pictures of an answer are on their way", () => {
  const { body } = pairOf("images", "images").upstream;
  const { data } = body as { readonly data: readonly object[] };
  const bytes = png();
  const never = new Promise<never>(() => {});
  const model = imageModel(() => ({ images: [bytes, bytes, bytes], warnings: [], response: {} }));

  it.each<[string, RawAnswer, delivery: string, backend: (url: string) => ModelBackend]>([
    ["to the host's store", served(() => body), "url", relayed],
    [
      "from the upstream's addresses",
      served((url) => ({ created: 1, data: data.map(() => ({ url: `${url}/fox.png` })) })),
      "b64_json",
      relayed,
    ],
    [
      "from a model of the AI SDK to the host's store",
      () => {},
      "url",
      () => aiSdk({ images: { "image-model-2": model } }),
    ],
  ])("%s is charged all of them", async (_where, answer, response_format, backend) => {
    const asked = Promise.withResolvers<void>();
    await using upstream = await rawUpstream((socket, request) => {
      if (request.head.startsWith("GET")) asked.resolve();
      return answer(socket, request);
    });
    const quotas = memoryQuotaStore([{ apiKey: CALLER_KEY, id: "caller", granted: 1_000 }]);
    const put = (): Promise<never> => (asked.resolve(), never);
    const gateway = createGateway({
      backend: backend(upstream.url),
      quotas,
      imagePrice: () => PICTURE_PRICE,
      images: { store: { put, get: async () => undefined } },
    });
    const client = new AbortController();
    const sent = gateway.fetch(
      new Request("http://gateway.test/v1/images/generations", {
        method: "POST",
        headers: { authorization: `Bearer ${CALLER_KEY}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "dall-e-2", prompt: "A fox.", n: 3, response_format }),
        signal: client.signal,
      }),
    );
    await asked.promise;
    client.abort();
    expect((await sent).status).toBe(499);
    expect(quotas.report("caller")).toMatchObject({ used: 3 * PICTURE_PRICE, held: 0 });
  });
});

describe("a client that leaves between the vectors of an answer without a count", () => {
  /** Returns the charge of a client that leaves behind a vector, counted from 1; of one that stays where there is none. */
  async function charge(leavesAt: number, countsOf: readonly (number | undefined)[] = []): Promise<number | undefined> {
    const client = new AbortController();
    let asked = 0;
    const maxInputs = INPUTS.length / Math.max(1, countsOf.length);
    const upstream = relay({
      format: "chat-completions",
      baseUrl: "http://up.test/v1",
      embeddings: { maxInputs },
      async fetch() {
        const data = Array.from({ length: maxInputs }, (_, index) => ({ index, embedding: [0.5] }));
        return Response.json({ data, usage: { prompt_tokens: countsOf[asked++] } });
      },
    });
    const backend: ModelBackend = {
      ...upstream,
      async *embed(request, call) {
        let count = 0;
        for await (const event of upstream.embed(request, call)) {
          // The gateway lets others run behind some hundred events.
          if (++count === leavesAt) setImmediate(() => client.abort());
          yield event;
        }
      },
    };
    const quotas = memoryQuotaStore([{ apiKey: CALLER_KEY, id: "caller", granted: 10_000 }]);
    const gateway = createGateway({ backend, quotas });
    const headers = { authorization: `Bearer ${CALLER_KEY}`, "content-type": "application/json" };
    const post = { method: "POST", headers, body: JSON.stringify({ model: "one", input: INPUTS }) };
    const { status } = await gateway.fetch(
      new Request("http://gateway.test/v1/embeddings", { ...post, signal: client.signal }),
    );
    expect(status).toBe(leavesAt > 0 ? 499 : 200);
    await gateway.close();
    return quotas.report("caller")?.used;
  }
  const INPUTS = Array.from({ length: 500 }, (_, index) => `text ${index}`);

  it("is charged all of them", async () => {
    expect(await charge(1)).toBe(await charge(0));
  });

  it("is charged all of them where a batch before them has a count", async () => {
    expect(await charge(1, [7, undefined])).toBe(await charge(0));
  });
});
