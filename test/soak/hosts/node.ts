/** A host on Node. The argument of the process names the server framework. */

import { type Listen, onExpress4, onExpress5, onFastify, onHono, onKoa, onNode, overSocket } from "../../hosts/node.ts";
import { PREFIX } from "../calls.ts";
import { beSoaked } from "../served.ts";

const LISTENERS: Readonly<Record<string, Listen>> = {
  node: onNode,
  "express 4": onExpress4,
  "express 5": onExpress5,
  koa: onKoa,
  fastify: onFastify,
  hono: onHono,
};

const listen = LISTENERS[process.argv[2] ?? ""];
if (!listen) throw new Error(`There is no host "${process.argv[2]}".`);
await beSoaked((options) => overSocket(listen)(options, PREFIX));
