/** The playground's gateway for all hosts in this folder, and their start and end. */

import process from "node:process";
import type { Gateway } from "../../src/index.ts";
import { placeOf } from "../../src/serve/process.ts";
import { demoGateway } from "../gateway.ts";

const place = placeOf();
export const hostname: string = place.host;
export const port: number = place.port;
export const gateway: Gateway = (await demoGateway()).gateway;

/** The time for live calls to end, and then for clients to read their answers, in milliseconds. */
const END_MS = 5_000;

/** Prints the address of the host. On SIGTERM and SIGINT, ends live calls first, and then the server. */
export function ready(bound: number, close: () => unknown): void {
  console.log(`The gateway is at http://${hostname}:${bound}/ai`);
  const end = async (): Promise<void> => {
    await gateway.close({ deadlineMs: END_MS });
    // Do not wait for clients that do not read their answers.
    setTimeout(() => process.exit(), END_MS).unref();
    await close();
    process.exit();
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void end());
}

/** Closes a Node server, and waits until all requests are answered. */
export const closed = (server: { close(done: () => void): unknown }): Promise<void> =>
  new Promise((resolve) => void server.close(resolve));
