/** Runs before the playground starts from the sources: says in one line that Node is too old, because such a Node cannot read TypeScript. */

import { createRequire } from "node:module";
import process from "node:process";

const { engines } = createRequire(import.meta.url)("../package.json");
const oldest = engines.node.replace(">=", "");
const [major, minor] = process.versions.node.split(".").map(Number);
const [oldestMajor, oldestMinor] = oldest.split(".").map(Number);

if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  console.error(`polygate needs Node ${oldest} or newer; this is ${process.version}.`);
  process.exit(1);
}
