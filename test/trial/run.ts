/** `npm run trial -- NAME` runs a trial; without a name it lists them. */

import process from "node:process";
import { attackTrial } from "../attack/attacks.ts";
import { crashTrial } from "../crash/crash.ts";
import { conversationsTrial } from "../properties/conversations/trial.ts";
import { fleetTrial } from "../properties/simulator/borrowing/fleet.ts";
import { simulateTrial } from "../properties/simulator/trial.ts";
import { raceTrial } from "../race/race.ts";
import { redactionTrial } from "../redactor/trial.ts";
import { retriesTrial } from "../retries/retries.ts";
import { crowdTrial, soakTrial } from "../soak/trial.ts";
import { prometheusTrial } from "../telemetry/trial.ts";
import { cachesTrial } from "../upstreams/affinity/caches/fleet.ts";
import { runTrial } from "./frame.ts";

await runTrial(
  [
    soakTrial,
    crowdTrial,
    raceTrial,
    crashTrial,
    retriesTrial,
    simulateTrial,
    fleetTrial,
    attackTrial,
    conversationsTrial,
    redactionTrial,
    cachesTrial,
    prometheusTrial,
  ],
  process.argv.slice(2),
);
