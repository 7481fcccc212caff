/** Compares the table of errors by format in the docs with the code. */

import { expect, it } from "vitest";
import { GATEWAY_ERROR_CODES, GatewayError, type GatewayErrorCode } from "../../src/errors.ts";
import * as generateContent from "../../src/formats/generate-content/errors.ts";
import * as messages from "../../src/formats/messages/errors.ts";
import * as openai from "../../src/formats/shared/errors.ts";
import { markedTables } from "./pages.ts";

/** Returns the row of a code: its status and its name in each format, and the header that stops clients from trying again. */
function rowOf(code: GatewayErrorCode): string[] {
  const error = new GatewayError(code, "Any.");
  const cells = [
    [messages.errorStatus(error), messages.encodeError(error, "req_0").error.code],
    [generateContent.errorStatus(error), generateContent.encodeError(error).error.status],
    [openai.errorStatus(error), openai.encodeError(error).error.code],
  ];
  return [
    `\`${code}\``,
    ...cells.map(([status, name]) => `${status} \`${name}\``),
    openai.NO_RETRY.has(code) ? "no" : "",
  ];
}

it("the docs tell the status and the name of each error in each format", () => {
  expect(markedTables("(errors by format)").get("errors by format")).toEqual(GATEWAY_ERROR_CODES.map(rowOf));
});
