/** What the worker uses of the module and the types that workerd gives to workers. */

declare module "cloudflare:workers" {
  /** The process of the tests. */
  export const env: { readonly TESTS: { fetch(url: string, init: RequestInit): Promise<Response> } };
  export function waitUntil(promise: Promise<unknown>): void;
}

interface ExecutionContext {
  waitUntil(promise: Promise<unknown>): void;
}

interface WorkerSocket {
  accept(): void;
  send(text: string): void;
  addEventListener(type: "message", listener: (event: { readonly data: string }) => void): void;
}

declare const WebSocketPair: new () => { readonly 0: WorkerSocket; readonly 1: WorkerSocket };

interface ResponseInit {
  readonly webSocket?: WorkerSocket;
}
