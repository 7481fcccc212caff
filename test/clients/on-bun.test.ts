/** The clients on the playground in Bun, over a real socket. */

import { clients } from "./clients.ts";
import { tryOn } from "./servers.ts";

tryOn("bun", clients);
