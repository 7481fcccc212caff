// sign.ts
import { createHmac } from "node:crypto";
import { relay } from "polygate/backends/relay";

const secret = process.env["SIGNING_SECRET"] ?? "";

export const signed = relay({
  format: "messages",
  baseUrl: "https://api.example.com/v1",
  sign({ method, url, body }) {
    const signature = createHmac("sha256", secret).update(`${method} ${url}\n`).update(body).digest("hex");
    return { headers: { "x-signature": signature } };
  },
});
