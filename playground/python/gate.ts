/**
 * Blocks JavaScript for Python. Python is WebAssembly, which can call only the functions that its modules import. The gate guards each
 * import that is not named here, and closes before code runs. All functions that handle JavaScript values then refuse calls, so that
 * references in Python's memory are useless.
 */

type ImportFunction = (this: unknown, ...values: unknown[]) => unknown;

/** WebAssembly's error number for a system call that does not exist. */
const ENOSYS = 52;

/**
 * The imports that code may use: files in memory, pipes, fake host addresses, clocks, random bytes, more memory, the end. No import
 * opens a socket, mounts a folder, loads a library, starts a shell, sets a timer, or touches an object of JavaScript.
 */
const OPEN_IMPORTS: ReadonlySet<string> = new Set(
  `__syscall_fcntl64 __syscall_openat __syscall_faccessat __syscall_chdir __syscall_chmod __syscall_fchownat __syscall_dup
  __syscall_dup3 __syscall_fchdir __syscall_fchmod __syscall_fchmodat2 __syscall_fchown32 __syscall_fdatasync __syscall_fstat64
  __syscall_stat64 __syscall_newfstatat __syscall_lstat64 __syscall_ftruncate64 __syscall_getcwd __syscall_getdents64
  __syscall_mkdirat __syscall_pipe __syscall_poll __syscall_fadvise64 __syscall_fallocate __syscall_readlinkat
  __syscall_unlinkat __syscall_rmdir __syscall_renameat __syscall_statfs64 __syscall_fstatfs64 __syscall_symlinkat
  __syscall_truncate64 __syscall_utimensat __syscall_ioctl __syscall_getuid32_js __syscall_umask_js
  fd_close fd_read fd_write fd_sync fd_fdstat_get fd_seek fd_pread fd_pwrite _mmap_js _munmap_js _msync_js
  _try_fcntl64 _maybe_poll_async getaddrinfo getnameinfo getprotobyname _emscripten_lookup_name
  clock_res_get clock_time_get emscripten_get_now emscripten_date_now _tzset_js _timegm_js _mktime_js _localtime_js _gmtime_js
  random_get environ_sizes_get environ_get emscripten_get_heap_max emscripten_resize_heap
  _Py_CheckEmscriptenSignals_Helper _PyEM_TrampolineCall_JS
  proc_exit exit _abort_js __assert_fail`.split(/\s+/),
);

function throwClosed(): never {
  throw new Error("Python reached for JavaScript.");
}

/** Closes all imports that code may not use. The gate cannot be opened again. */
export type CloseGate = () => void;

/** Guards all later imports of WebAssembly. Call this before Python is loaded. */
export function installGate(): CloseGate {
  let isClosed = false;
  const guarded = (name: string, call: ImportFunction): ImportFunction => {
    if (OPEN_IMPORTS.has(name)) return call;
    // A forbidden system call raises an OSError, as a missing one does. Any other forbidden import ends the run.
    const refuse = name.startsWith("__syscall_") || name === "_emscripten_system" ? () => -ENOSYS : throwClosed;
    return function (this: unknown, ...values) {
      return isClosed ? refuse() : Reflect.apply(call, this, values);
    };
  };

  const guardedImports = (imports: WebAssembly.Imports = {}): WebAssembly.Imports =>
    withEach(imports, (_module, names) =>
      withEach(names as WebAssembly.ModuleImports, (name, value) =>
        typeof value === "function" ? guarded(name, value as ImportFunction) : value,
      ),
    );

  const { Instance, instantiate } = WebAssembly;
  Object.assign(WebAssembly, {
    Instance: new Proxy(Instance, {
      construct: (target, [module, imports]: [WebAssembly.Module, WebAssembly.Imports?]) =>
        new target(module, guardedImports(imports)),
    }),
    instantiate: (source: WebAssembly.Module & BufferSource, imports?: WebAssembly.Imports) =>
      instantiate(source, guardedImports(imports)),
  });
  // Remove other ways to turn JavaScript functions into WebAssembly functions, which Pyodide does not need.
  for (const name of ["instantiateStreaming", "compileStreaming", "Suspending", "promising", "Function"])
    Reflect.deleteProperty(WebAssembly, name);

  return () => {
    isClosed = true;
  };
}

/** Changes each property of an object when it is read, because Emscripten creates some properties by their names. */
function withEach<T extends object>(bag: T, change: (name: string, value: unknown) => unknown): T {
  return new Proxy(bag, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      return typeof name === "string" && value !== undefined ? change(name, value) : value;
    },
  });
}
