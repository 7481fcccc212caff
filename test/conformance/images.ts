/** What the image endpoints promise (spec 2.1 to 2.4, 3, 5, 7.4, 8), held on one host. */

import { describe } from "vitest";
import type { TestHost } from "../hosts/host.ts";
import { addressesSuite } from "./images/addresses.ts";
import { answersSuite } from "./images/answers.ts";
import { credentialSuite } from "./images/credential.ts";
import { filesSuite } from "./images/files.ts";
import { formsSuite } from "./images/forms.ts";
import { generationsSuite } from "./images/generations.ts";
import { multipartSuite } from "./images/multipart.ts";
import { quotaSuite } from "./images/quota.ts";
import { streamsSuite } from "./images/streams.ts";
import { uploadsSuite } from "./images/uploads.ts";
import type { Mount } from "./stage.ts";

const SUITES: Readonly<Record<string, (mount: Mount) => void>> = {
  generations: generationsSuite,
  forms: formsSuite,
  files: filesSuite,
  "forms on the wire": multipartSuite,
  uploads: uploadsSuite,
  credential: credentialSuite,
  answers: answersSuite,
  streams: streamsSuite,
  quota: quotaSuite,
  "a picture's address": addressesSuite,
};

export function imagesSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`images at ${prefix || "the root"}`, () => {
      describe.each(Object.entries(SUITES))("%s", (_name, suite) => {
        suite({ host, prefix });
      });
    });
}
