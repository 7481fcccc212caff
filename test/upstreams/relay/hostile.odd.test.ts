/** Upstreams that answer rightly in an odd way: each caller gets the whole answer, and pays what the upstream has counted. */

import type { Socket } from "node:net";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { streamsOf } from "../../drivers/driver.ts";
import { type Answering, expectAnswered } from "./hostile.expect.ts";
import { pairOf, pairs, type Speaker, typeOf } from "./hostile.formats.ts";
import { met, type Setting } from "./hostile.stage.ts";
import { endless, head, STREAM_HEAD, whole } from "./raw-upstream.ts";

const bodyOf = ({ frames, body }: Speaker, stream: boolean): string =>
  stream ? frames.join("") : JSON.stringify(body);

type Headers = Readonly<Record<string, string>>;

/** The whole answer with a changed body. */
const said =
  (change: (body: string) => string | Buffer, more: Headers = {}, before = ""): Answering =>
  (upstream, stream) =>
  (socket) =>
    socket.end(
      Buffer.concat([Buffer.from(before), whole(200, typeOf(stream), change(bodyOf(upstream, stream)), more)]),
    );

const asItIs = (body: string): string => body;

/** The answer behind a head of its own, up to the connection's end. */
const behind =
  (headOf: (stream: boolean) => string): Answering =>
  (upstream, stream) =>
  (socket) =>
    socket.end(headOf(stream) + bodyOf(upstream, stream));

/** Writes each byte by itself. */
const cutEverywhere: Answering = (upstream, stream) => async (socket: Socket) => {
  socket.setNoDelay(true);
  const text = bodyOf(upstream, stream).replaceAll("\n", "\r\n");
  const bytes = whole(200, typeOf(stream), text, { connection: "close" });
  for (const byte of bytes) await new Promise((written) => socket.write(Buffer.of(byte), written));
  socket.end();
};

interface Case {
  readonly how: string;
  readonly answer: Answering;
  /** The forms of the answer. Default: all of them. */
  readonly only?: "streams";
  readonly setting?: Setting;
}

const streams = (how: string, answer: Answering, setting?: Setting): Case => ({
  how,
  answer,
  only: "streams",
  ...(setting && { setting }),
});

const CASES: readonly Case[] = [
  { how: "cut at every byte, with CRLF", answer: cutEverywhere },
  streams(
    "with CR alone",
    said((body) => body.replaceAll("\n", "\r")),
  ),
  { how: "behind a byte order mark", answer: said((body) => `\uFEFF${body}`) },
  streams(
    "between comments, ids and unknown fields",
    said((body) => `: hello\nid: 7\nretry: 1\nwhat: ever\n\n${body.replaceAll("\n\n", "\n\n: still here\n\n")}`),
  ),
  {
    how: "in gzip",
    answer: said((body) => gzipSync(body), { "content-encoding": "gzip" }),
  },
  {
    how: "in deflate",
    answer: said((body) => deflateSync(body), { "content-encoding": "Deflate" }),
  },
  {
    how: "in br",
    answer: said((body) => brotliCompressSync(body), { "content-encoding": "br" }),
  },
  {
    how: "behind 103 and 102",
    answer: said(asItIs, {}, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"),
  },
  {
    how: "by HTTP/1.0, without a length or a type",
    answer: behind(() => "HTTP/1.0 200 OK\r\n\r\n"),
  },
  {
    how: "in chunks",
    answer: (upstream, stream) => (socket) => {
      const bytes = Buffer.from(bodyOf(upstream, stream));
      socket.write(head(200, { "content-type": typeOf(stream).toUpperCase(), "transfer-encoding": "chunked" }));
      for (let at = 0; at < bytes.length; at += 7) {
        const piece = bytes.subarray(at, at + 7);
        socket.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")]));
      }
      socket.end("0\r\nx-trailer: 1\r\n\r\n");
    },
  },
  {
    how: "with headers that are no Latin-1",
    answer: said(asItIs, { "x-region": "日本語 🌍" }),
  },
  streams(
    "and breaks its connection off behind the end",
    (upstream, stream) => (socket) =>
      socket.end(head(200, { "content-type": typeOf(stream), "content-length": 99_999 }) + bodyOf(upstream, stream)),
  ),
  streams("and does not end its chunks", (upstream, stream) => (socket) => {
    const bytes = Buffer.from(bodyOf(upstream, stream));
    socket.write(head(200, { "content-type": typeOf(stream), "transfer-encoding": "chunked" }));
    socket.end(Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]));
  }),
  streams(
    "and leaves its stream open",
    (upstream, stream) => (socket) =>
      socket.write(head(200, { "content-type": typeOf(stream), connection: "close" }) + bodyOf(upstream, stream)),
    { isSilent: true },
  ),
  streams(
    "and comments for ever behind the end",
    (upstream) => endless(STREAM_HEAD + bodyOf(upstream, true), ": still here\n\n"),
    { isSilent: true },
  ),
];

describe.each(pairs)("to a caller of $name", (pair) => {
  it.each(CASES)("an upstream that answers $how is heard to its end", async ({ answer, only, setting }) => {
    expect.hasAssertions();
    for (const form of pair.caller.forms)
      if (form.stream || only !== "streams")
        await expectAnswered(pair, form, await met(pair, form, answer(pair.upstream, form.stream), setting));
  });
});

it("an upstream that draws for ever is left behind the last picture that was asked for", async () => {
  const pair = pairOf("images", "images");
  const { frames } = pair.upstream;
  expect.hasAssertions();
  for (const form of streamsOf(pair.caller)) {
    const answer = endless(STREAM_HEAD + frames.join(""), frames[0] ?? "");
    await expectAnswered(pair, form, await met(pair, form, answer, { isSilent: true }));
  }
});
