/** Holds the reading of multipart forms to their limits, however the bytes arrive. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { type Form, type MultipartLimits, readMultipart } from "../../src/http/form.ts";
import { BodyRoom } from "../../src/ports/shared-room.ts";
import { manualClock, type ManualClock } from "../../src/testing/laws/manual-clock.ts";
import { streamOf } from "./byte-stream.ts";
import { intakeOf, STALL_MS } from "./intake.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const LIMITS: MultipartLimits = {
  maxUploadBytes: 1_000_000,
  maxFormBytes: 10_000,
  maxFieldBytes: 100,
  maxFields: 4,
  maxFiles: 3,
};
const MAX_FILE_BYTES = 200_000;
const FORM_TYPE = "multipart/form-data; boundary=form";

const encode = (text: string): Bytes => new TextEncoder().encode(text);
const joined = (pieces: readonly (string | Uint8Array)[]): Bytes =>
  new Uint8Array(Buffer.concat(pieces.map((piece) => Buffer.from(piece))));

interface Part {
  readonly header: string;
  readonly body: string | Uint8Array;
}

const field = (name: string, body: string): Part => ({
  header: `content-disposition: form-data; name="${name}"`,
  body,
});
const file = (name: string, body: string | Uint8Array, filename = "a.png"): Part => ({
  header: `content-disposition: form-data; name="${name}"; filename="${filename}"\r\ncontent-type: image/png`,
  body,
});

const formOf = (...parts: readonly Part[]): Bytes =>
  joined([...parts.flatMap(({ header, body }) => [`--form\r\n${header}\r\n\r\n`, body, "\r\n"]), "--form--\r\n"]);

function requestOf(body: BodyInit | null, headers: Record<string, string> = {}, signal?: AbortSignal): Request {
  return new Request("http://gateway.test/", {
    method: "POST",
    headers: { "content-type": FORM_TYPE, ...headers },
    body,
    duplex: "half",
    ...(signal && { signal }),
  } as RequestInit);
}

/** A body whose chunks have the given sizes, over and over. */
function* cut(bytes: Bytes, sizes: readonly number[]): Generator<Bytes> {
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    yield bytes.slice(at, at + size);
    at += size;
  }
}

interface Setup {
  readonly limits?: Partial<MultipartLimits>;
  readonly room?: BodyRoom;
  readonly signal?: AbortSignal;
  readonly clock?: ManualClock;
}

async function read(request: Request, { limits, room, signal, clock = manualClock() }: Setup = {}): Promise<Form> {
  const lease = (room ?? new BodyRoom(10_000_000)).lease("key");
  const rules = {
    limits: { ...LIMITS, ...limits },
    maxFileBytes: (name: string) => (name.startsWith("image") || name === "mask" ? MAX_FILE_BYTES : undefined),
  };
  try {
    return await readMultipart(request, rules, intakeOf({ lease, clock, ...(signal && { signal }) }));
  } finally {
    lease[Symbol.dispose]();
  }
}

async function failureOf(request: Request, setup: Setup = {}): Promise<GatewayError> {
  const error = await read(request, setup).then(
    () => new Error("the form was read"),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof GatewayError)) throw error;
  // Whatever was wrong, its host can still answer.
  expect(request.body?.locked ?? false).toBe(false);
  return error;
}

const ofBytes = (length: number): Bytes => new Uint8Array(length).fill(120);

const shown = ({ fields, files }: Form): unknown => ({
  fields: Array.from(fields),
  files: files.map(({ field, name, bytes }) => [field, name, Array.from(bytes)]),
});

describe("a form", () => {
  const whole = formOf(
    field("prompt", "Ein Häuschen, 家, 𝄞"),
    file("image[]", new Uint8Array([0, 13, 10, 45, 45, 102, 255])),
    field("n", "null"),
    file("image[]", "second", "b.png"),
    field("n", "2"),
  );
  const expected = {
    fields: [
      ["prompt", ["Ein Häuschen, 家, 𝄞"]],
      ["n", ["null", "2"]],
    ],
    files: [
      ["image[]", "a.png", [0, 13, 10, 45, 45, 102, 255]],
      ["image[]", "b.png", Array.from(encode("second"))],
    ],
  };
  it("is the same however its bytes are cut", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), async (sizes) => {
        expect(shown(await read(requestOf(streamOf(cut(whole, sizes)))))).toEqual(expected);
      }),
    ));

  it("may come in one chunk, with its length declared", async () => {
    expect(shown(await read(requestOf(whole, { "content-length": String(whole.length) })))).toEqual(expected);
  });

  it("may be one that the platform writes", async () => {
    const sent = new FormData();
    sent.append("prompt", "hello");
    sent.append("image", new Blob(["bytes"]), 'naïve "file".png');
    const { fields, files } = await read(new Request("http://gateway.test/", { method: "POST", body: sent }));
    expect(fields).toEqual(new Map([["prompt", ["hello"]]]));
    expect(files).toEqual([{ field: "image", name: 'naïve "file".png', bytes: encode("bytes") }]);
  });

  it("may hold large files in one huge chunk", async () => {
    const contents = [1, 2, 3].map((byte) => new Uint8Array(MAX_FILE_BYTES).fill(byte));
    const { files } = await read(requestOf(formOf(...contents.map((content) => file("image[]", content)))));
    expect(files.map(({ bytes }) => Buffer.compare(bytes, contents[(bytes[0] ?? 0) - 1] ?? bytes))).toEqual([0, 0, 0]);
  });

  it("keeps names that every object has, and none that it was not sent", async () => {
    const { fields } = await read(requestOf(formOf(field("__proto__", "1"), field("constructor", "2"))));
    expect(Array.from(fields)).toEqual([
      ["__proto__", ["1"]],
      ["constructor", ["2"]],
    ]);
    expect(fields.get("toString")).toBeUndefined();
  });

  it("takes a part of type application/octet-stream for a file, and an empty file for a file", async () => {
    const header = 'content-disposition: form-data; name="image"\r\ncontent-type: application/octet-stream';
    const { files } = await read(requestOf(formOf({ header, body: "x" }, file("mask", ""))));
    expect(files).toEqual([
      { field: "image", name: undefined, bytes: encode("x") },
      { field: "mask", name: "a.png", bytes: new Uint8Array() },
    ]);
  });

  it.each([
    ["日本語.png", "日本語.png"],
    ["a%22b%22.png", 'a"b".png'],
    ["100%.png", "100%.png"],
    ["../../etc/passwd", "passwd"],
    ["C:\\images\\a.png", "a.png"],
  ])("names the file %j", async (sent, name) => {
    const { files } = await read(requestOf(formOf(file("image", "x", sent))));
    expect(files[0]?.name).toBe(name);
  });

  it("may hold nothing", async () => {
    expect(shown(await read(requestOf("--form--\r\n")))).toEqual({ fields: [], files: [] });
  });
});

describe("a limit", () => {
  it.each<[what: string, fits: Bytes, tooMuch: Bytes, code: string, path: string[] | undefined]>([
    [
      "of a file's bytes",
      formOf(file("image", ofBytes(MAX_FILE_BYTES))),
      formOf(file("image", ofBytes(MAX_FILE_BYTES + 1))),
      "body_too_large",
      ["image"],
    ],
    [
      "of a field's bytes",
      formOf(field("prompt", `${"x".repeat(98)}é`)),
      formOf(field("prompt", `${"x".repeat(99)}é`)),
      "body_too_large",
      ["prompt"],
    ],
    [
      "of files",
      formOf(...["image[]", "image[]", "mask"].map((name) => file(name, "x"))),
      formOf(...["image[]", "image[]", "image[]", "mask"].map((name) => file(name, "x"))),
      "invalid_request",
      ["mask"],
    ],
    [
      "of fields",
      formOf(...["a", "b", "c", "d"].map((name) => field(name, "x"))),
      formOf(...["a", "b", "c", "d", "e"].map((name) => field(name, "x"))),
      "invalid_request",
      ["e"],
    ],
  ])("%s may be reached, and not passed", async (_what, fits, tooMuch, code, path) => {
    for (const sizes of [[1_000], [tooMuch.length]]) {
      await expect(read(requestOf(streamOf(cut(fits, sizes))))).resolves.toBeDefined();
      expect(await failureOf(requestOf(streamOf(cut(tooMuch, sizes))))).toMatchObject({ code, path });
    }
  });

  it("of parts counts those without a disposition, too", async () => {
    const forms = [7, 8].map((length) =>
      formOf(...Array.from({ length }, () => ({ header: "x-nothing: 1", body: "" }))),
    );
    const failures = await Promise.all(forms.map((body) => failureOf(requestOf(body))));
    expect(failures.map(({ code, message }) => [code, message])).toEqual([
      ["malformed_body", expect.stringContaining("has no header such as content-disposition")],
      ["invalid_request", "The form has too many parts."],
    ]);
  });

  it("of the whole body may be reached, and not passed", async () => {
    const body = formOf(file("image", ofBytes(5_000)));
    for (const headers of [{}, { "content-length": String(body.length) }]) {
      const exact = { limits: { maxUploadBytes: body.length } };
      await expect(read(requestOf(streamOf(cut(body, [700])), headers), exact)).resolves.toBeDefined();
      const less = { limits: { maxUploadBytes: body.length - 1 } };
      expect(await failureOf(requestOf(streamOf(cut(body, [700])), headers), less)).toMatchObject({
        code: "body_too_large",
        message: `The request body is larger than ${body.length - 1} bytes.`,
      });
    }
  });

  it("of the whole body is held before anything is read, where the length is declared", async () => {
    const request = requestOf("", { "content-length": String(LIMITS.maxUploadBytes + 1) });
    expect(await failureOf(request)).toMatchObject({ code: "body_too_large" });
    expect(request.bodyUsed).toBe(false);
  });

  it("of the whole body is the declared length, where more bytes come than were declared", async () => {
    const body = formOf(file("image", ofBytes(5_000)));
    const request = requestOf(streamOf(cut(body, [700])), { "content-length": "1000" });
    expect(await failureOf(request)).toMatchObject({ code: "body_too_large" });
  });

  const CHUNK_BYTES = 10_000;

  it.each<[what: string, head: string, limits: Partial<MultipartLimits>, chunks: number]>([
    [
      "a file",
      '--form\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n',
      {},
      MAX_FILE_BYTES / CHUNK_BYTES,
    ],
    [
      "a body",
      '--form\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n',
      { maxUploadBytes: 50_000 },
      5,
    ],
    // What is no file is counted in slices of the parser.
    ["a field", '--form\r\ncontent-disposition: form-data; name="prompt"\r\n\r\n', {}, 8],
    ["a preamble", "", {}, 8],
  ])("lets nothing more of %s be read than the chunk that passes it", async (_what, head, limits, chunks) => {
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => controller.enqueue(pulled++ === 0 ? encode(head.padStart(1)) : ofBytes(CHUNK_BYTES)),
      },
      { highWaterMark: 0 },
    );
    expect(await failureOf(requestOf(body), { limits })).toMatchObject({ code: "body_too_large" });
    expect(pulled).toBeLessThanOrEqual(1 + chunks + 1);
  });
});

describe("a broken form", () => {
  const body = formOf(field("prompt", "hello"), file("image", "bytes"));

  it("is refused wherever it breaks off", async () => {
    // The line break after the last boundary may be missing.
    for (let length = 0; length < body.length - 2; length++)
      expect(await failureOf(requestOf(streamOf(cut(body.slice(0, length), [16])))), `at ${length}`).toMatchObject({
        code: "malformed_body",
      });
    await expect(read(requestOf(body.slice(0, -2)))).resolves.toBeDefined();
  });

  it.each<[what: string, body: Bytes]>([
    ["of another boundary", joined(['--other\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--other--\r\n'])],
    ["of no form at all", encode('{"prompt": "hello"}')],
    ["with a header that is none", formOf({ header: "content disposition", body: "x" })],
    ["with a field without a name", formOf({ header: "content-disposition: form-data", body: "x" })],
    ["with a file without a name", formOf({ header: 'content-disposition: form-data; filename="a"', body: "x" })],
    ["with a part without a disposition", formOf(field("a", "1"), { header: "content-type: text/plain", body: "x" })],
    [
      "with a disposition of another type",
      formOf(field("a", "1"), { header: 'content-disposition: attachment; name="b"', body: "x" }),
    ],
    [
      "with a disposition that cannot be read",
      formOf(field("a", "1"), { header: 'content-disposition: form-data; name="b', body: "x" }),
    ],
    [
      "with a space behind a boundary",
      joined([
        formOf(field("a", "1")).subarray(0, -10),
        '--form \r\ncontent-disposition: form-data; name="b"\r\n\r\n2\r\n--form--\r\n',
      ]),
    ],
    ["with a space behind its first boundary", joined(["--form ", formOf(field("a", "1")).subarray(6)])],
    ["with a boundary at the beginning of a line of a value", formOf(field("a", "1\r\n--formless"))],
    [
      "with a charset that nobody knows",
      formOf({
        header: 'content-disposition: form-data; name="a"\r\ncontent-type: text/plain; charset=x-no',
        body: "x",
      }),
    ],
  ])("%s is refused", async (_what, body) => {
    expect(await failureOf(requestOf(streamOf(cut(body, [9]))))).toMatchObject({ code: "malformed_body" });
    expect(await failureOf(requestOf(body))).toMatchObject({ code: "malformed_body" });
  });

  it("is refused when there is no body", async () => {
    expect(await failureOf(requestOf(null))).toMatchObject({ code: "malformed_body" });
  });

  it("is refused when a field that is none holds a file", async () => {
    expect(await failureOf(requestOf(formOf(file("prompt", "x"))))).toMatchObject({
      code: "invalid_request",
      path: ["prompt"],
    });
  });

  it("is told without the words of whoever broke it off", async () => {
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(body.slice(0, 30)),
      pull: (controller) => controller.error(new Error("reset by 10.0.0.7")),
    });
    expect(await failureOf(requestOf(stream))).toMatchObject({
      code: "malformed_body",
      message: expect.not.stringContaining("10.0.0.7") as string,
    });
  });
});

describe("headers", () => {
  it.each(["application/json", "multipart/mixed; boundary=form", "multipart/form-dataset; boundary=form", ""])(
    "of content-type %j are refused",
    async (type) => {
      const request = requestOf("", { "content-type": type });
      expect(await failureOf(request)).toMatchObject({ code: "unsupported_media_type" });
    },
  );

  it.each(["multipart/form-data", "multipart/form-data; charset=utf-8", "multipart/form-data; boundary="])(
    "of content-type %j name no boundary",
    async (type) => {
      expect(await failureOf(requestOf(formOf(), { "content-type": type }))).toMatchObject({
        code: "malformed_body",
        message: expect.stringContaining("boundary") as string,
      });
    },
  );

  it.each([
    'Multipart/Form-Data; charset=utf-8; boundary="form"',
    "multipart/form-data;boundary=form",
    String.raw`multipart/form-data; x="; boundary=a\"b"; Boundary="f\orm";; boundary=other; `,
  ])("of content-type %j are taken", async (type) => {
    await expect(read(requestOf(formOf(field("a", "1")), { "content-type": type }))).resolves.toBeDefined();
  });

  it("name a boundary of at most 70 characters: the search for a longer one could take minutes", async () => {
    const form = new TextDecoder().decode(formOf(field("a", "1")));
    const [longest, tooLong] = [70, 71].map((length) => {
      const boundary = "b".repeat(length);
      const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
      return requestOf(form.replaceAll("--form", `--${boundary}`), headers);
    }) as [Request, Request];
    await expect(read(longest)).resolves.toMatchObject({ fields: new Map([["a", ["1"]]]) });
    expect(await failureOf(tooLong)).toMatchObject({
      code: "malformed_body",
      message: "The boundary of a form must have at most 70 characters.",
    });
  });

  it("of a compressed body are refused", async () => {
    const request = requestOf(formOf(), { "content-encoding": "gzip" });
    expect(await failureOf(request)).toMatchObject({ code: "unsupported_media_type" });
  });
});

/** A body that gives its first bytes, and then nothing. */
const stalled = (then: () => void = () => {}): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: (controller) => controller.enqueue(formOf(file("image", ofBytes(1_000))).slice(0, 500)),
    pull: () => then(),
  });

describe("a form whose client stops", () => {
  it("is let go of the moment the signal fires, with its reason", async () => {
    const call = new AbortController();
    const reason = new GatewayError("deadline_exceeded", "Too late.");
    const request = requestOf(stalled(() => call.abort(reason)));
    expect(await failureOf(request, { signal: call.signal })).toBe(reason);
  });

  it("is not begun when the signal has fired", async () => {
    const reason = new GatewayError("client_closed", "Gone.");
    expect(await failureOf(requestOf(stalled()), { signal: AbortSignal.abort(reason) })).toBe(reason);
  });

  it("is told apart from a broken one", async () => {
    const client = new AbortController();
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        client.abort();
        controller.error(new Error("reset"));
      },
    });
    expect(await failureOf(requestOf(body, {}, client.signal))).toMatchObject({ code: "client_closed" });
  });
});

describe("a client that sends nothing more", () => {
  it("is given up, and leaves its room to others", async () => {
    const [clock, room] = [manualClock(), new BodyRoom(1_000)];
    const silent = new Request("http://host/", {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b", "content-length": "1000" },
      body: new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("--b")) }),
      duplex: "half",
    } as RequestInit);
    const failure = failureOf(silent, { clock, room });
    await clock.advance(STALL_MS - 1);
    expect(room.takenBytes).toBe("--b".length);
    await clock.advance(1);
    expect(await failure).toMatchObject({ code: "deadline_exceeded" });
    expect(room.takenBytes).toBe(0);
    expect(clock.pending).toBe(0);
  });
});

describe("the room for bodies", () => {
  const body = formOf(file("image", ofBytes(5_000)));

  it("is booked as the bytes arrive, however many are announced", async () => {
    for (const headers of [{ "content-length": String(body.length) }, {}]) {
      const room = new BodyRoom(body.length);
      const taken: number[] = [];
      const chunks = cut(body, [2_000]);
      const stream = new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            taken.push(room.takenBytes);
            const { done, value } = chunks.next();
            if (done) controller.close();
            else controller.enqueue(value);
          },
        },
        { highWaterMark: 0 },
      );
      await read(requestOf(stream, headers), { room });
      expect(taken.slice(0, 3)).toEqual([0, 2_000, 4_000]);
      expect(room.takenBytes).toBe(0);
    }
  });

  it("that is full refuses a form at the chunk that passes it", async () => {
    for (const headers of [{ "content-length": String(body.length) }, {}]) {
      const room = new BodyRoom(body.length + 100);
      const other = room.lease("other");
      other.take(101);
      const request = requestOf(streamOf(cut(body, [1_000])), headers);
      expect(await failureOf(request, { room })).toMatchObject({ code: "busy", retryAfterMs: 2_000 });
      expect(room.takenBytes).toBe(101);
    }
  });

  it("gets back what a failed form had taken", async () => {
    const room = new BodyRoom(body.length);
    await failureOf(requestOf(body.slice(0, 3_000)), { room });
    expect(room.takenBytes).toBe(0);
  });

  it("holds, however many upload at once", async () => {
    const room = new BodyRoom(20 * body.length);
    let most = 0;
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        const headers = index % 2 === 0 ? { "content-length": String(body.length) } : {};
        function* watched(): Generator<Bytes> {
          for (const chunk of cut(body, [1_000])) {
            most = Math.max(most, room.takenBytes);
            yield chunk;
          }
        }
        return read(requestOf(streamOf(watched()), headers), { room }).then(
          () => "read",
          (error: GatewayError) => error.code,
        );
      }),
    );
    // All come at the same pace here, so that none is through when the room is full.
    expect(outcomes).toContain("busy");
    expect(outcomes.filter((outcome) => outcome !== "busy" && outcome !== "read")).toEqual([]);
    expect(most).toBeGreaterThan(19 * body.length);
    expect(most).toBeLessThanOrEqual(20 * body.length);
    expect(room.takenBytes).toBe(0);
    await expect(read(requestOf(body), { room })).resolves.toBeDefined();
  });
});
