/** The two majors of the official SDK, as the suites take them, and what the suites share. */

import OpenAI, { type ClientOptions, toFile } from "openai";
import OpenAISix, { toFile as toFileSix } from "openai-6";
import type { Site } from "../playground.ts";

/** A major of the SDK. */
export interface Sdk {
  readonly name: string;
  readonly OpenAI: typeof OpenAI;
  readonly toFile: typeof toFile;
}

export const sdks: readonly Sdk[] = [
  { name: "openai 7.x", OpenAI, toFile },
  // The suites use what both majors have; TypeScript cannot call a union of the two majors' overloads.
  { name: "openai 6.x", OpenAI: OpenAISix as unknown as typeof OpenAI, toFile: toFileSix },
];

/** What a suite runs with. */
export interface Stage {
  readonly sdk: Sdk;
  readonly playground: () => Site;
  /** A client of the playground: with the unlimited key and without retries, unless told. */
  readonly connect: (options?: ClientOptions) => OpenAI;
}

export function stageOf(sdk: Sdk, playground: () => Site): Stage {
  const connect = (options: ClientOptions = {}): OpenAI =>
    new sdk.OpenAI({ baseURL: `${playground().url}/v1`, apiKey: "sk-demo", maxRetries: 0, ...options });
  return { sdk, playground, connect };
}

export type Picture = NonNullable<OpenAI.ImagesResponse["data"]>[number];

/** The pictures of an answer. */
export const picturesOf = ({ data = [] }: OpenAI.ImagesResponse): readonly Picture[] => data;

/** The bytes of a picture that came as data. */
export function dataOf(picture: Picture | undefined): Buffer {
  if (picture?.b64_json === undefined) throw new Error("The picture has no data.");
  return Buffer.from(picture.b64_json, "base64");
}

/** The bytes of a picture that came as a link. */
export async function fetched(picture: Picture | undefined): Promise<Buffer> {
  if (picture?.url === undefined) throw new Error("The picture has no link.");
  const response = await fetch(picture.url);
  if (response.status !== 200) throw new Error(`The link is answered with ${response.status}.`);
  return Buffer.from(await response.arrayBuffer());
}

/** The error that a call ends with; a call that succeeds fails the test. */
export async function errorOf(call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await call;
  } catch (error) {
    // Each test says which class it expects; this is what all of them share.
    return error as InstanceType<typeof OpenAI.APIError>;
  }
  throw new Error("The call was expected to fail.");
}
