/** Reads an error of the messages format, and checks the rules of every error. */

import { expect } from "vitest";

export interface Refusal {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly message: string;
}

/** Returns the error of a response. Checks that its body has exactly the stated shape, and that its id is in the headers. */
export async function refusalOf(response: Response): Promise<Refusal> {
  const body = (await response.json()) as { error: Omit<Refusal, "status"> };
  expect(body).toEqual({
    type: "error",
    error: { type: expect.any(String), message: expect.any(String), code: expect.any(String) },
    request_id: requestIdOf(response),
  });
  expect(response.headers.get("content-type")).toBe("application/json");
  return { status: response.status, ...body.error };
}

/** Returns the id of a request. Checks that both headers that clients read have it. */
export function requestIdOf(response: Response): string {
  const id = response.headers.get("request-id");
  expect(id).toMatch(/^req_[0-9a-f]{32}$/);
  expect(response.headers.get("x-request-id")).toBe(id);
  return id ?? "";
}

/** The expected refusal of a field: its message begins with the path of the field. */
export const invalidField = (path: string): Refusal => ({
  status: 400,
  type: "invalid_request_error",
  code: "invalid_request",
  message: beginningWith(`${path}: `),
});

const beginningWith = (beginning: string): string =>
  expect.stringMatching(new RegExp(`^${beginning.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)}`)) as string;
