// catch-all.ts
import express from "express";
import { wrongAddress } from "polygate";
import { toExpressHandler } from "polygate/express";
import { gateway } from "./gateway.ts";

const app = express().disable("x-powered-by");
app.use("/ai", toExpressHandler(gateway));
// The last route of all, for clients with a wrong base URL.
app.use(({ method, originalUrl, headers }, response) => {
  response.status(404).json(wrongAddress(gateway, method, originalUrl, "/ai", headers));
});
app.listen(3000);
