/** Reads an error of the generate-content format, and holds what is true of every one of them. */

import { expect } from "vitest";

export interface Refusal {
  readonly code: number;
  readonly status: string;
  readonly message: string;
  readonly details: readonly object[];
}

/** The error that a response carries; its body has exactly the stated shape, and its code is the response's status. */
export async function refusalOf(response: Response): Promise<Refusal> {
  const body = (await response.json()) as { error: Refusal };
  expect(body).toEqual({
    error: {
      code: response.status,
      message: expect.any(String),
      status: expect.stringMatching(/^[A-Z_]+$/),
      details: expect.any(Array),
    },
  });
  expect(response.headers.get("content-type")).toBe("application/json");
  requestIdOf(response);
  return body.error;
}

/** The id under which both kinds of client look for it. */
export function requestIdOf(response: Response): string {
  const id = response.headers.get("request-id");
  expect(id).toMatch(/^req_[0-9a-f]{32}$/);
  expect(response.headers.get("x-request-id")).toBe(id);
  return id ?? "";
}

/** A refusal without a field at fault. */
export const refusal = (code: number, status: string): Refusal => ({
  code,
  status,
  message: expect.any(String) as string,
  details: [],
});

/** A refusal for a field, which the message begins with and the details name. */
export const invalidField = (path: string): Refusal => ({
  code: 400,
  status: "INVALID_ARGUMENT",
  message: expect.stringMatching(new RegExp(`^${escaped(path)}: `)) as string,
  details: [
    {
      "@type": "type.googleapis.com/google.rpc.BadRequest",
      fieldViolations: [{ field: path, description: expect.any(String) as string }],
    },
  ],
});

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
