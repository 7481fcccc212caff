/** The suites with no host at all, and on the other runtimes. */

import { bare, runtimes } from "../hosts/index.ts";
import { runSuitesOn } from "./run.ts";

runSuitesOn([bare, ...runtimes]);
