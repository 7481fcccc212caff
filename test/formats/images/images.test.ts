/** What the image endpoints take, refuse, carry and answer (spec 2.1 to 2.4, 3, 5, 7.4, 8), case by case. */

import { describe } from "vitest";
import type { Mount } from "../../hosts/stage.ts";
import { inProcess } from "../in-process.ts";
import { answersSuite } from "./answers.ts";
import { credentialSuite } from "./credential.ts";
import { filesSuite } from "./files.ts";
import { formsSuite } from "./forms.ts";
import { generationsSuite } from "./generations.ts";
import { quotaSuite } from "./quota.ts";
import { streamsSuite } from "./streams.ts";

const CASES: Readonly<Record<string, (mount: Mount) => void>> = {
  generations: generationsSuite,
  forms: formsSuite,
  files: filesSuite,
  credential: credentialSuite,
  answers: answersSuite,
  streams: streamsSuite,
  quota: quotaSuite,
};

describe.each(Object.entries(CASES))("%s", (_name, cases) => {
  cases(inProcess);
});
