/** Attacks over WebSockets on every Node host: broken, endless and flooding frames, while another tenant's turn runs beside them. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { deflateRawSync } from "node:zlib";
import { type ChatEvent, type ModelBackend, memoryResponseStore } from "../../src/index.ts";
import { openSocket, responseOf, type SocketClient, textOf } from "../drivers/socket.ts";
import { hostsOnNode } from "../hosts/index.ts";
import type { Random } from "../trial/random.ts";
import type { Attack, Run } from "./frame.ts";
import { close, judgeSaid, openHost, type Served } from "./sockets.ts";
import { METERED, RICH } from "./stage.ts";

export const frames: Attack = {
  name: "frames",
  does: "Sends hostile frames over WebSockets of each host on Node, beside a running turn of another tenant",
  counts: { full: 12_000, short: 60 },
  async open(run) {
    const stages = await Promise.all(hostsOnNode.map(async (host) => new Stage(await openHost(host, OPTIONS))));
    await Promise.all(stages.map((stage) => stage.open()));
    return {
      isMeasured: true,
      attempt: async (random, index) => attempt(run, random.pick(stages as [Stage, ...Stage[]]), random, index),
      close: async () => {
        for (const stage of stages) {
          await stage.victim[Symbol.asyncDispose]();
          await close(run, stage.served);
        }
      },
    };
  },
};

const MAX_MESSAGE_BYTES = 200_000;

/** Says all that it was told, in pieces, with other work between them. A text of another tenant would show in an answer. */
const backend: ModelBackend = {
  async *chat({ messages }): AsyncGenerator<ChatEvent | string> {
    const told = messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "text" ? part.text : [])));
    for (const text of told) {
      yield text;
      for (let turn = 0; turn < 5; turn++) await nextTurn();
    }
    yield { type: "finish", reason: "stop", usage: { inputTokens: 1, outputTokens: told.length } };
  },
};

/** Few places, so that one that is not given back is missed soon. */
const OPTIONS = {
  backend,
  responseStore: memoryResponseStore(),
  limits: {
    maxJsonBytes: MAX_MESSAGE_BYTES,
    maxBodyBytesInFlight: 3_000_000,
    maxBodyBytesPerKey: 1_500_000,
    maxSockets: 8,
    maxSocketsPerKey: 4,
  },
} as const;

/** A host with the connection of a tenant who is not attacked. */
class Stage {
  readonly served: Served;
  readonly path: string;
  victim!: SocketClient;
  /** The last response of the victim. */
  responseId = "";

  constructor(served: Served) {
    this.served = served;
    this.path = `${served.prefix}/v1/responses`;
  }

  async open(): Promise<void> {
    this.victim = await openSocket(this.served.host.url ?? "", { authorization: `Bearer ${RICH}` }, this.path);
  }
}

async function attempt(run: Run, stage: Stage, random: Random, index: number): Promise<void> {
  const name = random.pick(Object.keys(FRAMES) as [string, ...string[]]);
  const sent = Buffer.concat([
    ...(random.chance(0.4) ? [frame(0x81, create(`A running turn ${index}.`))] : []),
    FRAMES[name]?.(random, stage) ?? Buffer.alloc(0),
    ...(random.chance(0.3) ? [frame(0x81, create("One more."))] : []),
  ]);
  const secret = `secret-${index}-${random.int(0, 1e9)}`;
  const inputs = [secret, ...Array.from({ length: 8 }, (_, turn) => `${turn}`)];
  const input = inputs.map((content) => ({ role: "user", content }));
  // Each turn goes on from the last one by the memory of the connection, which no attack may take.
  stage.victim.send({ type: "response.create", model: "m", input, store: random.chance(0.5) });
  const { socket, said } = await upgraded(run, stage);
  const reads = random.chance(0.7);
  if (!reads) socket.pause();
  for (const piece of cut(sent, random)) {
    if (socket.destroyed) break;
    // A client whose connection ends drains nothing.
    if (!socket.write(piece) && reads) await Promise.race([once(socket, "drain"), once(socket, "close")]);
    await nextTurn();
  }
  const events = await stage.victim.rest();
  const about = `${name}: ${sent.subarray(0, 60).toString("hex")} → ${said().slice(0, 300)}`;
  run.check(textOf(events) === inputs.join(""), "A turn of another tenant is not whole", about);
  for (let turn = 0; turn < 20 && !socket.destroyed; turn++) await nextTurn();
  if (random.chance(0.5)) socket.resetAndDestroy();
  else socket.destroy();
  stage.responseId = responseOf(events).id;
  judgeSaid(run, said(), about);
  run.check(!/secret-\d/.test(said()), "An answer shows a text of another tenant", about);
}

/** Opens a WebSocket for the attacker. A place that is not given back is a finding. */
async function upgraded(run: Run, stage: Stage): Promise<{ socket: Socket; said: () => string }> {
  for (let tries = 0; ; tries++) {
    const socket = connect(stage.served.port, "127.0.0.1");
    let text = "";
    socket
      .on("error", () => {})
      .on("data", (chunk: Buffer) => (text = (text + chunk.toString("latin1")).slice(-50_000)));
    socket.write(
      [
        `GET ${stage.path} HTTP/1.1`,
        "host: 127.0.0.1",
        `authorization: Bearer ${METERED}`,
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-extensions: permessage-deflate; client_max_window_bits",
        "",
        "",
      ].join("\r\n"),
    );
    await Promise.race([once(socket, "data"), once(socket, "close")]);
    if (text.startsWith("HTTP/1.1 101 ")) {
      run.check(!text.includes("permessage-deflate"), "A WebSocket is compressed");
      return { socket, said: () => text };
    }
    socket.destroy();
    if (tries === MAX_TRIES) throw new Error(`There is no place for a WebSocket: ${text.slice(0, 200)}`);
    await new Promise((resolve) => void setTimeout(resolve, 10));
  }
}

/** The most attempts to open a WebSocket: 5 seconds and more. */
const MAX_TRIES = 500;

const create = (input: string, more: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ type: "response.create", model: "m", input, store: false, ...more }));

interface Shape {
  /** The length that the header says. */
  readonly length?: number | bigint;
  readonly isMasked?: boolean;
}

/** Writes a frame, whose mask changes nothing. */
function frame(first: number, payload: Uint8Array, { length = payload.length, isMasked = true }: Shape = {}): Buffer {
  const mask = isMasked ? 0x80 : 0;
  const head = Buffer.alloc(10);
  head[0] = first;
  head[1] = mask | (length < 126 ? Number(length) : length < 65_536 ? 126 : 127);
  if (length >= 65_536) head.writeBigUInt64BE(BigInt(length), 2);
  else head.writeUInt16BE(Number(length), 2);
  const headBytes = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  return Buffer.concat([head.subarray(0, headBytes), Buffer.alloc(isMasked ? 4 : 0), payload]);
}

const times = (count: number, one: Buffer): Buffer => Buffer.concat(Array.from({ length: count }, () => one));
const closing = (code: number, reason: Uint8Array = Buffer.alloc(0)): Buffer => {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(code);
  return frame(0x88, Buffer.concat([head, reason]));
};

/** Makes hostile frames, by their names. */
const FRAMES: Readonly<Record<string, (random: Random, stage: Stage) => Buffer>> = {
  "fragments without an end": (random) =>
    Buffer.concat([frame(0x01, Buffer.from("{")), times(random.int(1, 2_000), frame(0x00, Buffer.from(" ")))]),
  "more fragments than a message may have": (random) =>
    random.chance(0.1)
      ? Buffer.concat([frame(0x01, Buffer.from("{")), times(17_000, frame(0x00, Buffer.alloc(0)))])
      : frame(0x00, Buffer.alloc(1)),
  "a fragment inside another message": () => times(2, frame(0x01, Buffer.from("{"))),
  "a compressed bomb": () => frame(0xc1, deflateRawSync(Buffer.alloc(5_000_000))),
  "reserved bits": (random) => frame(0x81 | (random.int(1, 7) << 4), create("?")),
  "a reserved opcode": (random) => frame(0x80 | random.pick([3, 4, 5, 6, 7, 11, 12, 13, 14, 15]), create("?")),
  "no mask": () => frame(0x81, create("?"), { isMasked: false }),
  "invalid UTF-8": (random) =>
    frame(random.pick([0x81, 0x82]), Buffer.from([0x22, 0xff, 0xc0, 0xed, 0xa0, 0x80, 0x22])),
  "a character that ends with its fragment": () =>
    Buffer.concat([frame(0x01, Buffer.from([0x22, 0xe2, 0x82])), frame(0x80, Buffer.from([0x22]))]),
  "a flood of pings": (random) => times(random.int(1, 3_000), frame(0x89, Buffer.alloc(random.int(0, 125)))),
  "a flood of pongs": (random) => times(random.int(1, 3_000), frame(0x8a, Buffer.alloc(125))),
  "a long ping": () => frame(0x89, Buffer.alloc(126)),
  "a ping in fragments": () => frame(0x09, Buffer.alloc(4)),
  "a declared length that never comes": (random) =>
    frame(0x81, Buffer.alloc(10), { length: random.pick([2n ** 63n, 2n ** 53n, 2n ** 40n, 150_000n, 20n]) }),
  "a message that is too large": (random) =>
    frame(0x81, Buffer.alloc(MAX_MESSAGE_BYTES + random.int(1, 500_000), 0x20)),
  "a message that is as large as may be": (random) =>
    frame(0x81, create("x".repeat(MAX_MESSAGE_BYTES - random.int(100, 2_000)))),
  "a flood of messages": (random) => times(random.int(2, 60), frame(0x81, create("Flood."))),
  "a flood of large messages": (random) => times(random.int(2, 20), frame(0x81, create("y".repeat(150_000)))),
  "cancellations of nothing": (random) =>
    times(random.int(1, 100), frame(0x81, Buffer.from('{"type":"response.cancel"}'))),
  "the response of another tenant": (random, { responseId }) =>
    frame(0x81, create("Go on.", { previous_response_id: responseId, generate: random.chance(0.5) })),
  "deep JSON": (random) =>
    frame(0x81, Buffer.from(`{"type":"response.create","input":${"[".repeat(random.int(1, 50_000))}`)),
  "names of prototypes": () =>
    frame(0x81, Buffer.from('{"__proto__":{"type":"response.create"},"constructor":1,"type":"toString"}')),
  "a wrong close": (random) => closing(random.pick([0, 999, 1004, 1005, 1006, 1015, 5_000]), Buffer.from([0xff])),
  "a close of one byte": () => frame(0x88, Buffer.alloc(1)),
  "messages behind a close": () => Buffer.concat([closing(1_000), times(5, frame(0x81, create("Behind.")))]),
  noise: (random) => Buffer.from(Array.from({ length: random.int(1, 2_000) }, () => random.int(0, 255))),
};

/** Cuts bytes into some pieces. */
function cut(bytes: Buffer, random: Random): Buffer[] {
  const cuts = Array.from({ length: random.int(0, 8) }, () => random.int(0, bytes.length)).toSorted(
    (one, other) => one - other,
  );
  return [...cuts, bytes.length].map((end, index) => bytes.subarray(cuts[index - 1] ?? 0, end));
}
