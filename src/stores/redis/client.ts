/** Calls Redis through whichever client the host has, and runs scripts by their hash. */

import { sha1 } from "@noble/hashes/legacy.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** What the store needs of ioredis: a client or a cluster. */
export interface IoredisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** What the store needs of node-redis. */
export interface NodeRedisClient {
  sendCommand(args: string[]): Promise<unknown>;
}

/** What the store needs of a cluster of node-redis. */
export interface NodeRedisCluster {
  readonly masters: unknown;
  sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>;
}

/** What the store needs of Bun's own client. */
export interface BunRedisClient {
  send(command: string, args: string[]): Promise<unknown>;
}

/** A connected client. Any other can be wrapped: `{ call: (command, ...args) => … }`. */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster | BunRedisClient;

/** Sends a command whose first key is told, which is how a cluster finds the node. */
export type SendCommand = (key: string, command: string, args: readonly string[]) => Promise<unknown>;

/** Tells by a client's shape how it is called. Throws a TypeError for a client of no known shape. */
export function commandsOf(client: RedisClient): SendCommand {
  // ioredis has a `sendCommand` as well, which takes something else.
  if ("call" in client) return (_key, command, args) => client.call(command, ...args);
  if ("masters" in client) return (key, command, args) => client.sendCommand(key, false, [command, ...args]);
  if ("sendCommand" in client) return (_key, command, args) => client.sendCommand([command, ...args]);
  if ("send" in client) return (_key, command, args) => client.send(command, [...args]);
  throw new TypeError("A Redis client must have `call`, `sendCommand` or `send`.");
}

/** A script that Redis runs whole, with nothing in between. */
export interface Script {
  readonly text: string;
  readonly hash: string;
}

export const scriptOf = (text: string): Script => ({ text, hash: bytesToHex(sha1(utf8ToBytes(text))) });

/** Runs a script; its text is sent only where the server does not know it yet. All keys must be of one slot. */
export async function runScript(
  send: SendCommand,
  { text, hash }: Script,
  keys: readonly [string, ...string[]],
  args: readonly (string | number)[],
): Promise<unknown> {
  const [first] = keys;
  const rest = [String(keys.length), ...keys, ...args.map(String)];
  try {
    return await send(first, "EVALSHA", [hash, ...rest]);
  } catch (error) {
    if (!(error instanceof Error && error.message.includes("NOSCRIPT"))) throw error;
    return send(first, "EVAL", [text, ...rest]);
  }
}
