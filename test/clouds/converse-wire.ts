/** Converse on the wire by AWS's own client: requests are held to its schemas, and answers and events are written by its code. */

import {
  BedrockRuntimeClient,
  type ContentBlock,
  type ContentBlockDelta,
  type ContentBlockStart,
  ConverseRequest$,
  type ConverseResponse,
  ConverseResponse$,
  type ConverseStreamOutput,
  ConverseStreamOutput$,
  ConverseStreamRequest$,
  CountTokensRequest$,
} from "@aws-sdk/client-bedrock-runtime";
import { NormalizedSchema } from "@smithy/core/schema";
import { awsFrame } from "./aws-mock.ts";

type Schema = Parameters<typeof NormalizedSchema.of>[0];

interface PayloadCodec {
  createSerializer(): { write(schema: Schema, value: unknown): void; flush(): string | Uint8Array };
  createDeserializer(): { read(schema: Schema, data: string): Promise<unknown> };
}

const client = new BedrockRuntimeClient({
  region: "us-east-1",
  credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret" },
});
const codec = (client.config.protocol as unknown as { getPayloadCodec(): PayloadCodec }).getPayloadCodec();

function written(schema: Schema, value: unknown): string {
  const serializer = codec.createSerializer();
  serializer.write(schema, value);
  const json = serializer.flush();
  return typeof json === "string" ? json : new TextDecoder().decode(json);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The members of a structure, with the number of those that are required: these come first. */
type Structure = readonly [number, string, string, unknown, readonly string[], readonly unknown[], number?];

/** Returns the first place where a value breaks a schema of AWS: a wrong type, a member that is unknown or missing, a union of two. */
function breachIn(schema: NormalizedSchema, value: unknown, at: string): string | undefined {
  if (schema.isDocumentSchema()) return undefined;
  if (schema.isListSchema()) {
    if (!Array.isArray(value)) return `${at} is no list`;
    return value.map((one, index) => breachIn(schema.getValueSchema(), one, `${at}.${index}`)).find(Boolean);
  }
  if (schema.isMapSchema()) {
    if (!isObject(value)) return `${at} is no map`;
    return Object.entries(value)
      .map(([key, one]) => breachIn(schema.getValueSchema(), one, `${at}.${key}`))
      .find(Boolean);
  }
  if (schema.isStructSchema()) {
    if (!isObject(value)) return `${at} is no structure`;
    const [kind, , , , names, , required = 0] = schema.getSchema() as unknown as Structure;
    const extra = Object.keys(value).find((name) => !names.includes(name));
    if (extra !== undefined) return `${at}.${extra} is unknown`;
    const members = [...schema.structIterator()];
    const missing = members.slice(0, required).find(([name, member]) => !isLabel(member) && value[name] === undefined);
    if (missing) return `${at}.${missing[0]} is missing`;
    if (kind === 4 && Object.keys(value).length !== 1) return `${at} is a union of ${Object.keys(value).join(", ")}`;
    return members
      .map(([name, member]) => (value[name] === undefined ? undefined : breachIn(member, value[name], `${at}.${name}`)))
      .find(Boolean);
  }
  if (schema.isBlobSchema()) {
    const isBase64 = typeof value === "string" && value.length % 4 === 0 && /^[a-z0-9+/]+={0,2}$/i.test(value);
    return isBase64 ? undefined : `${at} is no base64`;
  }
  const type = schema.isStringSchema() ? "string" : schema.isNumericSchema() ? "number" : "boolean";
  return typeof value === type ? undefined : `${at} is no ${type}`;
}

/** Tells whether a member stands in the path. */
const isLabel = (member: NormalizedSchema): boolean => member.getMergedTraits().httpLabel === 1;

const REQUEST = NormalizedSchema.of(ConverseRequest$);
const STREAM_REQUEST = NormalizedSchema.of(ConverseStreamRequest$);
const COUNT = NormalizedSchema.of(CountTokensRequest$);

/** Returns the first place where the body of a request breaks the schema of AWS. */
export const schemaBreach = (body: unknown, isStreamed: boolean): string | undefined =>
  breachIn(isStreamed ? STREAM_REQUEST : REQUEST, body, "body");
export const countBreach = (body: unknown): string | undefined => breachIn(COUNT, body, "body");

/** Returns the body of a complete answer. */
export const answerBody = (answer: ConverseResponse): string => written(ConverseResponse$, answer);

/** Padding as Bedrock adds it, of another length for each event. */
const padded = (json: string, index: number): string =>
  json.replace(/\}$/, `${json === "{}" ? "" : ","}"p":"${"abcdefghijklmnopqrstuvwxyz".slice(0, 3 + (index % 20))}"}`);

const EVENTS = NormalizedSchema.of(ConverseStreamOutput$);

/** Returns the bytes of a stream. */
export function eventBytes(events: readonly ConverseStreamOutput[]): Uint8Array {
  const messages = events.map((event, index) => {
    const [entry] = Object.entries(event);
    if (!entry) throw new Error("An event has a name.");
    const [name, value] = entry;
    const json = written(EVENTS.getMemberSchema(name), value);
    return awsFrame(
      { ":event-type": name, ":content-type": "application/json", ":message-type": "event" },
      padded(json, index),
    );
  });
  return Buffer.concat(messages);
}

/** Cuts a text into pieces for the deltas of a stream. */
const pieces = (text: string): string[] => text.match(/[^]{1,9}/gu) ?? [];

/** Returns the events by which a complete answer is streamed. */
export function eventsOf({
  output,
  stopReason,
  usage,
  metrics,
  additionalModelResponseFields,
  serviceTier,
  trace,
}: ConverseResponse): ConverseStreamOutput[] {
  const events: ConverseStreamOutput[] = [{ messageStart: { role: "assistant" } }];
  for (const [contentBlockIndex, block] of (output?.message?.content ?? []).entries()) {
    const { start, deltas } = streamedBlock(block);
    // Texts and reasoning begin without a start.
    if (start) events.push({ contentBlockStart: { contentBlockIndex, start } });
    for (const delta of deltas) events.push({ contentBlockDelta: { contentBlockIndex, delta } });
    events.push({ contentBlockStop: { contentBlockIndex } });
  }
  events.push({
    messageStop: { stopReason, ...(additionalModelResponseFields !== undefined && { additionalModelResponseFields }) },
  });
  if (usage)
    events.push({
      metadata: {
        usage,
        metrics: metrics ?? { latencyMs: 1 },
        ...(serviceTier && { serviceTier }),
        ...(trace && { trace }),
      },
    });
  return events;
}

function streamedBlock(block: ContentBlock): { start?: ContentBlockStart; deltas: ContentBlockDelta[] } {
  if (block.text !== undefined) return { deltas: pieces(block.text).map((text) => ({ text })) };
  if (block.toolUse) {
    const { toolUseId, name, input, type } = block.toolUse;
    // A call without arguments has one empty piece.
    const json = Object.keys((input ?? {}) as object).length > 0 ? pieces(JSON.stringify(input)) : [""];
    return {
      start: { toolUse: { toolUseId, name, ...(type && { type }) } },
      deltas: json.map((piece) => ({ toolUse: { input: piece } })),
    };
  }
  if (block.reasoningContent) {
    const { reasoningText, redactedContent } = block.reasoningContent;
    if (redactedContent) {
      const half = Math.ceil(redactedContent.length / 2);
      const halves = [redactedContent.slice(0, half), redactedContent.slice(half)].filter(({ length }) => length > 0);
      return { deltas: halves.map((half) => ({ reasoningContent: { redactedContent: half } })) };
    }
    const { text = "", signature } = reasoningText ?? {};
    return {
      deltas: [
        ...pieces(text).map((piece) => ({ reasoningContent: { text: piece } })),
        ...(signature === undefined ? [] : [{ reasoningContent: { signature } }]),
      ],
    };
  }
  if (block.citationsContent) {
    const { content = [], citations = [] } = block.citationsContent;
    return {
      deltas: [
        ...citations.map((citation) => ({ citation })),
        ...content.flatMap(({ text = "" }) => pieces(text).map((piece) => ({ text: piece }))),
      ],
    };
  }
  if (block.image)
    return { start: { image: { format: block.image.format } }, deltas: [{ image: { source: block.image.source } }] };
  if (block.toolResult) {
    const { toolUseId, status, type, content = [] } = block.toolResult;
    const deltas = content.flatMap(({ text }) => (text === undefined ? [] : [{ toolResult: [{ text }] }]));
    return { start: { toolResult: { toolUseId, ...(status && { status }), ...(type && { type }) } }, deltas };
  }
  throw new Error(`There are no deltas of ${Object.keys(block).join(", ")}.`);
}
