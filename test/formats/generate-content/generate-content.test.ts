/** What the generate-content endpoints take, refuse, carry and answer (spec 2.8, 2.9, 4 to 9), case by case. */

import { describe } from "vitest";
import type { Mount } from "../../hosts/stage.ts";
import { inProcess } from "../in-process.ts";
import { answersSuite } from "./answers.ts";
import { credentialsSuite } from "./credentials.ts";
import { failuresSuite } from "./failures.ts";
import { neutralSuite } from "./neutral.ts";
import { permissionSuite } from "./permission.ts";
import { requestsSuite } from "./requests.ts";
import { streamsSuite } from "./streams.ts";
import { tokenCountSuite } from "./token-count.ts";

const CASES: Readonly<Record<string, (mount: Mount) => void>> = {
  requests: requestsSuite,
  "what the backend is asked": neutralSuite,
  credentials: credentialsSuite,
  permission: permissionSuite,
  answers: answersSuite,
  streams: streamsSuite,
  failures: failuresSuite,
  "the count of tokens": tokenCountSuite,
};

describe.each(Object.entries(CASES))("%s", (_name, cases) => {
  cases(inProcess);
});
