/** Is loaded before a peer's own code: its process may connect to the loopback alone, whatever it wants to report elsewhere. */

import { Socket } from "node:net";

// oxlint-disable-next-line typescript/unbound-method -- called below with the socket that it was called on
const { connect } = Socket.prototype;

interface Target {
  readonly host?: string;
  readonly path?: string;
}

/** Where a connection is to go: Node hands on its options in an array, or as they were given. */
function targetOf(given: unknown): Target {
  const [first] = Array.isArray(given) ? (given as unknown[]) : [given];
  return typeof first === "object" && first !== null ? first : {};
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);

Socket.prototype.connect = function (this: Socket, ...args: unknown[]): Socket {
  const { host = "localhost", path } = targetOf(args[0]);
  if (path === undefined && !LOOPBACK.has(host)) return this.destroy(new Error(`No connection to ${host}.`));
  return Reflect.apply(connect, this, args) as Socket;
};
