/** Holds the reading of JSON bodies to their limits, however the bytes arrive. */

import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { readJsonText } from "../../src/http/body.ts";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { DEFAULT_JSON_LIMITS, JsonBudget, jsonFaultIn, parseJson } from "../../src/model/json.ts";
import { BodyRoom } from "../../src/ports/shared-room.ts";
import { streamOf } from "./byte-stream.ts";
import { intakeOf, readJson } from "./intake.ts";

const LIMITS = { maxJsonBytes: 1_000, maxJsonDepth: 5, maxJsonValues: 20, maxJsonKeys: 20, maxJsonItems: 20 };
const JSON_TYPE = { "content-type": "application/json" };

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

function requestOf(body: BodyInit | null, headers: Record<string, string> = JSON_TYPE): Request {
  const init = { method: "POST", headers, body, duplex: "half" } as const;
  return new Request("http://gateway.test/", init);
}

/** A body without a declared length, whose chunks have the given sizes, over and over. */
function chunked(bytes: Uint8Array<ArrayBuffer>, sizes: readonly number[]): Request {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    chunks.push(bytes.slice(at, at + size));
    at += size;
  }
  return requestOf(streamOf(chunks));
}

/** A body whose length is declared. */
const declared = (text: string, length = encode(text).length): Request =>
  requestOf(text, { ...JSON_TYPE, "content-length": String(length) });

async function codeOf(reading: Promise<unknown>): Promise<string> {
  const error = await reading.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error instanceof GatewayError ? error.code : `no GatewayError: ${String(error)}`;
}

const ofBytes = (length: number): string => `"${"x".repeat(length - 2)}"`;
const objects = (levels: number): string => '{"a":'.repeat(levels) + "0" + "}".repeat(levels);
const nested = (levels: number, inside = ""): string => "[".repeat(levels) + inside + "]".repeat(levels);

const zeros = (count: number): string => `[${Array.from({ length: count }, () => 0).join(",")}]`;
const members = (count: number): string =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, index])));

describe("chunks", () => {
  const wide = { ...DEFAULT_LIMITS, maxJsonDepth: 100 };

  it("may be cut anywhere", () =>
    fc.assert(
      fc.asyncProperty(
        fc.jsonValue({ stringUnit: "grapheme" }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        async (value, sizes) => {
          const text = JSON.stringify(value);
          expect(await readJson(chunked(encode(text), sizes), wide)).toEqual(JSON.parse(text));
        },
      ),
    ));

  it("may split a character into its bytes", async () => {
    const value = { text: "Grüße, 世界 𝄞" };
    expect(await readJson(chunked(encode(JSON.stringify(value)), [1]), LIMITS)).toEqual(value);
  });

  it("may split the byte order mark", async () => {
    expect(await readJson(chunked(encode("\uFEFF[1]"), [1]), LIMITS)).toEqual([1]);
  });

  it("may be empty", async () => {
    const chunks = [encode("[1"), encode(""), encode(",2]")];
    expect(await readJson(requestOf(streamOf(chunks)), LIMITS)).toEqual([1, 2]);
  });

  it("are not read on once the limit is passed", async () => {
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled++;
          controller.enqueue(new Uint8Array(400));
        },
      },
      { highWaterMark: 0 },
    );
    const request = requestOf(body);
    expect(await codeOf(readJson(request, LIMITS))).toBe("body_too_large");
    expect(pulled).toBe(3);
    // Its host may still do with the rest what it must, to keep the connection or to close it.
    expect(request.body?.locked).toBe(false);
  });

  it("that break off are no body", async () => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(encode("[1")),
      pull: (controller) => controller.error(new Error("reset by 10.0.0.7")),
    });
    const error: unknown = await readJson(requestOf(body), LIMITS).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "malformed_body", message: expect.not.stringContaining("10.0.0.7") as string });
  });

  it("that the host cuts off at a limit of its own are too large", async () => {
    const cut = Object.assign(new Error("exceeds the limit of 10.0.0.7"), { status: 413 });
    const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(cut) });
    const error: unknown = await readJson(requestOf(body), LIMITS).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "body_too_large", message: expect.not.stringContaining("10.0.0.7") as string });
  });

  it("that break off because the client is gone are told apart", async () => {
    const client = new AbortController();
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        client.abort();
        controller.error(new Error("reset"));
      },
    });
    const request = new Request("http://gateway.test/", {
      method: "POST",
      headers: JSON_TYPE,
      body,
      signal: client.signal,
      duplex: "half",
    } as RequestInit);
    expect(await codeOf(readJson(request, LIMITS))).toBe("client_closed");
  });
});

describe("size", () => {
  it.each([
    ["its bytes, where none of them lies beyond Latin-1", "a".repeat(100), 102],
    ["its bytes, where its characters take as many", "é".repeat(100), 204],
    ["two bytes for each character, where these are more", `${"a".repeat(99)}€`, 204],
  ])("is booked as %s", async (_what, text, bytes) => {
    const room = new BodyRoom(10_000);
    await readJsonText(chunked(encode(JSON.stringify(text)), [7]), 1_000, intakeOf({ lease: room.lease("key") }));
    expect(room.takenBytes).toBe(bytes);
  });

  it.each([
    ["declared", declared],
    ["in chunks", (text: string) => chunked(encode(text), [7])],
  ])("%s may be the limit, and no byte more", async (_name, make) => {
    const { maxJsonBytes } = LIMITS;
    expect(await readJson(make(ofBytes(maxJsonBytes)), LIMITS)).toHaveLength(maxJsonBytes - 2);
    expect(await codeOf(readJson(make(ofBytes(maxJsonBytes + 1)), LIMITS))).toBe("body_too_large");
  });

  it("is counted in bytes", async () => {
    const text = `"${"€".repeat(334)}"`;
    expect(text.length).toBeLessThan(LIMITS.maxJsonBytes);
    expect(await codeOf(readJson(declared(text), LIMITS))).toBe("body_too_large");
    expect(await codeOf(readJson(chunked(encode(text), [100]), LIMITS))).toBe("body_too_large");
  });

  it("that was declared falsely is held to the limit all the same", async () => {
    expect(await codeOf(readJson(declared(ofBytes(LIMITS.maxJsonBytes + 1), 10), LIMITS))).toBe("body_too_large");
  });

  it("that was declared falsely is booked as it came", async () => {
    const room = new BodyRoom(10_000);
    await readJsonText(declared(ofBytes(100), 5), 1_000, intakeOf({ lease: room.lease("key") }));
    expect(room.takenBytes).toBe(100);
  });

  it("that is declared too large is refused unread", async () => {
    const request = declared("[]", LIMITS.maxJsonBytes + 1);
    expect(await codeOf(readJson(request, LIMITS))).toBe("body_too_large");
    expect(request.bodyUsed).toBe(false);
  });
});

describe("depth", () => {
  const { maxJsonDepth } = LIMITS;

  it("may be the limit, and no level more", async () => {
    expect(await readJson(declared(nested(maxJsonDepth)), LIMITS)).toBeInstanceOf(Array);
    expect(await codeOf(readJson(declared(nested(maxJsonDepth + 1)), LIMITS))).toBe("malformed_body");
  });

  it.each(["null", "1", '"x"', "true"])("counts arrays and objects, and not %s", async (inside) => {
    expect(await readJson(declared(nested(maxJsonDepth, inside)), LIMITS)).toBeInstanceOf(Array);
  });

  it("counts objects", async () => {
    expect(await readJson(declared(objects(maxJsonDepth)), LIMITS)).toBeTypeOf("object");
    expect(await codeOf(readJson(declared(objects(maxJsonDepth + 1)), LIMITS))).toBe("malformed_body");
  });

  it("does not grow the stack", async () => {
    const request = declared(nested(200_000));
    expect(await codeOf(readJson(request, { ...LIMITS, maxJsonBytes: 1_000_000 }))).toBe("malformed_body");
  });
});

describe("strings", () => {
  const brackets = fc.string({ unit: fc.constantFrom("[", "{", "]", "}", ",", '"', "\\", "a", "é"), maxLength: 40 });

  it.each([["as keys"], ["as values"]])("are not counted for what is in them, %s", (place) =>
    fc.assert(
      fc.asyncProperty(brackets, brackets, async (one, other) => {
        const value = place === "as keys" ? { [one]: 1, [`${other}.`]: 2 } : [one, other];
        const limits = { ...LIMITS, maxJsonDepth: 1, maxJsonValues: 3 };
        const body = chunked(encode(JSON.stringify(value)), [1_000]);
        expect(await readJson(body, limits)).toEqual(value);
      }),
    ),
  );

  it("that do not end are no body", async () => {
    for (const text of ['["[[[[[[[[', '["\\"]', '"\\'])
      expect(await codeOf(readJson(declared(text), LIMITS))).toBe("malformed_body");
  });
});

describe("values", () => {
  it.each([
    ["elements", zeros],
    ["members", members],
    ["containers", (count: number) => `[${zeros(count - 1)}]`],
  ])("may be as many as the limit, and no more: %s", async (_name, make) => {
    const { maxJsonValues } = LIMITS;
    expect(await readJson(declared(make(maxJsonValues - 1)), LIMITS)).toBeTypeOf("object");
    expect(await codeOf(readJson(declared(make(maxJsonValues)), LIMITS))).toBe("malformed_body");
  });

  it("of one object may be as many as its limit, and no more, however many objects there are", async () => {
    const limits = { ...DEFAULT_LIMITS, maxJsonKeys: 3 };
    const some = `[${`${members(3)},`.repeat(50)}{"a":{"b":1,"c":[{"d":":"}],"e":2},"f":3,"g":4}]`;
    expect(await readJson(declared(some), limits)).toHaveLength(51);
    const error: unknown = await readJson(declared(`[{},{"a":${members(4)}}]`), limits).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({
      code: "malformed_body",
      message: "The request body holds an object of more than 3 members.",
    });
  });

  it("of all arrays may be as many as their limit, and no more; those of objects do not count", async () => {
    const limits = { ...DEFAULT_LIMITS, maxJsonItems: 10 };
    const most = `{"a":${zeros(4)},"b":[${zeros(2)},[],{"x":1,"y":2,"z":3}],"c":1,"d":2}`;
    expect(await readJson(declared(most), limits)).toBeTypeOf("object");
    const error: unknown = await readJson(declared(most.replace("[]", "[0,0]")), limits).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({
      code: "malformed_body",
      message: "The request body holds arrays of more than 10 elements together.",
    });
  });

  it.each(["[]", "{}"])("that are %s, millions of them, are refused before they are made", async (value) => {
    const parse = vi.spyOn(JSON, "parse");
    const text = "[" + `${value},`.repeat(1_000_000) + "0]";
    expect(await codeOf(readJson(declared(text), { ...DEFAULT_LIMITS, maxJsonDepth: 200 }))).toBe("malformed_body");
    expect(parse).not.toHaveBeenCalled();
    parse.mockRestore();
  });
});

describe("white space and digits", () => {
  it.each([
    ["white space", " ", "1"],
    ["digits", "1", ""],
  ])("hide no value, however long a run of %s is", (_what, plain, end) => {
    for (let length = 1; length <= 1_100; length++) {
      const run = plain.repeat(length) + end;
      const budget = new JsonBudget();
      const text = `[${run},${run},{"[,":${run}},${run},"${run},",[${run}],${run}]`;
      parseJson(text, budget);
      expect([budget.values, budget.items]).toEqual([10, 8]);
      expect(() => parseJson(text, { ...DEFAULT_JSON_LIMITS, maxJsonDepth: 1 })).toThrow(
        "is nested deeper than 1 levels",
      );
    }
  });
});

describe("content", () => {
  it.each(["", " \r\n\t", "\uFEFF", "{", "[1,]", "{}{}", "NaN", "'a'", "undefined", "{a:1}"])(
    "%j is no body",
    async (text) => {
      expect(await codeOf(readJson(declared(text), LIMITS))).toBe("malformed_body");
      expect(await codeOf(readJson(chunked(encode(text), [1]), LIMITS))).toBe("malformed_body");
    },
  );

  it("may be missing altogether, which is no body either", async () => {
    expect(await codeOf(readJson(requestOf(null), LIMITS))).toBe("malformed_body");
  });

  it("may stand between white space, after a byte order mark", async () => {
    expect(await readJson(declared("\uFEFF\r\n [1] \n"), LIMITS)).toEqual([1]);
  });

  it("is not quoted when it cannot be parsed", async () => {
    const error: unknown = await readJson(declared('{"key": sk-secret}'), LIMITS).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ message: expect.not.stringContaining("secret") as string });
  });
});

const faultToldOf = async (text: string): Promise<unknown> => {
  const limits = { ...DEFAULT_LIMITS, maxJsonBytes: 4_000_000 };
  const thrown: unknown = await readJson(declared(text), limits).catch((error: unknown) => error);
  return (thrown as GatewayError).message.replace("The request body is not valid JSON", "");
};

/** Returns the place of a fault that the runtime names. */
function placeNamedIn(text: string): number | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    const named = /^(?:Expected|Unexpected non|Bad control|Unterminated string).* at position (\d+)/;
    const place = named.exec((error as Error).message)?.[1];
    return place === undefined ? undefined : Number(place);
  }
}

describe("the place of a fault", () => {
  // Bodies of this length are parsed piece by piece.
  const long = `{"model": "m",\n"pad": "${"x".repeat(10_000)}",\n`;

  it.each([
    ['{"a": 1,}', " at line 1, column 9."],
    ["{'a': 1}", " at line 1, column 2."],
    ['{\n  "a": 1\n  "b": 2\n}', " at line 3, column 3."],
    ['{\r\n"a": tru}', " at line 2, column 6."],
    ['{"a": "one\ntwo"}', " at line 1, column 11."],
    ['{"a": "C:\\users"}', " at line 1, column 10."],
    ['{"a": 1}}', " at line 1, column 9."],
    ['{"a": [1, 2}', " at line 1, column 12."],
    ['{"a": "b', ": it ends too early."],
    ['{"a":', ": it ends too early."],
    ['{"a": "C:\\', ": it ends too early."],
    ['{"a": fal', ": it ends too early."],
    [`${long}"a": [1 2]}`, " at line 3, column 9."],
    [`${long}"a": [{"b": "c"}`, ": it ends too early."],
    [`{"a": 1,, "b": "${"x".repeat(2_000_000)}"}`, "."],
  ])("is told of %.40j", async (text, words) => {
    expect(await faultToldOf(text)).toBe(words);
  });

  it("is the end of a text that is cut off anywhere", () =>
    fc.assert(
      fc.property(fc.json({ stringUnit: "binary" }), fc.nat(), (json, place) => {
        const cut = json.slice(0, place % json.length);
        expect(jsonFaultIn(cut)).toBe(cut.length);
      }),
      { numRuns: 1_000 },
    ));

  it("is that of the runtime, where it names one", () => {
    let places = 0;
    const fault = fc.constantFrom("", "{", "}", "[", "]", ":", ",", '"', "\\", "0", " ", "\n");
    fc.assert(
      fc.property(fc.json(), fc.nat(), fault, (json, place, char) => {
        const at = place % json.length;
        const text = json.slice(0, at) + char + json.slice(at + 1);
        const named = placeNamedIn(text);
        if (named !== undefined) places++;
        expect(named === undefined || jsonFaultIn(text) === named).toBe(true);
      }),
      { numRuns: 1_000 },
    );
    expect(places).toBeGreaterThan(100);
  });
});

describe("headers", () => {
  it.each([
    "application/json",
    "application/json; charset=utf-8",
    "application/json ;x",
    "APPLICATION/JSON",
    "application/ld+json",
  ])("content-type %j is JSON", async (type) => {
    expect(await readJson(requestOf("[]", { "content-type": type }), LIMITS)).toEqual([]);
  });

  it.each(["", "text/plain", "text/json", "application/jsonp", "application/x-ndjson", "multipart/form-data", "json"])(
    "content-type %j is not",
    async (type) => {
      const request = requestOf("[]", { "content-type": type });
      expect(await codeOf(readJson(request, LIMITS))).toBe("unsupported_media_type");
    },
  );

  it.each(["gzip", "br", "deflate, gzip", "zstd"])("content-encoding %s is refused", async (encoding) => {
    const request = requestOf("[]", { ...JSON_TYPE, "content-encoding": encoding });
    expect(await codeOf(readJson(request, LIMITS))).toBe("unsupported_media_type");
  });

  it.each(["identity", "Identity"])("content-encoding %s is none", async (encoding) => {
    expect(await readJson(requestOf("[]", { ...JSON_TYPE, "content-encoding": encoding }), LIMITS)).toEqual([]);
  });
});
