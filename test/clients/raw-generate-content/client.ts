/** The generate-content endpoints over a bare socket: the bytes that go up and come down, for what no SDK shows. */

import { describe } from "vitest";
import type { Client } from "../servers.ts";
import { requestSuite } from "./requests.ts";
import { keySuite, pathSuite } from "./routes.ts";
import { spellingSuite } from "./spelling.ts";
import { arrayStreamSuite, eventStreamSuite } from "./streams.ts";

export const rawGenerateContent: Client = (playground) => {
  /** All that the process has written. */
  const said = (): string => playground().process.output() + playground().process.errors();

  describe.each([
    ["an event stream", eventStreamSuite],
    ["a stream without alt=sse", arrayStreamSuite],
    ["a request", requestSuite],
    ["snake_case", spellingSuite],
    ["a key", keySuite],
    ["a path", pathSuite],
  ] as const)("%s", (_name, suite) => {
    suite(() => playground().url, said);
  });
};
