/** Writes the tables of the reference that come from the code: the conversions of fields, and the errors of each format. */

import { APIError as AnthropicError } from "@anthropic-ai/sdk";
import { ApiError as GoogleError } from "@google/genai";
import { APICallError } from "ai";
import { APIError as OpenAIError } from "openai";
import * as converse from "../../src/clouds/converse/conversions.ts";
import { GATEWAY_ERROR_CODES, GatewayError, type GatewayErrorCode } from "../../src/errors.ts";
import { createGateway } from "../../src/every-format.ts";
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
import { memoryQuotaStore } from "../../src/stores/memory.ts";
import { wrapped } from "./wrapped.ts";

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

/** Returns the bodies of the errors that a gateway sends for an output limit of 0. */
async function errorBodies(): Promise<string[]> {
  const backend = {
    async *chat() {
      yield "Never.";
    },
  };
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-docs" }]) });
  const headers = {
    authorization: "Bearer sk-docs",
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
  };
  const messages = [{ role: "user", content: "Hello" }];
  const contents = [{ role: "user", parts: [{ text: "Hello" }] }];
  const calls = [
    ["v1/messages", { model: "any", max_tokens: 0, messages }],
    ["v1beta/models/any:generateContent", { contents, generationConfig: { maxOutputTokens: 0 } }],
    ["v1/chat/completions", { model: "any", max_tokens: 0, messages }],
  ] as const;
  const bodies: string[] = [];
  for (const [path, call] of calls) {
    const request = { method: "POST", headers, body: JSON.stringify(call) };
    const answer = await gateway.fetch(new Request(`http://localhost/${path}`, request));
    if (answer.status !== 400) throw new Error(`${path} answers ${answer.status}.`);
    const body = { ...((await answer.json()) as object) };
    if ("request_id" in body) body.request_id = "req_0";
    bodies.push(`\`\`\`json\n${JSON.stringify(body, undefined, 2)}\n\`\`\``);
  }
  await gateway.close();
  return bodies;
}

const bodies = await errorBodies();

/** An error as the clients of a format get it: the status, and the names in its body. */
interface OnTheWire {
  readonly code: GatewayErrorCode;
  readonly format: "Messages" | "Generate content" | "OpenAI";
  readonly status: number;
  readonly names: readonly (string | null | undefined)[];
  /** The classes of the SDKs that throw it. */
  readonly classes: readonly string[];
}

/** The classes of Anthropic's Python SDK that OpenAI's does not have. */
const ANTHROPIC: Readonly<Record<number, string>> = { 413: "RequestTooLargeError", 529: "OverloadedError" };

const onTheWire: readonly OnTheWire[] = GATEWAY_ERROR_CODES.flatMap((code): OnTheWire[] => {
  const error = new GatewayError(code, "Any.");
  const [own, google, others] = [
    messagesErrors.encodeError(error, "req_0"),
    generateContentErrors.encodeError(error),
    openai.encodeError(error),
  ];
  const statuses = [messagesErrors, generateContentErrors, openai].map(({ errorStatus }) => errorStatus(error));
  const [status = 0, ofGoogle = 0, ofOpenai = 0] = statuses;
  const { name } = AnthropicError.generate(status, own, undefined, new Headers()).constructor;
  const { name: openaiName } = OpenAIError.generate(ofOpenai, others, undefined, new Headers()).constructor;
  return [
    {
      code,
      format: "Messages",
      status,
      names: [own.error.type, own.error.code],
      classes: [`${name} of Anthropic's TypeScript SDK`, `${pythonName(status, ANTHROPIC)} of Anthropic's Python SDK`],
    },
    {
      code,
      format: "Generate content",
      status: ofGoogle,
      names: [google.error.status],
      classes: [`${ofGoogle < 500 ? "ClientError" : "ServerError"} of Google's Python SDK`],
    },
    {
      code,
      format: "OpenAI",
      status: ofOpenai,
      names: [others.error.type, others.error.code],
      classes: [`${openaiName} of OpenAI's TypeScript SDK`, `${pythonName(ofOpenai, {})} of OpenAI's Python SDK`],
    },
  ];
});

/** Returns the class of the Python SDKs for a status. */
function pythonName(status: number, own: Readonly<Record<number, string>>): string {
  const shared: Readonly<Record<number, string>> = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    ...own,
  };
  return shared[status] ?? (status < 500 ? "APIStatusError" : "InternalServerError");
}

/** Returns a list of names, each with the errors that have it: the status and the codes. */
function namesList(errors: readonly (readonly [name: string, where: string, error: OnTheWire])[]): string {
  const names = new Map<string, Map<string, Set<string>>>();
  for (const [name, where, { status, code }] of errors) {
    const statuses = names.get(name) ?? new Map<string, Set<string>>();
    names.set(name, statuses);
    for (const [key, value] of [
      ["", where],
      [String(status), `\`${code}\``],
    ] as const)
      statuses.set(key, (statuses.get(key) ?? new Set()).add(value));
  }
  return [...names]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, statuses]) => {
      const where = [...(statuses.get("") ?? [])].join(", ");
      const codes = [...statuses].filter(([status]) => status !== "");
      const told = codes.map(([status, found]) => `${status} ${[...found].join(", ")}`).join("; ");
      return wrapped(`- \`${name}\` in ${where}: ${told}.`, "  ");
    })
    .join("\n");
}

/** Returns the names in the bodies of errors that are no codes of polygate. */
function wireNames(): string {
  const codes: ReadonlySet<string> = new Set(GATEWAY_ERROR_CODES);
  return namesList(
    onTheWire.flatMap((error) =>
      error.names.flatMap((name) => (name && !codes.has(name) ? [[name, error.format, error] as const] : [])),
    ),
  );
}

/** Returns the classes of SDKs by their names. */
function sdkClasses(): string {
  const list = namesList(
    onTheWire.flatMap((error) =>
      error.classes.map((one) => {
        const [name = "", sdk = ""] = one.split(" of ");
        return [name, sdk, error] as const;
      }),
    ),
  );
  return `${list}
- \`${GoogleError.name}\` in Google's TypeScript SDK: every status. Its \`message\` has the body.
- \`${APICallError.name}\` \`AI_${APICallError.name}\` in the AI SDK: every status. Its \`responseBody\` has the body, and \`data\` its fields.
- \`UnprocessableEntityError\` in the SDKs of OpenAI and Anthropic: 422, which no error of polygate has. Another server answers.
- \`APIConnectionError\` in the SDKs of OpenAI and Anthropic: no answer came. No server listens at the base URL.
- \`APIConnectionTimeoutError\` in TypeScript: the answer takes longer than the SDK's \`timeout\`. Raise it, or stream.
- \`APITimeoutError\` in Python: the answer takes longer than the SDK's \`timeout\`. Raise it, or stream.`;
}

/** Returns a table with columns of the same width. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, column) => Math.max(3, name.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

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

[Across formats](../conversions.md) says what the words mean. \`bedrock-converse\` is
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

[Errors](../errors.md) says what the codes mean. Each cell has the status and the name: \`error.code\`, or in
generate content \`error.status\`. OpenAI holds for chat completions, responses, images and embeddings. Where a retry
cannot help, the answer has \`x-should-retry: false\`; a \`backend_failed\` has it where a setting is wrong. Google's SDK does not
read this header: with \`retryOptions\`, it repeats each 408, 429, 500, 502, 503 and 504, but not the 403 of an empty quota.

${table(["Code", "Messages", "Generate content", "OpenAI", "Retry"], GATEWAY_ERROR_CODES.map(errorRow))}

## Names on the wire

The \`error.type\`, \`error.code\` and \`error.status\` that are no codes of polygate, and the statuses and codes that have them:

${wireNames()}

## Classes of SDKs

The classes of errors that SDKs throw, and the statuses and codes that have them. \`RetryError\` of the AI SDK has the last
error in \`lastError\`.

${sdkClasses()}

## Bodies

The error of a wrong field in messages, in generate content, and in OpenAI's formats, here of an output limit of 0:

${bodies.join("\n\n")}

In a stream that has begun, such a body is an \`event: error\` in messages, the last piece in generate content, the last frame in
chat completions, and the event \`error\` before \`response.failed\` in responses.
`,
    ],
  ]);
}
