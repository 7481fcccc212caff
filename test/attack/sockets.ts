/** Attacks over raw sockets on every Node host: broken heads and bodies, slow, half and smuggled requests, and hang-ups. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type CallRecord,
  type GatewayGauges,
  type GatewayOptions,
  memoryQuotaStore,
  memoryReplayStore,
} from "../../src/index.ts";
import type { RunningHost, TestHost } from "../hosts/host.ts";
import { hostsOnNode } from "../hosts/index.ts";
import type { Random } from "../trial/random.ts";
import type { Attack, Run } from "./frame.ts";
import { METERED, RICH, answering } from "./stage.ts";

export const sockets: Attack = {
  name: "sockets",
  does: "Opens raw sockets to each host on Node: broken, slow, partial and smuggled requests, and disconnects",
  counts: { full: 12_000, short: 80 },
  async open(run) {
    const stages = await Promise.all(hostsOnNode.map((host) => openHost(host)));
    return {
      isMeasured: true,
      attempt: async (random) => attempt(run, random.pick(stages as [Served, ...Served[]]), random),
      close: async () => {
        for (const stage of stages) await close(run, stage);
      },
    };
  },
};

/** A gateway on a listening host. */
export interface Served {
  readonly host: RunningHost;
  readonly port: number;
  readonly prefix: string;
  readonly quotas: ReturnType<typeof memoryQuotaStore>;
  readonly records: CallRecord[];
  readonly gauges: () => GatewayGauges | undefined;
}

export async function openHost(
  { mounts, ...testHost }: TestHost,
  options: Partial<GatewayOptions> = {},
): Promise<Served> {
  const prefix = mounts.at(-1) ?? "";
  const quotas = memoryQuotaStore([
    { apiKey: RICH, id: RICH },
    { apiKey: METERED, id: METERED, granted: 50_000_000 },
  ]);
  const records: CallRecord[] = [];
  let gauges: GatewayGauges | undefined;
  const host = await testHost.start(
    {
      backend: answering,
      quotas,
      replayStore: memoryReplayStore(),
      onCall: (record) => void records.push(record),
      onFailure: () => {},
      observer: { watchGateway: (shown) => void (gauges = shown), begin: () => undefined },
      ...options,
    },
    prefix,
  );
  return { host, prefix, quotas, records, port: Number(new URL(host.url ?? "").port), gauges: () => gauges };
}

/** The script of a client: bytes in pieces, and a way to end the connection. */
interface Spoken {
  readonly pieces: readonly Buffer[];
  /** The most answers of the gateway to these bytes. */
  readonly asks: number;
  readonly ends: "waits" | "closes" | "resets" | "half-closes";
}

async function attempt(run: Run, served: Served, random: Random): Promise<void> {
  const spoken = spokenBy(random, served.prefix);
  const before = served.records.length;
  const socket = connect(served.port, "127.0.0.1");
  let said = "";
  socket.setEncoding("latin1").on("data", (text: string) => (said = (said + text).slice(-MOST_READ)));
  socket.on("error", () => {});
  await once(socket, "connect");
  for (const piece of spoken.pieces) {
    if (socket.destroyed) break;
    await new Promise<void>((resolve) => socket.write(piece, () => resolve()));
    await nextTurn();
  }
  await ended(socket, spoken);
  const about = `${Buffer.concat(spoken.pieces).toString("latin1").slice(0, 400)} → ${said.slice(0, 300)}`;
  judgeSaid(run, said, about);
  await answersOthers(run, served, about);
  const calls = served.records.length - before - 1;
  run.check(calls <= spoken.asks, "More calls are made than were asked for", `${calls} of ${spoken.asks} ${about}`);
}

const MOST_READ = 20_000;

/** Hangs up, or waits until the host answers or hangs up. */
async function ended(socket: Socket, { ends }: Spoken): Promise<void> {
  if (ends === "closes") socket.destroy();
  else if (ends === "resets") socket.resetAndDestroy();
  else socket.end();
  // The host answers or closes a half-closed connection, because an incomplete request will never complete.
  for (let turn = 0; turn < 50 && !socket.destroyed; turn++) await nextTurn();
  socket.destroy();
}

/** Checks that no answer shows internals of the host or a failure of the gateway. */
export function judgeSaid(run: Run, said: string, about: string): void {
  for (const [, status] of said.matchAll(/^HTTP\/1\.1 (\d{3}) /gm))
    run.check(status !== "500", "A client's bytes are answered with 500", about);
  run.check(!/\bat .*:\d+:\d+|node_modules/.test(said), "An answer shows a stack", about);
}

/** Checks that an ordinary call of another client is served right afterwards. */
async function answersOthers(run: Run, { host, prefix }: Served, about: string): Promise<void> {
  const response = await host.request(`${prefix}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": RICH, "compat-version": "2026-10-21" },
    body: JSON.stringify(MESSAGE),
  });
  const text = await response.text();
  run.check(
    response.status === 200,
    "An ordinary call is not served any more",
    `${response.status} ${text} after ${about}`,
  );
}

/** The most looks at whether a gateway has come to rest: 10 seconds and more. */
const MOST_LOOKS = 2_000;

export async function close(run: Run, { host, quotas, gauges }: Served): Promise<void> {
  const isAtRest = (): boolean => gauges()?.calls === 0 && gauges()?.bodyBytes === 0;
  // A WebSocket whose message had no room is ended after a second.
  for (let look = 0; look < MOST_LOOKS && !isAtRest(); look++) await new Promise((resolve) => setTimeout(resolve, 5));
  run.check(gauges()?.calls === 0, "A call is still in flight when all connections are gone");
  run.check(gauges()?.bodyBytes === 0, "A body is left when all connections are gone");
  for (const key of [RICH, METERED])
    run.check(quotas.report(key)?.liveHolds === 0, "A hold is left when all connections are gone");
  await host.gateway.close();
  await host.stop();
}

const MESSAGE = { model: "model-a", max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };

const HOLES: [string, ...string[]] = [
  "\u0000",
  "\r",
  "\n",
  "\r\n\r\n",
  "\t",
  " ",
  ":",
  "\u00ff",
  "a".repeat(70_000),
  "x: y\r\n",
  " folded\r\n",
];

const HEADERS: [string, ...string[]] = [
  "transfer-encoding: chunked",
  "transfer-encoding: identity, chunked",
  "Transfer-Encoding : chunked",
  "transfer-encoding:\u000bchunked",
  "content-length: 5",
  "content-length: +5",
  "content-length: 0x5",
  "content-length: 5, 5",
  "content-length: 99999999999999999999",
  "content-length: -1",
  "expect: 100-continue",
  "expect: 200-ok",
  "connection: upgrade\r\nupgrade: websocket",
  "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk",
  "connection: close, keep-alive",
  "connection: content-length",
  "te: trailers",
  "trailer: content-length",
  "host: ",
  "host: evil.example\r\nhost: other.example",
  "host: a@b:c/d?e#f",
  "content-encoding: gzip",
  "accept-encoding: *;q=0",
  "proxy-connection: close",
  "x-forwarded-for: 1\r\nforwarded: for=2",
  "cookie: a=b; a=c",
  `x-long: ${"y".repeat(7_000)}`,
  ...Array.from({ length: 3 }, (_, index) =>
    Array.from({ length: 60 * (index + 1) }, (_, number) => `x-${number}: ${number}`).join("\r\n"),
  ),
];

function spokenBy(random: Random, prefix: string): Spoken {
  const count = random.chance(0.25) ? random.int(2, 4) : 1;
  const requests = Array.from({ length: count }, () => requestBy(random, prefix));
  let bytes = Buffer.from(requests.join(""), "latin1");
  if (random.chance(0.25)) {
    const at = random.int(0, bytes.length);
    bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(random.pick(HOLES), "latin1"), bytes.subarray(at)]);
  }
  if (random.chance(0.15)) bytes = bytes.subarray(0, random.int(1, bytes.length));
  const ends = random.pick(["waits", "waits", "closes", "resets", "half-closes"] as const);
  // The host must not answer a request inside the body of another.
  return { pieces: cut(bytes, random), asks: count + hiddenIn(requests), ends };
}

/** Counts the requests behind the end of another body: these are legitimate. */
const hiddenIn = (requests: readonly string[]): number =>
  requests.some((request) => request.includes(AMBIGUOUS)) ? 1 : 0;

const AMBIGUOUS = "x-hidden: 1";

function cut(bytes: Buffer, random: Random): Buffer[] {
  const cuts = Array.from({ length: random.chance(0.5) ? random.int(1, 12) : 0 }, () =>
    random.int(0, bytes.length),
  ).toSorted((one, other) => one - other);
  return [...cuts, bytes.length]
    .map((end, index) => bytes.subarray(cuts[index - 1] ?? 0, end))
    .filter(({ length }) => length > 0);
}

const PATHS: [string, ...string[]] = [
  "/v1/messages",
  "/v1/messages",
  "/v1/chat/completions",
  "/v1beta/models/model-a:streamGenerateContent?alt=sse",
  "/v1/images/generations",
  "/v1/models",
  "/api/usage/token",
  "/v1/messages?\u00e9",
  "/v1/../v1/messages",
  "//v1/messages",
  "/%",
  "/v1/images/files/%2e%2e%2fetc",
];

function requestBy(random: Random, prefix: string): string {
  const path = random.chance(0.05)
    ? random.pick(["*", "http://evil.example/ai/v1/messages", "evil.example:443", "?", ""])
    : prefix + random.pick(PATHS);
  const method = random.chance(0.85)
    ? "POST"
    : random.pick(["GET", "HEAD", "OPTIONS", "PUT", "CONNECT", "TRACE", "post", "PRI", "M-SEARCH"]);
  const version = random.chance(0.95)
    ? "HTTP/1.1"
    : random.pick(["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "", "ICY"]);
  const stream = random.chance(0.4);
  const body = JSON.stringify({ ...MESSAGE, stream, prompt: "A hat", contents: [{ parts: [{ text: "Hi" }] }] });
  const isChunked = random.chance(0.25);
  const length = random.chance(0.85) ? body.length : body.length + random.int(-20, 20);
  const headers = [
    `host: ${random.chance(0.9) ? "127.0.0.1" : random.pick(["h:99999", "[::1", "a b", ""])}`,
    `x-api-key: ${random.pick([RICH, METERED, "sk-nobody", ""])}`,
    `authorization: ${random.pick([`Bearer ${RICH}`, "Bearer", "Basic \u00ff", ""])}`,
    "compat-version: 2026-10-21",
    "content-type: application/json",
    ...(random.chance(0.1) ? [`idempotency-key: ${random.int(0, 3)}`] : []),
    ...(random.chance(0.3) ? [random.pick(HEADERS)] : []),
    ...(random.chance(0.95) ? [isChunked ? "transfer-encoding: chunked" : `content-length: ${length}`] : []),
  ];
  const sent = isChunked ? chunked(body, random) : body;
  return `${method} ${path} ${version}\r\n${headers.join("\r\n")}\r\n\r\n${sent}`;
}

function chunked(body: string, random: Random): string {
  const half = random.int(1, body.length - 1);
  const extension = random.chance(0.2) ? random.pick([";a=b", `;${"x".repeat(20_000)}`, ' ;a="\r\n"', ";\u0000"]) : "";
  const size = (text: string): string =>
    random.chance(0.93)
      ? text.length.toString(16)
      : random.pick(["-1", "ffffffffffffffff", "0x5", "", "g", "00000000000000000005"]);
  const [first, second] = [body.slice(0, half), body.slice(half)];
  const end = random.chance(0.8)
    ? "0\r\n\r\n"
    : random.pick([
        "0\r\nx-trailer: 1\r\n\r\n",
        "0\r\ncontent-length: 1\r\n\r\n",
        "0\r\n",
        "",
        `0\r\n\r\nGET /v1/models HTTP/1.1\r\n${AMBIGUOUS}\r\n\r\n`,
      ]);
  return `${size(first)}${extension}\r\n${first}\r\n${size(second)}\r\n${second}\r\n${end}`;
}
