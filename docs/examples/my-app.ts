// my-app.ts
import express, { type Express } from "express";
import { GatewayError, type Gateway, type GatewayOptions } from "polygate";
import { toExpressHandler } from "polygate/express";

export const policy = {
  price: (usage) => usage.inputTokens + 5 * usage.outputTokens,
  hooks: [
    {
      before({ model }) {
        if (model === "secret") throw new GatewayError("model_not_allowed", "This model is not for customers.");
      },
    },
  ],
} satisfies Partial<GatewayOptions>;

export function myApp(gateway: Gateway): Express {
  const app = express().disable("x-powered-by");
  app.get("/", (_req, res) => void res.send("My app"));
  return app.use("/ai", toExpressHandler(gateway));
}
