// kept-responses.ts
import { Buffer } from "node:buffer";
import { createGateway, encryptedResponseStore } from "polygate";
import { openStores } from "polygate/stores";
import { myBackend } from "./backend.ts";

const { responseStore, ...ports } = (await openStores("postgres://127.0.0.1/gateway")).ports;
if (!responseStore) throw new Error("Redis keeps no responses.");
const secret = Buffer.from(process.env["RESPONSES_SECRET"] ?? "", "base64"); // 32 bytes: `openssl rand -base64 32`.

export const gateway = createGateway({
  backend: myBackend,
  ...ports,
  responseStore: encryptedResponseStore(responseStore, { keys: [{ name: "2026-01", secret }] }),
  responseRetainMs: 7 * 86_400_000,
});
