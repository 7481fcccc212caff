/** The gateway that each of these hosts mounts, which is the playground's, and where the host is to listen. */

import process from "node:process";
import { gateway } from "../gateway.ts";

export { gateway };

export const port: number = Number(process.env["PORT"] ?? 3000);
export const hostname: string = process.env["HOST"] ?? "127.0.0.1";

/** Says where the host listens; with port 0 only the host itself knows. */
export const ready = (bound: number): void => console.log(`The gateway is at http://${hostname}:${bound}/ai`);

// Live calls may end before the process does.
process.once("SIGTERM", () => void gateway.close({ deadlineMs: 5_000 }).finally(() => process.exit()));
