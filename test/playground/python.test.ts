/** Python in the playground: what code prints, how it ends, what it may not do, and what is left of it. Pyodide is real. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { pythonRunner } from "../../playground/python/runner.ts";
import type { CodeResult, CodeRunner } from "../../src/index.ts";

const STUCK_MS = 300_000;
const MIB = 1024 * 1024;
const RUNNER = new URL("../../playground/python/runner.ts", import.meta.url).href;
const [WORKER = "", HARNESS = ""] = ["worker.ts", "harness.py"].map((name) => fileURLToPath(new URL(name, RUNNER)));
const ESCAPE = fileURLToPath(new URL("escape.mjs", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PYODIDE = join(ROOT, "node_modules", "pyodide");
const FOREVER = "print('begun', flush=True)\nwhile True: pass";

const shared = pythonRunner();
const folder = realpathSync(mkdtempSync(join(tmpdir(), "polygate-python-")));
afterAll(async () => {
  await shared[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const run = (
  code: string,
  { runner = shared, keyId = "one", signal = new AbortController().signal, deadlineMs = STUCK_MS }: Partial<Run> = {},
): Promise<CodeResult> => runner.run({ language: "python", code }, { keyId, signal, deadlineMs });

interface Run {
  readonly runner: CodeRunner;
  readonly keyId: string;
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

/** The address of a module beside a package `pyodide` whose loader is this. */
function besideLoader(name: string, loader: string): string {
  const home = join(folder, name, "node_modules", "pyodide");
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), `{"name": "pyodide"}`);
  writeFileSync(join(home, "pyodide.mjs"), loader);
  return pathToFileURL(join(folder, name, "main.js")).href;
}
const NEVER_LOADS = "export const loadPyodide = () => new Promise(() => setInterval(() => {}, 1000));";

describe("Python", { timeout: STUCK_MS }, () => {
  it("prints to standard output and error in order, and nothing that it does not print", async () => {
    const code = "import sys\nprint('a', end='')\nprint('b', file=sys.stderr)\nprint('c é 🐍')\n1 + 1";
    expect(await run(code)).toEqual({ outcome: "ok", output: "ab\nc é 🐍\n" });
  });

  it("shows an exception as a short traceback of its own code", async () => {
    const { outcome, output } = await run("def f():\n  return 1 / 0\nprint('first')\nf()");
    expect({ outcome, output }).toEqual({
      outcome: "failed",
      output: expect.stringMatching(
        /^first\nTraceback .*\n {2}File "main.py", line 4, in <module>[^]*\nZeroDivisionError: .*\n$/,
      ),
    });
    expect(output.split("\n").length).toBeLessThan(12);
  });

  it.each([
    ["x = [", "failed", "SyntaxError"],
    ["import sys\nsys.exit()", "ok", ""],
    ["import sys\nsys.exit(2)", "failed", ""],
    ["import sys\ntry: input()\nexcept EOFError: sys.exit('no input')", "failed", "no input"],
    ["import os\nos._exit(0)", "ok", ""],
    ["import os\nos._exit(1)", "failed", ""],
    ["import os\nos.abort()", "failed", "Python crashed."],
    ["def f(): f()\nf()", "failed", "RecursionError"],
    ["import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", "failed", "main.py"],
  ])("ends %j as %s", async (code, outcome, part) => {
    expect(await run(code)).toEqual({ outcome, output: expect.stringContaining(part) });
  });

  it("has its standard library, asyncio and files of its own", async () => {
    const code = [
      "import asyncio, decimal, hashlib, json, random, statistics, time, uuid",
      "async def main():",
      "  await asyncio.gather(asyncio.sleep(0.01), asyncio.sleep(0.01))",
      "  return uuid.uuid4().version + random.randint(0, 0)",
      "open('kept.txt', 'w').write('kept')",
      "print(asyncio.run(main()), open('kept.txt').read(), __name__)",
    ].join("\n");
    expect(await run(code)).toEqual({ outcome: "ok", output: "4 kept __main__\n" });
  });

  it("cuts output that is too long, and says so", async () => {
    await using runner = pythonRunner({ maxOutputLength: 1_000 });
    const { outcome, output } = await run("for i in range(1_000): print('🐍' * 100)", { runner });
    expect(outcome).toBe("ok");
    expect(output).toMatch(/^(?:(?:🐍){100}\n)+(?:🐍)*\n\[The output was cut here\.\]\n$/u);
    expect(output.length).toBeLessThan(1_100);
  });

  it("hands over long output whole", async () => {
    await using runner = pythonRunner({ maxOutputLength: 2_000_000 });
    const { output } = await run("print('🐍' * 250_000, end='')", { runner });
    expect(output).toBe("🐍".repeat(250_000));
  });

  it("starts fresh in every run, and draws other random numbers", async () => {
    const code = `
import builtins, os, random, uuid
print(hasattr(builtins, "left"), os.path.exists("left.txt"))
builtins.left = 1
open("left.txt", "w").write("left")
print(random.random(), random.SystemRandom().random(), uuid.uuid4())`;
    const outputs = [await run(code), await run(code)].map(({ output }) => output.split("\n", 2));
    expect(outputs.map(([left]) => left)).toEqual(["False False", "False False"]);
    expect(new Set(outputs.flatMap(([, numbers = ""]) => numbers.split(" "))).size).toBe(6);
  });
});

describe("the end of a run", { timeout: STUCK_MS }, () => {
  it("comes with the deadline, and the output so far", async () => {
    // A slow machine needs longer until the code begins.
    let ended: CodeResult | undefined;
    for (let deadlineMs = 1_000; !ended?.output; deadlineMs *= 2) {
      ended = await run(FOREVER, { deadlineMs });
      expect(ended.outcome).toBe("deadline-exceeded");
    }
    expect(ended.output).toBe("begun\n");
  });

  it("comes with the deadline while Python loads, or waits for its turn", async () => {
    await using runner = pythonRunner({ from: besideLoader("slow", NEVER_LOADS), maxConcurrent: 1 });
    const late = { outcome: "deadline-exceeded", output: "" };
    const runs = [run("", { runner, deadlineMs: 500 }), run("", { runner, deadlineMs: 100 })];
    expect(await Promise.all(runs)).toEqual([late, late]);
  });

  it("comes with the signal, whose reason the run rejects with", async () => {
    await using runner = pythonRunner({ from: besideLoader("slow", NEVER_LOADS), maxConcurrent: 1 });
    const [loading, waiting] = [new AbortController(), new AbortController()];
    const runs = [run("", { runner, signal: loading.signal }), run("", { runner, signal: waiting.signal })];
    const reasons = Promise.all(runs.map((run) => expect(run).rejects.toThrow("gone")));
    waiting.abort(new Error("gone"));
    loading.abort(new Error("gone"));
    await reasons;
    const aborted = AbortSignal.abort(new Error("gone before"));
    await expect(run("", { runner, signal: aborted })).rejects.toThrow("gone before");
  });

  it("comes when the runner is closed", async () => {
    const runner = pythonRunner();
    const [ended] = await Promise.allSettled([run(FOREVER, { runner }), runner[Symbol.asyncDispose]()]);
    expect(ended).toMatchObject({ status: "rejected", reason: { message: expect.stringContaining("closed") } });
    await expect(run("", { runner })).rejects.toThrow("closed");
  });

  it("leaves those that follow, more than may go on at a time, each their turn", async () => {
    const runs = [1, 2, 3, 4].map((number) => run(`print(${number})`));
    expect((await Promise.all(runs)).map(({ output }) => output)).toEqual(["1\n", "2\n", "3\n", "4\n"]);
  });
});

describe("a key", { timeout: STUCK_MS }, () => {
  it("has its place while another key's runs never end, and more of these wait", async () => {
    await using runner = pythonRunner({ maxConcurrent: 2 });
    const leaving = new AbortController();
    const endless = Array.from({ length: 8 }, () =>
      run(FOREVER, { runner, keyId: "greedy", signal: leaving.signal, deadlineMs: 10 * STUCK_MS }),
    );
    let ended = 0;
    for (const greedy of endless) greedy.catch(() => {}).finally(() => (ended += 1));
    for (const text of ["1", "2"])
      expect(await run(`print(${text})`, { runner, keyId: "modest" })).toEqual({ outcome: "ok", output: `${text}\n` });
    expect(ended).toBe(0);
    leaving.abort(new Error("gone"));
    const reasons = await Promise.allSettled(endless);
    expect(new Set(reasons.map(({ status }) => status))).toEqual(new Set(["rejected"]));
  });
});

describe.runIf(process.platform === "linux")("memory", { timeout: STUCK_MS }, () => {
  // Little, because it takes long to fill much.
  const runner = pythonRunner({ maxMemoryBytes: 128 * MIB });
  afterAll(() => runner[Symbol.asyncDispose]());

  it("has an end that nobody has told", async () => {
    const output = expect.stringContaining("MemoryError") as string;
    expect(await run("kept = bytearray(2_000_000_000)")).toEqual({ outcome: "failed", output });
  });

  it.each([
    ["bytes in pieces", "kept = []\nwhile True: kept.append(bytearray(10_000_000))"],
    ["files", "file, piece = open('/tmp/big', 'wb'), bytes(50_000_000)\nwhile True: file.write(piece)"],
    ["objects", "kept = []\nwhile True: kept.append({1: []})"],
  ])("has an end for %s", async (_, code) => {
    expect(await run(code, { runner })).toEqual({ outcome: "failed", output: expect.stringContaining("MemoryError") });
  });

  it("that Python may hold can be told, and running out of it be caught", async () => {
    const code = "try: bytearray(150_000_000)\nexcept MemoryError: print('caught')\nprint(len(bytearray(20_000_000)))";
    expect(await run(code, { runner })).toEqual({ outcome: "ok", output: "caught\n20000000\n" });
  });
});

/** Undoes in Python what can be undone there: the modules that lead to JavaScript come back, and its objects are found in memory. */
const BACK = `
import sys, gc
for name in [name for name, module in sys.modules.items() if module is None]: del sys.modules[name]
import _pyodide_core
seen, proxies, waiting = set(), [], gc.get_objects()
while waiting:
  found = waiting.pop()
  if id(found) in seen: continue
  seen.add(id(found))
  if not isinstance(found, type) and any(base.__name__ == 'JsProxy' for base in type(found).__mro__): proxies.append(found)
  else: waiting.extend(gc.get_referents(found))
if proxies: print('begun')
`;

describe("a way out", { timeout: STUCK_MS }, () => {
  it("is not a module that leads there, nor a file of this machine, nor the network", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    let connections = 0;
    server.on("connection", () => (connections += 1));
    const { port } = server.address() as AddressInfo;
    const names = ["js", "pyodide_js", "pyodide.code", "pyodide.ffi", "_pyodide_core", "ctypes"];
    const imports = [...names.map((name) => `import ${name}`), "from pyodide.code import run_js"];
    const code = `
for line in ${JSON.stringify(imports)}:
  try: exec(line)
  except ModuleNotFoundError: print("no", line)
print([n for n, m in __import__('sys').modules.items() if m and n.split('.')[0] in ('js', 'pyodide', 'pyodide_js', '_pyodide', '_pyodide_core')])
import os
print(sorted(os.listdir('/')), os.path.exists(${JSON.stringify(ROOT)}), os.path.exists('/etc/passwd'))
import socket, urllib.request
for attempt in (lambda: socket.create_connection(('127.0.0.1', ${port}), 1).send(b'x'), lambda: urllib.request.urlopen('http://127.0.0.1:${port}')):
  try: print('reached', attempt())
  except OSError as error: print('refused')`;
    const told = [
      ...imports.map((line) => `no ${line}`),
      "[]",
      "['dev', 'home', 'lib', 'proc', 'tmp'] False False",
      "refused",
      "refused",
    ];
    expect(await run(code)).toEqual({ outcome: "ok", output: told.map((line) => `${line}\n`).join("") });
    expect(connections).toBe(0);
    server.close();
  });

  it("is not told by what Python knows of its surroundings", async () => {
    const code = `import os, platform, sys, sysconfig
print(os.environ, sys.argv, sys.orig_argv, sys.executable, sys.path, sysconfig.get_paths(), platform.uname(), os.getcwd())`;
    const { outcome, output } = await run(code);
    expect(outcome).toBe("ok");
    for (const secret of [ROOT, dirname(process.execPath), "file://"]) expect(output).not.toContain(secret);
  });

  // Each of these reached JavaScript, or the functions that make it, when nothing but their names was hidden.
  it.each([
    ["a value made in JavaScript", "_pyodide_core.to_js([1])"],
    ["a function of JavaScript's", "_pyodide_core.create_proxy(print)"],
    ["an attribute of an object that the collector knows", "[getattr(proxy, 'constructor') for proxy in proxies]"],
    ["a list of what such an object has", "[dir(proxy) for proxy in proxies]"],
    ["Python's functions of C", "import _ctypes"],
    ["a package above these", "import ctypes\nctypes.CDLL(None).system(b'true')"],
    [
      "a library of the code's own",
      `open('/tmp/own.so', 'wb').write(bytes([0, 97, 115, 109, 1, 0, 0, 0]))
import importlib.machinery as machinery
machinery.ExtensionFileLoader('own', '/tmp/own.so').create_module(machinery.ModuleSpec('own', None, origin='/tmp/own.so'))`,
    ],
  ])("is not %s: the run ends there", async (_what, reach) => {
    const { outcome, output } = await run(
      `${BACK}\ntry:\n ${reach.replaceAll("\n", "\n ")}\nfinally: print('reached')`,
    );
    expect(outcome).toBe("failed");
    expect(output).toMatch(/^begun\nStack .*\n[^]*Python crashed\.\n$/);
    expect(output).not.toContain("reached");
  });

  it("is not a shell, nor a process", async () => {
    const code = `import os, subprocess
print(os.system('echo reached'))
for attempt in (lambda: subprocess.run(['true']), lambda: os.popen('true'), os.fork):
  try: print('reached', attempt())
  except OSError: print('refused')`;
    expect(await run(code)).toEqual({ outcome: "ok", output: "-1\nrefused\nrefused\nrefused\n" });
  });

  it("is not the process itself, for JavaScript that holds all that Pyodide does", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const connections: unknown[] = [];
    server.on("connection", (socket) => connections.push(socket));
    const { port } = server.address() as AddressInfo;
    const [secret, written] = [join(folder, "secret"), join(folder, "written")];
    writeFileSync(secret, "a secret of the host");
    process.env["POLYGATE_TEST_SECRET"] = "a secret of the host";

    const from = besideLoader("escape", readFileSync(ESCAPE, "utf8"));
    await using runner = pythonRunner({ from });
    const code = JSON.stringify({ port, secret, written, pid: process.pid });
    const { outcome, output } = await run(code, { runner });
    delete process.env["POLYGATE_TEST_SECRET"];
    server.close();

    const told = JSON.parse(output) as Record<string, string>;
    expect(Object.keys(told).length).toBeGreaterThan(30);
    expect(Object.entries(told).filter(([, end]) => !end.startsWith("stopped"))).toEqual([]);
    expect(output).not.toContain("a secret of the host");
    expect({ outcome, connections, isWritten: existsSync(written) }).toEqual({
      outcome: "ok",
      connections: [],
      isWritten: false,
    });
  });

  it("is not time: nothing of a run is left behind its deadline", async () => {
    await using runner = pythonRunner({ from: besideLoader("escape", readFileSync(ESCAPE, "utf8")) });
    let ended: CodeResult | undefined;
    for (let deadlineMs = 1_000; !ended?.output; deadlineMs *= 2) {
      ended = await run('{"stays": true}', { runner, deadlineMs });
      expect(ended.outcome).toBe("deadline-exceeded");
    }
    const pid = Number(ended.output);
    expect(pid).toBeGreaterThan(0);
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});

describe("the package", { timeout: STUCK_MS }, () => {
  it("may be reached by a symbolic link, and have a broken snapshot beside it, which is made anew", async () => {
    mkdirSync(join(folder, "linked", "node_modules"), { recursive: true });
    symlinkSync(PYODIDE, join(folder, "linked", "node_modules", "pyodide"));
    await using linked = pythonRunner({ from: pathToFileURL(join(folder, "linked", "main.js")).href });
    expect(await run("print(1)", { runner: linked })).toEqual({ outcome: "ok", output: "1\n" });

    const home = join(folder, "own", "node_modules");
    cpSync(PYODIDE, join(home, "pyodide"), { recursive: true });
    // Of one package and one worker, they have one name wherever they are.
    const kept = readdirSync(join(PYODIDE, "..", ".cache", "polygate"));
    mkdirSync(join(home, ".cache", "polygate"), { recursive: true });
    for (const name of kept) writeFileSync(join(home, ".cache", "polygate", name), "broken");
    await using runner = pythonRunner({ from: pathToFileURL(join(folder, "own", "main.js")).href });
    await expect(run("print(2)", { runner })).rejects.toThrow("Python could not be loaded.");
    expect(await run("print(3)", { runner })).toEqual({ outcome: "ok", output: "3\n" });
  });

  it("is asked for where it is missing", async () => {
    await using runner = pythonRunner({ from: pathToFileURL(join(folder, "main.js")).href });
    await expect(run("", { runner })).rejects.toThrow(/npm install pyodide@\d/);
  });

  it("that fails to load says why in the cause", async () => {
    await using runner = pythonRunner({ from: besideLoader("broken", "throw new Error('no luck');") });
    await expect(run("", { runner })).rejects.toMatchObject({
      message: "Python could not be loaded.",
      cause: { message: expect.stringContaining("no luck") },
    });
  });
});

const BIN = join(ROOT, "node_modules", ".bin");

describe.each([
  ["node", []],
  ["bun", []],
  ["deno", ["run", "--allow-all"]],
])("in %s", (runtime, args) => {
  const isMissing = !existsSync(join(BIN, runtime));
  /** Runs a file to its end. */
  async function play(file: string, ...parameters: string[]): Promise<{ code: unknown; said: string }> {
    const env = { ...process.env, PATH: BIN };
    const child = spawn(join(BIN, runtime), [...args, file, ...parameters], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (said += data.toString()));
    const [code] = (await once(child, "close", { signal: AbortSignal.timeout(STUCK_MS) })) as [unknown];
    return { code, said };
  }

  it.skipIf(isMissing)("code runs, and the spare process keeps no program alive", { timeout: STUCK_MS }, async () => {
    const program = join(folder, `${runtime}.ts`);
    const source = `
      import { pythonRunner } from ${JSON.stringify(RUNNER)};
      const call = { keyId: "one", signal: new AbortController().signal, deadlineMs: ${STUCK_MS} };
      console.log(JSON.stringify(await pythonRunner().run({ language: "python", code: "print(1)" }, call)));`;
    writeFileSync(program, source);
    expect(await play(program)).toEqual({ code: 0, said: '{"outcome":"ok","output":"1\\n"}\n' });
  });

  it.skipIf(isMissing)("no code runs where Node's permission model does not hold it", async () => {
    const { code, said } = await play(WORKER, `${PYODIDE}/`, HARNESS, String(512 * MIB));
    expect(code).toBe(1);
    // Bun stops before that: it lacks what the worker closes the door on modules with.
    expect(said).toMatch(runtime === "bun" ? /registerHooks/ : /under Node's permission model alone/);
  });
});
