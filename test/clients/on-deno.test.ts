/** The clients on the playground in Deno, over a real socket. */

import { clients } from "./clients.ts";
import { tryOn } from "./servers.ts";

tryOn("deno", clients);
