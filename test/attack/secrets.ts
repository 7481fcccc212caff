/** Searches for marked secrets in all output: answers, errors, logs, records, spans, metrics, rows and replays. */

import { DatabaseSync } from "node:sqlite";
import { inspect } from "node:util";
import { Kysely } from "kysely";
import { type CallRecord, createGateway, type Failure, type ModelBackend } from "../../src/index.ts";
import {
  migrate,
  nodeSqliteDialect,
  type SqlDatabase,
  sqlQuotaStore,
  sqlReplayStore,
} from "../../src/stores/sql/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { collected } from "../telemetry/stage.ts";
import { verbsOf } from "../testing/laws/faults.ts";
import type { Random } from "../trial/random.ts";
import { rawUpstream, type RawUpstream, STREAM_HEAD, whole } from "../upstreams/relay/raw-upstream.ts";
import type { Attack, Run } from "./frame.ts";
import { answering } from "./stage.ts";

export const secrets: Attack = {
  name: "secrets",
  does: "Searches answers, errors, logs, records, spans, metrics, rows and replays for planted keys, prompts and answers",
  counts: { full: 3_000, short: 25 },
  open: (run) => ({ attempt: (random) => attempt(run, random) }),
};

const CALLER_KEY = "sk-Caller-71d0c3f5a9e84b26";
const UPSTREAM_KEY = "sk-Upstream-5e2b90cd47a1f836";
const PROMPT = "prompt-8f41c7d2";
const ANSWER = "answer-3b96e0a5";

/** The outputs to search. */
type Place = "answers" | "console" | "records" | "failures" | "causes" | "spans" | "metrics" | "rows";

/** A secret, and the outputs that may contain it. */
interface Secret {
  readonly name: string;
  readonly text: string;
  readonly allowed: readonly Place[];
}

const SECRETS: readonly Secret[] = [
  // The cause of a failure is the error of the host's own function.
  { name: "a caller's key", text: CALLER_KEY.slice(3), allowed: ["causes"] },
  { name: "an upstream's key", text: UPSTREAM_KEY.slice(3), allowed: [] },
  // The host may read an upstream's message about a request.
  { name: "a prompt", text: PROMPT, allowed: ["answers", "failures", "causes", "console"] },
  { name: "an answer", text: ANSWER, allowed: ["answers", "rows", "failures", "causes", "console"] },
];

/** Returns the spellings in which a text could appear. */
const spellings = (text: string): string[] =>
  [text, encodeURIComponent(text), btoa(text).replace(/=+$/, ""), Buffer.from(text).toString("hex")].map((one) =>
    one.toLowerCase(),
  );

async function attempt(run: Run, random: Random): Promise<void> {
  const sqlite = new DatabaseSync(":memory:");
  const db: SqlDatabase = new Kysely({ dialect: nodeSqliteDialect(sqlite) });
  await migrate(db, { dialect: "sqlite" });
  const quotas = sqlQuotaStore({ db, dialect: "sqlite" });
  await quotas.add({ apiKey: CALLER_KEY, id: "key-1", name: "one", granted: 1_000_000 });
  await using upstream = await upstreamBy(random);
  const [records, failures]: [CallRecord[], Failure[]] = [[], []];
  const { observer, spans, metrics } = collected();
  const clock = manualClock();
  const isPrinted = random.chance(0.5);
  const gateway = createGateway({
    clock,
    backend: backendBy(random, upstream),
    quotas: random.chance(0.3)
      ? { ...verbsOf(quotas), [random.pick(["balance", "reserve", "settle", "renew"])]: fails }
      : quotas,
    replayStore: sqlReplayStore({ db, dialect: "sqlite" }),
    observer,
    onCall: (record) => void records.push(record),
    ...(!isPrinted && { onFailure: (failure: Failure) => void failures.push(failure) }),
  });
  const printed = await printing(async () => {
    for (const request of requestsBy(random)) {
      const response = await gateway.fetch(request);
      const text = await response.text();
      look(run, "answers", text + JSON.stringify([...response.headers]), request.url);
    }
    // Give a failed settlement time to be retried and reported.
    await clock.advance(120_000);
    await gateway.close();
  });
  look(run, "console", printed, "");
  look(run, "records", inspect(records, { depth: 9 }), "");
  look(run, "failures", failures.map(({ text }) => text).join("\n"), "");
  look(run, "causes", failures.map(({ error }) => inspect(error, { depth: 9 })).join("\n"), "");
  look(
    run,
    "spans",
    inspect(
      spans().map(({ name, attributes, events, status, links }) => ({ name, attributes, events, status, links })),
      { depth: 9 },
    ),
    "",
  );
  look(run, "metrics", JSON.stringify(await metrics()), "");
  look(run, "rows", rowsOf(sqlite), "");
  await db.destroy();
}

/** Searches an output for every secret. */
function look(run: Run, place: Place, written: string, about: string): void {
  const text = written.toLowerCase();
  for (const { name, text: secret, allowed } of SECRETS) {
    if (allowed.includes(place)) continue;
    const found = spellings(secret).find((spelling) => text.includes(spelling));
    if (found === undefined) continue;
    const at = text.indexOf(found);
    run.find(`Where ${place} are written, ${name} stands`, `${about} ${written.slice(Math.max(0, at - 200), at + 60)}`);
  }
}

const fails = (): Promise<never> => Promise.reject(new Error(`select * from keys where secret = '${CALLER_KEY}'`));

/** Runs the work, and returns the lines printed meanwhile. */
async function printing(work: () => Promise<void>): Promise<string> {
  const printed: string[] = [];
  const names = ["log", "info", "warn", "error", "debug", "trace"] as const;
  const before = names.map((name) => console[name]);
  for (const name of names)
    console[name] = (...said: unknown[]) =>
      void printed.push(said.map((one) => (typeof one === "string" ? one : inspect(one, { depth: 9 }))).join(" "));
  try {
    await work();
  } finally {
    for (const [index, name] of names.entries()) console[name] = before[index] ?? console[name];
  }
  return printed.join("\n");
}

/** Returns every row of every table as text. */
function rowsOf(sqlite: DatabaseSync): string {
  const tables = sqlite.prepare("select name from sqlite_master where type = 'table'").all();
  return tables
    .map(({ name }) =>
      JSON.stringify(sqlite.prepare(`select * from "${String(name)}"`).all(), (_key, value: unknown) =>
        typeof value === "bigint"
          ? String(value)
          : value instanceof Uint8Array
            ? Buffer.from(value).toString("latin1")
            : value,
      ),
    )
    .join("\n");
}

/** Opens an upstream that answers, fails or breaks off, and repeats the request in its answer. */
function upstreamBy(random: Random): Promise<RawUpstream> {
  const frames = `event: message_start\ndata: ${JSON.stringify({ type: "message_start", message: { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } })}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"${ANSWER}"}}\n\n`;
  const answer = {
    id: "m",
    type: "message",
    role: "assistant",
    model: "m",
    content: [{ type: "text", text: ANSWER }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  const kind = random.int(0, 6);
  const status = random.pick([400, 401, 403, 404, 413, 429, 500, 503]);
  const error = (message: string): Buffer =>
    whole(status, "application/json", JSON.stringify({ type: "error", error: { type: "api_error", message } }));
  return rawUpstream((socket, { head, body }) => {
    const said = [
      () => whole(200, "application/json", JSON.stringify(answer)),
      () => error(`You sent ${head}`),
      () => error(`The key ${UPSTREAM_KEY} may not.`),
      () => whole(200, `text/html; ${UPSTREAM_KEY}`, `<p>${head}${body}</p>`),
      () => Buffer.from(STREAM_HEAD + frames),
      () =>
        Buffer.from(
          `${STREAM_HEAD}${frames}event: error\ndata: {"type":"error","error":{"type":"api_error","message":"No ${UPSTREAM_KEY}"}}\n\n`,
        ),
      () => Buffer.from(`${STREAM_HEAD}${frames}data: {"${UPSTREAM_KEY}\n\n`),
    ][kind];
    socket.end(said?.() ?? "");
  });
}

/** Makes a relay, or a backend that puts the caller's headers into its errors. */
function backendBy(random: Random, { url }: RawUpstream): ModelBackend {
  const relayed = relay({
    format: "messages",
    baseUrl: url,
    apiKey: UPSTREAM_KEY,
    showUpstreamMessages: random.chance(0.5),
  });
  if (random.chance(0.7)) return { ...relayed, image: answering.image };
  return {
    ...answering,
    async *chat(_request, { headers }) {
      if (random.chance(0.5)) yield ANSWER;
      throw new Error(`Refused ${JSON.stringify([...headers])}`, {
        cause: { url: `https://a.example?key=${CALLER_KEY}`, headers },
      });
    },
  };
}

/** Makes requests with the key in every position that a format reads. The second request repeats the first. */
function requestsBy(random: Random): Request[] {
  const stream = random.chance(0.5);
  const messages = [{ role: "user", content: PROMPT }];
  const isQuery = random.chance(0.3);
  const [path, body] = isQuery
    ? ([
        `/v1beta/models/model-a:generateContent?key=${CALLER_KEY}`,
        { contents: [{ parts: [{ text: PROMPT }] }] },
      ] as const)
    : random.pick<readonly [string, object]>([
        ["/v1/messages", { model: "model-a", max_tokens: 50, stream, messages, metadata: { user_id: PROMPT } }],
        ["/v1/chat/completions", { model: "model-a", stream, messages, user: PROMPT }],
        ["/v1/images/generations", { prompt: PROMPT, response_format: "b64_json" }],
        ["/v1/messages", { model: "model-a", max_tokens: "many", messages: [{ role: PROMPT }] }],
        ["/v1/messages/nowhere", {}],
      ]);
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "compat-version": "2026-10-21",
    traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
    ...(!isQuery &&
      random.pick<Record<string, string>>([
        { "x-api-key": CALLER_KEY },
        { authorization: `Bearer ${CALLER_KEY}` },
        { authorization: `bearer  ${CALLER_KEY.slice(3)}` },
        { authorization: `Basic ${CALLER_KEY}` },
      ])),
    ...(random.chance(0.6) && { "idempotency-key": "once" }),
  };
  return [1, 2].map(
    () => new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
}
