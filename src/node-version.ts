/** Throws on import when Node is too old. Without this check, the failures would come later and be harder to understand. */

/** The oldest Node that the library supports, as in `engines` of package.json. */
const OLDEST = { major: 22, minor: 19 };

/** The global objects that identify Node. Other runtimes, bundlers and polyfills have some of them, or none. */
interface Runtime {
  readonly process?: { readonly versions?: Readonly<Record<string, unknown>> } | undefined;
  readonly navigator?: { readonly userAgent?: unknown } | undefined;
}

/** @throws Error on Node itself, if it is older than version 22.19. */
export function assertNodeVersion(runtime: Runtime = currentRuntime()): void {
  const { node, uv, bun, deno } = runtime.process?.versions ?? {};
  // Bun, Deno, workerd and polyfills also report a version of Node, for compatibility. Polyfills report no version of libuv.
  const isNode = typeof node === "string" && Boolean(uv) && bun === undefined && deno === undefined;
  if (!isNode || runtime.navigator?.userAgent === "Cloudflare-Workers") return;
  // A version that is not a number passes, because `NaN` is not smaller.
  const [major = 0, minor = 0] = node.split(".").map(Number);
  if (major < OLDEST.major || (major === OLDEST.major && minor < OLDEST.minor))
    throw new Error(`polygate needs Node ${OLDEST.major}.${OLDEST.minor} or newer; this is v${node}.`);
}

// Use `Reflect`: bundlers replace `globalThis.process`, and some warn about it.
const currentRuntime = (): Runtime => ({
  process: Reflect.get(globalThis, "process"),
  navigator: Reflect.get(globalThis, "navigator"),
});
