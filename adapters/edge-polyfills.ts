/** Replaces the globals of Node that busboy and its streams use. The build injects this file into the edge bundle only. */

import { Buffer } from "buffer/index.js";

// busboy calls these undocumented methods of Node's Buffer because they are fast. The polyfill lacks them.
for (const encoding of ["base64", "hex", "latin1", "ucs2"] as const)
  Object.defineProperty(Buffer.prototype, `${encoding}Slice`, {
    value(this: Buffer, start?: number, end?: number): string {
      return this.toString(encoding, start, end);
    },
  });

// The polyfill has a `utf8Slice`, but it replaces invalid bytes differently from Node.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
Object.defineProperty(Buffer.prototype, "utf8Slice", {
  value(this: Buffer, start?: number, end?: number): string {
    return utf8.decode(this.subarray(start, end));
  },
});

/**
 * Runs the callback as a microtask of the current request. A queue that all requests share would stop when the request that empties
 * it ends.
 */
const nextTick = (callback: (...args: readonly unknown[]) => void, ...args: readonly unknown[]): void =>
  queueMicrotask(() => callback(...args));

export const process: { readonly env: object; readonly nextTick: typeof nextTick } = { env: {}, nextTick };

export { Buffer };
