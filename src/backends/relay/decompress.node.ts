/** Decompresses the answer of an upstream that compresses although it was asked not to. */

import { Readable, type Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { GatewayError } from "../../errors.ts";
import type { UpstreamResponse } from "./transport.ts";

const DECODERS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** The response with its body decompressed. Where its coding is not known, reading it throws `backend_failed`. */
export function decompressed(response: UpstreamResponse): UpstreamResponse {
  const coding = (response.header("content-encoding") ?? "identity").trim().toLowerCase();
  if (coding === "identity" || coding === "") return response;
  const decode = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined;
  return new DecodedResponse(response, decode ? decompressing(response, decode()) : unknown(coding));
}

function decompressing(response: UpstreamResponse, decoder: Transform): AsyncIterator<Uint8Array> {
  const compressed = Readable.from(piecesOf(response), { objectMode: false });
  // Heard here as well, because nobody may read any more when it fails.
  decoder.on("error", () => {});
  compressed.on("error", (error) => decoder.destroy(error));
  return compressed.pipe(decoder)[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
}

const unknown = (coding: string): AsyncIterator<Uint8Array> => ({
  next: () =>
    Promise.reject(
      new GatewayError("backend_failed", "The model backend failed.", {
        port: "model-backend",
        cause: new Error(`The upstream's answer is coded as ${JSON.stringify(coding.slice(0, 64))}.`),
      }),
    ),
});

class DecodedResponse implements UpstreamResponse {
  readonly status: number;
  readonly #response: UpstreamResponse;
  readonly #pieces: AsyncIterator<Uint8Array>;

  constructor(response: UpstreamResponse, pieces: AsyncIterator<Uint8Array>) {
    this.status = response.status;
    this.#response = response;
    this.#pieces = pieces;
  }

  header(name: string): string | undefined {
    return this.#response.header(name);
  }

  headers(): Headers {
    return this.#response.headers();
  }

  async read(): Promise<Uint8Array | undefined> {
    const step = await this.#pieces.next();
    return step.done ? undefined : step.value;
  }
}

async function* piecesOf(response: UpstreamResponse): AsyncGenerator<Uint8Array> {
  for (let piece = await response.read(); piece; piece = await response.read()) yield piece;
}
