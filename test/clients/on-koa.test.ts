/** The clients on the playground in Koa, over a real socket. */

import { clients } from "./clients.ts";
import { tryOn } from "./servers.ts";

tryOn("koa", clients);
