/** Clients that want their whole answer, and leave in every manner there is once they have it. */

import { FORMS, type Form, type Policy, requestOf, type Script, scriptOf, unitsOf } from "./calls.ts";
import { Connection } from "./connection.ts";
import type { Subject } from "./subject.ts";

/** Where nothing hangs up, a policy is to change nothing. */
const COMPLETED_UNDER: readonly Policy[] = ["cancels", "drains", "cuts"];

/** How many clients ask at the same time. */
const CLIENTS = 64;

/** How long after the last call on a connection the next one may follow, in milliseconds: hosts close what is quiet for five seconds. */
const KEPT_MS = 2_000;

/**
 * How calls in a row are made. Most keep their connection. Some ask for it to be closed, some close it in the turn in
 * which the last byte came, and some do so after two calls that were sent at once.
 */
const MANNERS = [
  ...Array.from({ length: 15 }, () => "keeps" as const),
  "asks to close",
  "asks to close",
  "closes",
  "sends two, closes",
] as const;

/** Makes calls whose ids are those from `first` up to `end`; what they are to be charged, in units. */
export async function complete(subject: Subject, first: number, end: number): Promise<number> {
  const ids = upTo(first, end);
  let units = 0;
  const client = async (): Promise<void> => {
    using kept = new Kept(subject);
    for (const id of ids) {
      const manner = MANNERS[id % MANNERS.length];
      const second = manner === "sends two, closes" ? ids.next().value : undefined;
      const scripts = [id, ...(second === undefined ? [] : [second])].map(scriptOf);
      const policy = COMPLETED_UNDER[id % COMPLETED_UNDER.length] as Policy;
      const connection = manner === "keeps" ? kept.at(policy) : new Connection(subject.port(policy));
      await checked(connection, scripts, manner !== "asks to close");
      if (manner !== "keeps") connection.hangUp("closes");
      for (const script of scripts) units += unitsOf(script);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return units;
}

/** The connections that one client keeps. */
class Kept implements Disposable {
  readonly #subject: Subject;
  readonly #connections = new Map<Policy, Connection>();
  readonly #usedAtMs = new Map<Policy, number>();

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  at(policy: Policy): Connection {
    const nowMs = performance.now();
    const kept = this.#connections.get(policy);
    const isFresh = nowMs - (this.#usedAtMs.get(policy) ?? 0) < KEPT_MS;
    if (!isFresh) kept?.hangUp("closes");
    const connection = isFresh && kept ? kept : new Connection(this.#subject.port(policy));
    this.#connections.set(policy, connection);
    this.#usedAtMs.set(policy, nowMs);
    return connection;
  }

  [Symbol.dispose](): void {
    for (const connection of this.#connections.values()) connection.hangUp("closes");
  }
}

function* upTo(first: number, end: number): Generator<number, undefined> {
  for (let id = first; id < end; id++) yield id;
}

/** Asks, and throws unless each answer is the one that belongs there. */
async function checked(connection: Connection, scripts: readonly Script[], keepAlive: boolean): Promise<void> {
  const requests = scripts.map((script) => requestOf(formOf(script), script, "ended", keepAlive));
  const answers = await connection.ask(...requests);
  for (const [index, script] of scripts.entries()) {
    const answer = answers[index] ?? "";
    if (!answer.startsWith("HTTP/1.1 200 ") || !answer.includes(formOf(script).last))
      throw new Error(`An answer is not as it should be: ${answer}`);
  }
}

const formOf = ({ id }: Script): Form => FORMS[id % FORMS.length] as Form;
