/** Reads an error of the image endpoints, and holds what is true of every one of them (spec 7.4 is silent: the clients decide). */

import { expect } from "vitest";
import { requestIdOf } from "../messages/refusal.ts";

export interface Refusal {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly param: string | null;
  readonly message: string;
}

/** The error that a response carries; its body has exactly the stated shape, and its ids are in the headers. */
export async function refusalOf(response: Response): Promise<Refusal> {
  const body = (await response.json()) as { error: Omit<Refusal, "status"> };
  const { param } = body.error;
  expect(body).toEqual({
    error: { message: expect.any(String), type: expect.any(String), param, code: expect.any(String) },
  });
  expect(param === null || param.length > 0).toBe(true);
  requestIdOf(response);
  expect(response.headers.get("content-type")).toBe("application/json");
  return { status: response.status, ...body.error };
}

/** A refusal for a field; the message begins with the field's path, and goes on as told. */
export const invalidField = (param: string, rest?: string): Refusal => ({
  status: 400,
  type: "invalid_request_error",
  code: "invalid_value",
  param,
  message: rest === undefined ? beginningWith(`${param}: `) : `${param}: ${rest}`,
});

/** A refusal for a file that is too large. */
export const tooLarge = (param: string | null, rest?: string): Refusal => ({
  ...invalidField(param ?? "", rest),
  status: 413,
  code: "request_too_large",
  param,
  message: param === null ? anyText : invalidField(param, rest).message,
});

/** A body that is no form, or no JSON. */
export const malformed: Refusal = {
  status: 400,
  type: "invalid_request_error",
  code: "malformed_body",
  param: null,
  message: expect.any(String) as string,
};

export const anyText: string = expect.any(String) as string;

const beginningWith = (beginning: string): string =>
  expect.toSatisfy((text: string) => text.startsWith(beginning), `begins with "${beginning}"`) as string;
