/** The playground: `polygate demo` from the sources. It builds its pages with the first request for them. */

import process from "node:process";
import { describeProblem } from "../src/stores/open/connection.ts";
import { builtFiles } from "./build.ts";
import { startDemo } from "./start.ts";

await startDemo(builtFiles()).catch((error: unknown) => {
  console.error(describeProblem(error));
  process.exit(1);
});
