/** Sends commands and scripts to Redis through the host's client, and makes the names of keys. */

import { sha1 } from "@noble/hashes/legacy.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type Check, hasMethod, lacking, type Shapes } from "../../options.ts";

/** The part of an ioredis client or cluster that the stores use. */
export interface IoredisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** The part of a node-redis client that the stores use. */
export interface NodeRedisClient {
  sendCommand(args: string[]): Promise<unknown>;
}

/** The part of a node-redis cluster that the stores use. */
export interface NodeRedisCluster {
  readonly masters: unknown;
  sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>;
}

/** The part of Bun's own client that the stores use. */
export interface BunRedisClient {
  send(command: string, args: string[]): Promise<unknown>;
}

/** A connected client. A client of another library can be wrapped: `{ call: (command, ...args) => … }`. */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster | BunRedisClient;

/** Options of every store in Redis. */
export interface RedisStoreOptions {
  /** A connected client of `redis`, `ioredis` or Bun, or a cluster of the first two. The host closes it. */
  readonly client: RedisClient;
  /**
   * The prefix of all names in Redis: `polygate` by default, with 1 to 100 letters, digits, `_`, `.`, `:` or `-`. With a part in braces, as
   * in `{polygate}`, a cluster keeps everything in one slot, and the quota store may have budgets there. No part behind a colon may be
   * `budget`, `owner`, `secret` or `rates`.
   */
  readonly prefix?: string;
  /** For tests: returns milliseconds to add to the server's time. Leases and entries expire by this time. */
  readonly aheadMs?: () => number;
}

const assertClient: Check = (path, client) => {
  const methods = ["call", "sendCommand", "send"];
  // Each function has a method `call`.
  if (typeof client === "function" || !methods.some((method) => hasMethod(client, method)))
    throw new TypeError(`${path} must be a client of redis, ioredis or Bun, ${lacking(client, methods)}.`);
};

export const REDIS_SHAPES: Shapes<RedisStoreOptions> = {
  client: assertClient,
  prefix: "string?",
  aheadMs: "function?",
};

/** A Lua script, which Redis runs atomically. */
export interface Script {
  readonly text: string;
  readonly hash: string;
}

export const scriptOf = (text: string): Script => ({ text, hash: bytesToHex(sha1(utf8ToBytes(text))) });

/** Lua that reads the time of the server as `now`. ARGV[1] is the time to add to the clock, in milliseconds. */
export const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
`;

type Argument = string | number;

/** A prefix that is the beginning of another store's names. Some of these end in an id, which a user chooses. */
const OF_OTHER = /^(.+?):(?:budget|owner|secret|rates)(?::|$)/;

/** The commands, scripts and names of one store. */
export class RedisAccess {
  /** Sends a command. `key` is the command's first key: a cluster finds the node by this key. */
  readonly send: (key: string, command: string, args: readonly string[]) => Promise<unknown>;
  readonly aheadMs: () => number;
  readonly #prefix: string;

  constructor({ client, prefix = "polygate", aheadMs = () => 0 }: RedisStoreOptions) {
    if (!/^(?=.{1,100}$)[\w:.-]*(?:\{[\w:.-]+\})?[\w:.-]*$/.test(prefix))
      throw new RangeError(`${JSON.stringify(prefix)} is no prefix.`);
    const [, other] = OF_OTHER.exec(prefix) ?? [];
    if (other !== undefined)
      throw new RangeError(
        `${JSON.stringify(prefix)} is no prefix: the store of the prefix ${JSON.stringify(other)} may have the same names.`,
      );
    this.send = commandsOf(client);
    this.aheadMs = aheadMs;
    this.#prefix = prefix;
  }

  /** Runs a script by its hash. Sends the text only when the server does not know the script yet. All keys must be in one slot. */
  async run(script: Script, keys: readonly [string, ...string[]], args: readonly Argument[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args.map(String)];
    try {
      return await this.send(keys[0], "EVALSHA", [script.hash, ...rest]);
    } catch (error) {
      if (!(error instanceof Error && error.message.includes("NOSCRIPT"))) throw error;
      return this.send(keys[0], "EVAL", [script.text, ...rest]);
    }
  }

  name(part: string): string {
    return `${this.#prefix}:${part}`;
  }

  /**
   * Makes a name that belongs to an api key. A cluster computes the slot from the first part in braces: that of the prefix, which all names
   * share, or that of the key.
   */
  nameOfKey(keyId: string, part: string): string {
    return this.name(`{${encodeURIComponent(keyId)}}:${part}`);
  }
}

/** Recognises a client by its shape. */
function commandsOf(client: RedisClient): RedisAccess["send"] {
  // Check `call` first: ioredis has a `sendCommand` as well, with other arguments.
  if ("call" in client) return (_key, command, args) => client.call(command, ...args);
  if ("masters" in client)
    return (key, command, args) => connected(client) ?? client.sendCommand(key, false, [command, ...args]);
  if ("sendCommand" in client)
    return (_key, command, args) => connected(client) ?? client.sendCommand([command, ...args]);
  return (_key, command, args) => client.send(command, [...args]);
}

/**
 * Rejects for a client of node-redis that was never connected, or was closed: the client's own error does not say what to do. Returns
 * undefined for any other client.
 */
function connected(client: NodeRedisClient | NodeRedisCluster): Promise<never> | undefined {
  if (!("isOpen" in client) || client.isOpen !== false) return undefined;
  return Promise.reject(new Error("The Redis client is not connected: await client.connect() first."));
}

/** Converts a script's answer to a list of texts; to an empty list when the answer is not a list. */
export const listOf = (answer: unknown): readonly string[] => (Array.isArray(answer) ? answer.map(String) : []);
