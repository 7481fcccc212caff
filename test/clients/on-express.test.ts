/** The clients on the playground in Express, over a real socket. */

import { clients } from "./clients.ts";
import { tryOn } from "./servers.ts";

tryOn("express", clients);
