// context.ts
import express, { type Request } from "express";
import { createGateway, GatewayError, memoryQuotaStore } from "polygate";
import { toExpressHandler } from "polygate/express";
import { openStores } from "polygate/stores";

// Of your own login, which knows the tenant of a request.
const callerOf = (req: Request) => ({ ip: req.ip, tenant: req.get("x-tenant") });
type Caller = ReturnType<typeof callerOf>;

const stores = await openStores("sqlite::memory:"); // Of your database.
const gateway = createGateway<Caller>({
  backend: {
    async *chat(_request, call) {
      yield `You are ${call.context?.ip}, and ${call.clientAddress} is the proxy.`;
    },
  },
  quotas: memoryQuotaStore([{ apiKey: "sk-team-a" }]),
  onCall: stores.recorder<Caller>({ groupOf: ({ context }) => context?.tenant }),
});

const app = express().disable("x-powered-by");
app.set("trust proxy", 1); // One proxy stands before this server.
app.use("/ai", async (req, res, next) => {
  if (callerOf(req).tenant !== "suspended") return next();
  const request = new globalThis.Request(new URL(req.originalUrl, "http://localhost"), { method: req.method });
  const error = new GatewayError("paused_api_key", "This tenant is suspended.");
  const refusal = gateway.at("/ai").errorResponse(request, error);
  if (!refusal) return next();
  const { status, headers } = refusal;
  res.status(status).set(Object.fromEntries(headers));
  res.send(await refusal.text());
});
app.use("/ai", toExpressHandler(gateway, { context: callerOf }));
app.listen(3000, "127.0.0.1", (error) => error && console.error(`The port cannot be used: ${error.message}`));
