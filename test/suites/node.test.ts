/** The suites in the process of the tests: with no host at all, and on every framework of Node. */

import { hostsOnNode } from "../hosts/index.ts";
import { runSuitesOn } from "./run.ts";

runSuitesOn(hostsOnNode);
