/** What the messages endpoints promise (spec 2.6, 2.7, 4 to 9), held on one host. */

import { describe } from "vitest";
import type { TestHost } from "../hosts/host.ts";
import { answersSuite } from "./messages/answers.ts";
import { deadlineSuite } from "./messages/deadline.ts";
import { failuresSuite } from "./messages/failures.ts";
import { hangUpSuite } from "./messages/hang-up.ts";
import { headersSuite } from "./messages/headers.ts";
import { neutralSuite } from "./messages/neutral.ts";
import { permissionSuite } from "./messages/permission.ts";
import { quietSuite } from "./messages/quiet.ts";
import { requestsSuite } from "./messages/requests.ts";
import { streamsSuite } from "./messages/streams.ts";
import { tokenCountSuite } from "./messages/token-count.ts";
import { transportSuite } from "./messages/transport.ts";
import type { Mount } from "./stage.ts";

const SUITES: Readonly<Record<string, (mount: Mount) => void>> = {
  requests: requestsSuite,
  "what the backend is asked": neutralSuite,
  headers: headersSuite,
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

export function messagesSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`messages at ${prefix || "the root"}`, () => {
      describe.each(Object.entries(SUITES))("%s", (_name, suite) => {
        suite({ host, prefix });
      });
    });
}
