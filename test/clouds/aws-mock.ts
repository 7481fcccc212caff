/** A mock of Amazon Bedrock. It checks each signature with AWS's own code for signatures, and frames its streams with AWS's own codec. */

import { createHash, createHmac, type Hash, type Hmac } from "node:crypto";
import type { ServerResponse } from "node:http";
import { EventStreamCodec } from "@smithy/eventstream-codec";
import { SignatureV4 } from "@smithy/signature-v4";
import type { AwsCredentials } from "../../src/clouds/aws.ts";
import { type Cloud, cloud, json, MESSAGE, MESSAGE_EVENTS, type Received } from "./stage.ts";

/** SHA-256 as AWS's code takes it. */
class Sha256 {
  readonly #hash: Hash | Hmac;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    if (secret === undefined) this.#hash = createHash("sha256");
    else this.#hash = createHmac("sha256", typeof secret === "string" ? secret : bytesOf(secret));
  }

  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(typeof data === "string" ? data : bytesOf(data));
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }

  reset(): void {}
}

const bytesOf = (data: ArrayBuffer | ArrayBufferView): Uint8Array =>
  ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);

const DATE = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** Signs a request anew, and compares. Returns the exception, or undefined for a right signature. */
export async function wrongIn(
  { method, path, headers, bytes }: Received,
  { region, service, now }: { readonly region: string; readonly service: string; readonly now: () => number },
  known: readonly AwsCredentials[],
): Promise<string | undefined> {
  const date = headers["x-amz-date"] ?? "";
  const [, id, scope, names] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=/.exec(
      headers["authorization"] ?? "",
    ) ?? [];
  const credentials = known.find(({ accessKeyId }) => accessKeyId === id);
  if (!credentials || scope !== `${date.slice(0, 8)}/${region}/${service}/aws4_request` || !names)
    return "UnrecognizedClientException";
  const signingDate = new Date(date.replace(DATE, "$1-$2-$3T$4:$5:$6Z"));
  if (!(Math.abs(signingDate.getTime() - now()) <= 5 * 60_000)) return "InvalidSignatureException";
  if (credentials.expiration && credentials.expiration.getTime() <= now()) return "ExpiredTokenException";
  if (headers["x-amz-security-token"] !== credentials.sessionToken) return "UnrecognizedClientException";
  const signed = names.split(";");
  const [pathname = "", search] = path.split("?");
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  const signer = new SignatureV4({
    region,
    service,
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
    sha256: Sha256,
    applyChecksum: false,
  });
  const again = await signer.sign(
    {
      method,
      protocol: "http:",
      hostname: "127.0.0.1",
      path: pathname,
      query: Object.fromEntries(new URLSearchParams(search)),
      headers: Object.fromEntries(signed.map((name) => [name, headers[name] ?? ""])),
      body: bytes,
    },
    { signingDate, signableHeaders: new Set(signed) },
  );
  return again.headers["authorization"] === headers["authorization"] ? undefined : "InvalidSignatureException";
}

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString(),
  (text) => Buffer.from(text),
);

export const awsFrame = (headers: Readonly<Record<string, string>>, body: string): Uint8Array =>
  codec.encode({
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, { type: "string", value }])),
    body: Buffer.from(body),
  });

export const chunk = (event: object | string): Uint8Array =>
  awsFrame(
    { ":event-type": "chunk", ":content-type": "application/json", ":message-type": "event" },
    JSON.stringify({
      bytes: Buffer.from(typeof event === "string" ? event : JSON.stringify(event)).toString("base64"),
      p: "abcdefghij",
    }),
  );

export const exception = (type: string, message: string): Uint8Array =>
  awsFrame(
    { ":exception-type": type, ":content-type": "application/json", ":message-type": "exception" },
    JSON.stringify({ message }),
  );

export const STREAM: Buffer = Buffer.concat(MESSAGE_EVENTS.map(chunk));

/** An exception with its status. It has no type where another server answers in place of Bedrock. */
export type Refusal = readonly [status: number, type: string | undefined, message: string];

/** Answers with an exception. */
export const refuse = (res: ServerResponse, ...[status, type, message]: Refusal): void =>
  json(
    res,
    status,
    { message },
    type === undefined ? {} : { "x-amzn-errortype": `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/` },
  );

export interface Bedrock extends Cloud {
  /** The credentials that are known. */
  readonly known: AwsCredentials[];
}

/**
 * Serves Bedrock in `us-east-1`.
 *
 * @param now The time of its clock.
 * @param answers The body of a stream, or an exception with its status.
 */
export async function bedrock(
  known: AwsCredentials[],
  now: () => number,
  answers: {
    readonly stream?: Uint8Array;
    readonly refusal?: Refusal;
  } = {},
): Promise<Bedrock> {
  const served = await cloud(async (request, res) => {
    const wrong = await wrongIn(request, { region: "us-east-1", service: "bedrock", now }, known);
    if (wrong !== undefined)
      return refuse(res, 403, wrong, `The signature is not that of ${request.headers["authorization"]}.`);
    if (answers.refusal) return refuse(res, ...answers.refusal);
    const [, route] = /^\/model\/[^/]+\/([a-z-]+)$/.exec(request.path) ?? [];
    if (request.method !== "POST" || route === undefined) return json(res, 404, {});
    if (route === "count-tokens") return json(res, 200, { inputTokens: 42 });
    if (
      request.body["anthropic_version"] !== "bedrock-2023-05-31" ||
      "model" in request.body ||
      "stream" in request.body
    )
      return refuse(
        res,
        400,
        "ValidationException",
        "Malformed input request, please reformat your input and try again.",
      );
    if (route === "invoke") return json(res, 200, MESSAGE);
    res.writeHead(200, { "content-type": "application/vnd.amazon.eventstream" });
    res.end(answers.stream ?? STREAM);
  });
  return { ...served, known };
}
