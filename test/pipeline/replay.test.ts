/** Repeated calls: the same answer for the same key and request, one call of the backend and one charge for all of them. */

import { RateLimiterMemory } from "rate-limiter-flexible";
import { describe, expect, it } from "vitest";
import { type CallRecord, flexibleRateLimiter, type ReplayStore } from "../../src/index.ts";
import { AT_REST, counted, errorCode, MINUTE, never, opened, type Send, WORD } from "./bench.ts";
import { around, once, repeating, SEVEN, STREAM } from "./repeating.ts";

const whole = async (response: Response): Promise<unknown[]> => [
  response.status,
  response.headers.get("content-type"),
  await response.text(),
];

const MIB = 1024 ** 2;

const window = (points: number): RateLimiterMemory => new RateLimiterMemory({ points, duration: 3_600 });

describe("a repeated call", () => {
  it.each<[form: string, send: Send]>([
    ["whole", {}],
    ["streamed", STREAM],
  ])("is answered as the first was, without its backend and at no charge: %s", async (_form, send) => {
    const { repeat, asked, report } = repeating([once]);
    const first = await repeat(send);
    const answer = await whole(first.clone());
    expect(first.headers.get("polygate-replayed")).toBeNull();
    await first.text();
    for (let time = 0; time < 2; time++) {
      const again = await repeat(send);
      expect(again.headers.get("polygate-replayed")).toBe(first.headers.get("request-id"));
      expect(again.headers.get("request-id")).toMatch(/^req_/);
      expect(again.headers.get("request-id")).not.toBe(first.headers.get("request-id"));
      expect(again.headers.get("cache-control")).toBe(first.headers.get("cache-control"));
      expect(await whole(again)).toEqual(answer);
    }
    expect(asked()).toBe(1);
    expect(report()).toMatchObject({ used: SEVEN, ...AT_REST });
  });

  it("is a call of its own without the header, and under another key", async () => {
    const { send, repeat, asked } = repeating([once]);
    for (const answer of [
      await send(),
      await send(),
      await repeat(),
      await repeat({ headers: { "idempotency-key": "2" } }),
    ])
      expect([answer.status, answer.headers.get("polygate-replayed")]).toEqual([200, null]);
    expect(asked()).toBe(4);
  });

  it("asks no store where it has no header", async () => {
    const deaf: ReplayStore = { claim: () => never, record: () => never, release: () => never };
    const { send } = repeating([once], {}, () => deaf);
    expect((await send()).status).toBe(200);
  });

  it("is nothing to a gateway without a store, whatever its header says", async () => {
    const { send } = opened();
    expect((await send({ headers: { "idempotency-key": "no key at all" } })).status).toBe(200);
  });

  it("of another api key is another call", async () => {
    const { store, repeat, asked } = repeating([once]);
    store.add({ apiKey: "sk-two", id: "two", granted: 1000 });
    await repeat();
    const other = await repeat({ headers: { authorization: "Bearer sk-two" } });
    expect([other.headers.get("polygate-replayed"), asked()]).toEqual([null, 2]);
  });

  it("is answered to another secret of the same key, and to none that was revoked", async () => {
    const { store, repeat, asked } = repeating([once]);
    const first = await repeat();
    store.addSecret("one", "sk-next");
    const again = await repeat({ headers: { authorization: "Bearer sk-next" } });
    expect(again.headers.get("polygate-replayed")).toBe(first.headers.get("request-id"));
    store.removeSecret("sk-one");
    expect([(await repeat()).status, asked()]).toEqual([401, 1]);
  });

  it("counts against the rates of its key, and uses no tokens of them", async () => {
    const perKey = { requests: [window(2)], tokens: [window(100)] };
    const { repeat, asked } = repeating([once], { rateLimiter: flexibleRateLimiter({ perKey }) });
    const statuses = [await repeat(), await repeat(), await repeat()].map(({ status }) => status);
    expect([statuses, asked()]).toEqual([[200, 200, 429], 1]);
  });

  it("is answered when the quota has been used up since", async () => {
    const { repeat, send, report } = repeating([[WORD, counted(90)]], { key: { granted: 100 } });
    // Of a length that is declared: a large body, or one that may be, is not even read for a key with nothing left.
    const small = { headers: { "content-length": "90" } };
    await repeat(small);
    expect([(await send(small)).status, (await repeat(small)).status]).toEqual([429, 200]);
    expect(report()).toMatchObject({ used: 100 });
  });

  it("is told of in its record, and costs nothing", async () => {
    const records: CallRecord[] = [];
    const { repeat } = repeating([once], { onCall: (record) => records.push(record) });
    await repeat();
    const [first] = records;
    await repeat();
    await (await repeat(STREAM)).text();
    expect(records).toMatchObject([
      { replayOf: undefined, units: SEVEN, outcome: "completed", status: 200 },
      { replayOf: first?.requestId, units: 0, usage: undefined, outcome: "completed", status: 200, stream: false },
      { replayOf: undefined, units: 0, outcome: "refused", status: 409, errorCode: "idempotency_key_reused" },
    ]);
  });

  it("is forgotten after its time", async () => {
    const { repeat, clock, asked } = repeating([once], { limits: { replayRetentionMs: MINUTE } });
    await repeat();
    await clock.advance(MINUTE - 1);
    await repeat();
    expect(asked()).toBe(1);
    await clock.advance(1);
    expect([(await repeat()).headers.get("polygate-replayed"), asked()]).toEqual([null, 2]);
  });

  it("of a token count is answered, too", async () => {
    const { repeat, report } = repeating([once]);
    const send = { path: "/v1/messages/count_tokens" };
    const first = await repeat(send);
    const again = await repeat(send);
    expect(again.headers.get("polygate-replayed")).toBe(first.headers.get("request-id"));
    expect(await again.json()).toEqual(await first.json());
    expect(report()).toMatchObject(AT_REST);
    const other = await repeat({ ...send, body: { system: "Another." } });
    expect([other.status, await errorCode(other)]).toEqual([409, "idempotency_key_reused"]);
  });
});

const generate = (method: string, text = "Hello"): Send => ({
  path: `/v1beta/models/any:${method}`,
  body: JSON.stringify({ contents: [{ role: "user", parts: [{ text }] }] }),
});

describe("another request under the same key", () => {
  it.each<[format: string, first: Send, other: Send, body: object]>([
    [
      "messages",
      {},
      { body: { max_tokens: 51 } },
      { type: "error", error: { type: "invalid_request_error", code: "idempotency_key_reused" } },
    ],
    [
      "generate-content",
      generate("generateContent"),
      generate("generateContent", "Bye"),
      { error: { code: 409, status: "ALREADY_EXISTS" } },
    ],
    [
      "chat-completions",
      {
        path: "/v1/chat/completions",
        body: JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hi" }] }),
      },
      {
        path: "/v1/chat/completions",
        body: JSON.stringify({ model: "any", messages: [{ role: "user", content: "Ho" }] }),
      },
      { error: { type: "invalid_request_error", code: "idempotency_key_reused", param: null } },
    ],
  ])("is refused in the words of its format, and no retry is asked for: %s", async (_format, first, other, body) => {
    const { repeat, asked, report } = repeating([once]);
    expect((await repeat(first)).status).toBe(200);
    const used = report()?.used;
    const refused = await repeat(other);
    expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([409, "false"]);
    expect(await refused.json()).toMatchObject(body);
    expect([asked(), report()?.used]).toEqual([1, used]);
  });

  it("is refused while the first still runs", async () => {
    const { repeat, clock, asked } = repeating([[WORD, never]]);
    void repeat();
    await clock.advance(0);
    expect([(await repeat({ body: { system: "Another." } })).status, asked()]).toEqual([409, 1]);
  });

  it.each<[what: string, headers: Record<string, string>, status: number]>([
    ["of another version", { "compat-version": "2024-01-01" }, 409],
    ["of another beta", { "compat-beta": "one,three" }, 409],
    ["of one beta more", { "compat-beta": "one,two,three" }, 409],
    ["of no beta", { "compat-beta": "" }, 409],
    ["of the betas in another order, and twice", { "compat-beta": "two, one,two" }, 200],
    ["of the betas under both names", { "compat-beta": "two", "anthropic-beta": "one" }, 200],
    ["of the version under its other name", { "compat-version": "", "anthropic-version": "2023-06-01" }, 200],
  ])("is compared by its version and betas: one %s", async (_what, headers, status) => {
    const { repeat, asked } = repeating([once]);
    const first = { "compat-beta": "one,two" };
    expect((await repeat({ headers: first })).status).toBe(200);
    expect([(await repeat({ headers: { ...first, ...headers } })).status, asked()]).toEqual([status, 1]);
  });

  it("on another route, or of another model in the path, is a call of its own", async () => {
    const { repeat, asked } = repeating([once]);
    for (const send of [
      generate("generateContent"),
      generate("streamGenerateContent"),
      { ...generate("generateContent"), path: "/v1beta/models/other:generateContent" },
      {},
    ]) {
      const answer = await repeat(send);
      await answer.text();
      expect([answer.status, answer.headers.get("polygate-replayed")]).toEqual([200, null]);
    }
    expect(asked()).toBe(4);
  });

  it("may differ in its query alone, but not in the secret there", async () => {
    const { repeat, asked } = repeating([once]);
    const at = (query: string): Promise<Response> => {
      const send = generate("streamGenerateContent");
      return repeat({ ...send, path: `${send.path}?${query}` });
    };
    await (await at("alt=sse&key=sk-one")).text();
    expect([(await at("key=one&alt=sse")).status, (await at("alt=json")).status, asked()]).toEqual([200, 409, 1]);
  });
});

describe("a header that is no key", () => {
  it.each(["", "with a space", "a, b", "ü", "x".repeat(256), "tab\tbed"])("is refused: %j", async (key) => {
    const { repeat, asked, report } = repeating([once]);
    const refused = await repeat({ headers: { "idempotency-key": key } });
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { message: expect.stringContaining("Idempotency-Key") as string } },
    ]);
    expect([asked(), report()?.used]).toEqual([0, 0]);
  });

  it.each(["x", "x".repeat(255), '"8e03978e-40d5-43dd-bc93-6894a57f9324"', "a,b"])(
    "is none of these: %j",
    async (key) => {
      const { repeat, asked } = repeating([once]);
      for (let time = 0; time < 2; time++)
        expect((await repeat({ headers: { "idempotency-key": key } })).status).toBe(200);
      expect(asked()).toBe(1);
    },
  );
});

const form = (boundary: string, prompt: string, image = "picture"): Send => ({
  path: "/v1/images/variations",
  headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
  body: [
    `--${boundary}`,
    'content-disposition: form-data; name="user"',
    "",
    prompt,
    `--${boundary}`,
    'content-disposition: form-data; name="image"; filename="a.png"',
    "content-type: image/png",
    "",
    image,
    `--${boundary}--`,
    "",
  ].join("\r\n"),
});

async function* noImage(): AsyncGenerator<never> {}

describe("a form", () => {
  it("is the same in another boundary, and another where a field or a file is", async () => {
    const claims: { id: string; fingerprint: string }[] = [];
    const verbs = around(() => ({
      claim: async ({ id, fingerprint }) => {
        claims.push({ id, fingerprint });
        return { state: "running", fingerprint: "x" };
      },
    }));
    const { repeat } = repeating([once], { backend: { image: noImage } }, verbs);
    for (const send of [
      form("one", "A fox."),
      form("other", "A fox."),
      form("one", "A dog."),
      form("one", "A fox.", "p"),
    ])
      expect((await repeat(send)).status).toBe(409);
    expect(new Set(claims.map(({ id }) => id)).size).toBe(1);
    const [first, again, ...others] = claims.map(({ fingerprint }) => fingerprint);
    expect(again).toBe(first);
    expect(new Set([first, ...others]).size).toBe(3);
  });
});

describe("claims at once", () => {
  it("bring no more answers than the bodies of their key have room for", async () => {
    const waiting: (() => void)[] = [];
    let most = 0;
    const verbs = around((store) => ({
      async claim(claim, call) {
        await new Promise<void>((resolve) => void (most = Math.max(most, waiting.push(resolve))));
        return store.claim(claim, call);
      },
    }));
    const limits = { maxBodyBytesInFlight: 64 * MIB, maxBodyBytesPerKey: 32 * MIB };
    const { repeat, clock, report } = repeating([once], { limits }, verbs);
    const burst = (from: number): Promise<Response>[] =>
      Array.from({ length: 12 }, (_, at) => repeat({ headers: { "idempotency-key": `${from + at}` } }));
    const first = burst(0);
    await clock.advance(0);
    expect(waiting.length).toBeLessThanOrEqual(8);
    // The others claim when these have, and are refused while a store keeps the room.
    while (waiting.length > 0) {
      for (const go of waiting.splice(0)) go();
      await clock.advance(50);
      await clock.advance(0);
    }
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual(first.map(() => 200));
    const second = burst(100);
    await clock.advance(0);
    await clock.advance(1_000);
    for (const go of waiting.splice(0)) go();
    const statuses = (await Promise.all(second)).map(({ status }) => status);
    expect([most <= 8, statuses.includes(200), statuses.includes(503)]).toEqual([true, true, true]);
    expect(report()).toMatchObject(AT_REST);
  });
});

describe("a browser's page", () => {
  it.each<[allowed: string, allowHeaders: "*" | string[] | undefined, expected: string]>([
    ["all headers", undefined, "idempotency-key,x-api-key"],
    ["a list", ["x-api-key", "content-type"], "x-api-key,content-type,Idempotency-Key"],
    ["a list with it", ["x-api-key", "idempotency-key"], "x-api-key,idempotency-key"],
  ])("may send the header where %s is allowed", async (_allowed, allowHeaders, expected) => {
    const { gateway } = repeating([once], { cors: { origin: "*", ...(allowHeaders && { allowHeaders }) } });
    const preflight = await gateway.fetch(
      new Request("http://host/v1/messages", {
        method: "OPTIONS",
        headers: {
          origin: "https://page.test",
          "access-control-request-method": "POST",
          "access-control-request-headers": "idempotency-key,x-api-key",
        },
      }),
    );
    expect(preflight.headers.get("access-control-allow-headers")).toBe(expected);
  });
});
