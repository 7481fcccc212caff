// health.ts
import express from "express";
import { gateway } from "./gateway.ts";

export const app = express().disable("x-powered-by");
app.get("/healthz", (_request, response) => response.json({ ok: true }));
app.get("/readyz", async (_request, response) => {
  const { ready } = await gateway.health();
  response.status(ready ? 200 : 503).json({ ready });
});
