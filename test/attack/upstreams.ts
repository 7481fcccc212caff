/** Attacks by upstreams of a relay: broken heads, frames, bodies and connections, huge answers, and echoes of the key. */

import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { asking, type Form } from "../drivers/driver.ts";
import type { Random } from "../trial/random.ts";
import { type Pair, pairs, PROMPT, type Speaker, typeOf } from "../upstreams/relay/hostile.formats.ts";
import { head, rawUpstream, type RawAnswer, type RawUpstream } from "../upstreams/relay/raw-upstream.ts";
import { type Attack, type Run, aloneMs } from "./frame.ts";
import { judge, RICH, Stage } from "./stage.ts";

export const upstreams: Attack = {
  name: "upstreams",
  does: "Runs hostile upstreams: changed headers, frames, bodies and connections, huge answers, echoed keys",
  counts: { full: 8_000, short: 60 },
  open: (run) => ({
    async attempt(random, index) {
      if (index % HUGE_EACH === 0) await huge(run, index / HUGE_EACH, random);
      else await changed(run, random);
    },
  }),
};

/** The interval of attempts with a valid but huge answer. */
const HUGE_EACH = 5;

const UPSTREAM_KEY = "sk-Upstream-0123456789abcdef";
/** Matches the key in any case, whole or cut at either end. */
const ECHOED = /upstream-01234567|0123456789abcdef/i;

/** Returns the key in spellings that an upstream may echo. */
const echo = (random: Random): string =>
  random.pick([
    UPSTREAM_KEY,
    UPSTREAM_KEY.toLowerCase(),
    UPSTREAM_KEY.toUpperCase(),
    UPSTREAM_KEY.slice(3),
    UPSTREAM_KEY.slice(0, -4),
    `Bearer ${UPSTREAM_KEY}`,
    encodeURIComponent(UPSTREAM_KEY),
  ]);

/** The bytes of an upstream: a head, and pieces of a body. */
interface Written {
  readonly head: string;
  readonly pieces: readonly (string | Buffer)[];
  /** The end of the connection. */
  readonly ends: "ends" | "resets" | "waits";
}

async function changed(run: Run, random: Random): Promise<void> {
  const pair = random.pick(pairs);
  const form = random.pick([...pair.caller.forms] as [Form, ...Form[]]);
  const written = writtenBy(pair.upstream, form.stream, random);
  const about = `${pair.name} ${form.name} ${JSON.stringify(written).slice(0, 500)}`;
  await met(run, pair, form, about, (socket) => write(socket, written));
}

async function write(socket: Socket, { head, pieces, ends }: Written): Promise<void> {
  socket.write(Buffer.from(head, "latin1"));
  for (const piece of pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    await nextTurn();
  }
  if (ends === "ends") socket.end();
  else if (ends === "resets") socket.resetAndDestroy();
}

const STATUSES: [number, ...number[]] = [
  200, 200, 200, 200, 200, 200, 201, 204, 206, 301, 307, 400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529,
  599,
];

function writtenBy(upstream: Speaker, stream: boolean, random: Random): Written {
  const status = random.pick(STATUSES);
  const isError = status >= 400;
  const asStream = stream && !isError;
  const whole = asStream
    ? framesBy(upstream, random)
    : JSON.stringify(isError ? upstream.error(status, `No: ${echo(random)}`) : upstream.body);
  const text = random.chance(0.5) ? mutated(whole, random) : whole;
  const isZipped = random.chance(0.08);
  const body = isZipped && random.chance(0.7) ? gzipSync(text) : Buffer.from(text);
  const isChunked = random.chance(0.3);
  const headers: Record<string, string | number> = {
    "content-type": random.chance(0.9)
      ? typeOf(asStream)
      : random.pick(["text/html", "", "application/x-ndjson", "text/event-stream"]),
    connection: random.chance(0.7) ? "close" : "keep-alive",
    ...(isChunked ? { "transfer-encoding": "chunked" } : random.chance(0.7) && { "content-length": body.length }),
    ...(isZipped && { "content-encoding": "gzip" }),
    ...(random.chance(0.4) &&
      random.pick<Record<string, string>>([
        { "content-length": "5" },
        { "content-length": "99999999" },
        { location: `http://127.0.0.1:2/${echo(random)}` },
        { "retry-after": random.pick(["0", "-1", "1e9", "99999999999", "Tue, 99 Foo", "\u00ff"]) },
        { "x-echo": echo(random) },
        { "request-id": echo(random) },
        { "anthropic-ratelimit-unified-status": echo(random) },
        { "set-cookie": `key=${echo(random)}` },
        { "transfer-encoding": "gzip, chunked" },
        { "x-long": "x".repeat(20_000) },
        { [`x bad${echo(random)}`]: "1" },
        { "x-split": `a\r\n\r\n${echo(random)}` },
      ])),
  };
  const first = random.chance(0.06)
    ? random.pick([
        `HTTP/1.1 ${echo(random)}\r\n\r\n`,
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early\r\nlink: a\r\n\r\n",
        "\r\n\r\n",
        "ICY 200 OK\r\n",
        "\u0000\u0001",
        "HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
      ])
    : "";
  const pieces = cut(body, random).map((piece) => (isChunked ? chunkOf(piece, random) : piece));
  return {
    head: first + head(status, headers),
    pieces: [...pieces, ...(isChunked && random.chance(0.9) ? ["0\r\n\r\n"] : [])],
    ends: random.pick(["ends", "ends", "ends", "resets", "waits"]),
  };
}

const chunkOf = (piece: Buffer, random: Random): Buffer =>
  Buffer.concat([
    Buffer.from(`${random.chance(0.98) ? piece.length.toString(16) : "zz"}\r\n`),
    piece,
    Buffer.from("\r\n"),
  ]);

/** Cuts bytes into random pieces, even within a character. */
function cut(body: Buffer, random: Random): Buffer[] {
  const cuts = Array.from({ length: random.int(0, 6) }, () => random.int(0, body.length)).toSorted(
    (one, other) => one - other,
  );
  return [...cuts, body.length]
    .map((end, index) => body.subarray(cuts[index - 1] ?? 0, end))
    .filter(({ length }) => length > 0);
}

function framesBy({ frames, alive, errorFrame }: Speaker, random: Random): string {
  const some = [...frames];
  const at = random.int(0, some.length);
  switch (random.int(0, 9)) {
    case 0:
      some.splice(at, 1);
      break;
    case 1:
      some.splice(at, 0, some[at] ?? alive);
      break;
    case 2:
      some.splice(at, 0, errorFrame(random.pick([400, 429, 500, 529]), `No: ${echo(random)}`));
      break;
    case 3:
      some.length = at;
      break;
    case 4:
      some.reverse();
      break;
    case 5:
      some.splice(at, 0, `data: ${echo(random)}\n\n`, ": comment\n\n", "data:\n\n");
      break;
    case 6:
      return some.join("").replaceAll("\n", random.pick(["\r\n", "\r", "\n"]));
    case 7:
      some.splice(at, 0, ...Array.from({ length: 500 }, () => alive));
      break;
    default:
  }
  return some.join("");
}

const WORDS: [string, ...string[]] = [
  "null",
  "[]",
  "{}",
  "-1",
  "1e308",
  '""',
  "true",
  '"\\ud800"',
  '"__proto__"',
  "[[[[[[]]]]]]",
  '{"__proto__":{"a":1}}',
  "NaN",
];
/** Matches a JSON value with the colon or bracket before it. */
const VALUE = /(?<=[:[,])(?:"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|\{\}|\[\])/g;

function mutated(text: string, random: Random): string {
  switch (random.int(0, 3)) {
    case 0: {
      const at = random.int(0, text.length);
      return (
        text.slice(0, at) + random.pick(["\u0000", "}", "\n\n", '"', "\\", "{", echoedInText(random)]) + text.slice(at)
      );
    }
    case 1:
      return text.slice(0, random.int(0, text.length));
    default: {
      const values = Array.from(text.matchAll(VALUE));
      const value = values[random.int(0, Math.max(0, values.length - 1))];
      if (!value) return text;
      return text.slice(0, value.index) + random.pick(WORDS) + text.slice(value.index + value[0].length);
    }
  }
}

/** Breaks a text. Callers must not see the inserted bytes, unless the text is still valid. */
const echoedInText = (random: Random): string => `"${echo(random)}"{`;

/** Makes calls through a gateway while an upstream misbehaves, and checks the answers, records and failures. */
async function met(run: Run, pair: Pair, form: Form, about: string, answer: RawAnswer): Promise<void> {
  const done = Promise.withResolvers<void>();
  await using upstream = await rawUpstream(async (socket, request) => {
    await answer(socket, request);
    done.resolve();
  });
  const stage = stageOf(pair.upstream, upstream);
  const asked = ask(stage, pair, form);
  // The upstream has finished: only the passing of time can still end the call.
  await Promise.race([asked, done.promise]);
  for (let turn = 0; turn < 10; turn++) await nextTurn();
  const answered = await passing(run, stage, asked, about);
  if (answered) {
    const { text, headers } = answered;
    judge(run, { ...answered, text: text.slice(0, 1_000_000) }, about);
    const told = text + JSON.stringify([...headers]);
    // A complete part of an answer is the model's own text.
    if (answered.status !== 200) run.check(!ECHOED.test(told), "A caller reads the upstream's key", `${about} ${told}`);
  }
  run.check(upstream.requests.length > 0, "An upstream is not asked", `${about} ${answered?.text}`);
  for (const { text } of stage.failures)
    run.check(!ECHOED.test(text), "The host reads the upstream's key in a failure", `${about} ${text}`);
  run.check(!ECHOED.test(JSON.stringify(stage.records)), "A record holds the upstream's key", about);
  run.check(stage.records.length === 1, "A call has not one record", `${stage.records.length} ${about}`);
  const { used = 0 } = stage.quotas.report(RICH) ?? {};
  run.check(
    used === stage.records[0]?.units,
    "A record and the ledger do not agree",
    `${used} ${stage.records[0]?.units} ${about}`,
  );
  await stage.assertAtRest(run, about);
}

const ask = (stage: Stage, { caller }: Pair, form: Form): ReturnType<Stage["ask"]> => {
  const model = caller.name === "images" ? caller.models.other : caller.models.one;
  const { path, init } = asking(caller, form, { apiKey: RICH, model, prompt: PROMPT });
  return stage.ask({ path, headers: init.headers, body: init.body });
};

function stageOf({ format }: Speaker, { url }: RawUpstream): Stage {
  const clock = manualClock();
  const relayed = relay({ format, baseUrl: url, apiKey: UPSTREAM_KEY, clock });
  // A route has the functions of its upstreams.
  return new Stage({ clock, backend: route({ routes: { "*": relayed }, clock }), withoutReplays: true });
}

/** Advances the clock in small steps until a call has ended. */
async function passing(run: Run, stage: Stage, asked: ReturnType<typeof ask>, about: string): ReturnType<typeof ask> {
  const state = { isOver: false };
  const over = (): void => void (state.isOver = true);
  asked.then(over, over);
  for (let passedMs = 0; !state.isOver; passedMs += 5_000) {
    if (passedMs > 3_600_000) {
      run.find("A call has no end", about);
      return undefined;
    }
    await stage.clock.advance(5_000);
  }
  return asked;
}

/** Makes valid or nearly valid answers of any size. */
type Huge = (size: number) => {
  readonly format: Speaker["format"];
  readonly stream: boolean;
  readonly json: object | string;
};

const many = <Item>(size: number, bytes: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: Math.max(1, Math.floor(size / bytes)) }, (_, index) => item(index));
const deep = (size: number): string => `{"a":${"[".repeat(size / 2)}${"]".repeat(size / 2)}}`;
const wide = (size: number): string => JSON.stringify(Object.fromEntries(many(size, 12, (index) => [`k${index}`, {}])));
const call = (index: number, json: string): object => ({
  index,
  id: `c${index}`,
  type: "function",
  function: { name: "f", arguments: json },
});
const completion = (message: object): object => ({
  id: "c",
  created: 1,
  model: "m",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
const chunk = (delta: object): object => ({
  id: "c",
  created: 1,
  model: "m",
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, finish_reason: "stop" }],
});
const content = (parts: readonly object[]): object => ({
  candidates: [{ index: 0, content: { role: "model", parts }, finishReason: "STOP" }],
});
const message = (blocks: readonly object[]): object => ({
  id: "m",
  type: "message",
  role: "assistant",
  model: "m",
  content: blocks,
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
});

const HUGE: readonly [Huge, ...Huge[]] = [
  (size) => ({
    format: "chat-completions",
    stream: true,
    json: chunk({ tool_calls: many(size, 80, (index) => call(index, "{}")) }),
  }),
  (size) => ({
    format: "chat-completions",
    stream: false,
    json: completion({ tool_calls: many(size, 80, (index) => call(index, "{}")) }),
  }),
  (size) => ({ format: "chat-completions", stream: false, json: completion({ tool_calls: [call(0, deep(size))] }) }),
  (size) => ({ format: "chat-completions", stream: true, json: chunk({ tool_calls: [call(0, deep(size))] }) }),
  (size) => ({ format: "chat-completions", stream: false, json: completion({ tool_calls: [call(0, wide(size))] }) }),
  (size) => ({ format: "chat-completions", stream: false, json: `{"choices":${deep(size)}}` }),
  (size) => ({
    format: "chat-completions",
    stream: false,
    json: { ...completion({ content: "Hi" }), ...(JSON.parse(wide(size)) as object) },
  }),
  (size) => ({
    format: "chat-completions",
    stream: true,
    json: { ...chunk({ content: "Hi" }), more: JSON.parse(wide(size)) as unknown },
  }),
  (size) => ({
    format: "generate-content",
    stream: false,
    json: content(many(size, 40, (index) => ({ text: `part ${index}` }))),
  }),
  (size) => ({
    format: "generate-content",
    stream: true,
    json: content(many(size, 60, (index) => ({ functionCall: { name: `f${index}`, args: {} } }))),
  }),
  (size) => ({
    format: "generate-content",
    stream: false,
    json: content([{ functionCall: { name: "f", args: JSON.parse(wide(size)) as unknown } }]),
  }),
  (size) => ({
    format: "generate-content",
    stream: false,
    json: { candidates: many(size, 60, (index) => ({ index, content: { parts: [{ text: "" }] } })) },
  }),
  (size) => ({
    format: "messages",
    stream: false,
    json: message(many(size, 40, (index) => ({ type: "text", text: `part ${index}` }))),
  }),
  (size) => ({
    format: "messages",
    stream: false,
    json: message(many(size, 80, (index) => ({ type: "tool_use", id: `t${index}`, name: "f", input: {} }))),
  }),
  (size) => ({
    format: "messages",
    stream: false,
    json: message([{ type: "tool_use", id: "t", name: "f", input: JSON.parse(wide(size)) as unknown }]),
  }),
  (size) => ({
    format: "messages",
    stream: false,
    json: message([{ type: "unheard_of", more: JSON.parse(wide(size)) as unknown }]),
  }),
];

const SHORT_SIZE = 100_000;
const SIZES: readonly number[] = [100_000, 1_000_000, 8_000_000];

/** Sends a huge answer within the relay's limit to callers of each format. The relay must read it without blocking the event loop. */
async function huge(run: Run, index: number, random: Random): Promise<void> {
  const made = HUGE[index % HUGE.length] ?? HUGE[0];
  const size = run.plan.isShort ? SHORT_SIZE : (SIZES[Math.floor(index / HUGE.length) % SIZES.length] ?? SHORT_SIZE);
  const { format, stream, json } = made(size);
  const text = typeof json === "string" ? json : JSON.stringify(json);
  const body = stream ? `data: ${text}\n\ndata: [DONE]\n\n` : text;
  const pair = random.pick(pairs.filter(({ upstream }) => upstream.format === format) as [Pair, ...Pair[]]);
  const form = pair.caller.forms.find((one) => one.stream === stream);
  if (!form) return;
  const alone = aloneMs(() => JSON.parse(text));
  const bytes = Buffer.from(
    head(200, { "content-type": typeOf(stream), "content-length": Buffer.byteLength(body), connection: "close" }) +
      body,
  );
  const about = `huge ${index % HUGE.length} of ${size} bytes, ${pair.name} ${form.name}`;
  await run.turning(
    `Answer ${index % HUGE.length} of an upstream, ${pair.name} ${form.name},`,
    () => met(run, pair, form, about, (socket) => socket.end(bytes)),
    alone,
  );
}
