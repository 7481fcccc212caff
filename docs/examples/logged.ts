// logged.ts
import express from "express";
import morgan from "morgan";
import { toExpressHandler } from "polygate/express";
import { gateway } from "./gateway.ts";

// Removes the query from the address in `combined`, `tiny` and the other log formats.
morgan.token<express.Request>("url", ({ originalUrl }) => originalUrl.split("?", 1)[0]);

export const app = express().disable("x-powered-by");
app.use(morgan("combined"));
app.use("/ai", toExpressHandler(gateway));
