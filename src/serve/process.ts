/** A server as a process: the address where it listens, and its end. */

import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";

/** The address and the port of a server. With port 0, the system chooses a free port. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** The flags of a command that starts a server: its place, the address of its store, and the form of its lines. */
export interface ServerFlags extends Partial<Place> {
  readonly store?: string;
  readonly json?: boolean;
}

/**
 * Returns the chosen place, and takes the rest from HOST and PORT. An empty host or variable counts as missing: Node would listen on every
 * address of the machine.
 */
export function placeOf(host?: string, port?: number): Place {
  const { HOST, PORT } = process.env;
  return { host: host || HOST || "127.0.0.1", port: port ?? portOf("PORT", PORT || "3000") };
}

/** Parses a port. Throws a RangeError that names the option or variable with a wrong port. */
export function portOf(name: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new RangeError(`${name} must be an integer from 0 to 65535, not ${JSON.stringify(text)}.`);
}

/** The names of the settings of a place, for advice. */
export type PlaceNames = Readonly<Record<keyof Place, string>>;

const FLAGS: PlaceNames = { host: "--host or HOST", port: "--port or PORT" };

/** Advice for each error that keeps a server from listening. */
const HELP: Readonly<Record<string, (names: PlaceNames) => string>> = {
  EADDRINUSE: ({ port }) => `another server is there. Choose another port with ${port}.`,
  EADDRNOTAVAIL: ({ host }) => `this machine has no such address. Choose another with ${host}.`,
  EACCES: ({ port }) => `ports below 1024 need more rights. Choose another port with ${port}.`,
};

/** Listens, and resolves with the URL. Rejects with an error that says what helps, by the names of the settings. */
export function listen(server: Server, { host, port }: Place, names: PlaceNames = FLAGS): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException): void => {
      const help = HELP[error.code ?? ""]?.(names) ?? error.message;
      reject(new Error(`Cannot listen on ${host}:${port}: ${help}`, { cause: error }));
    };
    server.once("error", fail).listen(port, host, () => {
      server.off("error", fail);
      const { port: bound } = server.address() as AddressInfo;
      resolve(`http://${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });
}

/** The time between two looks for the parent, in milliseconds. */
const LOOK_MS = 500;

/**
 * Calls a function once, when the process is told to end. A second signal ends the process at once. A process that npm has started also ends
 * after its parent: npm passes signals to a shell, and some shells end without passing them on.
 */
export function onEnd(end: () => void): void {
  const { ppid } = process;
  let looking: NodeJS.Timeout | undefined;
  const endOnce = (): void => {
    clearInterval(looking);
    for (const signal of SIGNALS) process.off(signal, endOnce).once(signal, exit);
    end();
  };
  for (const signal of SIGNALS) process.on(signal, endOnce);
  if (process.env["npm_lifecycle_event"] !== undefined)
    looking = setInterval(() => process.ppid !== ppid && endOnce(), LOOK_MS).unref();
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Exits, because the first process of a container ignores a signal without a listener. */
const exit = (_signal: NodeJS.Signals, number: number): never => process.exit(128 + number);
