/** The ReplayStore in Redis: each entry is a key that Redis itself forgets when its time is over. */

import { parseJson } from "../../model/json.ts";
import type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "../../ports/replay-store.ts";
import {
  assertReplayClaim,
  assertReplayHolder,
  assertReplayRecord,
  bytesOf,
  fitting,
  type KeyBounds,
  keyBoundsOf,
} from "../replay-input.ts";
import { commandsOf, type RedisClient, runScript, type Script, type SendCommand } from "./client.ts";
import { CLAIM, RECORD, RELEASE } from "./replay-scripts.ts";

/** The Redis that answers are kept in, and what one key may fill of it. */
export interface RedisReplayStoreOptions extends Partial<KeyBounds> {
  /** A connected client of `redis`, `ioredis` or Bun, or a cluster of the first two. The host closes it. */
  readonly client: RedisClient;
  /** What all names in Redis begin with: `polygate` unless told. */
  readonly prefix?: string;
  /** How far the time that entries end by is ahead of the server's, in milliseconds. For tests. */
  readonly aheadMs?: () => number;
}

/**
 * Answers in Redis, for any number of processes. Entries end by the server's clock. A server that dies without persistence, or that
 * evicts keys under memory pressure, forgets answers: their repetitions are charged again.
 *
 * @throws RangeError for a bound that is no positive integer.
 * @example
 * const replayStore = redisReplayStore({ client: await createClient({ url }).connect() });
 */
export const redisReplayStore = (options: RedisReplayStoreOptions): ReplayStore => new RedisReplays(options);

/** The fields of an answer that are stored beside its body. */
type Head = Omit<RecordedAnswer, "body"> & { readonly hasBody: boolean };

class RedisReplays implements ReplayStore {
  readonly #send: SendCommand;
  readonly #prefix: string;
  readonly #bounds: KeyBounds;
  readonly #aheadMs: () => number;

  constructor({ client, prefix = "polygate", aheadMs = () => 0, ...bounds }: RedisReplayStoreOptions) {
    if (!/^[\w:.-]{1,100}$/.test(prefix)) throw new RangeError(`${JSON.stringify(prefix)} is no prefix.`);
    this.#send = commandsOf(client);
    this.#prefix = prefix;
    this.#bounds = keyBoundsOf(bounds);
    this.#aheadMs = aheadMs;
  }

  async claim(claim: ReplayClaim): Promise<ReplayState> {
    assertReplayClaim(claim);
    const [state, fingerprint = "", head = "", body = ""] = await this.#run(
      CLAIM,
      claim,
      [],
      [claim.fingerprint, claim.leaseMs],
    );
    if (state === "claimed") return { state };
    if (state === "running") return { state, fingerprint };
    const { hasBody, ...answer } = parseJson(head) as Head;
    return { state: "answered", fingerprint, answer: { ...answer, body: hasBody ? body : undefined } };
  }

  async record(record: ReplayRecord): Promise<void> {
    assertReplayRecord(record);
    const { id, keyId, fingerprint, retainMs } = record;
    const kept = fitting(record.answer, this.#bounds.maxBytesPerKey);
    const { body, ...answer } = kept;
    const head: Head = { ...answer, hasBody: body !== undefined };
    const { maxEntriesPerKey, maxBytesPerKey } = this.#bounds;
    const removed = await this.#run(
      RECORD,
      record,
      [this.#name(keyId, "replay-ends"), this.#name(keyId, "replay-bytes")],
      [fingerprint, retainMs, JSON.stringify(head), body ?? "", id, bytesOf(kept), maxEntriesPerKey, maxBytesPerKey],
    );
    const names = removed.map((each) => this.#entry(keyId, each));
    if (names[0] !== undefined) await this.#send(names[0], "UNLINK", names);
  }

  async release(holder: ReplayHolder): Promise<void> {
    assertReplayHolder(holder);
    await this.#run(RELEASE, holder, [], []);
  }

  async #run(
    script: Script,
    { id, keyId, callId }: ReplayHolder,
    names: readonly string[],
    args: readonly (string | number)[],
  ): Promise<readonly string[]> {
    const entry = this.#entry(keyId, id);
    const answer = await runScript(this.#send, script, [entry, ...names], [this.#aheadMs(), callId, ...args]);
    return Array.isArray(answer) ? answer.map(String) : [];
  }

  #entry(keyId: string, id: string): string {
    return this.#name(keyId, `replay:${id}`);
  }

  /** What stands in braces decides the slot of a cluster; all names of one api key share one. */
  #name(keyId: string, part: string): string {
    return `${this.#prefix}:{${encodeURIComponent(keyId)}}:${part}`;
  }
}
