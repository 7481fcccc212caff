/** What busboy and its streams use of Node's globals, for runtimes that have none. The build puts these in their place. */

import { Buffer } from "buffer/index.js";

type Encoding = (typeof ENCODINGS)[number];

const ENCODINGS = ["base64", "hex", "latin1", "ucs2"] as const;

/** A method of Node's own Buffer that its documentation leaves out, and that busboy calls for its speed. */
const sliceIn = (encoding: Encoding) =>
  function (this: Buffer, start?: number, end?: number): string {
    return this.toString(encoding, start, end);
  };

for (const encoding of ENCODINGS)
  Object.defineProperty(Buffer.prototype, `${encoding}Slice`, { value: sliceIn(encoding) });

// Not the polyfill's own, which replaces what is no UTF-8 in a manner of its own.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
Object.defineProperty(Buffer.prototype, "utf8Slice", {
  value(this: Buffer, start?: number, end?: number): string {
    return utf8.decode(this.subarray(start, end));
  },
});

/** A turn belongs to the request that asked for it: one queue for all would die with the request that happens to empty it. */
const nextTick = (callback: (...args: readonly unknown[]) => void, ...args: readonly unknown[]): void =>
  queueMicrotask(() => callback(...args));

export const process: { readonly env: object; readonly nextTick: typeof nextTick } = { env: {}, nextTick };

export { Buffer };
