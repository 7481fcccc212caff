/** Runs every case of the messages endpoints: accepted, refused and carried requests, and answers (spec 2.6, 2.7, 4 to 9). */

import { describe } from "vitest";
import type { Mount } from "../../hosts/stage.ts";
import { inProcess } from "../in-process.ts";
import { answersSuite } from "./answers.ts";
import { failuresSuite } from "./failures.ts";
import { headersSuite } from "./headers.ts";
import { neutralSuite } from "./neutral.ts";
import { permissionSuite } from "./permission.ts";
import { requestsSuite } from "./requests.ts";
import { streamsSuite } from "./streams.ts";
import { tokenCountSuite } from "./token-count.ts";
import { transportSuite } from "./transport.ts";

const CASES: Readonly<Record<string, (mount: Mount) => void>> = {
  requests: requestsSuite,
  "what the backend is asked": neutralSuite,
  headers: headersSuite,
  transport: transportSuite,
  permission: permissionSuite,
  answers: answersSuite,
  streams: streamsSuite,
  failures: failuresSuite,
  "the count of tokens": tokenCountSuite,
};

describe.each(Object.entries(CASES))("%s", (_name, cases) => {
  cases(inProcess);
});
