/** What the generate-content endpoints promise (spec 2.8, 2.9, 4 to 9), held on one host. */

import { describe } from "vitest";
import type { TestHost } from "../hosts/host.ts";
import { addressesSuite } from "./generate-content/addresses.ts";
import { answersSuite } from "./generate-content/answers.ts";
import { credentialsSuite } from "./generate-content/credentials.ts";
import { deadlineSuite } from "./generate-content/deadline.ts";
import { failuresSuite } from "./generate-content/failures.ts";
import { hangUpSuite } from "./generate-content/hang-up.ts";
import { neutralSuite } from "./generate-content/neutral.ts";
import { permissionSuite } from "./generate-content/permission.ts";
import { quietSuite } from "./generate-content/quiet.ts";
import { requestsSuite } from "./generate-content/requests.ts";
import { streamsSuite } from "./generate-content/streams.ts";
import { tokenCountSuite } from "./generate-content/token-count.ts";
import { transportSuite } from "./generate-content/transport.ts";
import type { Mount } from "./stage.ts";

const SUITES: Readonly<Record<string, (mount: Mount) => void>> = {
  addresses: addressesSuite,
  requests: requestsSuite,
  "what the backend is asked": neutralSuite,
  credentials: credentialsSuite,
  transport: transportSuite,
  permission: permissionSuite,
  answers: answersSuite,
  streams: streamsSuite,
  failures: failuresSuite,
  "a quiet backend": quietSuite,
  "the deadline": deadlineSuite,
  "a client that hangs up": hangUpSuite,
  "the count of tokens": tokenCountSuite,
};

export function generateContentSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`generate-content at ${prefix || "the root"}`, () => {
      describe.each(Object.entries(SUITES))("%s", (_name, suite) => {
        suite({ host, prefix });
      });
    });
}
