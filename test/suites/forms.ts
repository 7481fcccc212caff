/** Forms as the wire may have them: their parts in any order, cut anywhere, too much of them, or broken (spec 2.2, 4). */

import { describe, expect, it } from "vitest";
import { type Bytes, CLEAR, joined, JPEG, OPAQUE } from "../formats/images/pictures.ts";
import { anyText, invalidField, malformed, refusalOf, tooLarge } from "../formats/images/refusal.ts";
import {
  BEARER,
  edit,
  editing,
  EDITS,
  file,
  generating,
  GENERATIONS,
  type Headers,
  jsonOf,
  multipartOf,
  VARIATIONS,
  vary,
  varying,
} from "../formats/images/requests.ts";
import { chunked, FORM_TYPE, formBytes, type Part, partOf, wireForm } from "../formats/images/wire-form.ts";
import { requestIdOf } from "../formats/messages/refusal.ts";
import type { HostRequestInit } from "../hosts/host.ts";
import { KEY, type Mount, sharedStage } from "../hosts/stage.ts";
import { streamOf } from "../http/byte-stream.ts";

const PROMPT: Part = partOf("prompt", "A red hat");
const IMAGE: Part = partOf("image", CLEAR, "picture.png");
const WHOLE = formBytes([PROMPT, IMAGE]);

const text = (value: string): Bytes => new TextEncoder().encode(value);

/** A form's bytes in chunks of one size. */
const cut = (bytes: Bytes, size: number): Bytes[] =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.slice(index * size, (index + 1) * size));

const ORDERS: readonly (readonly [name: string, parts: readonly Part[]])[] = [
  ["the prompt first", [PROMPT, IMAGE]],
  ["the picture first", [IMAGE, PROMPT]],
  ["the mask before the picture", [partOf("mask", CLEAR, "m.png"), IMAGE, PROMPT]],
  [
    "fields among the pictures",
    [partOf("image[]", CLEAR, "a"), PROMPT, partOf("image[]", JPEG, "b"), partOf("n", "1")],
  ],
];

const NAMES: readonly (readonly [written: string, name: string])[] = [
  ["日本語.png", "日本語.png"],
  ["naïve %22file%22.png", 'naïve "file".png'],
  ["100%.png", "100%.png"],
  ["../../etc/passwd", "passwd"],
  ["", ""],
];

const BROKEN: readonly (readonly [name: string, init: () => HostRequestInit])[] = [
  ["a form that breaks off in a picture", () => wireForm(WHOLE.slice(0, -60))],
  ["a form that breaks off before its last boundary", () => wireForm(WHOLE.slice(0, -8))],
  ["a form that breaks off in a header", () => wireForm(WHOLE.slice(0, 40))],
  ["a form that breaks off in chunks", () => chunked(cut(WHOLE.slice(0, -60), 16))],
  ["an empty body", () => wireForm(new Uint8Array())],
  ["an empty body in chunks", () => chunked([])],
  ["JSON that calls itself a form", () => wireForm(text('{"prompt": "x"}'))],
  ["a form of another boundary", () => wireForm(WHOLE, { "content-type": "multipart/form-data; boundary=other" })],
  ["a type that names no boundary", () => wireForm(WHOLE, { "content-type": "multipart/form-data" })],
  ["an empty boundary", () => wireForm(WHOLE, { "content-type": "multipart/form-data; boundary=" })],
  [
    "a part without a name",
    () => wireForm(formBytes([PROMPT, IMAGE, { ...PROMPT, header: "content-disposition: form-data" }])),
  ],
];

const WRONG_TYPE: readonly (readonly [name: string, headers: Headers])[] = [
  ["JSON", { "content-type": "application/json" }],
  ["a form of the other kind", { "content-type": "application/x-www-form-urlencoded" }],
  ["another multipart", { "content-type": "multipart/mixed; boundary=form" }],
  ["no type", { "content-type": "" }],
  ["gzip", { "content-encoding": "gzip" }],
];

const notSupported = {
  status: 415,
  type: "invalid_request_error",
  code: "unsupported_media_type",
  param: null,
  message: anyText,
};

const LIMITS = { maxFields: 4, maxFiles: 3, maxFieldBytes: 100, maxFormBytes: 4_000, maxUploadBytes: 400_000 };
const files = (count: number): Part[] => Array.from({ length: count }, () => partOf("image[]", OPAQUE, "a.png"));
const fields = (count: number): Part[] => Array.from({ length: count }, (_, index) => partOf(`field${index}`, "x"));

export function formsSuite(mount: Mount): void {
  const stage = sharedStage(mount);
  const send = (init: HostRequestInit, path = EDITS): Promise<Response> => stage().request(path, init);

  describe("may have", () => {
    it.each(ORDERS)("%s", async (_name, parts) => {
      const response = await send(wireForm(formBytes(parts)));
      requestIdOf(response);
      expect(await response.json()).toMatchObject({ data: [{}] });
      const { prompt, images, mask } = stage().backend.askedForImages;
      expect(prompt).toBe("A red hat");
      const wanted = parts.flatMap(({ name, body }) => (name.startsWith("image") ? [body] : []));
      expect(images.map(({ bytes }) => bytes)).toEqual(wanted);
      expect(mask?.bytes).toEqual(parts.find(({ name }) => name === "mask")?.body);
    });

    it.each(NAMES)("the file name %j", async (written, name) => {
      expect((await send(wireForm(formBytes([PROMPT, partOf("image", CLEAR, written)])))).status).toBe(200);
      // No name and an empty one are the same.
      expect(stage().backend.askedForImages.images[0]?.name ?? "").toBe(name);
    });

    it.each([1, 7, 64, 100_000])("no declared length, in chunks of %i bytes", async (size) => {
      expect((await send(chunked(cut(WHOLE, size)))).status).toBe(200);
      expect(stage().backend.askedForImages.images[0]?.bytes).toEqual(CLEAR);
      expect((await send(chunked(cut(formBytes([IMAGE]), size)), VARIATIONS)).status).toBe(200);
    });

    it("a prompt of many lines, whose ends a browser writes as CRLF", async () => {
      const lines = "a\nb".repeat(333);
      const written = lines.replaceAll("\n", "\r\n");
      expect((await send(wireForm(formBytes([partOf("prompt", written), IMAGE])))).status).toBe(200);
      expect(stage().backend.askedForImages.prompt).toBe(lines);
    });

    it("a prompt in any alphabet, cut within a character", async () => {
      const prompt = "Ein Hut, 赤い帽子 𝄞";
      const bytes = formBytes([partOf("prompt", prompt), IMAGE]);
      expect((await send(chunked(cut(bytes, 1)))).status).toBe(200);
      expect(stage().backend.askedForImages.prompt).toBe(prompt);
    });

    it.each([
      "Multipart/Form-Data; boundary=form",
      'multipart/form-data; boundary="form"',
      "multipart/form-data;boundary=form; charset=utf-8",
      "multipart/form-data; boundary=form;",
      'multipart/form-data; boundary="form" ; ;',
    ])("the type %s", async (type) => {
      expect((await send(wireForm(WHOLE, { "content-type": type }))).status).toBe(200);
    });

    it("text before its first boundary and after its last", async () => {
      expect((await send(wireForm(joined(text("preamble\r\n"), WHOLE, text("epilogue"))))).status).toBe(200);
    });

    it("fields by the names that every object has", async () => {
      const odd = ["__proto__", "constructor", "toString"].map((name) => partOf(name, "x"));
      expect((await send(wireForm(formBytes([PROMPT, IMAGE, ...odd])))).status).toBe(200);
      const body = stage().backend.askedForImages.native?.body as object;
      expect(Object.keys(body)).toEqual(["prompt", "__proto__", "constructor", "toString"]);
    });
  });

  it.each(BROKEN)("refuses %s", async (_name, init) => {
    for (const path of [EDITS, VARIATIONS]) expect(await refusalOf(await send(init(), path))).toEqual(malformed);
  });

  it.each(WRONG_TYPE)("refuses %s", async (_name, headers) => {
    for (const path of [EDITS, VARIATIONS])
      expect(await refusalOf(await send(wireForm(WHOLE, headers), path))).toEqual(notSupported);
  });

  it("refuses a form where JSON is wanted", async () => {
    expect(await refusalOf(await send(wireForm(WHOLE), GENERATIONS))).toEqual(notSupported);
    expect(await refusalOf(await send({ ...jsonOf({}), body: '{"prompt"' }, GENERATIONS))).toEqual(malformed);
  });

  it.each(["GET", "PUT", "DELETE", "PATCH"])("refuses %s and names POST", async (method) => {
    for (const path of [GENERATIONS, EDITS, VARIATIONS]) {
      const response = await send({ method, headers: BEARER }, path);
      expect(response.headers.get("allow")).toBe("POST");
      expect(await refusalOf(response)).toEqual({ ...notSupported, status: 405, code: "method_not_allowed" });
    }
  });

  describe("within a host's limits", () => {
    const limited = sharedStage(mount, { limits: LIMITS });
    const ask = (parts: readonly Part[], chunks = false): Promise<Response> => {
      const bytes = formBytes(parts);
      return limited().request(EDITS, chunks ? chunked(cut(bytes, 700)) : wireForm(bytes));
    };

    it.each([false, true])("may have so many fields, and no more (in chunks: %s)", async (chunks) => {
      expect((await ask([PROMPT, IMAGE, ...fields(3)], chunks)).status).toBe(200);
      expect(await refusalOf(await ask([PROMPT, IMAGE, ...fields(4)], chunks))).toEqual(invalidField("field3"));
    });

    it.each([false, true])("may have so many files, and no more (in chunks: %s)", async (chunks) => {
      expect((await ask([PROMPT, ...files(2), partOf("mask", CLEAR, "m")], chunks)).status).toBe(200);
      expect(await refusalOf(await ask([PROMPT, ...files(3), partOf("mask", CLEAR, "m")], chunks))).toEqual(
        invalidField("mask"),
      );
    });

    it.each([false, true])("may have a field of so many bytes, and no more (in chunks: %s)", async (chunks) => {
      expect((await ask([partOf("prompt", "€".repeat(33) + "x"), IMAGE], chunks)).status).toBe(200);
      expect(await refusalOf(await ask([partOf("prompt", "€".repeat(33) + "xx"), IMAGE], chunks))).toEqual(
        tooLarge("prompt"),
      );
    });

    it.each([false, true])("may be of so many bytes, and no more (in chunks: %s)", async (chunks) => {
      const bare = formBytes([PROMPT, IMAGE, partOf("mask", new Uint8Array(), "m")]).length;
      const mask = (more: number): Part =>
        partOf("mask", joined(CLEAR, new Uint8Array(LIMITS.maxUploadBytes - bare - CLEAR.length + more)), "m");
      expect((await ask([PROMPT, IMAGE, mask(0)], chunks)).status).toBe(200);
      expect(await refusalOf(await ask([PROMPT, IMAGE, mask(1)], chunks))).toEqual(tooLarge(null));
    });

    it("are held to before the body has come", async () => {
      // The first byte makes the client send its headers; the second never comes.
      const body = new ReadableStream<Bytes>({ start: (controller) => controller.enqueue(text("-")) });
      const headers = { ...BEARER, "content-type": FORM_TYPE, "content-length": "400001" };
      const init: HostRequestInit = { method: "POST", headers, body, duplex: "half" };
      expect(await refusalOf(await limited().request(EDITS, init))).toEqual(tooLarge(null));
    });

    it("are held to at the chunk that passes them, and nothing more is read", async () => {
      let pulled = 0;
      const head = text('--form\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n');
      const endless = (function* (): Generator<Bytes> {
        yield head;
        for (; pulled < 1_000; pulled++) yield new Uint8Array(100_000);
      })();
      const headers = { ...BEARER, "content-type": FORM_TYPE };
      const init: HostRequestInit = { method: "POST", headers, body: streamOf(endless), duplex: "half" };
      // A client whose upload is cut short may hear of that before it hears the answer.
      const answer = await limited()
        .request(EDITS, init)
        .then(refusalOf, () => undefined);
      expect([undefined, 413]).toContain(answer?.status);
      expect(pulled).toBeLessThan(1_000);
    });
  });

  it("holds forms that the platform writes to the same rules", async () => {
    expect((await edit(stage(), editing({ image: file(CLEAR, 'naïve "file".png') }))).status).toBe(200);
    expect(stage().backend.askedForImages.images[0]?.name).toBe('naïve "file".png');
    expect((await vary(stage(), varying())).status).toBe(200);
    const twice = { ...generating(), prompt: ["a", "b"], image: file(CLEAR) };
    expect(await refusalOf(await stage().request(EDITS, multipartOf(twice)))).toEqual(
      invalidField("prompt", "is given more than once"),
    );
  });

  it("does not quote what it cannot read", async () => {
    const refusal = await refusalOf(await send(wireForm(text(`secret ${KEY}`))));
    expect(refusal.message).not.toMatch(/secret|stage/);
  });
}
