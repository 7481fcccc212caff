/** Serves a picture at its own address, whole or in part, until its time is over (spec 3: 60 minutes). */

import parseRange from "range-parser";
import { type Answer, jsonAnswer } from "../../http/answer.ts";
import type { Clock } from "../../ports/clock.ts";
import { type ImageStore, isImageId, type StoredImage } from "../../ports/image-store.ts";
import type { OpenAIErrorBody } from "../shared/openai-errors.ts";

/** The answer to a GET or HEAD of a picture: 200, 206, 304, 404, 410 or 416. */
export async function answerFile(request: Request, id: string, store: ImageStore, clock: Clock): Promise<Answer> {
  const image = isImageId(id) ? await store.get(id) : undefined;
  if (!image) return refused(404, "image_not_found", "There is no image at this address.");
  const leftMs = image === "gone" ? 0 : image.expiresAt - clock.now();
  if (image === "gone" || leftMs <= 0)
    return refused(410, "image_expired", "The image was kept for a time and is gone.");
  const headers = { ...headersOf(image), "cache-control": `private, max-age=${Math.floor(leftMs / 1000)}` };
  if (hasAlready(request, headers.etag)) return { status: 304, headers, body: null };
  return inRange(request, image, headers);
}

/** Whether the caller names the picture among those that it has: a list of tags, strong or weak, or any. */
function hasAlready({ headers }: Request, etag: string): boolean {
  const tags = headers.get("if-none-match")?.split(",") ?? [];
  return tags.some((tag) => ["*", etag].includes(tag.trim().replace(/^W\//, "")));
}

const headersOf = ({ id, mediaType, bytes, expiresAt }: StoredImage): Record<string, string> & { etag: string } => ({
  "content-type": mediaType,
  "content-length": String(bytes.length),
  "accept-ranges": "bytes",
  etag: `"${id}"`,
  expires: new Date(expiresAt).toUTCString(),
  // What a browser finds here is a picture, whatever its bytes look like.
  "x-content-type-options": "nosniff",
});

/** One range is served in part; several, or a range of something else, are answered with the whole. */
function inRange(request: Request, { bytes }: StoredImage, headers: Record<string, string>): Answer {
  const wanted = request.headers.get("range");
  const ifRange = request.headers.get("if-range");
  const asked = request.method === "GET" && wanted !== null && (ifRange === null || ifRange === headers["etag"]);
  const ranges = asked ? parseRange(bytes.length, withinLength(wanted, bytes.length)) : -2;
  if (ranges === -1)
    return refused(416, "range_not_satisfiable", "The range lies outside of the image.", {
      "content-range": `bytes */${bytes.length}`,
    });
  const [range, ...others] = ranges === -2 || ranges.type !== "bytes" ? [] : ranges;
  if (!range || others.length > 0) return answer(request, 200, bytes, headers);
  const part = bytes.subarray(range.start, range.end + 1);
  return answer(request, 206, part, {
    ...headers,
    "content-length": String(part.length),
    "content-range": `bytes ${range.start}-${range.end}/${bytes.length}`,
  });
}

/** A suffix that is longer than the whole is the whole, which the parser takes for no range at all. */
const withinLength = (wanted: string, length: number): string =>
  wanted.replace(/^bytes=-(\d+)$/, (_, suffix: string) => `bytes=-${Math.min(Number(suffix), length)}`);

const answer = ({ method }: Request, status: number, bytes: Uint8Array, headers: Record<string, string>): Answer => ({
  status,
  headers,
  body: method === "HEAD" ? null : bytes,
});

function refused(status: number, code: string, message: string, headers: Record<string, string> = {}): Answer {
  const body: OpenAIErrorBody = { error: { message, type: "invalid_request_error", param: null, code } };
  return jsonAnswer(status, body, { "cache-control": "no-store", ...headers });
}
