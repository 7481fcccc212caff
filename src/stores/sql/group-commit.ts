/** Runs the verbs that wait for one key at the same time in one transaction: its lock, its reading and its writing are shared. */

import { lockKey, type LedgerAccess, type LockedKey, SWEEP_BATCH } from "./locked-key.ts";

/** Does work in a transaction, again after a conflict. */
export type Transact = <T>(work: (access: LedgerAccess) => Promise<T>) => Promise<T>;

/** The most verbs that one transaction does. */
const MOST_VERBS = 64;

/** A verb that waits for its turn. */
interface Verb {
  readonly keyId: string;
  readonly holdId: string;
  /** Does the verb on its locked key; undefined where there is no such key. It may run again, after a conflict. */
  readonly work: (key: LockedKey | undefined) => unknown;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** An answer that counts once its transaction is committed. */
type Done = () => void;

export class GroupCommit {
  readonly #transact: Transact;
  /** Whether all keys share one turn: in a database that lets in one writer at a time. */
  readonly #oneWriter: boolean;
  /** The verbs that wait, by their turn. A turn is there while a transaction of it is under way. */
  readonly #waiting = new Map<string, Verb[]>();

  constructor(transact: Transact, oneWriter: boolean) {
    this.#transact = transact;
    this.#oneWriter = oneWriter;
  }

  /** Does a verb on a key under its lock, with every lease of the key that has run out accounted for. */
  do<T>(keyId: string, holdId: string, work: (key: LockedKey | undefined) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      // What is resolved with is what the work has returned.
      const verb: Verb = { keyId, holdId, work, resolve: resolve as (answer: unknown) => void, reject };
      const turn = this.#oneWriter ? "" : keyId;
      const waiting = this.#waiting.get(turn);
      if (waiting) waiting.push(verb);
      else void this.#take(turn, [verb]);
    });
  }

  /** Does one group after the other, until no verb waits for the turn. */
  async #take(turn: string, waiting: Verb[]): Promise<void> {
    this.#waiting.set(turn, waiting);
    while (waiting.length > 0) await this.#commit(Map.groupBy(waiting.splice(0, MOST_VERBS), ({ keyId }) => keyId));
    this.#waiting.delete(turn);
  }

  /** Never rejects: each verb is told what becomes of it. */
  async #commit(byKey: ReadonlyMap<string, readonly Verb[]>): Promise<void> {
    let left = byKey;
    try {
      // Again for the keys of which more leases have run out than one transaction charges.
      while (left.size > 0) {
        const verbs = left;
        const { answers, again } = await this.#transact((access) => run(access, verbs));
        for (const answer of answers) answer();
        left = again;
      }
    } catch (error) {
      // A key whose row cannot be read must not hold up the others.
      if (left.size > 1) for (const entry of left) await this.#commit(new Map([entry]));
      else for (const { reject } of Array.from(left.values()).flat()) reject(error);
    }
  }
}

async function run(access: LedgerAccess, byKey: ReadonlyMap<string, readonly Verb[]>) {
  const answers: Done[] = [];
  const again = new Map<string, readonly Verb[]>();
  for (const [keyId, verbs] of byKey) {
    const key = await lockKey(access, keyId);
    const charged = await key?.load(Array.from(new Set(verbs.map(({ holdId }) => holdId))));
    if (charged !== undefined && charged >= SWEEP_BATCH) again.set(keyId, verbs);
    else for (const verb of verbs) answers.push(answerOf(verb, key));
    await key?.write();
  }
  return { answers, again };
}

/** Does a verb. What it throws is its own: it has changed nothing, and the others of its group go on. */
function answerOf({ work, resolve, reject }: Verb, key: LockedKey | undefined): Done {
  try {
    const answer = work(key);
    return () => resolve(answer);
  } catch (error) {
    return () => reject(error);
  }
}
