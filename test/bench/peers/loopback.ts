/** Runs before the code of a peer, and lets the process connect only to the loopback, so that it sends no reports. */

import { Socket } from "node:net";

// oxlint-disable-next-line typescript/unbound-method -- called below with its socket as `this`
const { connect } = Socket.prototype;

interface Target {
  readonly host?: string;
  readonly path?: string;
}

/** Returns the host of a connection. Node passes the options in an array, or unchanged. */
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
