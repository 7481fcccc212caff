/** Writes the tables of the reference that come from the code: the conversions of fields, and the errors of each format. */

import * as converse from "../../src/clouds/converse/conversions.ts";
import { GATEWAY_ERROR_CODES, GatewayError, type GatewayErrorCode } from "../../src/errors.ts";
import * as chatCompletions from "../../src/formats/chat-completions/conversions.ts";
import * as generateContent from "../../src/formats/generate-content/conversions.ts";
import { EMBEDDING_CONVERSIONS } from "../../src/formats/generate-content/embed.ts";
import * as generateContentErrors from "../../src/formats/generate-content/errors.ts";
import * as messages from "../../src/formats/messages/conversions.ts";
import * as messagesErrors from "../../src/formats/messages/errors.ts";
import * as responses from "../../src/formats/responses/conversions.ts";
import type { ConversionRule } from "../../src/formats/shared/conversions.ts";
import * as openai from "../../src/formats/shared/errors.ts";
import { EMBEDDINGS_CONVERSIONS } from "../../src/formats/shared/openai-embeddings.ts";

/** The conversions of fields by the field's name. */
type ConversionTable = Readonly<Record<string, ConversionRule>>;

const FORMATS = { messages, "generate-content": generateContent, "chat-completions": chatCompletions, responses };

/** Returns the rows of the fields that some table does not convert exactly: the field, and its conversion in each table. */
function conversionRows(tables: readonly ConversionTable[]): string[][] {
  const fields = new Set(tables.flatMap((table) => Object.keys(table)));
  return [...fields]
    .map((field) => {
      const conversions = tables.map(({ [field]: rule }) => rule?.conversion ?? "exact");
      return [`\`${field}\``, ...conversions.map((conversion) => (conversion === "exact" ? "" : conversion))];
    })
    .filter(([, ...conversions]) => conversions.some(Boolean));
}

/** Returns the row of a code: its status and its name in each format, and the header that stops clients from trying again. */
function errorRow(code: GatewayErrorCode): string[] {
  const error = new GatewayError(code, "Any.");
  const cells = [
    [messagesErrors.errorStatus(error), messagesErrors.encodeError(error, "req_0").error.code],
    [generateContentErrors.errorStatus(error), generateContentErrors.encodeError(error).error.status],
    [openai.errorStatus(error), openai.encodeError(error).error.code],
  ];
  return [
    `\`${code}\``,
    ...cells.map(([status, name]) => `${status} \`${name}\``),
    openai.NO_RETRY.has(code) ? "no" : "",
  ];
}

/** Returns the bodies of an error, in the order of the columns. */
function errorBodies(): string[] {
  const error = new GatewayError("invalid_request", "max_tokens: must be at least 1", { path: ["max_tokens"] });
  const bodies = [
    messagesErrors.encodeError(error, "req_0"),
    generateContentErrors.encodeError(error),
    openai.encodeError(error),
  ];
  return bodies.map((body) => `\`\`\`json\n${JSON.stringify(body, undefined, 2)}\n\`\`\``);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, column) => Math.max(3, name.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

const NOTE = "Written by `npm run docs:options` from the code.";

/** Returns the pages by their names. */
export function tablePages(): ReadonlyMap<string, string> {
  const formats = Object.values(FORMATS);
  const head = ["Field", ...Object.keys(FORMATS)];
  // Only upstreams speak this format.
  const tables = [...formats, converse].map(({ CONVERSIONS }) => CONVERSIONS);
  return new Map([
    [
      "conversion-tables.md",
      `# Tables of conversions

${NOTE} [Across formats](../conversions.md) says what the words mean. \`bedrock-converse\` is
[Converse](../credentials.md#converse). An empty cell means \`exact\`.

## Requests

${table([...head, "bedrock-converse"], conversionRows(tables))}

## Answers

${table(head, conversionRows(formats.map(({ ANSWER_CONVERSIONS }) => ANSWER_CONVERSIONS)))}

## Embeddings

${table(["Field", "chat-completions", "generate-content"], conversionRows([EMBEDDINGS_CONVERSIONS, EMBEDDING_CONVERSIONS]))}
`,
    ],
    [
      "errors-by-format.md",
      `# Errors by format

${NOTE} [Errors](../errors.md) says what the codes mean. Each cell has the status and the name: \`error.code\`, or in
generate content \`error.status\`. OpenAI holds for chat completions, responses, images and embeddings. Where a retry
cannot help, the answer has \`x-should-retry: false\`; a \`backend_failed\` has it where a setting is wrong. Google's SDK does not
read this header: with \`retryOptions\`, it repeats each 408, 429, 500, 502, 503 and 504, but not the 403 of an empty quota.

${table(["Code", "Messages", "Generate content", "OpenAI", "Retry"], GATEWAY_ERROR_CODES.map(errorRow))}

## Bodies

The error of a wrong field in messages, in generate content, and in OpenAI's formats:

${errorBodies().join("\n\n")}

In a stream that has begun, such a body is an \`event: error\` in messages, the last piece in generate content, the last frame in
chat completions, and the event \`error\` before \`response.failed\` in responses.
`,
    ],
  ]);
}
