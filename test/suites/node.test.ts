/** The suites on Node and each of its frameworks, in the process of the tests. */

import { hostsOnNode } from "../hosts/index.ts";
import { runSuitesOn } from "./run.ts";

runSuitesOn(hostsOnNode);
