/** Sessions of agents in virtual time: the calls of many conversations, in the order of their times. */

import { Random } from "../../../trial/random.ts";
import type { Block } from "./vendor.ts";

/** One call of a session. */
export interface SessionCall {
  readonly at: number;
  readonly session: Session;
  /** The number of the call in its session, from 0. */
  readonly turn: number;
}

export interface Session {
  readonly key: string;
  /** The program of the agent: its tools and system prompt. */
  readonly program: number;
  readonly id: number;
  readonly calls: readonly SessionCall[];
  /** The blocks of the last call. A call has the first `turn + 2` of them: the program, and a block for each turn. */
  readonly blocks: readonly Block[];
}

export const OUTPUT_TOKENS = 400;

/** The tokens of the tools and the system prompt of each program. */
export const PROGRAM_TOKENS: readonly number[] = [4_000, 8_000, 12_000, 16_000, 900];

/** @returns The calls of all sessions, in the order of their times. */
export function sessionCalls(seed: number, count: number, keys: number): SessionCall[] {
  const random = new Random(seed);
  const calls: SessionCall[] = [];
  let start = 0;
  for (let id = 0; calls.length < count; id++) {
    // A new session every 20 seconds on average.
    start += -Math.log(1 - random.next()) * 20_000;
    const program = random.int(0, PROGRAM_TOKENS.length - 1);
    const turns = Math.min(200, 1 + Math.floor(-Math.log(1 - random.next()) * 25));
    const own: SessionCall[] = [];
    let upTo = PROGRAM_TOKENS[program] ?? 0;
    const blocks: Block[] = [{ prefix: `program ${program}`, upTo }];
    const session: Session = { key: `key-${random.int(1, keys)}`, program, id, calls: own, blocks };
    let at = start;
    for (let turn = 0; turn < turns; turn++) {
      upTo += turn === 0 ? random.int(100, 4_000) : random.int(200, 2_000);
      blocks.push({ prefix: `session ${id} turn ${turn}`, upTo });
      own.push({ at, session, turn });
      // An agent calls again when its tools have run; a person takes minutes.
      at += random.chance(0.1) ? random.int(60_000, 1_800_000) : random.int(3_000, 60_000);
    }
    calls.push(...own);
  }
  return calls.toSorted((one, other) => one.at - other.at).slice(0, count);
}

export const blocksOf = ({ session, turn }: SessionCall): readonly Block[] => session.blocks.slice(0, turn + 2);

/** @returns The calls of one agent: a program of 16,000 tokens, and 400 to 1,200 more with each of 100 turns. */
export function oneSession(seed: number, [least, most]: readonly [least: number, most: number]): SessionCall[] {
  const random = new Random(seed);
  const calls: SessionCall[] = [];
  let [at, upTo] = [0, PROGRAM_TOKENS[3] ?? 0];
  const blocks: Block[] = [{ prefix: "program 3", upTo }];
  const session: Session = { key: "key", program: 3, id: 0, calls, blocks };
  for (let turn = 0; turn < 100; turn++) {
    upTo += random.int(400, 1_200);
    blocks.push({ prefix: `turn ${turn}`, upTo });
    calls.push({ at, session, turn });
    at += random.int(least, most);
  }
  return calls;
}
