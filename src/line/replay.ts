/** The step that answers a repeated call with what the first was answered with, at no charge and without its backend. */

import { GatewayError } from "../errors.ts";
import { queryOf } from "../http/address.ts";
import type { Answer } from "../http/answer.ts";
import type { Form } from "../http/form.ts";
import type { SharedStream } from "../http/shared-stream.ts";
import { utf8Length } from "../model/utf8-length.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { Call } from "./call.ts";
import { failureOf } from "./failure.ts";
import { hashOf, saidBy, saidByHeaders } from "./fingerprint.ts";
import { Recording } from "./recording.ts";
import type { Repeatable } from "./repeatable.ts";
import type { Entry, Opened, Replays, RunningCall } from "./replays.ts";
import { callHeaders } from "./respond.ts";

/** How often a call asks what has become of one that another process answers, in milliseconds: more and more rarely. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
/** When a caller may come back whose call is still being answered, in milliseconds. */
const COME_BACK_MS = 1_000;

/**
 * The answer of the first call, which it may still be receiving; undefined where this call is the first: its answer is recorded.
 * A body is told from others as it came, so that a repetition is answered without being parsed.
 * Throws `idempotency_key_reused` for another request under the same key, and `idempotency_key_in_use` where the first is still
 * being answered elsewhere and its host does not want calls to wait.
 */
export async function replay(
  call: Call,
  key: ApiKey,
  repeatable: Repeatable,
  body: string | Form | undefined,
): Promise<Answer | undefined> {
  const { replays } = call.services;
  if (!replays) return undefined;
  const entry = await entryOf(call, key, repeatable, body);
  for (;;) {
    call.assertLive();
    const running = call.hasWaitUntil ? undefined : replays.running.get(entry.id);
    // While one still asks the store, it is not known whose the entry is: who says something else asks for itself.
    const decides = running && (running.isStarted || running.fingerprint === entry.fingerprint);
    const opened = await (decides ? follow(call, running, entry) : begin(call, replays, entry));
    call.assertLive();
    if (opened === "first") return undefined;
    if (opened) return answerAgain(call, opened);
  }
}

/** Returns the id and the fingerprint that all repetitions of a call share: made of its key, its route and its content. */
async function entryOf(
  { endpoint, tail, request }: Call,
  key: ApiKey,
  { idempotencyKey }: Repeatable,
  body: string | Form | undefined,
): Promise<Entry> {
  const query = queryOf(request.url);
  // Where the secret may stand: a repetition may be made with another secret of the same key.
  query.delete("key");
  const scope = [key.id, endpoint.dialect, endpoint.path, tail];
  const id = await hashOf([...scope, idempotencyKey]);
  const said = [...saidByHeaders(request.headers), ...saidBy(body)];
  return { id, keyId: key.id, fingerprint: await hashOf([...scope, query.toString(), ...said]) };
}

/** Waits for the answer of the call that this process is working on; undefined where that comes to nothing. */
async function follow(call: Call, running: RunningCall, entry: Entry): Promise<Opened | undefined> {
  assertSame(running, entry);
  const { promise, resolve } = Promise.withResolvers<Opened | undefined>();
  running.join(resolve);
  // With the call's end, and not with the answer: a stream that is followed goes on for as long as somebody reads it.
  call.defer(() => {
    running.leave(resolve);
    resolve(undefined);
  });
  return promise;
}

/** Claims the entry, or waits for what has become of it. */
async function begin(call: Call, replays: Replays, entry: Entry): Promise<Opened | "first"> {
  const recording = new Recording(call, replays, entry);
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    const state = await recording.claim();
    call.assertLive();
    if (!state || state.state === "claimed") {
      recording.start(state !== undefined);
      call.recording = recording;
      return "first";
    }
    assertSame(state, entry);
    if (state.state === "answered") {
      recording.found(state.answer);
      return state.answer;
    }
    if (replays.elsewhere === "refuse")
      throw new GatewayError("idempotency_key_in_use", "The request of this Idempotency-Key is still being answered.", {
        retryAfterMs: COME_BACK_MS,
      });
    await call.pause(pauseMs);
  }
}

function assertSame({ fingerprint }: { readonly fingerprint: string }, entry: Entry): void {
  if (fingerprint !== entry.fingerprint)
    throw new GatewayError(
      "idempotency_key_reused",
      "Another request was sent with this Idempotency-Key. A new request needs a new one.",
    );
}

async function answerAgain(call: Call, opened: Opened): Promise<Answer> {
  const { requestId, status, stream } = opened;
  const headers = { ...opened.headers, "polygate-replayed": requestId, ...callHeaders(call) };
  const body = "shared" in opened ? followed(call, opened.shared) : opened.body;
  if (body === undefined)
    throw new GatewayError(
      "idempotency_key_reused",
      "The request of this Idempotency-Key was answered, and the answer is too large to be given again.",
    );
  call.replayOf = requestId;
  call.status = status;
  call.stream = stream;
  if (typeof body !== "string") return { status, headers, body };
  if (body.length > PIECE_CHARS) return { status, headers, body: inPieces(call, body) };
  await call.answered();
  return { status, headers, body };
}

/** Characters of a recorded answer that are handed on at once: a client that reads nothing takes no more memory than these. */
const PIECE_CHARS = 64 * 1024;

/**
 * Returns a recorded answer piece by piece, as its client reads it. The call ends with the last piece; until then the answer is booked
 * in the room for the key's bodies. Throws `busy` where the key holds too much there.
 */
function inPieces(call: Call, body: string): AsyncIterableIterator<string, undefined> {
  if (call.key) {
    const lease = call.services.bodies.lease(call.key.id);
    call.defer(() => lease[Symbol.dispose]());
    lease.take(utf8Length(body));
  }
  call.listener = {
    cut(reason) {
      call.error = failureOf(call, reason);
      void call.end();
    },
  };
  return piecesOf(call, body);
}

async function* piecesOf(call: Call, body: string): AsyncGenerator<string, undefined> {
  try {
    for (let at = 0, end = 0; at < body.length; at = end) {
      call.assertLive();
      end = at + PIECE_CHARS;
      // The two halves of a character stay together.
      if (isHighSurrogate(body.charCodeAt(end - 1))) end++;
      yield body.slice(at, end);
    }
    return undefined;
  } finally {
    await call.answered();
  }
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;

/** The stream that another call is answered with, from its beginning. The call ends with it. */
function followed(call: Call, shared: SharedStream): AsyncIterableIterator<string, undefined> | undefined {
  const reader = shared.reader((isThrough) => (isThrough ? void call.end() : call.abort.disconnect()));
  if (!reader) return undefined;
  call.listener = {
    cut(reason) {
      call.error = failureOf(call, reason);
      reader.fail(reason);
      void call.end();
    },
  };
  return reader;
}
