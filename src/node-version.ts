/** Refuses a Node that is too old when the library is imported: most of its failures there would come later, and say less. */

/** The oldest Node that the library runs on, as package.json's `engines` has it. */
const LEAST_MAJOR = 22;

/** What this looks at of whatever runtime it is in; other runtimes, bundlers and polyfills have parts of it, or none. */
interface Runtime {
  readonly process?: { readonly versions?: Readonly<Record<string, unknown>> } | undefined;
  readonly navigator?: { readonly userAgent?: unknown } | undefined;
}

/**
 * Asks a Node that is too old not to go on.
 *
 * @throws Error where the runtime is Node itself, older than version 22.
 */
export function assertNodeVersion(runtime: Runtime = runtimeHere()): void {
  const { node, uv, bun, deno } = runtime.process?.versions ?? {};
  // Bun, Deno, workerd and polyfills name a version of Node as well, for the sake of what they run; libuv is Node's own.
  const isNode = typeof node === "string" && Boolean(uv) && bun === undefined && deno === undefined;
  if (!isNode || runtime.navigator?.userAgent === "Cloudflare-Workers") return;
  // A version that is none is not judged.
  if (Number.parseInt(node) < LEAST_MAJOR)
    throw new Error(`polygate needs Node ${LEAST_MAJOR} or newer; this is v${node}.`);
}

// By `Reflect`, because bundlers replace `globalThis.process`, and some warn of it.
const runtimeHere = (): Runtime => ({
  process: Reflect.get(globalThis, "process"),
  navigator: Reflect.get(globalThis, "navigator"),
});
