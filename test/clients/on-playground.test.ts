/** The clients on the playground itself, over a real socket. */

import { clients } from "./clients.ts";
import { tryOn } from "./servers.ts";

tryOn("the playground", clients);
