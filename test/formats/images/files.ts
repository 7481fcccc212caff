/** Which files are taken, by their own bytes, and which are refused (spec 2.2, 2.3, 8). */

import { describe, expect, it } from "vitest";
import { type Mount, sharedStage } from "../../hosts/stage.ts";
import { FILES, LARGE_FILES, REFUSED_FILES, TOO_LARGE_FILES } from "./files.cases.ts";
import { CLEAR, JPEG, OPAQUE, padded, png } from "./pictures.ts";
import { invalidField, refusalOf, tooLarge } from "./refusal.ts";
import { edit, EDITS, editing, file, multipartOf, VARIATIONS, varying } from "./requests.ts";

const MAX_PIXELS = 64;
const MAX_FILE_BYTES = 2_000;

export function filesSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  it.for([...FILES, ...LARGE_FILES])("takes %s", async ([_name, path, fields, images, mask]) => {
    const sent = fields();
    const response = await stage().request(path, multipartOf(sent));
    expect(await response.json()).toMatchObject({ data: expect.any(Array) });
    const { askedForImages: request } = stage().backend;
    expect(request.images.map(({ bytes: _bytes, ...image }) => image)).toEqual(images);
    expect(request.mask && { ...request.mask, bytes: undefined }).toEqual(mask);
    // Not one byte is changed on the way to the backend.
    const files = Object.values(sent).flatMap((value) => value ?? []);
    const bytes = [...request.images, ...(request.mask ? [request.mask] : [])].map((image) => image.bytes);
    const expected = await Promise.all(files.flatMap((value) => (typeof value === "string" ? [] : value.bytes())));
    expect(bytes.map((each, index) => Buffer.compare(each, expected[index] ?? each))).toEqual(bytes.map(() => 0));
    expect(bytes).toHaveLength(expected.length);
  });

  it.for(REFUSED_FILES)("refuses %s", async ([_name, path, fields, param, message]) => {
    const before = stage().backend.receivedForImages.length;
    expect(await refusalOf(await stage().request(path, multipartOf(fields())))).toEqual(invalidField(param, message));
    expect(stage().backend.receivedForImages).toHaveLength(before);
  });

  it.for(TOO_LARGE_FILES)("refuses %s", async ([_name, path, fields, param, message]) => {
    const before = stage().backend.receivedForImages.length;
    expect(await refusalOf(await stage().request(path, multipartOf(fields())))).toEqual(tooLarge(param, message));
    expect(stage().backend.receivedForImages).toHaveLength(before);
  });

  describe("within a host's limits", () => {
    const limited = sharedStage(mount, { limits: { maxImagePixels: MAX_PIXELS, maxImageBytes: MAX_FILE_BYTES } });

    const narrow = sharedStage(mount, { limits: { maxPngPixels: 2 * MAX_PIXELS } });

    it("a file may have as many pixels as they allow, and no more", async () => {
      expect((await edit(limited(), editing({ image: file(png({ width: 8, last: [0, 0, 0, 0] })) }))).status).toBe(200);
      const larger = editing({ image: file(png({ width: 9, last: [0, 0, 0, 0] })) });
      expect(await refusalOf(await edit(limited(), larger))).toEqual(invalidField("image"));
      const mask = editing({ image: file(OPAQUE), mask: file(png({ width: 65, height: 1 })) });
      expect(await refusalOf(await edit(limited(), mask))).toEqual(invalidField("mask"));
      const second = [file(OPAQUE), file(png({ width: 13, height: 5 }))];
      expect(await refusalOf(await edit(limited(), editing({ image: second })))).toEqual(invalidField("image.1"));
    });

    const askNarrow = (image: File[], mask?: File): Promise<Response> =>
      edit(narrow(), editing({ model: "image-model-multi", image, ...(mask && { mask }) }));

    it("the PNGs of a form may have as many pixels together as they allow, its mask among them", async () => {
      const clear = file(CLEAR);
      const jpegs = [file(JPEG), file(JPEG), file(JPEG)];
      expect((await askNarrow([clear, ...jpegs, clear])).status).toBe(200);
      expect((await askNarrow([clear, ...jpegs], clear)).status).toBe(200);
      expect(await refusalOf(await askNarrow([clear, ...jpegs, clear, file(png({ width: 1 }))]))).toEqual(
        invalidField("image.5", "The PNGs of a form may have 128 pixels together, and have more up to this one."),
      );
      expect(await refusalOf(await askNarrow([clear, clear], clear))).toEqual(invalidField("mask"));
    });

    it.each([
      [EDITS, editing],
      [VARIATIONS, varying],
    ])("a file of %s may have as many bytes as they allow, and no more", async (path, having) => {
      const ask = (length: number): Promise<Response> =>
        limited().request(path, multipartOf(having({ image: file(padded(CLEAR, length)) })));
      expect((await ask(MAX_FILE_BYTES)).status).toBe(200);
      expect(await refusalOf(await ask(MAX_FILE_BYTES + 1))).toEqual(tooLarge("image"));
    });
  });
}
