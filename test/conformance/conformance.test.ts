/** Runs the conformance suites on every host. */

import { describe } from "vitest";
import { hosts } from "../hosts.ts";
import { imagesSuite } from "./images.ts";
import { messagesSuite } from "./messages.ts";
import { mountingSuite } from "./mounting.ts";
import { tokenUsageSuite } from "./token-usage.ts";

for (const host of hosts)
  describe.skipIf(!host.available)(`on ${host.name}`, () => {
    mountingSuite(host);
    messagesSuite(host);
    tokenUsageSuite(host);
    imagesSuite(host);
  });
