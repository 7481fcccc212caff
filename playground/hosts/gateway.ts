/** The gateway that each of these hosts mounts, which is the playground's, and how the host says that it is there and ends. */

import process from "node:process";
import type { Gateway } from "../../src/index.ts";
import { demoGateway } from "../gateway.ts";
import { placeOf } from "../start.ts";

const place = placeOf({});
export const hostname: string = place.host;
export const port: number = place.port;
export const gateway: Gateway = (await demoGateway()).gateway;

/** How long live calls may take to end, and then the server to hand on their answers, in milliseconds. */
const END_MS = 5_000;

/** Says where the host listens. When the process is told to end, live calls end first, and then the server. */
export function ready(bound: number, close: () => unknown): void {
  console.log(`The gateway is at http://${hostname}:${bound}/ai`);
  const end = async (): Promise<void> => {
    await gateway.close({ deadlineMs: END_MS });
    // A client that takes nothing of its answer is not waited for.
    setTimeout(() => process.exit(), END_MS).unref();
    await close();
    process.exit();
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => void end());
}

/** Closes a server of Node's, and waits until it has answered what it was asked. */
export const closed = (server: { close(done: () => void): unknown }): Promise<void> =>
  new Promise((resolve) => void server.close(resolve));
