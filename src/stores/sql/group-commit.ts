/** Runs the verbs that wait for one key at the same time in one transaction: its lock, its reading and its writing are shared. */

import { lockKey, type LedgerAccess, type LockedKey, SWEEP_BATCH } from "./locked-key.ts";

/** Does work in a transaction, again after a conflict. */
export type Transact = <T>(work: (access: LedgerAccess) => Promise<T>) => Promise<T>;

/** A verb that waits for its turn. */
interface Verb {
  readonly keyId: string;
  readonly holdId: string;
  /** Does the verb on its locked key; undefined where there is no such key. It may run again, after a conflict. */
  readonly work: (key: LockedKey | undefined) => unknown;
  /** Tells the answer, or that the verb is to lead the next group. */
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** An answer that counts once its transaction is committed. */
type Done = () => void;

/** Tells a verb that waits to lead the next group. */
const LEAD = Symbol("lead");

export interface GroupCommitOptions {
  readonly transact: Transact;
  /** The upper bound of verbs in one transaction. */
  readonly maxVerbs: number;
  /** Whether all keys share one turn: in a database that lets in one writer at a time. */
  readonly oneWriter: boolean;
}

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  /** The verbs that wait, by their turn. A turn is there while a transaction of it is under way. */
  readonly #waiting = new Map<string, Verb[]>();

  constructor(options: GroupCommitOptions) {
    this.#options = options;
  }

  /** Does a verb on a key under its lock, with every lease of the key that has run out accounted for. */
  async do<T>(keyId: string, holdId: string, work: (key: LockedKey | undefined) => T): Promise<T> {
    const turn = this.#options.oneWriter ? "" : keyId;
    const waiting = this.#waiting.get(turn);
    if (waiting) {
      const told = await new Promise<unknown>((resolve, reject) => {
        waiting.push({ keyId, holdId, work, resolve, reject });
      });
      // `told` is the value that the work has returned.
      if (told !== LEAD) return told as T;
    } else this.#waiting.set(turn, []);
    // The first verb of a group asks the database from its own asynchronous context, as tracing has it.
    return new Promise<T>((resolve, reject) => {
      void this.#lead(turn, { keyId, holdId, work, resolve: (answer) => resolve(answer as T), reject });
    });
  }

  /** Does a verb, and those that wait with it, and hands the turn on. */
  async #lead(turn: string, verb: Verb): Promise<void> {
    const waiting = this.#waiting.get(turn) ?? [];
    const others = waiting.splice(0, this.#options.maxVerbs - 1);
    await this.#commit(Map.groupBy([verb, ...others], ({ keyId }) => keyId));
    const next = waiting.shift();
    if (next) next.resolve(LEAD);
    else this.#waiting.delete(turn);
  }

  /** Never rejects: each verb is told what becomes of it. */
  async #commit(byKey: ReadonlyMap<string, readonly Verb[]>): Promise<void> {
    let left = byKey;
    try {
      // Again for the keys of which more leases have run out than one transaction charges.
      while (left.size > 0) {
        const verbs = left;
        const { answers, again } = await this.#options.transact((access) => run(access, verbs));
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
