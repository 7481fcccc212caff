/** Clients that generators make from the document compile, call every operation of a running gateway, and get typed errors. */

import { once } from "node:events";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { build } from "tsdown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { createGateway, memoryQuotaStore, memoryResponseStore, type ModelBackend } from "../../src/index.ts";
import { openApiDocument } from "../../src/openapi/index.ts";
import { CLEAR } from "../formats/images/pictures.ts";
import { ROOT, runOrThrow } from "../package/stage.ts";
import { operationsOf } from "./reader.ts";

const PACKAGES = {
  "@hey-api/openapi-ts": "0.99.0",
  "openapi-fetch": "0.17.0",
  "openapi-typescript": "7.13.0",
  orval: "8.38.0",
  // The newest one that openapi-typescript supports.
  typescript: "5.9.3",
} as const;

/** A call of an operation. Each text is an expression of TypeScript. */
interface Row {
  /** The arguments in the path, in order. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly header?: string;
  readonly body?: string;
  /** A body of the right type that the gateway refuses. */
  readonly wrong?: string;
  /** A field of the answer. Default: the whole answer, which is a file. */
  readonly field?: string;
}

const MODEL = { model: '"any"' };
const VERSION = '{ "anthropic-version": "2023-06-01" }';
const SAID = '[{ role: "user", content: "Hello" }]';
const CONTENTS = '[{ role: "user", parts: [{ text: "Hello" }] }]';
const ITEMS = '[{ type: "message", role: "user", content: "Hello" }]';
const response = { response_id: "ids.response" };
const conversation = { conversation_id: "ids.conversation" };
const item = { ...conversation, item_id: "ids.item" };

/** All operations, in the order in which they are called. */
const ROWS: Readonly<Record<string, Row>> = {
  createMessage: {
    header: VERSION,
    body: `{ model: "any", max_tokens: 100, messages: ${SAID} }`,
    wrong: `{ model: "any", max_tokens: -1, messages: ${SAID} }`,
    field: "content",
  },
  countMessageTokens: {
    header: VERSION,
    body: `{ model: "any", messages: ${SAID} }`,
    wrong: '{ model: "any", messages: [] }',
    field: "input_tokens",
  },
  generateContent: { path: MODEL, body: `{ contents: ${CONTENTS} }`, wrong: "{ contents: [] }", field: "candidates" },
  streamGenerateContent: {
    path: MODEL,
    body: `{ contents: ${CONTENTS} }`,
    wrong: "{ contents: [] }",
    query: "{}",
    field: "length",
  },
  countTokens: { path: MODEL, body: `{ contents: ${CONTENTS} }`, wrong: "{ contents: [] }", field: "totalTokens" },
  embedContent: {
    path: MODEL,
    body: '{ content: { parts: [{ text: "Hello" }] } }',
    wrong: "{ content: { parts: [] } }",
    field: "embedding",
  },
  batchEmbedContents: {
    path: MODEL,
    body: '{ requests: [{ model: "models/any", content: { parts: [{ text: "Hello" }] } }] }',
    wrong: "{ requests: [] }",
    field: "embeddings",
  },
  listModelsV1beta: { query: "{ pageSize: 1 }", field: "models" },
  getModelV1beta: { path: MODEL, field: "name" },
  createChatCompletion: {
    body: `{ model: "any", messages: ${SAID} }`,
    wrong: '{ model: "any", messages: [] }',
    field: "choices",
  },
  createResponse: { body: '{ model: "any", input: "Hello" }', wrong: '{ model: "", input: "Hello" }', field: "output" },
  countResponseTokens: {
    body: '{ model: "any", input: "Hello" }',
    wrong: '{ model: "", input: "Hello" }',
    field: "input_tokens",
  },
  getResponse: { path: response, query: "{}", field: "output" },
  listInputItems: { path: response, query: "{ limit: 1 }", field: "data" },
  cancelResponse: { path: { response_id: "ids.background" }, field: "status" },
  deleteResponse: { path: response, field: "deleted" },
  createConversation: { body: `{ items: ${ITEMS} }`, wrong: '{ metadata: { team: "x".repeat(600) } }', field: "id" },
  getConversation: { path: conversation, field: "created_at" },
  updateConversation: {
    path: conversation,
    body: '{ metadata: { team: "a" } }',
    wrong: '{ metadata: { team: "x".repeat(600) } }',
    field: "metadata",
  },
  createConversationItems: {
    path: conversation,
    body: `{ items: ${ITEMS} }`,
    wrong: `{ items: Array.from({ length: 21 }, () => (${ITEMS} as const)[0]) }`,
    field: "data",
  },
  listConversationItems: { path: conversation, query: "{ limit: 1 }", field: "data" },
  getConversationItem: { path: item, field: "type" },
  deleteConversationItem: { path: item, field: "id" },
  deleteConversation: { path: conversation, field: "deleted" },
  createEmbedding: {
    body: '{ model: "any", input: "Hello" }',
    wrong: '{ model: "any", input: [] }',
    field: "data",
  },
  createImage: {
    body: '{ model: "gpt-image-1", prompt: "A cat" }',
    wrong: '{ model: "gpt-image-1", prompt: "" }',
    field: "data",
  },
  editImage: {
    body: '{ model: "gpt-image-1", prompt: "A cat", image: [picture] }',
    wrong: '{ model: "gpt-image-1", prompt: "", image: [picture] }',
    field: "data",
  },
  varyImage: {
    body: '{ model: "dall-e-2", image: picture }',
    wrong: '{ model: "dall-e-2", image: picture, n: -1 }',
    field: "data",
  },
  getImageFile: { path: { id: "ids.image" } },
  getTokenUsage: { field: "data" },
  listModels: { query: "{}", field: "data" },
  getModel: { path: MODEL, field: "id" },
};

/** Begins each script. `tell` calls an operation, also without a key, and prints what came. */
const BEGIN = `
const ids = JSON.parse(process.argv[2] ?? "") as Record<"response" | "background" | "conversation" | "item" | "image", string>;
const file = new File([Buffer.from("${Buffer.from(CLEAR).toString("base64")}", "base64")], "clear.png", { type: "image/png" });
type ErrorBody = { error: { message: string } } | { message: string };
const messageOf = (error: ErrorBody): string => ("error" in error ? error.error.message : error.message);
const print = (...told: unknown[]): void => console.log(JSON.stringify(told));
/** Demands a further argument where an answer or an error is of type any, unknown or never. */
type Typed<Read, Failed> = unknown extends Read | Failed ? [never] : [Read] extends [never] ? [never] : [Failed] extends [ErrorBody] ? [Failed] extends [never] ? [never] : [] : [never];
type Told<Call extends (given: never) => Promise<unknown>> = Awaited<ReturnType<Call>>;
`;

/** For clients that return the answer and the error as fields. */
const TELL_FIELDS = `
type Fields = { data?: unknown; error?: unknown; response?: Response };
type DataOf<One> = One extends { data: infer Data } ? Exclude<Data, undefined> : never;
type ErrorOf<One> = One extends { error: infer Failed } ? Exclude<Failed, undefined> : never;
async function tell<Call extends (given: Client) => Promise<Fields>, Read>(
  id: string,
  call: Call,
  read: (data: DataOf<Told<Call>>) => Read,
  ..._typed: Typed<Read, ErrorOf<Told<Call>>>
): Promise<void> {
  for (const client of clients) {
    const { data, error, response } = await call(client);
    print(id, response?.status, error === undefined ? read(data as DataOf<Told<Call>>) !== undefined : messageOf(error as ErrorBody));
  }
}
`;

const objectOf = (entries: Readonly<Record<string, string | undefined>>): string =>
  `{ ${Object.entries(entries)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${JSON.stringify(name)}: ${value}`]))
    .join(", ")} }`;

const readerOf = ({ field }: Row): string =>
  field === undefined ? "data" : `"${field}" in data ? data.${field} : undefined`;

interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
}

interface Generator {
  readonly name: string;
  /** The command that writes the client, in the folder of the project. */
  readonly command: readonly string[];
  readonly imports: readonly string[];
  /** Makes the clients, and `tell`. */
  readonly begin: string;
  /** Writes a call as an expression of TypeScript. `given` is the client or the headers that `tell` passes. */
  readonly call: (operation: Operation, row: Row, body: string | undefined) => string;
}

const pathOf = ({ path }: Row): string | undefined => path && objectOf(path);

const GENERATORS: readonly Generator[] = [
  {
    name: "openapi-typescript",
    command: ["openapi-typescript/bin/cli.js", "openapi.json", "--output", "openapi-typescript/client.ts"],
    imports: ['import createClient from "openapi-fetch";', 'import type { paths } from "./openapi-typescript/client";'],
    begin: `
${BEGIN}
// openapi-typescript writes a file as a string.
const picture = file as unknown as string;
const formOf = (body: object): FormData => {
  const form = new FormData();
  for (const [name, value] of Object.entries(body)) for (const one of [value].flat()) form.append(name, one);
  return form;
};
const clients = ["sk-1", "sk-none"].map((key) =>
  createClient<paths, "application/json">({ baseUrl: process.argv[3] ?? "", headers: { authorization: \`Bearer \${key}\` } }),
);
type Client = (typeof clients)[number];
type Given = Client;
${TELL_FIELDS}`,
    call({ method, path }, row, body) {
      const params = objectOf({ path: pathOf(row), query: row.query, header: row.header });
      const isForm = body?.includes("picture");
      const parseAs = row.field === undefined ? '"blob"' : undefined;
      return `given.${method}("${path}", ${objectOf({ params, body, parseAs, bodySerializer: isForm ? "formOf" : undefined })})`;
    },
  },
  {
    name: "@hey-api/openapi-ts",
    command: ["@hey-api/openapi-ts/bin/run.js", "--input", "openapi.json", "--output", "hey-api"],
    imports: ['import { createClient } from "./hey-api/client";', 'import * as api from "./hey-api";'],
    begin: `
${BEGIN}
const picture = file;
const clients = ["sk-1", "sk-none"].map((auth) => createClient({ baseUrl: process.argv[3] ?? "", auth }));
type Client = (typeof clients)[number];
type Given = Client;
${TELL_FIELDS}`,
    call: ({ id }, row, body) =>
      `api.${id.replace("beta", "Beta")}(${objectOf({ client: "given", path: pathOf(row), query: row.query, headers: row.header, body })})`,
  },
  {
    name: "orval",
    command: [
      "orval/dist/bin/orval.mjs",
      "--input",
      "openapi.json",
      "--output",
      "orval/client.ts",
      "--client",
      "fetch",
    ],
    imports: ['import * as api from "./orval/client";'],
    begin: `
${BEGIN}
const picture = file;
// orval's functions fetch plain paths.
const { fetch } = globalThis;
globalThis.fetch = (path, init) => fetch(\`\${process.argv[3]}\${String(path)}\`, init);
type Given = Record<string, string>;
type Answer = { status: number; data: unknown };
type DataOf<One extends Answer> = Extract<One, { status: 200 }>["data"];
type ErrorOf<One extends Answer> = Exclude<One, { status: 200 | 206 | 304 }>["data"];
async function tell<Call extends (given: Given) => Promise<Answer>, Read>(
  id: string,
  call: Call,
  read: (data: DataOf<Told<Call>>) => Read,
  ..._typed: Typed<Read, ErrorOf<Told<Call>>>
): Promise<void> {
  for (const key of ["sk-1", "sk-none"]) {
    const { status, data } = await call({ authorization: \`Bearer \${key}\` });
    print(id, status, status === 200 ? read(data as DataOf<Told<Call>>) !== undefined : messageOf(data as ErrorBody));
  }
}
`,
    call({ id }, row, body) {
      const headers = row.header === undefined ? "given" : `{ ...given, ...${row.header} }`;
      const given = [...Object.values(row.path ?? {}), body, row.query].filter((one) => one !== undefined);
      return `api.${id}(${[...given, `{ headers: ${headers} }`].join(", ")})`;
    },
  },
];

const backend: ModelBackend = {
  models: () => ["any", "hangs", "dall-e-2", "gpt-image-1"].map((id) => ({ id })),
  async *chat({ model }, { signal }) {
    if (model === "hangs") await once(signal, "abort");
    yield "Hello.";
  },
  async *image() {
    yield { type: "image", bytes: CLEAR, mediaType: "image/png" };
  },
  async *embed({ inputs }) {
    for (const number of inputs.keys()) yield [number, 0.5];
  },
};
const gateway = createGateway({
  backend,
  quotas: memoryQuotaStore([{ apiKey: "sk-1" }]),
  responseStore: memoryResponseStore(),
});
const document = openApiDocument(gateway);
const operations = operationsOf(document).map(({ path, method, operation }): Operation => ({
  id: operation.operationId,
  method,
  path,
}));
const server = createServer(toNodeHandler(gateway));

let project: string;
let address: string;

beforeAll(async () => {
  project = await realpath(await mkdtemp(join(tmpdir(), "polygate-generators-")));
  await writeFile(join(project, "package.json"), JSON.stringify({ type: "module", dependencies: PACKAGES }));
  await writeFile(join(project, "openapi.json"), JSON.stringify(document));
  await runOrThrow("npm", "install --ignore-scripts --no-audit --no-fund --prefer-offline".split(" "), project);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(async () => {
  server.close().closeAllConnections();
  await rm(project, { recursive: true, force: true });
});

it("every operation of the document is called", () => {
  expect(operations.map(({ id }) => id).toSorted()).toEqual(Object.keys(ROWS).toSorted());
});

/** Makes what the operations look up, with the official client. */
async function makeKept(): Promise<Record<string, string>> {
  const openai = new OpenAI({ apiKey: "sk-1", baseURL: `${address}/v1` });
  const [kept, background, conversation, images] = await Promise.all([
    openai.responses.create({ model: "any", input: "Hello" }),
    openai.responses.create({ model: "hangs", input: "Hello", background: true }),
    openai.conversations.create({ items: [{ type: "message", role: "user", content: "Hello" }] }),
    openai.images.generate({ model: "dall-e-2", prompt: "A cat", response_format: "url" }),
  ]);
  const { data } = await openai.conversations.items.list(conversation.id);
  const [item] = data as { id: string }[];
  return {
    response: kept.id,
    background: background.id,
    conversation: conversation.id,
    item: item?.id ?? "",
    image: images.data?.[0]?.url?.split("/").at(-1) ?? "",
  };
}

describe.each(GENERATORS)("the client of $name", ({ name, command: [bin = "", ...args], imports, begin, call }) => {
  const script = name.replaceAll(/\W/g, "");

  it("compiles, calls every operation, and gets typed errors", async () => {
    await runOrThrow(process.execPath, [join("node_modules", bin), ...args], project);
    const calls = Object.entries(ROWS).flatMap(([id, row]) => {
      const operation = operations.find((one) => one.id === id) ?? { id, method: "", path: "" };
      const tell = (body: string | undefined): string =>
        `{ const call = (given: Given) => ${call(operation, row, body)};
        await tell("${id}", call, (data: DataOf<Told<typeof call>>) => (${readerOf(row)})); }`;
      if (row.body === undefined || row.wrong === undefined) return [tell(undefined)];
      const unread = `// @ts-expect-error: null is no body.\nvoid ((given: Given) => ${call(operation, row, "null")});`;
      return [tell(row.body), tell(row.wrong), unread];
    });
    await writeFile(join(project, `${script}.ts`), [...imports, begin, ...calls].join("\n"));

    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const options = "--strict --noEmit --module esnext --moduleResolution bundler --target es2024";
    const types = ["--types", "node", "--typeRoots", join(ROOT, "node_modules/@types")];
    await runOrThrow(process.execPath, [tsc, ...options.split(" "), ...types, `${script}.ts`], project);

    await build({
      config: false,
      cwd: project,
      entry: { [script]: join(project, `${script}.ts`) },
      outDir: join(project, "dist"),
      clean: false,
      dts: false,
      platform: "node",
      deps: { alwaysBundle: [/^[^.]/], neverBundle: [/^node:/], onlyBundle: false },
      logLevel: "silent",
    });
    const ids = JSON.stringify(await makeKept());
    const told = await runOrThrow(process.execPath, [`dist/${script}.mjs`, ids, address], project);
    const lines = told.split("\n").filter(Boolean);
    const refused = expect.stringMatching(/./) as string;
    const expected = Object.entries(ROWS).flatMap(([id, { wrong }]) => [
      [id, 200, true],
      // A file needs no key: its address is a secret.
      id === "getImageFile" ? [id, 200, true] : [id, 401, refused],
      ...(wrong === undefined ? [] : [[id, 400, refused] as const, [id, 401, refused] as const]),
    ]);
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(expected);
  });
});
