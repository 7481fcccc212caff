/** The gateway that each of these hosts mounts, with the playground's keys and model, and where it is to listen. */

import process from "node:process";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { demoBackend } from "../demo/backend.ts";
import { demoKeys } from "../keys.ts";

export const gateway: Gateway = createGateway({ backend: demoBackend(), quotas: memoryQuotaStore(demoKeys) });

export const port: number = Number(process.env["PORT"] ?? 3000);
export const hostname: string = process.env["HOST"] ?? "127.0.0.1";

/** Says where the host listens; with port 0 only the host itself knows. */
export const ready = (bound: number): void => console.log(`The gateway is at http://${hostname}:${bound}/ai`);

// Live calls may end before the process does.
process.once("SIGTERM", () => void gateway.close({ deadlineMs: 5_000 }).finally(() => process.exit()));
