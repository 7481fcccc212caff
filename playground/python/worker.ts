/**
 * The process that runs a single piece of Python. It loads Pyodide, gives up all dangerous abilities, and then runs the code. Loading
 * without a snapshot takes seconds: such a process writes a snapshot for later processes instead of running code.
 */

import fs from "node:fs";
import { builtinModules, createRequire, registerHooks, syncBuiltinESMExports } from "node:module";
import { pathToFileURL } from "node:url";
import type { loadPyodide } from "pyodide";
import type { PyDict, PyProxy } from "pyodide/ffi";
import { installGate } from "./gate.ts";

type Bag = Record<PropertyKey, unknown>;
/** The part of a Python dict that is used here. */
interface Namespace {
  get(name: "close_bridges"): () => void;
  get(name: "ready"): (code: string) => PyProxy;
}

/** The used part of Pyodide's internals: functions of Python's C API, which take and return addresses in its memory. */
interface Insides {
  readonly _api: { readonly config: Bag };
  readonly _module: {
    readonly PyProxy_getPtr: (proxy: PyProxy) => number;
    readonly _PyObject_CallNoArgs: (object: number) => number;
    readonly _PyObject_IsTrue: (object: number) => number;
    readonly _dump_traceback: () => void;
  };
}

const INPUT_FD = 0;
const OUTPUT_FD = 1;
const REPORT_FD = 3;
const WASM_PAGE_BYTES = 65_536;

/** The globals to keep: the language, and functions that Pyodide calls while it runs. */
const KEPT_GLOBALS: ReadonlySet<PropertyKey> = new Set(
  `Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol Date Promise RegExp Error
  AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError SuppressedError globalThis JSON Math Intl
  ArrayBuffer SharedArrayBuffer Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array Float16Array Float32Array
  Float64Array Uint8ClampedArray BigUint64Array BigInt64Array DataView Map Set WeakMap WeakSet WeakRef FinalizationRegistry
  BigInt Iterator Proxy Reflect Atomics WebAssembly decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape
  isFinite isNaN TextDecoder TextEncoder crypto performance
  setTimeout clearTimeout`.split(/\s+/),
);

/** Modules that the harness and most code import. */
const PRELOADED = "import asyncio, gc, linecache, sys, time, traceback, types";

const [folder = "", harness = "", maxWasmBytes = "0", snapshotLength = "0"] = process.argv.slice(2);
// This undocumented method of Node ends the process without running code that Python may have changed.
const exit = (process as unknown as { reallyExit(code: number): never }).reallyExit.bind(process);

// Keep the functions that the process needs after its modules are empty.
const { constants, readFileSync, readSync, writeSync } = fs;
const { wait } = Atomics;
const idle = new Int32Array(new SharedArrayBuffer(4));

function write(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;)
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      // The runner has read enough, or is gone.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return;
      // The pipe is full, so wait for the runner to read.
      wait(idle, 0, 0, 1);
    }
}

const encoder = new TextEncoder();
const report = (line: string): void => write(REPORT_FD, encoder.encode(`${line}\n`));

/** Limits the WebAssembly memory. Beyond the limit, Python raises a MemoryError, which the code may catch. */
function limitMemory(maxPages: number): void {
  const { prototype } = WebAssembly.Memory;
  const grow: (this: WebAssembly.Memory, pages: number) => number = Reflect.get(prototype, "grow");
  prototype.grow = function (this: WebAssembly.Memory, pages: number): number {
    if (this.buffer.byteLength / WASM_PAGE_BYTES + pages > maxPages) throw new RangeError("Out of memory.");
    return grow.call(this, pages);
  };
}

/** Reads the rest of the input. `readFileSync` no longer works, because the module of its functions is empty by then. */
function readCode(): string {
  const decoder = new TextDecoder();
  const bytes = new Uint8Array(WASM_PAGE_BYTES);
  let text = "";
  for (let read = readSync(INPUT_FD, bytes); read > 0; read = readSync(INPUT_FD, bytes))
    text += decoder.decode(bytes.subarray(0, read), { stream: true });
  return text + decoder.decode();
}

/** Reads the first bytes of the input. */
function readBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const read = readSync(INPUT_FD, bytes, at, length - at, null);
    if (read === 0) throw new Error("The snapshot of Python ended early.");
    at += read;
  }
  return bytes;
}

/** Loads Python, from the snapshot if there is one. */
async function loadPython(more: Pick<Parameters<typeof loadPyodide>[0] & {}, "_makeSnapshot" | "_loadSnapshot">) {
  // Keep paths of this machine out of sys.executable and os.environ.
  process.argv = ["python", "python"];
  // Pyodide reads the numbers of file flags through `process.binding`, which the permission model forbids.
  Object.assign(process, { binding: () => ({ fs: constants }) });
  const pyodide = (await import(pathToFileURL(`${folder}/pyodide.mjs`).href)) as { loadPyodide: typeof loadPyodide };
  return pyodide.loadPyodide({
    indexURL: folder,
    jsglobals: Object.create(null) as object,
    // Standard output and error reach their file unbuffered, and so in order.
    env: { HOME: "/home/pyodide", PYTHONUNBUFFERED: "1" },
    stdin: () => null,
    ...more,
  });
}

async function makeSnapshot(): Promise<Uint8Array> {
  const python = await loadPython({ _makeSnapshot: true });
  python.runPython(PRELOADED);
  return python.makeMemorySnapshot();
}

async function load(snapshot: Uint8Array): Promise<(code: string) => boolean> {
  const script = readFileSync(harness, "utf8");
  const python = await loadPython({ _loadSnapshot: snapshot });
  const output = {
    write(bytes: Uint8Array): number {
      write(OUTPUT_FD, bytes);
      return bytes.length;
    },
  };
  python.setStdout(output);
  python.setStderr(output);
  const names = python.runPython("dict()") as PyDict & Namespace;
  python.runPython(script, { globals: names, filename: "harness.py" });
  names.get("close_bridges")();
  const { _api: api, _module: module } = python as unknown as Insides;
  const { config } = api;
  // Remove the paths of the package, because the code might find this object.
  for (const name of Reflect.ownKeys(config)) if (typeof config[name] === "string") config[name] = "";
  delete config["_loadSnapshot"];
  const ready = names.get("ready");
  const {
    PyProxy_getPtr: addressOf,
    _PyObject_CallNoArgs: call,
    _PyObject_IsTrue: isTrue,
    _dump_traceback: dump,
  } = module;
  return (code) => {
    const main = addressOf(ready(code));
    closeGate();
    try {
      const result = call(main);
      return result !== 0 && isTrue(result) === 1;
    } catch (error) {
      if (exitStatusOf(error) === undefined) dump();
      throw error;
    }
  };
}

/**
 * Removes all functions that open a file, a socket or a process. The gate keeps Python from JavaScript, and this is a second barrier
 * in case of a hole in V8 or Pyodide.
 */
function giveUp(): void {
  // Stack traces name paths of this machine. The setter exists because Pyodide sets this property, too.
  Object.defineProperty(Error, "stackTraceLimit", { get: () => 0, set: ignore, configurable: false });
  const modules = loadedModules();
  // Block import() and require() of all modules, also of data: addresses.
  registerHooks({
    resolve() {
      throw new Error("Nothing can be imported any more.");
    },
  });
  // Python draws its random bytes from a module, and Node's own getters look into prototypes.
  for (const module of modules) strip(module, (name) => name === "randomFillSync" || name === "prototype");
  syncBuiltinESMExports();
  strip(process as unknown as Bag, () => false);
  strip(globalThis, (name) => KEPT_GLOBALS.has(name));
  // Pyodide uses these members while Python runs or crashes.
  const console = { log: ignore, warn: ignore, error: ignore };
  Object.assign(globalThis, { console, process: { exitCode: 0, getuid: () => 0 } });
}

/** Returns each of Node's own modules that is loaded: Pyodide holds on to several. */
function loadedModules(): readonly Bag[] {
  const { moduleLoadList } = process as unknown as { readonly moduleLoadList: readonly string[] };
  const loaded = new Set(moduleLoadList);
  const require = createRequire(import.meta.url);
  return builtinModules.filter((name) => loaded.has(`NativeModule ${name}`)).map((name) => require(name) as Bag);
}

function ignore(): void {}

function strip(bag: Bag, isKept: (name: PropertyKey) => boolean): void {
  for (const name of Reflect.ownKeys(bag)) {
    if (isKept(name) || Reflect.deleteProperty(bag, name)) continue;
    // A setter of Node may refuse the value. It guards only a setting, which is harmless.
    if (Reflect.getOwnPropertyDescriptor(bag, name)?.writable === true) Reflect.set(bag, name, undefined);
  }
}

/** Returns the message for the code if Python itself crashes. Hides the message of the crash. */
function breakdown(error: unknown): string {
  const isMemory = /allocation failed|out of memory|MemoryError/i.test(String(error));
  return isMemory ? "MemoryError: Python ran out of memory.\n" : "Python crashed.\n";
}

/** Returns the status that the code has passed to `os._exit`; undefined if the code has ended otherwise. */
function exitStatusOf(error: unknown): number | undefined {
  const { status } = Object(error) as { status?: unknown };
  return typeof status === "number" ? status : undefined;
}

// Other runtimes silently accept Node's options, and some call themselves Node.
const { permission } = process as { readonly permission?: { has(scope: string): boolean } };
if (!permission || permission.has("child")) throw new Error("Python runs under Node's permission model alone.");
limitMemory(Number(maxWasmBytes) / WASM_PAGE_BYTES);
const closeGate = installGate();
if (snapshotLength === "0") {
  write(OUTPUT_FD, await makeSnapshot());
  report("ready");
  exit(0);
}
const run = await load(readBytes(Number(snapshotLength)));
giveUp();
report("ready");
const code = readCode();
try {
  report(run(code) ? "ok" : "failed");
} catch (error) {
  const status = exitStatusOf(error);
  if (status === undefined) write(OUTPUT_FD, encoder.encode(breakdown(error)));
  report(status === 0 ? "ok" : "failed");
}
exit(0);
