/** The suites on the other runtimes, beside a gateway with no host, which says what cases there are. */

import { bare, runtimes } from "../hosts/index.ts";
import { runSuitesOn } from "./run.ts";

runSuitesOn([{ ...bare, mounts: ["/ai"] }, ...runtimes]);
