/** Attacks by backends: events in any order and of any shape, false usage, failures and endless waits, in each function. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import { type CallContext, GatewayError, type ModelBackend } from "../../src/index.ts";
import { CLEAR } from "../formats/images/pictures.ts";
import type { Random } from "../trial/random.ts";
import type { Attack, Run } from "./frame.ts";
import { MANNERS, misbehaving, nonsense, thrown } from "./nonsense.ts";
import { type Answered, judge, keyed, METERED, RICH, type Sent, Stage } from "./stage.ts";

export const backends: Attack = {
  name: "backends",
  does: "Runs hostile backends: events in any order and shape, false counts, failures, endless waits",
  counts: { full: 30_000, short: 150 },
  open: (run) => ({ isMeasured: true, attempt: (random) => attempt(run, random) }),
};

async function attempt(run: Run, random: Random): Promise<void> {
  const stage = new Stage({ backend: hostile(random), withoutReplays: random.chance(0.5), limits: LIMITS });
  const sent = requestBy(random);
  const about = `${sent.path} ${JSON.stringify(sent.body)}`;
  const answered = random.chance(0.8) ? await stage.asking(run, sent) : await hungUp(stage, sent, random);
  if (answered) judgeAnswer(run, answered, about);
  // The deadline cuts a backend that hangs. Nothing waits for its end.
  await stage.clock.advance(LIMITS.deadlineMs + 60_000);
  await stage.assertAtRest(run, about);
  judgeBooks(run, stage, about);
}

const LIMITS = { deadlineMs: 120_000 };

/** Checks an answer, complete or streamed: it shows nothing of the host, and ends as its format demands. */
function judgeAnswer(run: Run, answered: Answered, about: string): void {
  judge(run, answered, about);
  const isStream = /event-stream/.test(answered.headers.get("content-type") ?? "");
  if (answered.status !== 200 || !isStream) return;
  // The generate-content format may also send an error outside a frame.
  run.check(
    /\n\n(?:\{"error":.*\})?$/.test(answered.text),
    "A stream ends inside of a frame",
    `${about} ${answered.text.slice(-200)}`,
  );
  run.check(
    ENDED.test(answered.text),
    "A stream ends without an end or an error",
    `${about} ${answered.text.slice(-300)}`,
  );
}

const ENDED =
  /event: message_stop\n|data: \[DONE\]\n|"finishReason":"|"blockReason":"|"error":|image_(?:generation|edit)\.completed/;

/** Checks that each call has one record, and that the record agrees with the ledger. */
function judgeBooks(run: Run, stage: Stage, about: string): void {
  run.check(stage.records.length === 1, "A call has not one record", `${stage.records.length} ${about}`);
  const [record] = stage.records;
  if (!record) return;
  const ledgers = [RICH, METERED].map((key) => stage.quotas.report(key));
  const used = ledgers.reduce((sum, ledger) => sum + (ledger?.used ?? 0) + (ledger?.overdraft ?? 0), 0);
  run.check(used === record.units, "A record and the ledger do not agree", `${used} ${record.units} ${about}`);
  run.check(
    Number.isSafeInteger(record.units) && record.units >= 0,
    "A charge is no amount",
    `${record.units} ${about}`,
  );
  run.check(record.endMs >= 0, "A call takes less than no time", about);
}

/** Hangs up after a few turns of the event loop, before or after the answer begins. */
async function hungUp(stage: Stage, sent: Sent, random: Random): Promise<undefined> {
  const leaving = new AbortController();
  const asked = stage.send({ ...sent, signal: leaving.signal });
  const isRead = random.chance(0.5);
  const response = await Promise.race([asked, turns(random.int(0, 6))]);
  // A hanging backend sends nothing to read.
  if (response && isRead) await Promise.race([response.body?.getReader().read(), turns(3)]).catch(() => {});
  leaving.abort();
  asked?.then(
    (late) => late.body?.cancel().catch(() => {}),
    () => {},
  );
  await stage.clock.advance(0);
}

async function turns(count: number): Promise<undefined> {
  for (let turn = 0; turn < count; turn++) await nextTurn();
}

function requestBy(random: Random): Sent {
  const stream = random.chance(0.5);
  const messages = [{ role: "user", content: "Hi" }];
  const [path, body] = random.pick<[string, object]>([
    ["/v1/messages", { model: "model-a", max_tokens: 50, stream, messages, stop_sequences: ["END"] }],
    ["/v1/chat/completions", { model: "model-a", stream, messages, stream_options: { include_usage: true } }],
    [
      `/v1beta/models/model-a:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
      { contents: [{ parts: [{ text: "Hi" }] }] },
    ],
    [
      "/v1/images/generations",
      { model: "image-model-multi", prompt: "A hat", n: 2, stream, response_format: "b64_json" },
    ],
    ["/v1/images/generations", { prompt: "A hat", n: 2, response_format: "url" }],
    ["/v1/messages/count_tokens", { model: "model-a", messages }],
    ["/v1/embeddings", { model: "model-a", input: ["A hat", "A cat"], ...(stream && { encoding_format: "base64" }) }],
    ["/v1beta/models/model-a:embedContent", { content: { parts: [{ text: "A hat" }] } }],
  ]);
  const headers: Record<string, string> = {
    ...keyed(random.pick([RICH, METERED])),
    "content-type": "application/json",
  };
  if (random.chance(0.2)) headers["idempotency-key"] = "once";
  return { path, headers, body: JSON.stringify(body) };
}

/** Makes a backend whose functions misbehave by chance. */
function hostile(random: Random): ModelBackend {
  const seldom = (share: number, otherwise: () => unknown): unknown =>
    random.chance(share) ? misbehaving(random.pick(MANNERS), random) : otherwise();
  const models = (): unknown =>
    seldom(0.5, () => [{ id: "model-a" }, { id: "image-model-multi" }, { id: "image-model-2" }, nonsense(random)]);
  const backend = {
    ...(random.chance(0.3) && {
      hangUp: random.pick<unknown>([
        "cancel",
        { drainMs: 1_000 },
        { drainMs: -1 },
        { drainMs: Number.NaN },
        () => misbehaving("throws", random),
        () => nonsense(random),
      ]),
    }),
    ...(random.chance(0.3) && { models }),
    ...(random.chance(0.5) && { countInputTokens: () => seldom(0.8, () => Promise.resolve(7)) }),
    chat: (_request: unknown, call: CallContext) => seldom(0.1, () => events(random, call, chatEvent)),
    image: (_request: unknown, call: CallContext) => seldom(0.1, () => events(random, call, imageEvent)),
    embed: (_request: unknown, call: CallContext) => seldom(0.1, () => events(random, call, embeddingEvent)),
  };
  return backend as unknown as ModelBackend;
}

/** Makes random events, from an iterator that may break every rule of iterators. */
function events(random: Random, call: CallContext, event: (random: Random) => unknown): AsyncIterable<unknown> {
  let left = random.int(0, 14);
  const isOrderly = random.chance(0.6);
  return {
    [Symbol.asyncIterator]: () => ({
      next(): Promise<IteratorResult<unknown>> {
        if (random.chance(0.05))
          call.reportConversions(
            random.pick([[], [{ field: "a\r\nb", conversion: "dropped" }], nonsense(random)]) as [],
          );
        if (random.chance(0.04)) return misbehaving(random.pick(MANNERS), random) as never;
        if (random.chance(0.03))
          throw new GatewayError(random.pick([...GATEWAY_ERROR_CODES]), "A word for the caller.", {
            cause: thrown(random),
            retryAfterMs: random.pick([0, -1, Number.NaN, 1e300]),
          });
        if (left-- <= 0) return Promise.resolve({ done: true, value: undefined });
        const step = { done: false, value: event(random) } as const;
        if (isOrderly || random.chance(0.8))
          return random.chance(0.5) ? Promise.resolve(step) : nextTurn().then(() => step);
        return step as never;
      },
      return: () =>
        (random.chance(0.7)
          ? Promise.resolve({ done: true, value: undefined })
          : misbehaving(random.pick(MANNERS), random)) as never,
    }),
  };
}

const amount = (random: Random): unknown =>
  random.pick<unknown>([
    0,
    1,
    7,
    50,
    1e6,
    -1,
    0.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 53,
    "3",
    null,
    undefined,
    10n,
  ]);

const usage = (random: Random): unknown => ({
  inputTokens: amount(random),
  outputTokens: amount(random),
  ...(random.chance(0.4) && {
    cacheReadTokens: amount(random),
    cacheWriteTokens: amount(random),
    reasoningTokens: amount(random),
  }),
  ...(random.chance(0.2) && { details: nonsense(random) }),
});

const text = (random: Random): unknown =>
  random.pick<unknown>([
    "Hi",
    "",
    "END",
    "EN",
    "x".repeat(5_000),
    "\ud800",
    "\r\n\r\ndata: [DONE]\n\n",
    "event: error\n\n",
    "\u2028",
    nonsense(random),
  ]);

const id = (random: Random): string => random.pick(["a", "b", "__proto__", ""]);
const json = (random: Random): unknown =>
  random.pick<unknown>(["{}", '{"a":', "1}", "[1]", "", "[".repeat(8_000), '{"__proto__":1}', nonsense(random)]);

function chatEvent(random: Random): unknown {
  const candidate = random.chance(0.1) ? { candidate: random.pick<unknown>([0, 1, 2, -1, 1e9, Number.NaN, "0"]) } : {};
  return random.pick<() => unknown>([
    () => text(random),
    () => ({ type: "text-delta", text: text(random), ...candidate }),
    () => ({ type: "text-delta", text: text(random), block: id(random), signature: "c2ln", ...candidate }),
    () => ({ type: "reasoning-delta", text: text(random), ...candidate }),
    () => ({ type: "reasoning-signature", signature: text(random) }),
    () => ({ type: "redacted-reasoning", data: text(random) }),
    () => ({ type: "refusal-delta", text: text(random) }),
    () => ({ type: "start", id: text(random), model: text(random), usage: usage(random) }),
    () => ({ type: "usage", usage: usage(random) }),
    () => ({
      type: "tool-call",
      id: id(random),
      name: text(random),
      input: random.pick<unknown>([{}, { a: 1 }, nonsense(random)]),
      ...candidate,
    }),
    () => ({ type: "tool-call-start", id: id(random), name: text(random), ...candidate }),
    () => ({ type: "tool-call-delta", id: id(random), json: json(random), ...candidate }),
    () => ({ type: "tool-call-end", id: id(random), ...candidate }),
    () => ({ type: "media", mediaType: text(random), data: text(random) }),
    () => ({ type: "code", id: id(random), language: "python", code: text(random) }),
    () => ({ type: "code-result", id: id(random), outcome: random.pick(["ok", "failed", "?"]), output: text(random) }),
    () => ({ type: "annotation", annotation: nonsense(random) }),
    () => ({ type: "provider", format: random.pick(["messages", "generate-content", "?"]), value: nonsense(random) }),
    () => ({ type: "prompt-feedback", blockReason: random.pick<unknown>(["safety", "?", nonsense(random)]) }),
    () => ({
      type: "native",
      format: random.pick(["messages", "chat-completions", "generate-content"]),
      events: random.pick<unknown>([[], [chatEvent(random)], nonsense(random)]),
      frames: random.pick<unknown>([[], [{ data: text(random) }], nonsense(random)]),
    }),
    () => ({
      type: "finish",
      reason: random.pick(["stop", "length", "tool-calls", "?", "__proto__"]),
      usage: usage(random),
      ...candidate,
    }),
    () => nonsense(random),
  ])();
}

function embeddingEvent(random: Random): unknown {
  return random.pick<() => unknown>([
    () => [0.5, -0.5],
    () => Float32Array.of(0.5, -0.5),
    () => Array.from({ length: random.pick([0, 1, 70_000]) }, () => amount(random)),
    () => ({ type: "usage", usage: { inputTokens: amount(random) } }),
    () => nonsense(random),
  ])();
}

function imageEvent(random: Random): unknown {
  return random.pick<() => unknown>([
    () => ({ type: "image", bytes: CLEAR, mediaType: "image/png" }),
    () => ({ type: "image", bytes: CLEAR, mediaType: "image/png", revisedPrompt: text(random) }),
    () => ({
      type: "image",
      bytes: random.pick<unknown>([new Uint8Array(0), nonsense(random)]),
      mediaType: text(random),
    }),
    () => ({
      type: "partial-image",
      image: amount(random),
      step: amount(random),
      bytes: CLEAR,
      mediaType: "image/png",
    }),
    () => ({
      type: "usage",
      usage: { inputTextTokens: amount(random), inputImageTokens: amount(random), outputTokens: amount(random) },
    }),
    () => nonsense(random),
  ])();
}
