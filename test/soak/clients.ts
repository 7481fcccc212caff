/** The clients of the soak: they read complete answers and leave, or hang up at any moment, in every manner and form. */

import { connect, type Socket } from "node:net";
import { type Manner, MANNERS } from "../drivers/raw-client.ts";
import {
  type Form,
  FORMS,
  LAST_TURN,
  nowMs,
  type Payer,
  POLICIES,
  type Policy,
  requestOf,
  type Script,
  scriptOf,
  unitsOf,
  upgradeOf,
} from "./calls.ts";
import type { Subject } from "./subject.ts";

const HEAD_END = "\r\n\r\n";
/** The end of a chunked answer. No answer of the soak contains it earlier. */
const CHUNKS_END = "\r\n0\r\n\r\n";

/** A connection of a client. It reads an answer to the last byte, and hangs up in the turn of that byte. */
export class Connection {
  readonly #socket: Socket;
  #text = "";
  #look: () => void = () => {};
  #fail: (error: Error) => void = () => {};
  #failure: Error | undefined;
  readonly #reads: boolean;
  /** The end of the frames of a WebSocket that were looked at; undefined for a connection of HTTP. */
  #framesEnd: number | undefined;

  /** @param reads False for a client that never reads an answer. */
  constructor(port: number, reads = true) {
    this.#reads = reads;
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.setNoDelay(true).setEncoding("latin1");
    if (!reads) this.#socket.pause();
    this.#socket.on("data", (chunk: string) => {
      this.#text += chunk;
      if (this.#framesEnd !== undefined) this.#answerPings(this.#framesEnd);
      this.#look();
    });
    this.#socket.on("error", this.#over).on("close", () => this.#over(new Error("The host closed the connection.")));
  }

  readonly #over = (error: Error): void => {
    this.#failure ??= new Error(`${error.message} Received: ${this.#text.slice(-1_000)}`, { cause: error });
    this.#fail(this.#failure);
  };

  /** Becomes a WebSocket where the form asks for one. */
  async upgrade({ overSocket }: Form, payer: Payer): Promise<void> {
    if (!overSocket) return;
    this.#socket.resume();
    await this.send(upgradeOf(payer));
    await this.until(HEAD_END);
    if (!this.#text.startsWith("HTTP/1.1 101 ")) throw new Error(`There is no WebSocket: ${this.#text}`);
    if (!this.#reads) this.#socket.pause();
    this.#text = this.#text.slice(this.#text.indexOf(HEAD_END) + HEAD_END.length);
    this.#framesEnd = 0;
    this.#answerPings(0);
  }

  /** Answers the pings behind the frames that were looked at. A host ends a connection that answers none. */
  #answerPings(from: number): void {
    let end = from;
    for (let frame = frameAt(this.#text, end); frame; frame = frameAt(this.#text, end)) {
      const payload = this.#text.slice(frame.start, frame.end);
      if (this.#text[end] === PING)
        void this.send(`\u008a${String.fromCharCode(0x80 | payload.length)}\0\0\0\0${payload}`);
      end = frame.end;
    }
    this.#framesEnd = end;
  }

  /** Sends requests in one piece. Resolves with their answers. */
  async ask(...requests: readonly string[]): Promise<readonly string[]> {
    const answers: string[] = [];
    void this.send(requests.join(""));
    await this.#until(() => {
      const next = (): number => (this.#framesEnd === undefined ? endOf(this.#text) : endOfTurn(this.#text));
      for (let end = next(); end > 0; end = next()) {
        answers.push(this.#text.slice(0, end));
        this.#text = this.#text.slice(end);
        if (this.#framesEnd !== undefined) this.#framesEnd -= end;
      }
      return answers.length >= requests.length;
    });
    return answers;
  }

  /** Resolves when the system has accepted the text, whose characters are bytes. */
  send(text: string | Uint8Array): Promise<void> {
    const bytes = typeof text === "string" ? Buffer.from(text, "latin1") : text;
    return new Promise((resolve) => void this.#socket.write(bytes, () => resolve()));
  }

  /** Resolves when a text has arrived. */
  until(text: string): Promise<void> {
    return this.#until(() => this.#text.includes(text));
  }

  hangUp(manner: Manner): void {
    switch (manner) {
      case "closes":
        return void this.#socket.destroy();
      case "resets":
        return void this.#socket.resetAndDestroy();
      case "half-closes":
        return void this.#socket.end();
      default:
        manner satisfies never;
    }
  }

  #until(there: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      this.#look = () => there() && resolve();
      this.#look();
      if (this.#failure) reject(this.#failure);
    });
  }
}

/** Returns the end of the first complete answer in a text, or 0. */
function endOf(text: string): number {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd < 0) return 0;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1];
  if (length !== undefined) {
    const end = headEnd + HEAD_END.length + Number(length);
    return end <= text.length ? end : 0;
  }
  const chunksEnd = text.indexOf(CHUNKS_END, headEnd);
  return chunksEnd < 0 ? 0 : chunksEnd + CHUNKS_END.length;
}

const PING = "\u0089";

/** Returns the place of the payload of a frame that begins here; undefined while a part of the frame is missing. */
function frameAt(text: string, at: number): { readonly start: number; readonly end: number } | undefined {
  const length = text.charCodeAt(at + 1);
  const isLong = length === 126;
  if (at + (isLong ? 4 : 2) > text.length) return undefined;
  const start = at + (isLong ? 4 : 2);
  const end = start + (isLong ? 256 * text.charCodeAt(at + 2) + text.charCodeAt(at + 3) : length);
  return end <= text.length ? { start, end } : undefined;
}

/** Returns the end of the first complete turn in the frames of a WebSocket, or 0. */
function endOfTurn(text: string): number {
  for (let frame = frameAt(text, 0); frame; frame = frameAt(text, frame.end))
    if (text.slice(frame.start, frame.end).includes(LAST_TURN)) return frame.end;
  return 0;
}

/** The number of clients that complete calls at the same time. */
const CLIENTS = 64;

/** The longest pause between two calls of a connection, in milliseconds: hosts close a quiet connection after five seconds. */
const KEPT_MS = 2_000;

/**
 * The ways to make calls, in turn. Most keep their connection. Some ask the host to close it, some close it in the turn of the last byte,
 * and some do so after two calls sent at once.
 */
const WAYS = [
  ...Array.from({ length: 15 }, () => "keeps" as const),
  "asks to close",
  "asks to close",
  "closes",
  "sends two, closes",
] as const;

/** Makes the calls with the ids from `first` up to `end`. Returns the units to charge for them. */
export async function complete(subject: Subject, first: number, end: number): Promise<number> {
  const ids = upTo(first, end);
  let units = 0;
  const client = async (): Promise<void> => {
    using kept = new Kept(subject);
    for (const id of ids) {
      const way = WAYS[id % WAYS.length];
      const second = way === "sends two, closes" ? ids.next().value : undefined;
      const scripts = [id, ...(second === undefined ? [] : [second])].map(scriptOf);
      // No client hangs up here, so that the policy must not matter.
      const policy = POLICIES[id % POLICIES.length] as Policy;
      const forms = formsOf(scripts);
      const connection = await (way === "keeps" ? kept.at(policy, forms) : opened(subject.port(policy), forms));
      await checked(connection, scripts, forms, way !== "asks to close");
      if (way !== "keeps") connection.hangUp("closes");
      for (const script of scripts) units += unitsOf(script);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return units;
}

/** Takes a turn over a WebSocket. */
export async function turn(connection: Connection, id: number): Promise<void> {
  await checked(connection, [scriptOf(id)], [FORMS.find(({ overSocket }) => overSocket) as Form], true);
}

/** The connections that a client keeps, by policy. */
class Kept implements Disposable {
  readonly #subject: Subject;
  readonly #connections = new Map<string, Connection>();
  readonly #usedAtMs = new Map<string, number>();

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  async at(policy: Policy, forms: readonly Form[]): Promise<Connection> {
    const nowMs = performance.now();
    const name = `${policy} ${forms[0]?.overSocket}`;
    const kept = this.#connections.get(name);
    const isFresh = nowMs - (this.#usedAtMs.get(name) ?? 0) < KEPT_MS;
    if (!isFresh) kept?.hangUp("closes");
    const connection = isFresh && kept ? kept : await opened(this.#subject.port(policy), forms);
    this.#connections.set(name, connection);
    this.#usedAtMs.set(name, nowMs);
    return connection;
  }

  [Symbol.dispose](): void {
    for (const connection of this.#connections.values()) connection.hangUp("closes");
  }
}

function* upTo(first: number, end: number): Generator<number, undefined> {
  for (let id = first; id < end; id++) yield id;
}

/** Sends requests in one piece. Throws unless each answer is complete and successful. */
async function checked(
  connection: Connection,
  scripts: readonly Script[],
  forms: readonly Form[],
  keepAlive: boolean,
): Promise<void> {
  const requests = scripts.map((script, index) => requestOf(forms[index] as Form, script, "ended", keepAlive));
  const answers = await connection.ask(...requests);
  for (const [index, { last, overSocket }] of forms.entries()) {
    const answer = answers[index] ?? "";
    if (!(overSocket || answer.startsWith("HTTP/1.1 200 ")) || !answer.includes(last))
      throw new Error(`An answer is not as it should be: ${answer}`);
  }
}

/** Returns the forms of calls over one connection. A call that cannot go over the connection of the first takes its form. */
function formsOf(scripts: readonly Script[]): Form[] {
  const forms = scripts.map(({ id }) => FORMS[id % FORMS.length] as Form);
  const [first] = forms as [Form];
  return forms.map((form) => (form.overSocket === first.overSocket ? form : first));
}

/** Opens a connection for calls that end. */
async function opened(port: number, [form]: readonly Form[]): Promise<Connection> {
  const connection = new Connection(port);
  if (form) await connection.upgrade(form, "ended");
  return connection;
}

/** The moments of a hang-up, by how much of the answer has arrived, with the number of pieces after which the backend waits. */
const WAITS_AFTER = {
  "while asking": undefined,
  "at once": undefined,
  "before the first": 0,
  "in the middle": 1,
  "after the last": undefined,
};

export type Moment = keyof typeof WAITS_AFTER;

export interface HangUps {
  /** The number of clients that hang up in the same turn. */
  readonly together: number;
  readonly policy: Policy;
  readonly moments: readonly Moment[];
}

export interface HungUp {
  /** The units to charge for the calls that end all the same. */
  readonly units: number;
  /** The calls whose signal may fire. */
  readonly mayFire: readonly number[];
  /** The times from hang-ups to their signals, in milliseconds. */
  readonly delaysMs: readonly number[];
}

interface Call {
  readonly script: Script;
  readonly form: Form;
  readonly manner: Manner;
  readonly moment: Moment;
  readonly payer: Payer;
}

/** Makes calls with the ids from `first` on, and hangs up on all. Resolves when each expected signal has fired. */
export async function hangUp(subject: Subject, first: number, { together, policy, moments }: HangUps): Promise<HungUp> {
  const calls = Array.from({ length: together }, (_, index) => callOf(index, first + index, policy, moments));
  const connections = await Promise.all(calls.map((call) => openAt(subject, policy, call)));
  const waiting = calls.filter(({ script }) => script.waitsAfter !== undefined).map(({ script }) => script.id);
  const drained = policy === "drains" ? subject.draining(waiting.length) : undefined;
  const fired = drained ? [] : waiting.map((id) => subject.firing(id));
  const hungUpAt = new Map<number, number>();
  for (const [index, { script, manner }] of calls.entries()) {
    hungUpAt.set(script.id, nowMs());
    connections[index]?.hangUp(manner);
  }
  await drained;
  if (drained) await subject.goOn(waiting);
  await Promise.all(fired);
  // A half-closed connection is still open in one direction.
  for (const connection of connections) connection.hangUp("closes");
  const ending = calls.filter(({ payer }) => payer === "ended");
  return {
    units: ending.reduce((sum, { script }) => sum + unitsOf(script), 0),
    mayFire: drained ? [] : calls.filter(({ payer }) => payer !== "ended").map(({ script }) => script.id),
    delaysMs: drained ? [] : waiting.map((id) => (subject.fired.get(id) ?? Infinity) - (hungUpAt.get(id) ?? 0)),
  };
}

/** Combines every moment with every manner and every form. */
function callOf(index: number, id: number, policy: Policy, moments: readonly Moment[]): Call {
  const moment = moments[index % moments.length] ?? "at once";
  const rest = Math.floor(index / moments.length);
  const manner = MANNERS[rest % MANNERS.length] ?? "closes";
  const form = FORMS[Math.floor(rest / MANNERS.length) % FORMS.length] as Form;
  const waitsAfter = WAITS_AFTER[moment];
  const script: Script = {
    ...scriptOf(id),
    ...(waitsAfter !== undefined && { waitsAfter }),
    ...(moment === "at once" && { slow: true }),
  };
  return { script, form, manner, moment, payer: payerOf(moment, policy) };
}

function payerOf(moment: Moment, policy: Policy): Payer {
  // The charge is unknown: the gateway notices the hang-up at any point of the answer.
  if (moment === "at once" || moment === "while asking") return "raced";
  return moment === "after the last" || policy === "drains" ? "ended" : "cut";
}

/** Opens a connection, and brings a call to its moment. */
async function openAt(subject: Subject, policy: Policy, { script, form, moment, payer }: Call): Promise<Connection> {
  const connection = new Connection(subject.port(policy));
  await connection.upgrade(form, payer);
  const waiting = subject.waiting(script.id);
  const request = requestOf(form, script, payer);
  await connection.send(moment === "while asking" ? request.slice(0, -10) : request);
  if (script.waitsAfter !== undefined) await waiting;
  if (moment === "after the last") await connection.until(form.last);
  return connection;
}
