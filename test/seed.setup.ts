/** Gives every property the same seed, so that a run says the same when it is repeated. */

import process from "node:process";
import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env["FAST_CHECK_SEED"] ?? 20_261_121) });
