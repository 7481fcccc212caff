/** What the worker uses of the module and the types that workerd gives to workers. */

declare module "cloudflare:workers" {
  /** The process of the tests. */
  export const env: { readonly TESTS: { fetch(url: string, init: RequestInit): Promise<Response> } };
  export function waitUntil(promise: Promise<unknown>): void;
}

interface ExecutionContext {
  waitUntil(promise: Promise<unknown>): void;
}
