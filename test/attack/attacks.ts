/** The classes of attacks, in the order of the table. */

import type { Attack } from "./frame.ts";
import { backends } from "./backends.ts";
import { clocks } from "./clocks.ts";
import { grow } from "./grow.ts";
import { leaks } from "./leaks.ts";
import { mutate } from "./mutate.ts";
import { secrets } from "./secrets.ts";
import { sockets } from "./sockets.ts";
import { stores } from "./stores.ts";
import { tenants } from "./tenants.ts";
import { upstreams } from "./upstreams.ts";

export const attacks: readonly Attack[] = [
  mutate,
  grow,
  backends,
  stores,
  upstreams,
  clocks,
  leaks,
  sockets,
  tenants,
  secrets,
];
